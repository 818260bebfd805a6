/** What is counted of one request: filled while it runs, read once at its end. Indexes are -1 where there is none. */

import type { Ending } from "@zml/engine";
import type { ErrorCode } from "@zml/protocol/errors";

/** Times in ms, NaN: it did not come so far. */
export interface RequestTally {
  /** Index of the policy's name. */
  policy: number;
  /** Index of the model's name. */
  model: number;
  /** Index of the family whose node had it last. */
  family: number;
  /** Index into `REASONS`: why that node. */
  reason: number;
  dispatches: number;
  /** Steps 2 to 4, all decisions of the request together. */
  decideMs: number;
  /** Parked for room. */
  waitedMs: number;
  /** From the request's head to the first token that the caller got. */
  firstTokenMs: number;
  /** Of the answer's tokens, the first left out: its stream's time. */
  tokensMs: number;
  promptTokens: number;
  outputTokens: number;
  /** HTTP status that was told; 0: none. */
  status: number;
  /** The error that was told; null: none of ours. */
  code: ErrorCode | null;
  /** Set where neither the error nor an interruption tells it. */
  ending: Ending | null;
}

export function createTally(): RequestTally {
  return {
    policy: -1,
    model: -1,
    family: -1,
    reason: -1,
    dispatches: 0,
    decideMs: 0,
    waitedMs: 0,
    firstTokenMs: Number.NaN,
    tokensMs: Number.NaN,
    promptTokens: Number.NaN,
    outputTokens: Number.NaN,
    status: 0,
    code: null,
    ending: null,
  };
}
