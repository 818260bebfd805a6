import type { IncomingHttpHeaders } from "node:http";
import type { Readable, Transform } from "node:stream";
import type { Deadline, Deadlines } from "../deadlines.ts";
import type { BodyRefusal, RoutableBody } from "./body-scan.ts";
import { BodyScanner, type BodyScanOptions } from "./body-scanner.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { ContentEncoding } from "./content-decoding.ts";
import { createDecoder, encodingOf } from "./content-decoding.ts";

/**
 * Bytes that are scanned at a time. One turn of the event loop can hold two of these, one as the bytes come in and one
 * of what waited; at the scanner's worst (nothing but structure, 4 to 8 ns a byte) that is 1 to 2 ms of the 5 that a
 * body may hold a thread.
 */
export const SCAN_SLICE_BYTES = 64 * 1024;

/** After a refusal the caller may go on sending for this long, so that it comes to read the answer. */
const DRAIN_MS = 5000;

/** Blocks that a decoder puts out; small ones for small bodies, since a block is held whole. */
const DECODED_BLOCK_BYTES = 64 * 1024;
const SMALL_DECODED_BLOCK_BYTES = 8 * 1024;
const SMALL_ENCODED_BYTES = 2 * 1024;

/** What is read of a request: `CallerRequest`, as far as its body goes. */
export type BodySource = Readable & { readonly headers: IncomingHttpHeaders; readonly httpVersionMajor?: number };

export interface ReadBodyOptions {
  /** Largest body (`limits.body_bytes`), counted on the bytes read, and again on the decoded ones. */
  readonly limitBytes: number;
  /** Shared bound on what all bodies hold; counts decoded bytes. */
  readonly budget: ByteBudget;
  /** Time for the whole body to arrive. */
  readonly deadlineMs: number;
  /** Where the deadline runs. */
  readonly deadlines: Deadlines;
  /** Is given what ends the reading as `caller_gone`; called at once. Cheaper than a signal, and one for each request. */
  readonly onStart?: (cancel: () => void) => void;
  readonly scan?: BodyScanOptions;
}

/** A body that can be routed. It holds its share of the budget until `release`. */
export interface BodyKept {
  readonly ok: true;
  /** The decoded bytes, as they are to be sent on. */
  readonly chunks: readonly Buffer[];
  /** Decoded size. */
  readonly bytes: number;
  /** Size as sent. */
  readonly rawBytes: number;
  readonly scan: RoutableBody;
  /** Gives the bytes and their share of the budget back; once they are not sent again. Further calls do nothing. */
  release(): void;
}

export type BodyReadRefusalCode =
  | BodyRefusal["code"]
  | "body_too_large"
  | "body_budget_exhausted"
  | "body_timeout"
  | "unsupported_encoding"
  | "invalid_encoding"
  | "caller_gone";

/** A body that was refused; nothing is held of it. */
export interface BodyRefused {
  readonly ok: false;
  /** A code of the error table, but for `caller_gone`, which nobody is left to read. */
  readonly code: BodyReadRefusalCode;
  /** The scanner's finding, for its codes. */
  readonly scan: BodyRefusal | null;
  /** The content coding as the caller named it, cut to 64 characters; "identity" without one. */
  readonly encoding: string;
  /** True when the request was read to its end: the connection can be kept. */
  readonly isRequestComplete: boolean;
  /**
   * Settles when the caller has stopped sending, or has sent as much again as a body may have, or after 5 s. What comes
   * in until then is thrown away. Closing earlier can reset the connection before the caller has read the answer: send
   * the answer (with `connection: close` unless `isRequestComplete`), wait for this, then close.
   */
  readonly drained: Promise<void>;
}

export type BodyRead = BodyKept | BodyRefused;

const DRAINED = Promise.resolve();

/** What is left of a body that was released. */
const RELEASED: readonly Buffer[] = [];

/** Reads a request's body, decodes and scans it. Never rejects; a body is either kept whole or not at all. */
export function readBody(source: BodySource, options: ReadBodyOptions): Promise<BodyRead> {
  return new Promise((resolve) => {
    new BodyReader(source, options, resolve).start();
  });
}

class BodyReader {
  readonly #source: BodySource;
  readonly #options: ReadBodyOptions;
  readonly #resolve: (read: BodyRead) => void;
  readonly #scanner: BodyScanner;
  readonly #encoding: ContentEncoding | "identity" | null;
  #decoder: (Transform & { readonly bytesWritten: number }) | null = null;
  #deadline: Deadline | null = null;

  #chunks: Buffer[] = [];
  #bytes = 0;
  #rawBytes = 0;
  #reservedBytes = 0;

  /** Accepted but not scanned yet; the source is paused while there is something. */
  #unscanned: Buffer[] = [];
  /** Bytes scanned since the loop was last let go. */
  #turnBytes = 0;
  #hasEnded = false;
  #isSettled = false;

  constructor(source: BodySource, options: ReadBodyOptions, resolve: (read: BodyRead) => void) {
    this.#source = source;
    this.#options = options;
    this.#resolve = resolve;
    this.#scanner = new BodyScanner(options.scan);
    this.#encoding = encodingOf(source.headers["content-encoding"]);
  }

  start(): void {
    const { onStart, limitBytes, deadlineMs, deadlines } = this.#options;
    if (this.#source.destroyed) return this.#refuse("caller_gone");
    if (this.#encoding === null) return this.#refuse("unsupported_encoding");
    if (Number(this.#source.headers["content-length"]) > limitBytes) return this.#refuse("body_too_large");
    this.#source.on("data", this.#onData);
    this.#source.on("end", this.#onEnd);
    this.#source.on("error", this.#onGone);
    this.#source.on("close", this.#onClose);
    this.#deadline = deadlines.start(deadlineMs, this.#onDeadline);
    onStart?.(this.#onGone);
  }

  #onData = (chunk: Buffer): void => {
    this.#rawBytes += chunk.length;
    if (this.#rawBytes > this.#options.limitBytes) this.#refuse("body_too_large");
    else if (this.#encoding === "identity") this.#accept(chunk);
    else this.#decode(chunk);
  };

  #onEnd = (): void => {
    if (this.#decoder !== null) this.#decoder.end();
    else this.#endOfBody();
  };

  // A request also closes after its end, while the decoder may still be at work.
  #onClose = (): void => {
    if (!this.#source.readableEnded) this.#refuse("caller_gone");
  };

  #onGone = (): void => this.#refuse("caller_gone");

  #onDeadline = (): void => this.#refuse("body_timeout");

  #decode(chunk: Buffer): void {
    if (this.#decoder === null) {
      const declared = Number(this.#source.headers["content-length"]);
      const blockBytes = declared <= SMALL_ENCODED_BYTES ? SMALL_DECODED_BLOCK_BYTES : DECODED_BLOCK_BYTES;
      const decoder = createDecoder(this.#encoding as ContentEncoding, chunk[0] as number, blockBytes);
      this.#decoder = decoder;
      decoder.on("data", (decoded: Buffer) => this.#accept(decoded));
      decoder.on("error", () => this.#refuse("invalid_encoding"));
      decoder.on("drain", () => this.#source.resume());
      // Decoders end at their own end mark; what stands behind it was not read.
      decoder.on("end", () => {
        if (this.#hasRestAfter(decoder)) this.#refuse("invalid_encoding");
        else this.#endOfBody();
      });
    }
    if (!this.#decoder.write(chunk)) this.#source.pause();
  }

  #hasRestAfter(decoder: { readonly bytesWritten: number }): boolean {
    return !this.#source.readableEnded || decoder.bytesWritten !== this.#rawBytes;
  }

  /** Takes decoded bytes. */
  #accept(chunk: Buffer): void {
    if (this.#isSettled) return;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#options.limitBytes) return this.#refuse("body_too_large");
    // A body that is no JSON is read to its end, so that the connection can be kept, but not held.
    if (this.#scanner.failed) return;
    if (!this.#options.budget.tryReserve(chunk.length)) return this.#refuse("body_budget_exhausted");
    this.#reservedBytes += chunk.length;
    this.#chunks.push(chunk);
    if (this.#unscanned.length === 0 && this.#turnBytes + chunk.length <= SCAN_SLICE_BYTES) {
      this.#turnBytes += chunk.length;
      this.#scan(chunk);
      return;
    }
    if (this.#unscanned.push(chunk) === 1) {
      (this.#decoder ?? this.#source).pause();
      setImmediate(this.#scanTurn);
    }
  }

  #scan(bytes: Buffer): void {
    this.#scanner.push(bytes);
    if (this.#scanner.failed) this.#letGo();
  }

  /** Scans one slice of what waits, and comes back for the rest. */
  #scanTurn = (): void => {
    if (this.#isSettled) return;
    this.#turnBytes = 0;
    while (this.#unscanned.length > 0 && this.#turnBytes < SCAN_SLICE_BYTES) {
      const chunk = this.#unscanned[0] as Buffer;
      const room = SCAN_SLICE_BYTES - this.#turnBytes;
      if (chunk.length <= room) this.#unscanned.shift();
      else this.#unscanned[0] = chunk.subarray(room);
      const slice = chunk.length <= room ? chunk : chunk.subarray(0, room);
      this.#turnBytes += slice.length;
      this.#scan(slice);
    }
    if (this.#unscanned.length > 0) setImmediate(this.#scanTurn);
    else if (this.#hasEnded) this.#finish();
    else (this.#decoder ?? this.#source).resume();
  };

  #endOfBody(): void {
    this.#hasEnded = true;
    if (this.#unscanned.length === 0) this.#finish();
  }

  #finish(): void {
    if (this.#isSettled) return;
    const scan = this.#scanner.end();
    if (!scan.ok) return this.#refuse(scan.code, scan);
    this.#settle();
    const { budget } = this.#options;
    let heldBytes = this.#reservedBytes;
    const kept = {
      ok: true as const,
      chunks: this.#chunks as readonly Buffer[],
      bytes: this.#bytes,
      rawBytes: this.#rawBytes,
      scan,
      release() {
        budget.release(heldBytes);
        heldBytes = 0;
        kept.chunks = RELEASED;
      },
    };
    this.#chunks = [];
    this.#resolve(kept);
  }

  #refuse(code: BodyReadRefusalCode, scan: BodyRefusal | null = null): void {
    if (this.#isSettled) return;
    this.#settle();
    this.#letGo();
    this.#decoder?.destroy();
    const isRequestComplete = this.#source.readableEnded;
    this.#resolve({
      ok: false,
      code,
      scan,
      encoding: (this.#source.headers["content-encoding"] ?? "identity").slice(0, 64),
      isRequestComplete,
      drained:
        isRequestComplete || code === "caller_gone" || code === "body_timeout"
          ? DRAINED
          : drainBody(this.#source, this.#options),
    });
  }

  /** Drops what is held. */
  #letGo(): void {
    this.#chunks = [];
    this.#unscanned = [];
    this.#options.budget.release(this.#reservedBytes);
    this.#reservedBytes = 0;
  }

  #settle(): void {
    this.#isSettled = true;
    if (this.#deadline !== null) this.#options.deadlines.stop(this.#deadline);
    this.#source.off("data", this.#onData);
    this.#source.off("end", this.#onEnd);
    this.#source.off("close", this.#onClose);
    // The error listener stays: a connection that breaks later must not bring the process down.
  }
}

/**
 * Throws away what a caller still sends of a body that nobody wants: until its end, `limitBytes`, or the time that a body
 * may take (`deadlineMs`, at most 5 s). Answer first, close after this: closing while it sends would reset the connection
 * before it has read the answer. A stream of HTTP/2 ends alone, and one that is paused would not even do that.
 */
export function drainBody(
  source: Readable & { readonly httpVersionMajor?: number },
  limits: { limitBytes: number; deadlineMs: number },
): Promise<void> {
  const { limitBytes, deadlineMs } = limits;
  if (source.readableEnded || source.destroyed || source.httpVersionMajor === 2) return DRAINED;
  return new Promise((resolve) => {
    let bytes = 0;
    const stop = () => {
      clearTimeout(deadline);
      source.off("data", discard);
      source.off("end", stop);
      source.off("close", stop);
      source.pause();
      resolve();
    };
    const discard = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limitBytes) stop();
    };
    const deadline = setTimeout(stop, Math.min(DRAIN_MS, deadlineMs));
    source.on("data", discard);
    source.on("end", stop);
    source.on("close", stop);
    source.on("error", stop);
    source.resume();
  });
}
