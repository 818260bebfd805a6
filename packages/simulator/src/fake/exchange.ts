import type { IncomingMessage, ServerResponse } from "node:http";
import { performance } from "node:perf_hooks";
import type { Gzip } from "node:zlib";
import { createGzip, gzipSync, constants as zlib } from "node:zlib";
import type { CutKind, Faults, StreamFault } from "./faults.ts";
import type { ReceivedRequest } from "./received.ts";

export type HeaderMap = Readonly<Record<string, string | number>>;

/** One request and its answer on a fake node. All bytes of answers go through here, so that faults reach them all. */
export class Exchange {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly entry: ReceivedRequest;
  readonly faults: Faults;
  /** Whole body, also when the log keeps only a part. */
  body: Buffer = Buffer.alloc(0);
  /** Headers that every answer of the engine carries. */
  readonly engineHeaders: HeaderMap;
  readonly #jsonType: string;
  readonly #onGone: (() => void)[] = [];
  #isCut = false;

  constructor(parts: {
    request: IncomingMessage;
    response: ServerResponse;
    entry: ReceivedRequest;
    faults: Faults;
    engineHeaders: HeaderMap;
    hasConnectionHint: boolean;
    jsonType: string;
  }) {
    this.request = parts.request;
    this.response = parts.response;
    this.entry = parts.entry;
    this.faults = parts.faults;
    this.engineHeaders = parts.engineHeaders;
    this.#jsonType = parts.jsonType;
    const url = new URL(parts.request.url ?? "/", "http://node");
    this.method = parts.request.method ?? "GET";
    this.path = url.pathname;
    this.query = url.searchParams;
    // Without the header Node still keeps the connection, but says nothing about it: as uvicorn and hyper do.
    if (!parts.hasConnectionHint) this.response.removeHeader("connection");
    this.response.on("close", () => {
      this.entry.closedMs = performance.now();
      if (this.#isCut) this.entry.closeCause = "node-cut";
      else this.entry.closeCause = this.response.writableFinished ? "answered" : "caller-closed";
      for (const callback of this.#onGone) callback();
    });
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value[0] : value;
  }

  /** Whether the caller shows this key; "" is none, and asks for none. */
  hasKey(apiKey: string): boolean {
    return apiKey === "" || this.header("authorization") === `Bearer ${apiKey}`;
  }

  /** Calls back once when the exchange is over, answered or not. */
  onOver(callback: () => void): void {
    if (this.response.closed) callback();
    else this.#onGone.push(callback);
  }

  /** The node's death will close this exchange; the sockets are closed by the node. */
  markCut(): void {
    this.#isCut = true;
  }

  get isStreaming(): boolean {
    return String(this.response.getHeader("content-type") ?? "").startsWith("text/event-stream");
  }

  get isOver(): boolean {
    return this.response.closed || this.response.writableEnded || this.#isCut;
  }

  json(status: number, value: unknown, headers: HeaderMap = {}): void {
    this.send(status, JSON.stringify(value), { "content-type": this.#jsonType, ...headers });
  }

  send(status: number, text: string, headers: HeaderMap = {}): void {
    if (this.isOver || this.response.headersSent || this.faults.silence === "blackhole") return;
    this.entry.status = status;
    const isZipped = this.faults.isGzip && text !== "";
    const bytes = isZipped ? gzipSync(text) : Buffer.from(text);
    this.response.writeHead(status, {
      ...this.engineHeaders,
      ...headers,
      ...(isZipped ? { "content-encoding": "gzip" } : {}),
      "content-length": bytes.length,
    });
    this.response.end(bytes);
  }

  /** Sends half of a whole answer, then goes wrong as told. */
  sendPart(status: number, text: string, how: CutKind | "bad-chunk"): void {
    if (this.isOver || this.response.headersSent || this.faults.silence === "blackhole") return;
    this.entry.status = status;
    const half = text.slice(0, Math.floor(text.length / 2));
    const isChunked = how === "bad-chunk" || how === "end-without-marker";
    this.response.writeHead(status, {
      ...this.engineHeaders,
      "content-type": this.#jsonType,
      ...(isChunked ? {} : { "content-length": Buffer.byteLength(text) }),
    });
    this.response.write(half);
    if (how === "end-without-marker") this.response.end();
    else if (how === "bad-chunk") this.breakChunk();
    else if (how !== "silent") this.cut(how);
  }

  /** Writes a size line that is no size where a chunk should begin, and closes. */
  breakChunk(): void {
    const socket = this.response.socket;
    this.#isCut = true;
    setImmediate(() => {
      socket?.write("zz;not a size\r\nbroken\r\n");
      socket?.destroySoon();
    });
  }

  openStream(headers: HeaderMap, fault: StreamFault | undefined): EventStream {
    const stream = new EventStream(this, fault);
    stream.open({ "content-type": "text/event-stream", ...headers });
    return stream;
  }

  /** Ends the connection as the death of a node does. */
  cut(how: "fin" | "rst"): void {
    if (this.isOver) return;
    this.#isCut = true;
    const socket = this.response.socket;
    if (socket === null) return;
    // Node holds writes back until the end of the tick: let the events before the cut go first.
    setImmediate(() => {
      if (how === "rst") socket.resetAndDestroy();
      else socket.destroySoon();
    });
  }
}

/** The events of one streamed answer. Writes after the end, a cut or a stall are dropped. */
export class EventStream {
  readonly #exchange: Exchange;
  readonly #fault: StreamFault | undefined;
  #gzip: Gzip | undefined;
  #eventCount = 0;
  #isDead = false;
  #hasWritten = false;
  /** Events held back by a stall. */
  #held: (string | null)[] | undefined;
  /** Last time that something was written, ms on `performance.now()`. */
  lastWriteMs = performance.now();

  constructor(exchange: Exchange, fault: StreamFault | undefined) {
    this.#exchange = exchange;
    this.#fault = fault;
  }

  get eventCount(): number {
    return this.#eventCount;
  }

  /** Nothing but the head was written. */
  get isFresh(): boolean {
    return !this.#hasWritten;
  }

  open(headers: HeaderMap): void {
    const { response, entry, faults, engineHeaders } = this.#exchange;
    if (this.#exchange.isOver || faults.silence === "blackhole") return;
    entry.status = 200;
    if (faults.isGzip) {
      this.#gzip = createGzip({ flush: zlib.Z_SYNC_FLUSH });
      this.#gzip.pipe(response);
    }
    response.writeHead(200, {
      ...engineHeaders,
      ...headers,
      ...(this.#gzip === undefined ? {} : { "content-encoding": "gzip" }),
    });
    response.flushHeaders();
    this.#spoil();
  }

  /** Writes one event, already framed (`data: …\n\n`). */
  event(text: string): void {
    if (!this.#canWrite(text)) return;
    this.#write(text);
    this.#eventCount += 1;
    this.#spoil();
  }

  /** Writes a comment; it doesn't count as an event. */
  comment(text: string): void {
    if (this.#isDead || this.#held !== undefined || this.#exchange.isOver) return;
    this.#write(text);
  }

  /** Ends the stream well. */
  end(): void {
    if (!this.#canWrite(null)) return;
    this.#isDead = true;
    if (this.#gzip === undefined) this.#exchange.response.end();
    else this.#gzip.end();
  }

  #canWrite(text: string | null): boolean {
    if (this.#isDead || this.#exchange.isOver || this.#exchange.faults.silence === "blackhole") return false;
    if (this.#held === undefined) return true;
    this.#held.push(text);
    return false;
  }

  #write(text: string): void {
    this.lastWriteMs = performance.now();
    this.#hasWritten = true;
    if (this.#gzip === undefined) this.#exchange.response.write(text);
    else this.#gzip.write(text);
  }

  #spoil(): void {
    const fault = this.#fault;
    if (fault === undefined || !("afterEvents" in fault) || this.#eventCount !== fault.afterEvents) return;
    if (fault.kind === "cut") this.#cut(fault.how);
    else if (fault.kind === "stall") this.#stall(fault.ms);
    else if (fault.kind === "bad-chunk") {
      this.#isDead = true;
      this.#exchange.breakChunk();
    }
  }

  #cut(how: CutKind): void {
    this.#isDead = true;
    if (how === "fin" || how === "rst") this.#exchange.cut(how);
    else if (how === "end-without-marker") {
      if (this.#gzip === undefined) this.#exchange.response.end();
      else this.#gzip.end();
    }
  }

  #stall(ms: number): void {
    const held: (string | null)[] = [];
    this.#held = held;
    if (ms === Number.POSITIVE_INFINITY) return;
    const timer = setTimeout(() => {
      this.#held = undefined;
      for (const text of held) {
        if (text === null) this.end();
        else this.event(text);
      }
    }, ms);
    this.#exchange.onOver(() => clearTimeout(timer));
  }
}
