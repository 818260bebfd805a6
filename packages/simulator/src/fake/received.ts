import { createHash } from "node:crypto";

/** Why an exchange ended: `answered` in full, the caller went away, the node cut it, or it is still `open`. */
export type CloseCause = "open" | "answered" | "caller-closed" | "node-cut";

/** One request that reached a fake node. Times are ms on `performance.now()`; NaN while not known. */
export type ReceivedRequest = {
  readonly method: string;
  /** Path with query, as sent. */
  readonly path: string;
  readonly httpVersion: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Names and values in turn, as sent. */
  readonly rawHeaders: readonly string[];
  /** Number of the connection on this node, from 0. */
  readonly connection: number;
  readonly startedMs: number;
  /** The body up to the node's `keepBodyBytes`. */
  body: Buffer;
  bodyBytes: number;
  /** Hex; empty until the whole body is here. */
  bodySha256: string;
  /** Status that was sent; -1 while none was. */
  status: number;
  closedMs: number;
  closeCause: CloseCause;
};

/** What reached a node: the last `limit` requests, oldest first. */
export class ReceivedLog {
  readonly #limit: number;
  readonly #entries: ReceivedRequest[] = [];
  /** Requests since creation, kept or not. */
  count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** False when nothing is kept, only counted. */
  get isKeeping(): boolean {
    return this.#limit > 0;
  }

  get all(): readonly ReceivedRequest[] {
    return this.#entries;
  }

  /** Requests with POST: the inference calls, without polls. */
  get posts(): readonly ReceivedRequest[] {
    return this.#entries.filter((entry) => entry.method === "POST");
  }

  add(entry: ReceivedRequest): void {
    this.count += 1;
    if (this.#limit === 0) return;
    if (this.#entries.length >= this.#limit) this.#entries.shift();
    this.#entries.push(entry);
  }

  clear(): void {
    this.#entries.length = 0;
  }
}

export function sha256Hex(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
