/**
 * One HTTP/2 connection to a node: streams beside each other, each paused alone. `node:http2` gives back what a stream has
 * not read yet of the connection's window at once, so that a slow stream holds up no neighbour; what it may hold itself is
 * its own window.
 */

import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { TLSSocket } from "node:tls";
import { isLostAtOnce, loopWatch } from "../http1/loop-watch.ts";
import {
  ConnectError,
  type ConnectionTarget,
  connectErrorOf,
  type NodeExchangeHandler,
  type NodeRequest,
} from "../http1/node-connection.ts";
import { openSocket } from "../http1/open-socket.ts";
import { BadResponseError } from "../http1/response-parser.ts";
import { CONNECTION_FIELDS } from "./connection-fields.ts";
import { http2 } from "./on-use.ts";

/** Limits of a session. */
export interface SessionLimits {
  /** Streams at one time; the node's own limit counts where it is lower. */
  maxStreams: number;
  /** What a stream may hold of an answer that nobody takes, bytes. */
  streamWindowBytes: number;
  /** While streams run and nothing comes for so long, the node is asked for a sign of life, ms. */
  pingMs: number;
}

/** The node has not looked at the request (REFUSED_STREAM, or GOAWAY below it): it may be sent again. */
export class UnsentError extends Error {}

/** Bytes of all answers of a session that may be on the way. */
const SESSION_WINDOW_BYTES = 2 ** 24;

/**
 * Resets that a connection is given, and how many more per second: half of what nghttp2 allows (1,000 and 33) before it
 * takes them for an attack and ends the connection with all that runs on it. Those that run may be reset as well.
 */
const RESET_BURST = 500;
const RESETS_PER_SECOND = 30;

/** A node that speaks no HTTP/2, where it was to choose. */
const NO_HTTP2 = "ZML_NO_HTTP2";

/** What a session tells its pool. */
export interface SessionOwner {
  /** The node's settings are here: streams may start. */
  onReady(): void;
  /** It takes no new streams; those that run may go on. */
  onRetired(session: NodeSession): void;
  /** A stream ended. */
  onRoom(session: NodeSession): void;
  /** It never came to be. */
  onConnectError(session: NodeSession, error: ConnectError): void;
}

/** Every session of this thread whose connection is open, also of a pool that is closed. */
const open = new Set<NodeSession>();

/** Ends all sessions of this thread now, and tells nobody: the thread is about to end. */
export function abandonNodeSessions(): void {
  for (const session of open) session.abandon();
}

export class NodeSession {
  readonly #target: ConnectionTarget;
  readonly #limits: SessionLimits;
  readonly #owner: SessionOwner;
  readonly #streams = new Set<NodeStream>();
  /** Since when it takes streams; one that takes long to connect is not old when it has. */
  openedAtMs = performance.now();
  #socket: Socket | null = null;
  #session: ClientHttp2Session | null = null;
  #state: "connecting" | "ready" | "retired" = "connecting";
  #connectTimer: NodeJS.Timeout | null = null;
  #pingTimer: NodeJS.Timeout | null = null;
  #isPinging = false;
  #bytesAtPing = 0;
  /** Streams above it were not looked at; set by GOAWAY. */
  #lastStreamId = Number.POSITIVE_INFINITY;
  #resets = 0;
  #resetsFromMs = performance.now();
  answers = 0;
  roundTripMs = 0;
  idleSinceMs = performance.now();

  constructor(target: ConnectionTarget, limits: SessionLimits, owner: SessionOwner) {
    this.#target = target;
    this.#limits = limits;
    this.#owner = owner;
    this.#open();
  }

  get isConnecting(): boolean {
    return this.#state === "connecting";
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  /** Bytes that came from the node. */
  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0;
  }

  /** A stream may start. */
  get hasRoom(): boolean {
    if (this.#state !== "ready" || this.#session === null) return false;
    const { maxConcurrentStreams = Number.POSITIVE_INFINITY } = this.#session.remoteSettings;
    return this.#streams.size < Math.min(this.#limits.maxStreams, maxConcurrentStreams);
  }

  /** A place for one request; `hasRoom` has to be true. */
  take(): NodeStream {
    const stream = new NodeStream(this, (ended) => this.#left(ended));
    this.#streams.add(stream);
    return stream;
  }

  /** For its streams only. */
  request(headers: Record<string, string>, hasBody: boolean): ClientHttp2Stream | null {
    if (this.#session === null || this.#session.closed || this.#session.destroyed) return null;
    return this.#session.request(
      { ":authority": this.#target.authority, ":scheme": this.#target.isTls ? "https" : "http", ...headers },
      { endStream: !hasBody },
    );
  }

  /** True for a stream that the node said it has not looked at, or that never left. */
  isUnseen(id: number | undefined): boolean {
    return id === undefined || id > this.#lastStreamId;
  }

  /** A stream was reset by us. A node takes many of them for an attack, so that new streams go elsewhere before. */
  noteReset(): void {
    const nowMs = performance.now();
    const forgotten = ((nowMs - this.#resetsFromMs) / 1000) * RESETS_PER_SECOND;
    this.#resets = Math.max(0, this.#resets - forgotten) + 1;
    this.#resetsFromMs = nowMs;
    if (this.#resets > RESET_BURST) this.retire();
  }

  /** Takes no new streams; ends with the last one that runs. */
  retire(): void {
    if (this.#state === "retired") return;
    this.#state = "retired";
    this.#stopTimers();
    this.#owner.onRetired(this);
    if (this.#streams.size === 0) this.#end();
  }

  /** Ends it, with all that runs. */
  destroy(error?: Error): void {
    this.retire();
    this.#session?.destroy(error);
    this.#socket?.destroy(error);
  }

  /** Ends it without a word to its streams: what they would say of the node is not the node's doing. */
  abandon(): void {
    for (const stream of this.#streams) stream.abandon();
    this.#socket?.destroy();
  }

  #open(): void {
    const { isTls, connectMs } = this.#target;
    const socket = openSocket(this.#target, "h2");
    this.#socket = socket;
    open.add(this);
    const startedAtMs = performance.now();
    this.#connectTimer = setTimeout(() => socket.destroy(new ConnectError("ETIMEDOUT")), connectMs);
    const onError = (error: Error): void => this.#connectFailed(connectErrorOf(error));
    socket.once("error", onError);
    socket.once("close", () => {
      open.delete(this);
      this.#connectFailed(new ConnectError("ECONNRESET"));
      this.retire();
    });
    socket.once(isTls ? "secureConnect" : "connect", () => {
      this.roundTripMs = performance.now() - startedAtMs;
      if (isTls && (socket as TLSSocket).alpnProtocol !== "h2") {
        socket.destroy(new ConnectError(NO_HTTP2));
        return;
      }
      this.#start(socket);
    });
  }

  #start(socket: Socket): void {
    const session = http2().connect(`${this.#target.isTls ? "https" : "http"}://${this.#target.authority}`, {
      createConnection: () => socket,
      settings: {
        enablePush: false,
        initialWindowSize: this.#limits.streamWindowBytes,
        maxHeaderListSize: this.#target.headerBytes,
      },
      // the window of each stream bounds it already
      maxSessionMemory: 256,
      maxHeaderListPairs: 4096,
    });
    this.#session = session;
    session.on("error", NOTHING);
    session.on("connect", () => session.setLocalWindowSize(SESSION_WINDOW_BYTES));
    // how many streams it takes is not known before
    session.once("remoteSettings", () => {
      if (this.#state !== "connecting") return;
      this.#state = "ready";
      this.openedAtMs = performance.now();
      this.idleSinceMs = this.openedAtMs;
      if (this.#connectTimer !== null) clearTimeout(this.#connectTimer);
      this.#pingTimer = setInterval(() => this.#ping(), this.#limits.pingMs).unref();
      this.#owner.onReady();
    });
    session.on("remoteSettings", () => this.#owner.onRoom(this));
    session.on("goaway", (_code, lastStreamId) => {
      this.#lastStreamId = Math.min(this.#lastStreamId, lastStreamId);
      this.retire();
    });
    session.once("close", () => this.retire());
  }

  /** A connection on which nothing comes although streams run is asked; one that does not answer is dead. */
  #ping(): void {
    const session = this.#session;
    if (session === null || session.destroyed) return;
    const { bytesRead } = this;
    const isSilent = bytesRead === this.#bytesAtPing;
    this.#bytesAtPing = bytesRead;
    if (!isSilent || this.#streams.size === 0) {
      this.#isPinging = false;
      return;
    }
    if (this.#isPinging) {
      this.destroy(new Error("the node answers no PING"));
      return;
    }
    this.#isPinging = true;
    session.ping(() => {
      this.#isPinging = false;
    });
  }

  #left(stream: NodeStream): void {
    if (!this.#streams.delete(stream)) return;
    this.idleSinceMs = performance.now();
    if (this.#state === "retired" && this.#streams.size === 0) this.#end();
    this.#owner.onRoom(this);
  }

  #end(): void {
    this.#stopTimers();
    const socket = this.#socket;
    if (this.#session === null || this.#session.destroyed) socket?.destroy();
    else {
      this.#session.close();
      setTimeout(() => socket?.destroy(), END_MS).unref();
    }
  }

  #connectFailed(error: ConnectError): void {
    if (this.#state !== "connecting") return;
    this.#stopTimers();
    this.#state = "retired";
    this.#socket?.destroy();
    this.#owner.onConnectError(this, error);
  }

  #stopTimers(): void {
    if (this.#connectTimer !== null) clearTimeout(this.#connectTimer);
    // a session that is on its way out may still have to be found dead
    if (this.#pingTimer !== null && this.#streams.size === 0) clearInterval(this.#pingTimer);
  }
}

/** One request on a session, with the contract of `NodeConnection`. */
export class NodeStream {
  readonly #session: NodeSession;
  readonly #onLeft: (stream: NodeStream) => void;
  #stream: ClientHttp2Stream | null = null;
  #handler: NodeExchangeHandler | null = null;
  #sentAtMs = Number.NaN;
  #bytesAtSend = 0;

  constructor(session: NodeSession, onLeft: (stream: NodeStream) => void) {
    this.#session = session;
    this.#onLeft = onLeft;
  }

  /** As `NodeConnection.wasStale`: the node had closed the connection before the request came. */
  get wasStale(): boolean {
    if (this.#session.answers === 0 || this.#session.bytesRead !== this.#bytesAtSend) return false;
    return isLostAtOnce(this.#sentAtMs, this.#session.roundTripMs);
  }

  send({ method, path, headers, body }: NodeRequest, handler: NodeExchangeHandler): void {
    this.#handler = handler;
    const fields: Record<string, string> = { ":method": method, ":path": path };
    for (let at = 0; at < headers.length; at += 2) {
      const name = headers[at] as string;
      if (!CONNECTION_FIELDS.has(name)) fields[name] = headers[at + 1] as string;
    }
    this.#sentAtMs = performance.now();
    this.#bytesAtSend = this.#session.bytesRead;
    loopWatch.use();
    handler.onStart();
    if (this.#handler === null) return;
    const stream = this.#session.request(fields, body !== null);
    if (stream === null) {
      // the session went between the choice and now: nothing was sent
      queueMicrotask(() => this.#fail(new UnsentError("the connection is gone")));
      return;
    }
    this.#stream = stream;
    this.#listen(stream);
    if (body === null) return;
    if (Buffer.isBuffer(body)) stream.end(body);
    else this.#upload(stream, body);
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  /** From now on nobody hears of it. */
  abandon(): void {
    this.#handler = null;
  }

  /** Ends the request, if it runs, without a word, and gives the place back. */
  release(): void {
    this.#handler = null;
    const stream = this.#stream;
    this.#stream = null;
    if (stream !== null && !stream.destroyed && !stream.closed) {
      this.#session.noteReset();
      // an end behind half a body would make it a whole one
      if (stream.writableEnded) stream.close(http2().constants.NGHTTP2_CANCEL);
      else stream.destroy();
    }
    this.#onLeft(this);
  }

  #listen(stream: ClientHttp2Stream): void {
    let declared = Number.NaN;
    let bytes = 0;
    let hasHead = false;
    let isWhole = false;
    // a reset without a reason ends what is read as an END_STREAM does; only Node has closed the stream by then
    const { push } = stream;
    stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (chunk === null && !stream.closed) isWhole = true;
      return push.call(stream, chunk, encoding);
    };
    stream.on("response", (fields) => {
      hasHead = true;
      const { ":status": status = 0 } = fields;
      const headers = headersOf(fields);
      declared = headers["content-length"] === undefined ? Number.NaN : Number(headers["content-length"]);
      this.#handler?.onHead(status, headers);
    });
    stream.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      this.#handler?.onBody(chunk);
      this.#handler?.onReadEnd?.();
    });
    stream.on("end", () => {
      // what ended otherwise has failed, as its close says
      if (!hasHead || !isWhole) return;
      if (bytes < declared) this.#fail(new BadResponseError("the body is shorter than its content-length"));
      else this.#complete();
    });
    stream.on("error", NOTHING);
    stream.on("close", () => {
      const isUnsent = stream.rstCode === http2().constants.NGHTTP2_REFUSED_STREAM || this.#session.isUnseen(stream.id);
      this.#fail(isUnsent ? new UnsentError("the node refused the stream") : LOST);
    });
  }

  #upload(stream: ClientHttp2Stream, body: Readable): void {
    const goOn = (): void => void body.resume();
    stream.on("drain", goOn);
    stream.once("close", () => body.destroy());
    body.on("data", (piece: Buffer) => {
      if (!stream.write(piece)) body.pause();
    });
    body.once("end", () => stream.end());
    body.once("error", () => stream.destroy());
  }

  #complete(): void {
    const handler = this.#handler;
    this.#handler = null;
    if (handler === null) return;
    this.#session.answers += 1;
    handler.onEnd();
  }

  #fail(error: Error): void {
    const handler = this.#handler;
    this.#handler = null;
    handler?.onError(error);
  }
}

/** A session that was told to end gets this long, ms. */
const END_MS = 1000;

const LOST = new Error("the node ended the stream");

const NOTHING = (): void => {};

function headersOf(fields: IncomingHttpHeaders): Record<string, string> {
  const headers: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || name.startsWith(":")) continue;
    headers[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return headers;
}
