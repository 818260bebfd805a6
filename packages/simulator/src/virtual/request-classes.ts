/** Classes of requests and their targets (§4.4 of the routing benchmark). */

export interface RequestClass {
  readonly name: string;
  /** Share of the requests. */
  readonly share: number;
  /** First token, ms; NaN: no target. */
  readonly ttftMs: number;
  /** Mean time per further token, ms; NaN: no target. */
  readonly tokenMs: number;
  /** Whole answer, ms; NaN: no target. */
  readonly responseMs: number;
}

const SHARES = { interactive: 0.5, standard: 0.35, batch: 0.15 };
const T1 = {
  interactive: { ttftMs: 500, tokenMs: 25, responseMs: Number.NaN },
  standard: { ttftMs: 2_000, tokenMs: 60, responseMs: Number.NaN },
  batch: { ttftMs: 30_000, tokenMs: 200, responseMs: Number.NaN },
};
const T2 = {
  interactive: { ttftMs: Number.NaN, tokenMs: Number.NaN, responseMs: 5_000 },
  standard: { ttftMs: Number.NaN, tokenMs: Number.NaN, responseMs: 20_000 },
  batch: { ttftMs: Number.NaN, tokenMs: Number.NaN, responseMs: 120_000 },
};

/** T1: answers stream, and first token and token time are judged. T2: the whole answer is. */
export type TargetReading = "T1" | "T2";

/** The benchmark's classes under one reading of targets. */
export function requestClasses(
  reading: TargetReading,
  shares: Readonly<Record<string, number>> = SHARES,
): RequestClass[] {
  const targets = reading === "T1" ? T1 : T2;
  return (["interactive", "standard", "batch"] as const).map((name) => ({
    name,
    share: shares[name] ?? 0,
    ...targets[name],
  }));
}

/** A mean over fewer tokens is decided by one neighbour's prompt, so such answers are judged as a whole. */
export const TOKEN_TIME_TOKENS_MIN = 20;

/**
 * True when an answer met its class's targets. Answers of fewer than 20 tokens are judged by their end alone: it may come
 * as late as first token and token time together allow.
 *
 * @param answer first token and end since arrival, ms.
 */
export function isWithinTargets(
  target: RequestClass,
  answer: { ttftMs: number; endMs: number; outputTokens: number },
): boolean {
  const { ttftMs, endMs, outputTokens } = answer;
  if (endMs > target.responseMs) return false;
  if (outputTokens < TOKEN_TIME_TOKENS_MIN) return !(endMs > target.ttftMs + (outputTokens - 1) * target.tokenMs);
  return !(ttftMs > target.ttftMs) && !((endMs - ttftMs) / (outputTokens - 1) > target.tokenMs);
}
