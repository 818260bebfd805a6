/** A request as the few numbers and names that routing needs. */

import { assert } from "./assert.ts";
import { FAILED_NODES_MAX } from "./bounds.ts";
import { contextAtLeast, contextLikely, needsOf } from "./capabilities.ts";
import type { Model, Policy } from "./directory.ts";
import type { PromptMarks } from "./prefix-table.ts";
import type { PolicySource } from "./reasons.ts";

/** State of one request across its decisions. Made once by `admit`, changed only by `decide` and `settle`. */
export interface RouteRequest {
  readonly account: string;
  /**
   * The model, with the rows that serve it at the present decision: each one takes them anew, since a row may be another
   * account's node by the time a parked request goes on. Name and index never change.
   */
  model: Model;
  readonly policy: Policy;
  readonly policySource: PolicySource;
  /** Index of the hinted family, -1: no hint. */
  readonly hintFamily: number;
  /** Index into `ENDPOINTS`. */
  readonly endpoint: number;
  /** True when the caller asked for a stream. */
  readonly isStream: boolean;
  /** Prompt, tokens, estimated from its bytes. */
  readonly promptTokens: number;
  /** The caller's output limit, tokens. NaN: none stated. */
  readonly maxTokens: number;
  /** Answers asked for (`n`), at least 1. */
  readonly answers: number;
  /** The least that the prompt can have, tokens; 0: nothing is certain. */
  readonly promptTokensAtLeast: number;
  /** The prompt holds images. */
  readonly hasImages: boolean;
  /** Beginnings that its prompt is known by; null: none, or nobody asks which node is warm. */
  readonly marks: PromptMarks | null;
  /** Bits of what it needs of a node (see `capabilities.ts`). */
  readonly needs: number;
  /** Context that it takes for certain, tokens: a power of two, 0: nothing is certain. */
  readonly contextAtLeast: number;
  /** Context that it probably takes, tokens, at least `contextAtLeast`. 0: nobody knows. */
  readonly contextLikely: number;
  /** Time of admission, engine clock ms. */
  readonly admittedAtMs: number;

  /** Index of the caller's key, for its records; -1: none was asked. */
  key: number;
  /** Ticket in the saturation queue, 0: never parked. */
  ticket: number;
  /** Attempts that count against `failover.max_attempts`. */
  attempts: number;
  /** Dispatches in all, refused connects included. */
  dispatches: number;
  /** Rows that failed this request. */
  failedRows: Int32Array;
  failedCount: number;
  /** Time of the first failure, engine clock ms. NaN: none yet. */
  firstFailureAtMs: number;
  /** Re-dispatches after a failure that were granted without the retry budget. */
  freeRetries: number;
  /** Nodes that answered this request with a 5xx. */
  serverErrors: number;
  /** The answer needs a node whose context is larger than this, tokens. NaN: no such bound. */
  contextAboveTokens: number;
  /** Tokens that the present decision expects the request to cost a node; set when it begins. NaN: none yet. */
  expectedTokens: number;
}

/** What a request starts from. */
export interface RouteRequestStart {
  account: string;
  model: Model;
  policy: Policy;
  policySource: PolicySource;
  hintFamily: number;
  endpoint: number;
  isStream: boolean;
  promptTokens: number;
  maxTokens: number;
  answers: number;
  /** The least that the prompt can have, tokens; 0: nothing is certain. */
  promptTokensAtLeast: number;
  hasImages: boolean;
  /** Beginnings that its prompt is known by; default: none. */
  marks?: PromptMarks | null;
  admittedAtMs: number;
}

/** A fresh request, with no attempt made. */
export function createRouteRequest(start: RouteRequestStart): RouteRequest {
  assert(start.answers >= 1, "a request asks for at least one answer");
  const atLeast = contextAtLeast(start.endpoint, start.promptTokensAtLeast);
  return {
    ...start,
    marks: start.marks ?? null,
    needs: needsOf(start.endpoint, start.hasImages),
    contextAtLeast: atLeast,
    contextLikely: Math.max(atLeast, contextLikely(start.endpoint, start.promptTokens, start.maxTokens)),
    key: -1,
    ticket: 0,
    attempts: 0,
    dispatches: 0,
    failedRows: NO_ROWS,
    failedCount: 0,
    firstFailureAtMs: Number.NaN,
    freeRetries: 0,
    serverErrors: 0,
    contextAboveTokens: Number.NaN,
    expectedTokens: Number.NaN,
  };
}

const NO_ROWS = new Int32Array(0);

/** Notes that a row failed the request. A request that fails nowhere allocates nothing for it. */
export function noteFailedRow(request: RouteRequest, row: number): void {
  if (request.failedRows.length === 0) request.failedRows = new Int32Array(FAILED_NODES_MAX);
  if (hasFailedOn(request, row) || request.failedCount === FAILED_NODES_MAX) return;
  request.failedRows[request.failedCount] = row;
  request.failedCount += 1;
}

/** True when the row already failed this request. */
export function hasFailedOn(request: RouteRequest, row: number): boolean {
  for (let index = 0; index < request.failedCount; index++) {
    if (request.failedRows[index] === row) return true;
  }
  return false;
}
