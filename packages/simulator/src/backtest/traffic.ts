/**
 * Recorded requests and what became of them, a column per number, in shared memory: two replays read them at one time, each
 * on a thread of its own.
 */

/** What became of a request. */
export const ENDS = [
  "none",
  /** Its caller got the answer. */
  "served",
  /** No node had room, and it did not wait. */
  "refused",
  /** It waited for room in vain. */
  "waited_in_vain",
  /** Nothing more was tried after failures. */
  "failed",
  /** Its caller left. A replay lets it run for as long as it ran. */
  "cancelled",
] as const;
export const END = Object.freeze(Object.fromEntries(ENDS.map((name, index) => [name, index]))) as Readonly<
  Record<(typeof ENDS)[number], number>
>;

/** Bits of `flags`. */
export const FLAG = { stream: 1, images: 2 } as const;

const COLUMNS = {
  /** Arrival since the window began, ms. */
  atMs: Float64Array,
  model: Uint16Array,
  policy: Uint16Array,
  endpoint: Uint8Array,
  flags: Uint8Array,
  answers: Uint16Array,
  /** Hinted family, -1: none. */
  hint: Int16Array,
  /** As estimated from its bytes. */
  estimatedTokens: Float32Array,
  /** The least that the prompt can have. */
  atLeastTokens: Float32Array,
  /** As the node counted them, else as estimated. */
  promptTokens: Float32Array,
  /** What was generated; of requests that got no answer, the model's mean. */
  outputTokens: Float32Array,
  /** The caller's limit, NaN: none. */
  maxTokens: Float32Array,
} as const;

/** What became of requests, in the order of the traffic. NaN: did not happen, or is not known. */
const RESULTS = {
  end: Uint8Array,
  /** Node that answered, -1: none. */
  node: Int32Array,
  /** Times from arrival. */
  waitMs: Float32Array,
  /** First token of a stream. */
  ttftMs: Float32Array,
  responseMs: Float32Array,
  /** What all its attempts cost. */
  usd: Float64Array,
} as const;

type Columns<T> = { readonly [K in keyof T]: T[K] extends new (...args: never[]) => infer U ? U : never };
/** Requests. */
export interface Traffic extends Columns<typeof COLUMNS> {
  readonly count: number;
  readonly buffer: SharedArrayBuffer;
}
/** What became of them. */
export interface Results extends Columns<typeof RESULTS> {
  readonly count: number;
  readonly buffer: SharedArrayBuffer;
}

type Kinds = Readonly<Record<string, { readonly BYTES_PER_ELEMENT: number; new (...args: never[]): unknown }>>;

function bytesOf(kinds: Kinds, count: number): number {
  return Object.values(kinds).reduce((sum, kind) => sum + Math.ceil((kind.BYTES_PER_ELEMENT * count) / 8) * 8, 0);
}

function view(kinds: Kinds, count: number, buffer: SharedArrayBuffer): Record<string, unknown> {
  let at = 0;
  return Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => {
      const column = new (kind as unknown as new (b: SharedArrayBuffer, at: number, count: number) => unknown)(
        buffer,
        at,
        count,
      );
      at += Math.ceil((kind.BYTES_PER_ELEMENT * count) / 8) * 8;
      return [name, column];
    }),
  );
}

/** @param buffer of other columns of the same kind and count; absent: new ones. */
export function trafficOf(count: number, buffer = new SharedArrayBuffer(bytesOf(COLUMNS, count))): Traffic {
  return { ...(view(COLUMNS, count, buffer) as unknown as Columns<typeof COLUMNS>), count, buffer };
}

/** @param buffer of other columns of the same kind and count; absent: new ones. */
export function resultsOf(count: number, buffer?: SharedArrayBuffer): Results {
  const memory = buffer ?? new SharedArrayBuffer(bytesOf(RESULTS, count));
  const results = { ...(view(RESULTS, count, memory) as unknown as Columns<typeof RESULTS>), count, buffer: memory };
  if (buffer === undefined) {
    results.node.fill(-1);
    for (const column of [results.waitMs, results.ttftMs, results.responseMs]) column.fill(Number.NaN);
  }
  return results;
}
