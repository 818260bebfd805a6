/** A request that ended, as it goes to the thread that tells of it. Structured-cloneable. */

import type { AttemptNote, DecisionNote, WaitNote } from "./request-trace.ts";

/** What both a trace and a line of the access log tell. Times in ms, NaN: none. Texts are "" where there is none. */
export interface RequestRecord {
  readonly requestId: string;
  readonly method: string;
  readonly route: string;
  readonly httpVersion: number;
  readonly clientAddress: string;
  readonly account: string;
  /** Name of the caller's key. */
  readonly key: string;
  readonly model: string;
  readonly policy: string;
  readonly endpoint: string;
  readonly isStream: boolean;
  /** Of the last node that had it. */
  readonly node: string;
  readonly family: string;
  readonly decision: string;
  /** Why that node, or why none. */
  readonly reason: string;
  readonly outcome: string;
  /** Code of the error of ours that was told. */
  readonly code: string;
  /** 0: none was told. */
  readonly status: number;
  readonly dispatches: number;
  /** Engine clock. */
  readonly startedAtMs: number;
  readonly admittedAtMs: number;
  readonly endedAtMs: number;
  readonly waitedMs: number;
  readonly decideMs: number;
  /** From the head to the first token. */
  readonly firstTokenMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly traceId: string;
}

/** A request with all that a trace tells of it. */
export interface TraceRecord extends RequestRecord {
  readonly spanId: string;
  readonly parentId: string | null;
  readonly traceState: string;
  readonly waits: readonly WaitNote[];
  readonly decisions: readonly DecisionNote[];
  readonly attempts: readonly AttemptNote[];
  readonly spanCount: number;
}
