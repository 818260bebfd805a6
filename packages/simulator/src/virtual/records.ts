/** What became of each request of a run, as columns. */

/** How a request ended. */
export const REQUEST_ENDS = ["pending", "served", "rejected", "failed"] as const;

/** What became of each request; index = request of the workload. */
export interface Records {
  /** Index into `REQUEST_ENDS`. */
  readonly end: Uint8Array;
  /** Arrival, ms: those of later turns are a result. */
  readonly arrivedAtMs: Float64Array;
  /** First token at the caller, since arrival, ms. NaN: none came. */
  readonly ttftMs: Float64Array;
  /** End at the caller, since arrival, ms. */
  readonly responseMs: Float64Array;
  /** Node that answered (the last one), -1: none. */
  readonly node: Int16Array;
  readonly outputTokens: Int32Array;
  /** Times that it was sent again. */
  readonly restarts: Uint8Array;
  /** What the engine predicted and promised, ms. NaN: nothing, or the request was sent again. */
  readonly predictedFirstMs: Float64Array;
  readonly predictedTokenMs: Float64Array;
  readonly promisedFirstMs: Float64Array;
  readonly promisedTokenMs: Float64Array;
}

export const SERVED = REQUEST_ENDS.indexOf("served");
export const REJECTED = REQUEST_ENDS.indexOf("rejected");
export const FAILED = REQUEST_ENDS.indexOf("failed");

/** Nothing has become of any yet. */
export function createRecords(count: number): Records {
  return {
    end: new Uint8Array(count),
    arrivedAtMs: new Float64Array(count).fill(Number.NaN),
    ttftMs: new Float64Array(count).fill(Number.NaN),
    responseMs: new Float64Array(count).fill(Number.NaN),
    node: new Int16Array(count).fill(-1),
    outputTokens: new Int32Array(count),
    restarts: new Uint8Array(count),
    predictedFirstMs: new Float64Array(count).fill(Number.NaN),
    predictedTokenMs: new Float64Array(count).fill(Number.NaN),
    promisedFirstMs: new Float64Array(count).fill(Number.NaN),
    promisedTokenMs: new Float64Array(count).fill(Number.NaN),
  };
}
