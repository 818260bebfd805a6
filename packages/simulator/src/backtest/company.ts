/** What else stood on a node while an attempt ran there. */

import type { RecordedAttempt } from "./attempts.ts";

export interface Company {
  /** Mean sequences, the attempt itself included. */
  readonly sequences: number;
  /** Mean cached tokens. */
  readonly cached: number;
  /** Prompt tokens of others that were computed meanwhile. */
  readonly prompts: number;
  /** Prompt tokens of others that were there before the time began and had no first token. */
  readonly ahead: number;
}

/** What else was on a node between two times. O(log n) each, after O(n log n). */
export function companyOf(
  attempts: readonly RecordedAttempt[],
): (fromMs: number, toMs: number, self: number) => Company {
  const changes = attempts.flatMap(({ sentAtMs, durationMs, promptTokens, outputTokens }) => {
    const tokens = promptTokens + outputTokens / 2;
    return [
      { atMs: sentAtMs, sequences: 1, tokens },
      { atMs: sentAtMs + durationMs, sequences: -1, tokens: -tokens },
    ];
  });
  changes.sort((a, b) => a.atMs - b.atMs);
  const at = new Float64Array(changes.length);
  const sequences = new Float64Array(changes.length + 1);
  const tokens = new Float64Array(changes.length + 1);
  const sequenceMs = new Float64Array(changes.length + 1);
  const tokenMs = new Float64Array(changes.length + 1);
  changes.forEach((change, index) => {
    at[index] = change.atMs;
    const sinceMs = index === 0 ? 0 : change.atMs - (at[index - 1] as number);
    sequenceMs[index + 1] = (sequenceMs[index] as number) + sinceMs * (sequences[index] as number);
    tokenMs[index + 1] = (tokenMs[index] as number) + sinceMs * (tokens[index] as number);
    sequences[index + 1] = (sequences[index] as number) + change.sequences;
    tokens[index + 1] = (tokens[index] as number) + change.tokens;
  });
  const integral = (areas: Float64Array, levels: Float64Array, ms: number) => {
    const index = firstAfter(at, ms);
    if (index === 0) return 0;
    return (areas[index] as number) + (ms - (at[index - 1] as number)) * (levels[index] as number);
  };
  const firsts = attempts.map(({ sentAtMs, firstTokenMs, promptTokens }, index) => ({
    atMs: sentAtMs + (Number.isNaN(firstTokenMs) ? 0 : firstTokenMs),
    promptTokens,
    index,
  }));
  firsts.sort((a, b) => a.atMs - b.atMs);
  const firstAt = Float64Array.from(firsts, ({ atMs }) => atMs);
  const prompts = new Float64Array(firsts.length + 1);
  firsts.forEach(({ promptTokens }, index) => {
    prompts[index + 1] = (prompts[index] as number) + promptTokens;
  });
  // attempts come in the order in which they were sent
  const sentAt = Float64Array.from(attempts, ({ sentAtMs }) => sentAtMs);
  const sent = new Float64Array(attempts.length + 1);
  attempts.forEach(({ promptTokens }, index) => {
    sent[index + 1] = (sent[index] as number) + promptTokens;
  });
  const ownFirst = new Float64Array(attempts.length);
  for (const { atMs, index } of firsts) ownFirst[index] = atMs;
  return (fromMs, toMs, self) => {
    const lengthMs = Math.max(1e-6, toMs - fromMs);
    const own = attempts[self] as RecordedAttempt;
    const between = (prompts[firstAfter(firstAt, toMs)] as number) - (prompts[firstAfter(firstAt, fromMs)] as number);
    const isOwn = (ownFirst[self] as number) > fromMs && (ownFirst[self] as number) <= toMs;
    return {
      sequences: (integral(sequenceMs, sequences, toMs) - integral(sequenceMs, sequences, fromMs)) / lengthMs,
      cached: (integral(tokenMs, tokens, toMs) - integral(tokenMs, tokens, fromMs)) / lengthMs,
      prompts: Math.max(0, between - (isOwn ? own.promptTokens : 0)),
      ahead: Math.max(
        0,
        (sent[Math.min(self, firstAfter(sentAt, fromMs))] as number) - (prompts[firstAfter(firstAt, fromMs)] as number),
      ),
    };
  };
}

/** Index of the first time that is later. */
function firstAfter(times: Float64Array, ms: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((times[middle] as number) <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}
