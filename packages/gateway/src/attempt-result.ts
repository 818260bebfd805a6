/** What dispatch reports of an attempt, for the record and for the caller's answer. */

import type { AttemptEnd } from "@zml/engine";
import type { TimeoutsConfig } from "@zml/protocol";

/** Status and headers of a node's answer. */
export interface AnswerHead {
  status: number;
  /** By lower-case name. */
  headers: Readonly<Record<string, string>>;
}

/** How an attempt ended, with what was seen of it. */
export interface AttemptResult {
  end: AttemptEnd;
  /** The answer, where one came whole and was not committed. */
  answer: { head: AnswerHead; body: Buffer } | null;
  /** Limits that held for it: the node's own. */
  timeouts: TimeoutsConfig;
  /** True when the caller has (part of) this answer. */
  isCommitted: boolean;
  /** Of a broken stream: whether what was relayed ends between two events, so that an error event can follow. */
  canTakeErrorEvent: boolean;
  /** Of a broken stream: the caller has the node's own error event, and nothing was cut behind it. */
  hasToldError: boolean;
  /** From dispatch, ms; NaN: did not happen. */
  firstByteMs: number;
  firstTokenMs: number;
  durationMs: number;
  /** As reported, tokens. NaN: not. */
  promptTokens: number;
  outputTokens: number;
  /** Of the prompt, found in the node's prefix cache. */
  cachedTokens: number;
}
