/** A trace: what was asked of a service, without texts. */

/** One request of a trace. */
export interface TraceRow {
  /** Since the first row, ms; NaN: the trace has no times, or its sessions decide. */
  readonly atMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Session of the trace, -1: none. */
  readonly session: number;
  /** Of a session's later turns: pause between the end of the turn before and this one, ms. NaN: the first turn. */
  readonly pauseMs: number;
  /** Ids of the prompt's full 512-token blocks; equal leading ids are a shared prefix. Null: shares nothing. */
  readonly blocks: Int32Array | null;
}

/** A file that was read. */
export interface Trace {
  readonly format: TraceFormat;
  readonly rows: readonly TraceRow[];
  /** Rows left out since they have no prompt or no output: nothing is computed for them. */
  readonly emptyRows: number;
  /** Requests per second in the file; NaN: it has no times. */
  readonly rps: number;
}

export const TRACE_FORMATS = ["azure", "mooncake", "agent_sessions", "vidur"] as const;
export type TraceFormat = (typeof TRACE_FORMATS)[number];

/** A trace that cannot be used, with the line that says why. */
export class TraceError extends Error {
  constructor(file: string, line: number, message: string) {
    super(`${file}:${line}: ${message}`);
    this.name = "TraceError";
  }
}
