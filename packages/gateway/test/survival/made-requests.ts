/**
 * Which connections were made lately, and so which requests a node may see. A request may come to the node when its
 * connection has closed already (its caller went, or sent something wrong behind it), and bytes that were damaged at random
 * may hit the mark that names its case: neither makes it a request that nobody made.
 */

import type { Recorded } from "./hostile-node.ts";
import { type StrictRequest, strictRequests } from "./strict-requests.ts";

interface MadeCase {
  readonly bytes: Buffer;
  /** HTTP/1.1, which the strict reader can read. */
  readonly isStrict: boolean;
  /** With its mark, while its connection was open. */
  readonly seen: Recorded[];
  /** Of a strict one, what it made and nobody has seen yet; read when it is first asked for. */
  unseen: StrictRequest[] | null;
  closedAtMs: number;
}

export class MadeRequests {
  /** By index, oldest first. */
  readonly #cases = new Map<number, MadeCase>();
  readonly #keepMs: number;
  /** Requests that reached the node after their connection had closed. */
  late = 0;

  /** @param keepMs how long a closed connection explains what the node sees, ms. */
  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  /** A connection is about to be made. */
  open(index: number, bytes: Buffer, isStrict: boolean): void {
    const oldestMs = performance.now() - this.#keepMs;
    for (const [key, { closedAtMs }] of this.#cases) {
      if (!(closedAtMs < oldestMs)) break;
      this.#cases.delete(key);
    }
    this.#cases.set(index, { bytes, isStrict, seen: [], unseen: null, closedAtMs: Number.NaN });
  }

  /** The node saw a request. Returns what is wrong with it; null: it was made, or is judged when its connection closes. */
  see(request: Recorded): string | null {
    const own = this.#cases.get(Number(request.mark?.split("-")[1]));
    if (own !== undefined && Number.isNaN(own.closedAtMs)) {
      own.seen.push(request);
      return null;
    }
    if (this.#isMade(request)) return null;
    return `the node saw a request that nobody made: ${request.body.toString("latin1").slice(0, 300)}`;
  }

  /** The connection closed. Returns what is wrong with what the node saw of it; null: nothing. */
  close(index: number): string | null {
    const own = this.#cases.get(index);
    if (own === undefined) throw new Error(`case ${index} was not opened`);
    own.closedAtMs = performance.now();
    for (const request of own.seen.splice(0)) {
      if (explains(own, request) || this.#isMade(request)) continue;
      const mark = JSON.stringify(request.mark);
      return own.isStrict
        ? `the node saw ${mark} with a body that nobody sent, or once more than it was asked for`
        : `the node saw ${mark}, which stood in a field`;
    }
    return null;
  }

  #isMade(request: Recorded): boolean {
    for (const one of this.#cases.values()) {
      if (!explains(one, request)) continue;
      if (!Number.isNaN(one.closedAtMs)) this.late += 1;
      return true;
    }
    return false;
  }
}

/** True when a connection made this request, once for each time that it made it. */
function explains(one: MadeCase, { mark, body }: Recorded): boolean {
  // what a stream of HTTP/2 sends is split into frames; in its fields stands what no node may see
  if (!one.isStrict) return mark?.startsWith("hidden") !== true && isWithin(body, one.bytes);
  one.unseen ??= strictRequests(one.bytes);
  const at = one.unseen.findIndex(
    (made) =>
      made.mark === mark && (made.body === null ? mark !== null || isWithin(body, one.bytes) : made.body.equals(body)),
  );
  if (at < 0) return false;
  one.unseen.splice(at, 1);
  return true;
}

/** True when the bytes stand in others in their order, with anything between them: chunk heads and frame heads. */
function isWithin(part: Buffer, whole: Buffer): boolean {
  let at = -1;
  for (const byte of part) {
    at = whole.indexOf(byte, at + 1);
    if (at < 0) return false;
  }
  return true;
}
