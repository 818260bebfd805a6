/**
 * HTTP/2 connections of callers: their limits, their idle time, their end in a drain. Requests of their streams go the way
 * of all others.
 *
 * What `nghttp2` bounds by itself, with what we set: streams at one time, size of a head, CONTINUATION frames of one head
 * (8), resets (CVE-2023-44487), malformed frames, acknowledgments that a caller does not read. It counts no frames that
 * are well-formed and answered: PING and SETTINGS are counted here.
 */

import type { Http2Server, IncomingHttpHeaders, ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { CallerRequest, CallerResponse } from "../caller.ts";
import type { Deadline, Deadlines } from "../deadlines.ts";
import type { WorkerSettings } from "../thread-messages.ts";
import { callerRequestOf, StreamResponse } from "./caller-stream.ts";
import { http2 } from "./on-use.ts";

/** A request on a stream; `isAcceptable` is false for one whose head breaks a rule that `nghttp2` does not know. */
export interface StreamCall {
  readonly request: CallerRequest;
  readonly response: CallerResponse;
  readonly isAcceptable: boolean;
  /** Interim answer 100. */
  sendContinue(): void;
}

/** A caller gets this long to hear of a GOAWAY: to answer the PING behind it, or to send what it had begun, ms. */
const GOAWAY_ROUND_TRIP_MS = 1000;

/** In a takeover a connection of TLS that has no request gets this long to ask once more, ms. */
const LAST_CALL_MS = 3000;

/** Where there is time, a caller who is too busy to read gets this long to hear of a GOAWAY, ms. */
const GOAWAY_HEARD_MS = 5000;

/** A GOAWAY of 8 bytes on stream 0: the highest id that there is, NO_ERROR. */
const GOAWAY_NOTICE = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/** A connection that was told to end gets this long to take what is left, ms. */
const CLOSE_MS = 1000;

/** What a GOAWAY gets to leave the process, ms. */
const FLUSH_MS = 100;

/** Header fields of a head: bounded by its size, of which each takes 32 bytes at least. */
const HEADER_FIELDS_MAX = 4096;

/**
 * What a head may have beyond `limits.header_bytes`: room for the other fields of a request whose key alone is as large as
 * that, so that such a caller too is told about its key.
 */
export const KEY_MARGIN_BYTES = 2048;

export class CallerSessions {
  readonly #settings: () => WorkerSettings;
  readonly #deadlines: Deadlines;
  readonly #onCall: (call: StreamCall) => void;
  readonly #sessions = new Set<CallerSession>();
  /** Null until the first connection, and after a change of limits. */
  #server: Http2Server | null = null;
  #isDraining = false;
  #isPolite = false;
  /** Of the session that is being made: a session gives its socket to nobody. */
  #accepting: Socket | null = null;

  constructor(options: {
    settings: () => WorkerSettings;
    deadlines: Deadlines;
    onCall: (call: StreamCall) => void;
  }) {
    this.#settings = options.settings;
    this.#deadlines = options.deadlines;
    this.#onCall = options.onCall;
  }

  /** Open connections. */
  get count(): number {
    return this.#sessions.size;
  }

  /** Follows changed limits: they hold for connections that are made from now on. */
  applySettings(): void {
    this.#server = null;
  }

  /** A connection that speaks HTTP/2 from here on; the preface is still to be read. */
  accept(socket: Socket): void {
    this.#accepting = socket;
    this.#server ??= this.#createServer();
    this.#server.emit("connection", socket);
    this.#accepting = null;
  }

  /**
   * No new requests; those that run may end.
   *
   * @param isPolite there is time: also who is slow to read hears of it before it is refused.
   * @returns settles when every caller has been told how far we came.
   */
  async drain({ isPolite }: { isPolite: boolean }): Promise<void> {
    this.#isDraining = true;
    this.#isPolite = isPolite;
    await Promise.all(Array.from(this.#sessions, (session) => session.drain(isPolite)));
  }

  /** Ends all connections now, with what they still had to say. */
  abandon(): void {
    for (const session of this.#sessions) session.abandon();
  }

  /** Ends all connections now. */
  destroy(): void {
    for (const session of this.#sessions) session.destroy();
  }

  #createServer(): Http2Server {
    const { data, limits } = this.#settings();
    const server = http2().createServer({
      settings: {
        maxConcurrentStreams: data.http2.maxStreams,
        initialWindowSize: data.http2.streamWindowBytes,
        maxHeaderListSize: limits.headerBytes + KEY_MARGIN_BYTES,
        enablePush: false,
      },
      maxHeaderListPairs: HEADER_FIELDS_MAX,
      maxSessionMemory: Math.ceil(data.http2.connectionMemoryBytes / 1e6),
      streamResetBurst: data.http2.resetBurst,
      streamResetRate: data.http2.resetsPerSecond,
    });
    server.on("session", (session) => this.#open(session));
    // what is wrong with a connection concerns nobody else
    server.on("sessionError", NOTHING);
    return server;
  }

  #open(session: ServerHttp2Session): void {
    if (this.#accepting === null) throw new Error("sessions are made of accepted sockets only");
    const entry = new CallerSession(session, this.#accepting, this.#settings().data, this.#deadlines, this.#onCall);
    this.#sessions.add(entry);
    session.once("close", () => {
      entry.end();
      this.#sessions.delete(entry);
    });
    if (this.#isDraining) void entry.drain(this.#isPolite);
  }
}

class CallerSession {
  readonly #session: ServerHttp2Session;
  readonly #socket: Socket;
  readonly #limits: WorkerSettings["data"];
  readonly #deadlines: Deadlines;
  readonly #onCall: (call: StreamCall) => void;
  #streams = 0;
  /** Runs while no stream is open. */
  #idle: Deadline | null = null;
  #closing: NodeJS.Timeout | null = null;
  #isClosing = false;
  #isEnded = false;
  /** Its next request is its last one. */
  #isLastCall = false;
  #onTold: (() => void) | null = null;
  #controlFrames = 0;
  #controlFromMs = performance.now();

  constructor(
    session: ServerHttp2Session,
    socket: Socket,
    limits: WorkerSettings["data"],
    deadlines: Deadlines,
    onCall: (call: StreamCall) => void,
  ) {
    this.#session = session;
    this.#socket = socket;
    this.#limits = limits;
    this.#deadlines = deadlines;
    this.#onCall = onCall;
    session.setLocalWindowSize(limits.http2.connectionWindowBytes);
    session.on("stream", (stream, headers, _flags, rawHeaders) => this.#take(stream, headers, rawHeaders));
    session.on("ping", () => this.#countControlFrame());
    session.on("remoteSettings", () => this.#countControlFrame());
    // a connection without a request is one with a slow head
    this.#idle = deadlines.start(limits.headMs, () => this.#close());
  }

  /**
   * In clear text: a GOAWAY that refuses nothing yet, and one round trip later the one that says how far we came
   * (RFC 9113, 6.8). Behind a GOAWAY of its own, even one with the highest id, `nghttp2` takes no stream any more and says
   * nothing, so that the first one is a frame that it does not know of: a clear-text socket takes it between its writes,
   * each of whole frames.
   *
   * TLS has one write at a time, so that there is but the last GOAWAY, and what crosses it is refused as never looked at.
   * It leaves while a request runs: a caller who waits for its answer sends nothing that would cross it.
   *
   * @returns settles when the last GOAWAY is on its way, or the connection is gone.
   */
  drain(isPolite: boolean): Promise<void> {
    if (this.#isClosing || this.#session.destroyed) return Promise.resolve();
    const told = new Promise<void>((resolve) => {
      this.#onTold = resolve;
    });
    if (!(this.#socket instanceof TLSSocket)) this.#giveNotice(isPolite);
    else if (this.#streams > 0 || !isPolite) this.#close();
    else {
      this.#isLastCall = true;
      this.#closeIn(LAST_CALL_MS);
    }
    return told;
  }

  /** It has been idle for long enough: as a drain, for this one. */
  #retire(): void {
    if (this.#socket instanceof TLSSocket) this.#close();
    // who goes on asking is told once, and closed all the same
    else if (this.#closing === null) this.#giveNotice(false);
  }

  #giveNotice(isPolite: boolean): void {
    this.#closeIn(isPolite ? GOAWAY_HEARD_MS : GOAWAY_ROUND_TRIP_MS);
    // the first frame of a connection is our SETTINGS (RFC 9113, 3.4), which `nghttp2` may not have sent so far
    if (this.#session.pendingSettingsAck) this.#session.once("localSettings", () => this.#sendNotice(isPolite));
    else this.#sendNotice(isPolite);
  }

  #sendNotice(isPolite: boolean): void {
    if (this.#isClosing || this.#session.destroyed) return;
    this.#socket.write(GOAWAY_NOTICE);
    // a client may answer the PING before it sends what it has already begun, which is served where there is time
    this.#session.ping(() => this.#closeIn(isPolite ? GOAWAY_ROUND_TRIP_MS : 0));
  }

  /** Not before what has come by then was read: a thread that was held up looks at its clock first. */
  #closeIn(ms: number): void {
    if (this.#isClosing || this.#session.destroyed) return;
    if (this.#closing !== null) clearTimeout(this.#closing);
    this.#closing = setTimeout(() => setImmediate(() => this.#close()), ms);
  }

  /** Ends the connection now; what is written may leave. */
  destroy(): void {
    if (!this.#session.destroyed) this.#session.destroy();
    // a session that was closed leaves its socket to the caller, who may not close it, or not even read
    if (this.#closing !== null) clearTimeout(this.#closing);
    this.#closing = setTimeout(() => this.#socket.destroy(), FLUSH_MS);
  }

  /** Ends the connection now, whatever is written. */
  abandon(): void {
    this.#socket.destroy();
  }

  /** The connection is gone. */
  end(): void {
    this.#isEnded = true;
    this.#isClosing = true;
    this.#onTold?.();
    this.#stopIdle();
    if (this.#closing !== null) clearTimeout(this.#closing);
  }

  #take(stream: Parameters<typeof callerRequestOf>[0], headers: IncomingHttpHeaders, rawHeaders: string[]): void {
    this.#stopIdle();
    this.#streams += 1;
    // what came in the same read is served as well
    if (this.#isLastCall) setImmediate(() => this.#close());
    // a stream's fault is its close, which says it all
    stream.on("error", NOTHING);
    stream.once("close", () => {
      this.#streams -= 1;
      if (this.#streams > 0 || this.#isEnded) return;
      if (this.#isClosing || this.#session.destroyed) this.#endWithin(CLOSE_MS);
      else this.#idle = this.#deadlines.start(this.#limits.keepAliveMs, () => this.#retire());
    });
    const response = new StreamResponse(stream, headers[":method"] === "HEAD");
    this.#onCall({
      request: callerRequestOf(stream, { headers, rawHeaders }, response),
      response,
      isAcceptable: hasOneAuthority(rawHeaders),
      sendContinue: () => {
        if (!stream.headersSent && !stream.closed) stream.additionalHeaders({ ":status": 100 });
      },
    });
  }

  /** A token bucket of one second's frames, and ten times as many at once. */
  #countControlFrame(): void {
    const perSecond = this.#limits.http2.controlFramesPerSecond;
    const nowMs = performance.now();
    const drained = ((nowMs - this.#controlFromMs) / 1000) * perSecond;
    this.#controlFrames = Math.max(0, this.#controlFrames - drained) + 1;
    this.#controlFromMs = nowMs;
    if (this.#controlFrames > perSecond * CONTROL_BURST_SECONDS) {
      this.#session.destroy(new Error("too many control frames"), http2().constants.NGHTTP2_ENHANCE_YOUR_CALM);
      this.destroy();
    }
  }

  /** GOAWAY; streams that run go on, and the connection ends with the last of them. */
  #close(): void {
    if (this.#closing !== null) clearTimeout(this.#closing);
    this.#closing = null;
    const session = this.#session;
    if (this.#isClosing || session.destroyed) return;
    this.#isClosing = true;
    this.#stopIdle();
    session.close();
    this.#onTold?.();
    if (this.#streams === 0) this.#endWithin(CLOSE_MS);
  }

  /** A caller who does not read keeps no connection open. */
  #endWithin(ms: number): void {
    if (this.#closing !== null) clearTimeout(this.#closing);
    this.#closing = setTimeout(() => {
      this.#closing = null;
      this.destroy();
    }, ms);
  }

  #stopIdle(): void {
    if (this.#idle !== null) this.#deadlines.stop(this.#idle);
    this.#idle = null;
  }
}

/** Seconds' worth of control frames that may come at once. */
const CONTROL_BURST_SECONDS = 10;

const NOTHING = (): void => {};

/** RFC 9113, 8.3.1: `:authority`, or one `host`; both only if they say the same. */
function hasOneAuthority(rawHeaders: readonly string[]): boolean {
  let authority: string | null = null;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name !== ":authority" && name !== "host") continue;
    const value = (rawHeaders[at + 1] as string).toLowerCase();
    if (value === "" || (authority !== null && authority !== value)) return false;
    authority = value;
  }
  return authority !== null;
}
