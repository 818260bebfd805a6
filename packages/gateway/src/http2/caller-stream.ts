/** A stream of a caller's HTTP/2 connection, as a request and its answer. */

import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { CallerLink, CallerRequest, CallerResponse } from "../caller.ts";
import { AnswerPieces } from "./answer-pieces.ts";
import { CONNECTION_FIELDS } from "./connection-fields.ts";
import { http2 } from "./on-use.ts";

/** HTTP/1.1 lets a node's status be anything of three digits; `node:http2` throws at what has no class. */
const STATUS_MAX = 599;
const BAD_GATEWAY = 502;

/** How often it is looked within the time for which a caller may take nothing: one who stops is found out that much later. */
const SLOW_LOOKS = 4;

/** The request: the stream itself, with what its head said. */
export function callerRequestOf(
  stream: ServerHttp2Stream,
  { headers, rawHeaders }: { headers: IncomingHttpHeaders; rawHeaders: readonly string[] },
  socket: CallerLink,
): CallerRequest {
  const { ":method": method, ":path": url } = headers;
  return Object.assign(stream, { headers, rawHeaders, method, url, httpVersionMajor: 2, socket });
}

/** The answer on a stream. */
export class StreamResponse implements CallerResponse, CallerLink {
  readonly #stream: ServerHttp2Stream;
  readonly #isHead: boolean;
  readonly #pieces: AnswerPieces;
  #fields: Record<string, string | number> | null = null;
  #slowTimer: NodeJS.Timeout | null = null;
  /** By us: a caller's reset ends the stream's writable side too. */
  #isEnded = false;

  /** @param isHead the answer has no body. */
  constructor(stream: ServerHttp2Stream, isHead: boolean) {
    this.#stream = stream;
    this.#isHead = isHead;
    this.#pieces = new AnswerPieces(stream);
    stream.once("close", () => {
      this.setTimeout(0);
      this.#pieces.drop();
    });
  }

  get headersSent(): boolean {
    return this.#stream.headersSent;
  }

  get destroyed(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  get writableEnded(): boolean {
    return this.#isEnded;
  }

  get writableFinished(): boolean {
    return this.#isEnded && this.#stream.writableFinished;
  }

  get writableLength(): number {
    return this.#pieces.waitingBytes;
  }

  get socket(): CallerLink {
    return this;
  }

  /**
   * Ends the stream when the caller takes nothing of it for so long. Node's own timer of a stream counts what other
   * streams of the connection send, so that a busy neighbour would keep a stuck one alive.
   */
  setTimeout(ms: number): void {
    if (this.#slowTimer !== null) clearTimeout(this.#slowTimer);
    this.#slowTimer = null;
    if (ms === 0 || this.destroyed) return;
    let looks = 0;
    let { takenBytes } = this.#pieces;
    const look = (): void => {
      const isTaking = this.#pieces.takenBytes > takenBytes;
      takenBytes = this.#pieces.takenBytes;
      looks = isTaking ? 0 : looks + 1;
      if (looks === SLOW_LOOKS) this.destroy();
      else this.#slowTimer = setTimeout(look, ms / SLOW_LOOKS);
    };
    this.#slowTimer = setTimeout(look, ms / SLOW_LOOKS);
  }

  setHeader(name: string, value: string | number): void {
    this.#fields ??= {};
    this.#fields[name] = value;
  }

  setLines(lines: string): void {
    for (const line of lines.split("\r\n")) {
      const colon = line.indexOf(": ");
      if (colon > 0) this.setHeader(line.slice(0, colon), line.slice(colon + 2));
    }
  }

  writeHead(status: number, fields: string[] | Record<string, string> = []): this {
    if (this.destroyed || this.headersSent) return this;
    const head: Record<string, string | number> = {
      ":status": status > STATUS_MAX ? BAD_GATEWAY : status,
      ...this.#fields,
    };
    if (Array.isArray(fields)) {
      for (let at = 0; at < fields.length; at += 2) head[fields[at] as string] = fields[at + 1] as string;
    } else Object.assign(head, fields);
    for (const name of CONNECTION_FIELDS) delete head[name];
    this.#stream.respond(head);
    return this;
  }

  write(chunk: Buffer | string): boolean {
    // the answer to HEAD has no body, and a caller who left takes none
    if (this.#isHead || this.destroyed || this.#stream.writableEnded) return true;
    return this.#pieces.write(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  }

  writePiece(bytes: string | Buffer): boolean {
    return this.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  onceWritable(listener: () => void): void {
    this.#pieces.onceWritable(listener);
  }

  end(chunk?: Buffer | string, encoding?: "latin1"): void {
    const stream = this.#stream;
    if (this.destroyed) return;
    this.#isEnded = true;
    if (!this.#isHead && !stream.writableEnded) {
      if (chunk === undefined) this.#pieces.end(null);
      else this.#pieces.end(typeof chunk === "string" ? Buffer.from(chunk, encoding ?? "utf8") : chunk);
    }
    // nobody reads the rest of the request: the caller may stop sending it (RFC 9113, 8.1)
    if (!stream.readableEnded) {
      stream.resume();
      if (stream.endAfterHeaders !== true) this.#closeOnceTaken();
    }
  }

  /**
   * Not before the caller has taken the answer: a stream that was told to close counts as closed while it still waits for
   * room, and neither a timer nor `destroy` would reset it any more.
   */
  #closeOnceTaken(): void {
    const stream = this.#stream;
    const close = (): void => stream.close(http2().constants.NGHTTP2_NO_ERROR);
    if (stream.writableFinished) close();
    else stream.once("finish", close);
  }

  /** A reset, with INTERNAL_ERROR. `close` would end the answer first, as if it were whole. */
  destroy(): void {
    this.#stream.destroy(new Error("the answer broke off"));
  }

  on(event: "close" | "error", listener: () => void): void {
    this.#stream.on(event, listener);
  }

  once(event: "close", listener: () => void): void {
    this.#stream.once(event, listener);
  }
}
