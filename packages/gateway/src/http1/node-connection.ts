/**
 * One connection to a node over HTTP/1.1, for traffic and polls: a socket that is opened when it is needed, carries one
 * request at a time, and is kept while it is idle. Own code, since this is the relay's inner loop and its peers are known engines: a third of
 * what a general client costs per request.
 */

import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { isLostAtOnce, loopWatch } from "./loop-watch.ts";
import { type NodeTls, openSocket, type SocketTarget } from "./open-socket.ts";
import { BadResponseError, type ResponseHandler, type ResponseHeaders, ResponseParser } from "./response-parser.ts";

/** Where a connection goes, and how long it may take to get there. */
export interface ConnectionTarget extends SocketTarget {
  /** Value of the `host` field. */
  authority: string;
  connectMs: number;
  /** Largest response head, bytes. */
  headerBytes: number;
}

/** A request as it goes out. */
export interface NodeRequest {
  method: "POST" | "GET";
  path: string;
  /**
   * Name, value, name, value …; `connection` among them, and `content-length` where there is a body. Values hold no line
   * breaks: they were checked at the edge.
   */
  headers: readonly string[];
  body: Buffer | Readable | null;
}

/** Why no connection could be made. */
export class ConnectError extends Error {
  /** The system's code, or `ETIMEDOUT`. */
  readonly code: string;

  constructor(code: string, cause?: Error) {
    super(`connect failed: ${code}`, cause === undefined ? {} : { cause });
    this.code = code;
  }
}

/** What a request hears. `onEnd` or `onError` comes last, once; after `abort` nothing comes. */
export interface NodeExchangeHandler {
  /** The request goes out now. */
  onStart(): void;
  onHead(status: number, headers: ResponseHeaders): void;
  /** The bytes are valid until it returns: whoever keeps them copies them. */
  onBody(bytes: Buffer): void;
  /** Everything that one read brought has been told, but for the end. */
  onReadEnd?(): void;
  onEnd(): void;
  /** `ConnectError`, `BadResponseError`, or the connection broke. */
  onError(error: Error): void;
}

/** Idle connections are closed this much before the node says that it closes them, ms. */
const HINT_MARGIN_MS = 1000;

export class NodeConnection implements ResponseHandler {
  readonly #target: ConnectionTarget;
  readonly #tellsStale: boolean;
  /** Of the running request; each has its own, so that bytes of an aborted one reach nobody else. */
  #parser: ResponseParser;
  #socket: Socket | null = null;
  #handler: NodeExchangeHandler | null = null;
  /** Waits for the socket to open. A field, since what a listener of the socket can reach lives as long as the socket. */
  #toSend: NodeRequest | null = null;
  /** Ends the streamed body that is going out; null: none is. */
  #endUpload: (() => void) | null = null;
  #startMethod = "";
  #startPath = "";
  #start = "";
  #answers = 0;
  #openedAtMs = Number.NaN;
  /** Time of the connect, ms: one round trip. */
  #connectTookMs = 0;
  #sentAtMs = Number.NaN;
  #hasBytes = false;

  /**
   * @param options `tellsStale`: `wasStale` will be asked (default); it costs the thread wake-ups for as long as requests
   *   come, and two seconds more.
   */
  constructor(target: ConnectionTarget, { tellsStale = true }: { tellsStale?: boolean } = {}) {
    this.#target = target;
    this.#tellsStale = tellsStale;
    this.#parser = new ResponseParser(this, target.headerBytes);
  }

  /** A request is under way. */
  get isBusy(): boolean {
    return this.#handler !== null;
  }

  /** Time at which the present socket was opened, `performance.now()`. */
  get openedAtMs(): number {
    return this.#openedAtMs;
  }

  /**
   * Asked when a connection was lost: true when the node had closed it before the request came, so that it carried
   * nothing. Then the socket had carried an answer before, brought no byte of this one, and the loss came about as soon
   * as the network allows; a node that dies over a request takes longer. What counts is when the loss could have been
   * seen at last: a thread that was held meanwhile sees it late.
   */
  get wasStale(): boolean {
    if (!this.#tellsStale || this.#answers === 0 || this.#hasBytes) return false;
    return isLostAtOnce(this.#sentAtMs, this.#connectTookMs);
  }

  /** How long the node keeps an idle connection, with a margin, ms; NaN: it does not say. */
  get keepAliveHintMs(): number {
    return this.#parser.keepAliveHintMs - HINT_MARGIN_MS;
  }

  /** Sends a request; the connection must be free. Opens the socket if there is none. */
  send(request: NodeRequest, handler: NodeExchangeHandler): void {
    this.#handler = handler;
    this.#parser = new ResponseParser(this, this.#target.headerBytes);
    if (this.#socket !== null) this.#write(this.#socket, request);
    else this.#open(request);
  }

  pause(): void {
    this.#socket?.pause();
  }

  resume(): void {
    this.#socket?.resume();
  }

  /** Ends the running request without a word, or closes the idle connection. */
  abort(): void {
    this.#handler = null;
    this.#parser.stop();
    this.#drop();
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#handler?.onHead(status, headers);
  }

  onBody(bytes: Buffer): void {
    this.#handler?.onBody(bytes);
  }

  #complete(): void {
    const handler = this.#handler;
    this.#handler = null;
    this.#answers += 1;
    // an answer that came before the whole request was out leaves the node with half a request
    const isSent = this.#endUpload === null && this.#socket?.writableLength === 0;
    if (!this.#parser.canReuse || !isSent) this.#drop();
    else this.#socket?.resume();
    handler?.onEnd();
  }

  #open(request: NodeRequest): void {
    const { isTls, connectMs } = this.#target;
    const socket = openSocket(this.#target, "http/1.1", (block, length) => this.#read(socket, block, length));
    this.#socket = socket;
    this.#toSend = request;
    this.#answers = 0;
    this.#openedAtMs = performance.now();
    let isOpen = false;
    const timer = setTimeout(() => socket.destroy(new ConnectError("ETIMEDOUT")), connectMs);
    socket.once(isTls ? "secureConnect" : "connect", () => {
      isOpen = true;
      this.#connectTookMs = performance.now() - this.#openedAtMs;
      clearTimeout(timer);
      const waiting = this.#toSend;
      if (socket !== this.#socket || waiting === null) return;
      this.#toSend = null;
      this.#write(socket, waiting);
    });
    socket.on("end", () => this.#lost(socket, LOST));
    socket.on("error", (error) => this.#lost(socket, isOpen ? error : connectErrorOf(error)));
    socket.on("close", () => {
      clearTimeout(timer);
      this.#lost(socket, isOpen ? LOST : new ConnectError("ECONNRESET"));
    });
  }

  #write(socket: Socket, { method, path, headers, body }: NodeRequest): void {
    let head = this.#startOf(method, path);
    for (let index = 0; index < headers.length; index += 2) head += `\r\n${headers[index]}: ${headers[index + 1]}`;
    head += "\r\n\r\n";
    this.#sentAtMs = performance.now();
    this.#hasBytes = false;
    if (this.#tellsStale && this.#answers > 0) loopWatch.use();
    this.#handler?.onStart();
    if (this.#handler === null) return;
    if (body === null) {
      socket.write(head, "latin1");
      return;
    }
    if (!Buffer.isBuffer(body)) {
      socket.write(head, "latin1");
      this.#stream(socket, body);
      return;
    }
    if (head.length + body.length <= WRITE_BLOCK_BYTES) {
      if (this.#target.isTls) socket.write(head + body.toString("latin1"), "latin1");
      else writeJoined(socket, head, body);
      return;
    }
    socket.cork();
    socket.write(head, "latin1");
    socket.write(body);
    socket.uncork();
  }

  /** Request line and host: of one request as of the next, nearly always. */
  #startOf(method: string, path: string): string {
    if (method !== this.#startMethod || path !== this.#startPath) {
      this.#startMethod = method;
      this.#startPath = path;
      this.#start = `${method} ${path} HTTP/1.1\r\nhost: ${this.#target.authority}`;
    }
    return this.#start;
  }

  /** Nothing of it stays on the socket, which lives on. */
  #stream(socket: Socket, body: Readable): void {
    const goOn = (): void => void body.resume();
    const end = (): void => {
      socket.off("drain", goOn);
      body.destroy();
      this.#endUpload = null;
    };
    this.#endUpload = end;
    socket.on("drain", goOn);
    body.on("data", (piece: Buffer) => {
      if (!socket.write(piece)) body.pause();
    });
    body.once("end", () => {
      if (this.#endUpload === end) end();
    });
    body.once("error", (error) => socket.destroy(error));
  }

  #read(socket: Socket, block: Buffer, length: number): void {
    if (socket !== this.#socket) return;
    if (this.#handler === null) {
      // nobody asked for this
      this.#drop();
      return;
    }
    this.#hasBytes = true;
    const parser = this.#parser;
    try {
      parser.push(block, length);
    } catch (error) {
      if (!(error instanceof BadResponseError)) throw error;
      const handler = this.#handler;
      this.#handler = null;
      this.#drop();
      handler?.onError(error);
      return;
    }
    if (parser !== this.#parser) return;
    this.#handler?.onReadEnd?.();
    if (parser === this.#parser && parser.isComplete && this.#handler !== null) this.#complete();
  }

  /** The socket ended, in whichever way; the first word counts. */
  #lost(socket: Socket, error: Error): void {
    if (socket !== this.#socket) return;
    this.#drop();
    const handler = this.#handler;
    if (handler === null) return;
    if (error === LOST && this.#parser.end()) {
      this.#complete();
      return;
    }
    this.#handler = null;
    handler.onError(error);
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#toSend = null;
    this.#endUpload?.();
    socket?.destroy();
  }
}

/**
 * Where the connections of a URL go.
 *
 * @param limits `connectMs` time for the connect (and TLS), ms; `headerBytes` the largest response head;
 *   `serverName` the host's name in TLS and in the `host` field (default: the URL's host); `allowsLinkLocal` as of the
 *   node (default false).
 */
export function targetOf(
  url: string,
  {
    serverName = null,
    ...limits
  }: {
    connectMs: number;
    headerBytes: number;
    serverName?: string | null;
    allowsLinkLocal?: boolean;
    tls?: NodeTls | null;
  },
): ConnectionTarget {
  const { protocol, hostname, port, host } = new URL(url);
  const isTls = protocol === "https:";
  return {
    // an IPv6 literal stands in brackets in a URL and without them in an address
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (isTls ? 443 : 80) : Number(port),
    isTls,
    authority: serverName === null ? host : `${serverName}${port === "" ? "" : `:${port}`}`,
    ...(serverName === null ? {} : { serverName }),
    ...limits,
  };
}

/** Requests up to this size are sent as one write. */
const WRITE_BLOCK_BYTES = 16 * 1024;

/** What requests of this thread are joined in; null: the last one is still to be written by the system. */
let writeBlock: Buffer | null = null;

/**
 * Sends a head and its body as one write, in the clear. They are joined in one block for all: a write that the system
 * takes whole, which is nearly every one, is over when the call returns, and the block is free again. As text, the two
 * were copied three times, and left 3 KB of garbage for a body of 1 KB.
 */
function writeJoined(socket: Socket, head: string, body: Buffer): void {
  const block = writeBlock ?? Buffer.allocUnsafeSlow(WRITE_BLOCK_BYTES);
  writeBlock = null;
  const length = block.write(head, "latin1");
  body.copy(block, length);
  socket.write(block.subarray(0, length + body.length));
  if (socket.writableLength === 0) writeBlock = block;
}

const LOST = new Error("the node closed the connection");

/** What a connect's failure was, by the system's code. */
export function connectErrorOf(error: Error): ConnectError {
  if (error instanceof ConnectError) return error;
  // several addresses were tried: the last one stands for all
  const last = error instanceof AggregateError ? error.errors.at(-1) : error;
  const code: unknown = last instanceof Error && "code" in last ? last.code : undefined;
  return new ConnectError(typeof code === "string" ? code : "unknown", error);
}
