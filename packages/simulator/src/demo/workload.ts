import { countTokens, nextWord } from "../readable-words.ts";
import type { RandomSource } from "../seeded-random.ts";
import { seededRandom } from "../seeded-random.ts";
import type { TraceRow } from "./trace.ts";

/** One call to make. */
export type PlannedCall = {
  /** Since the start of the traffic. */
  readonly atMs: number;
  readonly policy: string;
  readonly isStream: boolean;
  readonly promptTokens: number;
  readonly outputTokens: number;
};

/** Where the calls of a policy come from: its share of them. */
export type PolicyShare = { readonly policy: string; readonly share: number };

export type WorkloadOptions = {
  readonly rows: readonly TraceRow[];
  readonly shares: readonly PolicyShare[];
  /** How much faster than recorded. */
  readonly rate: number;
  readonly seed: number;
  /** Longer ones are cut: tiny models have short contexts. Default: none. */
  readonly maxPromptTokens?: number;
  readonly maxOutputTokens?: number;
};

/**
 * The calls of a trace, without end: after its last row it begins again, one mean gap later. Half of the calls stream;
 * which, and under which policy, is drawn from the seed.
 */
export function* planCalls(options: WorkloadOptions): Generator<PlannedCall, never> {
  const { rows, shares, rate, seed, maxPromptTokens = Infinity, maxOutputTokens = Infinity } = options;
  if (rows.length < 2) throw new Error(`the trace has ${rows.length} rows: it needs two or more`);
  const random = seededRandom(seed);
  const lastMs = rows.at(-1)?.atMs ?? 0;
  const roundMs = lastMs + lastMs / (rows.length - 1);
  for (let round = 0; ; round += 1) {
    for (const row of rows) {
      yield {
        atMs: (round * roundMs + row.atMs) / rate,
        policy: drawPolicy(shares, random()),
        isStream: random() < 0.5,
        promptTokens: Math.min(row.promptTokens, maxPromptTokens),
        outputTokens: Math.max(1, Math.min(row.outputTokens, maxOutputTokens)),
      };
    }
  }
}

function drawPolicy(shares: readonly PolicyShare[], draw: number): string {
  let rest = draw * shares.reduce((sum, { share }) => sum + share, 0);
  for (const { policy, share } of shares) {
    rest -= share;
    if (rest < 0) return policy;
  }
  return shares.at(-1)?.policy ?? "";
}

/** Text of about this many tokens, as the fake nodes count them. */
export function promptText(tokens: number, random: RandomSource): string {
  let text = "";
  for (let index = 0; text === "" || countTokens(text) < tokens; index += 1) text += nextWord(random, index);
  return text;
}
