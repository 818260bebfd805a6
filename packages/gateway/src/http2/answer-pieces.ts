/**
 * An answer's way into a stream of HTTP/2, so that it can be told how much of it the caller has taken. Node hands all that
 * waits to a stream as one, and says that it was taken once all of it was: 64 KiB and more, of a caller who may open its
 * window byte by byte. So what is more than a stream has at hand anyway goes in pieces, one after the other.
 */

import type { ServerHttp2Stream } from "node:http2";

/** Below this a stream is given what comes as it comes: a DATA frame of the default size (RFC 9113, 6.5.2). */
const SMALL_BYTES = 16 * 1024;

/** The least that is handed on at once: who takes less than this within `slow_client_ms` may count as taking nothing. */
const PIECE_BYTES_MIN = 1024;

/** The most: what a read of a node brings. */
const PIECE_BYTES_MAX = 64 * 1024;

/** Behind a piece that was taken within this time comes one of twice the size, behind any other a small one, ms. */
const PROMPT_MS = 100;

export class AnswerPieces {
  readonly #stream: ServerHttp2Stream;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #writtenBytes = 0;
  #pieceBytes = PIECE_BYTES_MIN;
  #handedAtMs = 0;
  /** A piece is on its way, and calls back. */
  #isHanding = false;
  #isEnded = false;
  #onWritable: (() => void) | null = null;

  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream;
  }

  /** Bytes that the caller has not taken yet; a piece counts until all of it was taken. */
  get waitingBytes(): number {
    return this.#stream.writableLength + this.#heldBytes;
  }

  get takenBytes(): number {
    return this.#writtenBytes - this.waitingBytes;
  }

  /** False: wait until `onceWritable` calls back before more is written. `bytes` are kept, and may not change. */
  write(bytes: Buffer): boolean {
    this.#writtenBytes += bytes.length;
    if (this.#fits(bytes)) return this.#stream.write(bytes);
    this.#hold(bytes);
    return this.waitingBytes < this.#stream.writableHighWaterMark;
  }

  /** The end of the answer. `bytes`: the last of it. */
  end(bytes: Buffer | null): void {
    this.#isEnded = true;
    if (bytes !== null) {
      this.#writtenBytes += bytes.length;
      if (this.#fits(bytes)) this.#stream.end(bytes);
      else this.#hold(bytes);
    } else if (this.#heldBytes === 0) this.#stream.end();
  }

  /** Calls back once when the caller has taken what was written. */
  onceWritable(listener: () => void): void {
    if (this.#isHanding) this.#onWritable = listener;
    else this.#stream.once("drain", listener);
  }

  /** Nobody takes the rest. */
  drop(): void {
    this.#held = [];
    this.#heldBytes = 0;
    this.#onWritable = null;
  }

  /** True: it waits for no window, or is too little to be worth a thought. */
  #fits(bytes: Buffer): boolean {
    if (this.#heldBytes > 0) return false;
    if (this.#stream.writableLength + bytes.length <= SMALL_BYTES) return true;
    const window = this.#stream.session?.remoteSettings.initialWindowSize ?? 0;
    return this.#writtenBytes <= Math.min(window, PIECE_BYTES_MAX);
  }

  #hold(bytes: Buffer): void {
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    if (!this.#isHanding) this.#handOn();
  }

  #handOn(): void {
    const piece = this.#cut();
    this.#isHanding = true;
    this.#handedAtMs = performance.now();
    if (this.#isEnded && this.#heldBytes === 0) this.#stream.end(piece, this.#onTaken);
    else this.#stream.write(piece, this.#onTaken);
  }

  readonly #onTaken = (): void => {
    this.#isHanding = false;
    // the pieces of a stream that ends early come back at once, before it says that it has closed
    if (this.#stream.destroyed) return this.drop();
    const isPrompt = performance.now() - this.#handedAtMs <= PROMPT_MS;
    this.#pieceBytes = isPrompt ? Math.min(PIECE_BYTES_MAX, 2 * this.#pieceBytes) : PIECE_BYTES_MIN;
    if (this.#heldBytes > 0) return this.#handOn();
    const listener = this.#onWritable;
    this.#onWritable = null;
    listener?.();
  };

  /** The next bytes of what is held, at least one. */
  #cut(): Buffer {
    const taken: Buffer[] = [];
    let room = this.#pieceBytes;
    let at = 0;
    for (; at < this.#held.length && room > 0; at++) {
      const chunk = this.#held[at] as Buffer;
      taken.push(chunk.subarray(0, room));
      if (chunk.length > room) {
        this.#held[at] = chunk.subarray(room);
        room = 0;
        break;
      }
      room -= chunk.length;
    }
    this.#held.splice(0, at);
    const piece = taken.length === 1 ? (taken[0] as Buffer) : Buffer.concat(taken);
    this.#heldBytes -= piece.length;
    return piece;
  }
}
