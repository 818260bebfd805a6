/**
 * The data port of one worker. The `http.Server` itself listens, so that its own limits on slow heads hold; an HTTP/2
 * preface reaches `clientError` as `HPE_PAUSED_H2_UPGRADE`, where HTTP/2 takes the connection over. Under TLS the
 * handshake says which of the two a connection speaks.
 */

import type { IncomingMessage, Server, ServerOptions } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import { createServer as createNetServer, type ListenOptions, Server as NetServer, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { type SecureContextOptions, TLSSocket } from "node:tls";
import { allowedModels } from "@zml/engine";
import { ERRORS, type ErrorCode, errorBody } from "@zml/protocol/errors";
import { REQUEST_ID_HEADER } from "@zml/protocol/wire";
import { drainBody } from "./admission/read-body.ts";
import { refusalOf } from "./admission/refuse-caller.ts";
import type { CallerRequest, CallerResponse } from "./caller.ts";
import { ConnectionGate } from "./connection-gate.ts";
import { allowOrigin } from "./cross-origin.ts";
import type { DataPlane } from "./data-plane.ts";
import { DenseSet } from "./dense-set.ts";
import { Exchange } from "./exchange.ts";
import { CallerAnswer } from "./http1/caller-answer.ts";
import { CallerSessions, KEY_MARGIN_BYTES, type StreamCall } from "./http2/caller-sessions.ts";
import { type ParserError, PREFACE_ERROR, takeOver } from "./http2/take-over.ts";
import { createServer } from "./node-http.ts";
import { serveRequest } from "./request.ts";
import { INFERENCE_ROUTES, LIVENESS_PATH, MODEL_PREFIX, MODELS_PATH, READINESS_PATH, shapeAt } from "./routes.ts";
import { descriptorOf } from "./takeover/descriptor.ts";
import type { ServerTls } from "./thread-messages.ts";
import { requestIdOf } from "./trace-ids.ts";

/** How often the server looks for heads and requests that are too slow, ms. */
const CHECK_INTERVAL_MS = 1000;

type Options = ServerOptions<typeof IncomingMessage, typeof CallerAnswer>;

export class DataServer {
  readonly #plane: DataPlane;
  readonly #server:
    | Server<typeof IncomingMessage, typeof CallerAnswer>
    | TlsServer<typeof IncomingMessage, typeof CallerAnswer>;
  readonly #sessions: CallerSessions;
  readonly #gate: ConnectionGate;
  readonly #running = new DenseSet<Exchange>();
  /** Connections that end with the answer that is under way. */
  readonly #condemned = new WeakSet<Socket>();
  /** Listeners on further sockets of the gateway that was taken over. */
  readonly #others: NetServer[] = [];
  #isTakenOver = false;
  /** Last request while another process takes over. */
  #askedAtMs = 0;
  #tls: ServerTls | null;
  #onIdle: (() => void) | null = null;

  constructor(plane: DataPlane) {
    this.#plane = plane;
    const { data, limits, tls } = plane.settings;
    this.#tls = tls;
    const options: Options = {
      headersTimeout: data.headMs,
      // bodies have a deadline of their own, which also answers
      requestTimeout: 0,
      connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, data.headMs),
      keepAliveTimeout: data.keepAliveMs,
      maxHeaderSize: limits.headerBytes + KEY_MARGIN_BYTES,
      // checked here, where the answer has a body
      requireHostHeader: false,
      insecureHTTPParser: false,
      noDelay: true,
      ServerResponse: CallerAnswer,
    };
    this.#sessions = new CallerSessions({
      settings: () => plane.settings,
      deadlines: plane.deadlines,
      onCall: (call) => this.#serveStream(call),
    });
    this.#server = tls === null ? createServer(options) : this.#createTlsServer(options, tls, data.headMs);
    this.#gate = new ConnectionGate(plane.connections, plane.log, data);
    this.#limitConnections();
    this.#server.on("request", (request, response) => {
      if (!this.#isRefused(request, response)) this.#serve(request, response, NOTHING);
    });
    this.#server.on("checkContinue", (request, response) => {
      if (!this.#isRefused(request, response)) this.#serve(request, response, () => response.writeContinue());
    });
    this.#server.on("checkExpectation", (request, response) => {
      if (!this.#isRefused(request, response)) this.#refuseExpectation(request, response);
    });
    this.#server.on("clientError", (error, socket) => this.#onClientError(error, socket));
  }

  /** Follows changed limits of the data port; they hold from the next head and the next idle connection on. */
  applySettings(): void {
    const { data, tls } = this.#plane.settings;
    this.#server.headersTimeout = data.headMs;
    this.#server.keepAliveTimeout = data.keepAliveMs;
    this.#sessions.applySettings();
    this.#gate.setLimits(data);
    if (tls === null || tls === this.#tls || !("setSecureContext" in this.#server)) return;
    this.#tls = tls;
    // connections that are open keep the certificate that they began with
    this.#server.setSecureContext(secureContextOf(tls));
  }

  /** Requests of routed endpoints that run. */
  get runningCount(): number {
    return this.#running.size;
  }

  /**
   * Listens; several workers share a port.
   *
   * @param taken listening sockets of a gateway that runs, by descriptor: they are used in place of one of our own.
   * @returns the port, which the system chose when `port` is 0, and the descriptor of the listening socket. Rejects when
   *   the address can't be had.
   */
  async listen(
    host: string,
    port: number,
    taken: readonly number[] = [],
  ): Promise<{ port: number; fd: number | null }> {
    const [first, ...others] = taken;
    await listenOn(this.#server, first === undefined ? { host, port, reusePort: true } : { fd: first });
    for (const fd of others) {
      // a worker less than the other gateway had: its queue is served as well
      const server = createNetServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
        this.#server.emit("connection", socket);
      });
      await listenOn(server, { fd });
      this.#others.push(server);
    }
    const address = this.#server.address();
    return {
      port: typeof address === "object" && address !== null ? address.port : port,
      fd: descriptorOf(this.#server),
    };
  }

  /**
   * Stops accepting, lets running requests end for `graceMs`, then ends them visibly.
   *
   * @param isTakenOver another process accepts on the same sockets: whoever has a connection here is served on it once
   *   more and told to make another one, and nobody who waits for room is sent away.
   * @returns how many had to be ended.
   */
  async drain(graceMs: number, isTakenOver = false): Promise<number> {
    const endMs = performance.now() + graceMs;
    this.#plane.isDraining = true;
    this.#isTakenOver = isTakenOver;
    for (const server of this.#others) server.close();
    if (isTakenOver) {
      // only the listening socket: the server's own close would end idle connections under the callers' hands
      NetServer.prototype.close.call(this.#server);
      void this.#sessions.drain({ isPolite: true });
      await this.#untilLeft(endMs);
    } else {
      this.#plane.parked.stop();
      this.#server.close();
      await Promise.race([this.#sessions.drain({ isPolite: false }), delay(graceMs, undefined, { ref: false })]);
    }
    this.#server.closeIdleConnections();
    if (this.#running.size > 0) await this.#idleWithin(Math.max(0, endMs - performance.now()));
    const interrupted = this.#running.size;
    this.#plane.parked.stop();
    for (const exchange of this.#running.snapshot()) exchange.interrupt("shutting_down");
    if (this.#running.size > 0) await this.#idleWithin(FLUSH_MS);
    this.#server.closeAllConnections();
    this.#sessions.destroy();
    return interrupted;
  }

  /** Ends all of it now, without a word: the thread is about to end. */
  abandon(): void {
    this.#server.close();
    for (const server of this.#others) server.close();
    this.#server.closeAllConnections();
    this.#sessions.abandon();
  }

  /** Until no connection is left, or those that are have been idle for a while. */
  async #untilLeft(endMs: number): Promise<void> {
    this.#askedAtMs = performance.now();
    while (this.#gate.open > 0) {
      const nowMs = performance.now();
      if (nowMs >= endMs || (this.#running.size === 0 && nowMs - this.#askedAtMs > IDLE_MS)) return;
      await delay(LOOK_EVERY_MS);
    }
  }

  /** What the server does with an accepted connection begins only for those that are let in. */
  #limitConnections(): void {
    const begin = this.#server.listeners("connection");
    this.#server.removeAllListeners("connection");
    this.#server.on("connection", (socket: Socket) => {
      if (!this.#gate.admit(socket)) return;
      for (const listener of begin) listener.call(this.#server, socket);
    });
  }

  #createTlsServer(
    options: Options,
    tls: ServerTls,
    handshakeTimeout: number,
  ): TlsServer<typeof IncomingMessage, typeof CallerAnswer> {
    const server = createTlsServer({
      ...options,
      ...secureContextOf(tls),
      requestCert: tls.clientCa !== null,
      rejectUnauthorized: tls.clientCa !== null,
      ALPNProtocols: ["h2", "http/1.1"],
      handshakeTimeout,
    });
    const [serveHttp1] = server.listeners("secureConnection");
    server.removeAllListeners("secureConnection");
    server.on("secureConnection", (socket) => {
      // a handshake that ends behind the last look at open connections would leave one for ever
      if (this.#plane.isDraining) socket.destroy();
      else if (socket.alpnProtocol === "h2") this.#sessions.accept(socket);
      else serveHttp1?.call(server, socket);
    });
    // a handshake that failed has nobody who would read an answer
    server.removeAllListeners("tlsClientError");
    server.on("tlsClientError", (_error, socket) => socket.destroy());
    return server;
  }

  #idleWithin(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#onIdle = null;
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#onIdle = done;
    });
  }

  /** True for a message that is not to be served: it is answered, unless it came behind one that ends its connection. */
  #isRefused(request: IncomingMessage, response: CallerAnswer): boolean {
    if (this.#isTakenOver) {
      this.#askedAtMs = performance.now();
      response.shouldKeepAlive = false;
    }
    // nothing behind a request whose end two readers could see in two places is a request
    if (this.#condemned.has(request.socket)) return true;
    const isPlain = hasPlainFraming(request);
    if (isPlain && hasOneHost(request)) return false;
    if (!isPlain) this.#condemned.add(request.socket);
    response.setHeader("connection", "close");
    this.#answer(request, response, "bad_request", ERRORS.bad_request.message());
    return true;
  }

  #serveStream({ request, response, isAcceptable, sendContinue }: StreamCall): void {
    const { expect } = request.headers;
    if (!isAcceptable) this.#answer(request, response, "bad_request", ERRORS.bad_request.message());
    else if (expect === undefined) this.#serve(request, response, NOTHING);
    else if (expect.toLowerCase() === "100-continue") this.#serve(request, response, sendContinue);
    else this.#refuseExpectation(request, response);
    // an answer that was given at once, by no exchange that would watch it
    if (response.writableEnded && response.socket !== null && response.socket.writableLength > 0) {
      response.socket.setTimeout(this.#plane.settings.timeouts.slowClientMs);
    }
  }

  #refuseExpectation(request: CallerRequest, response: CallerResponse): void {
    const expect = request.headers.expect ?? "";
    this.#answer(request, response, "expectation_failed", ERRORS.expectation_failed.message({ expect }));
  }

  #serve(request: CallerRequest, response: CallerResponse, beforeBody: () => void): void {
    if (allowOrigin(request, response, this.#plane.settings.data.corsOrigins)) return;
    if (this.#refuseLargeHead(request, response)) return;
    const { path } = splitTarget(request.url ?? "");
    const route = INFERENCE_ROUTES.get(path);
    if (route === undefined) {
      this.#serveOther(request, response, path);
      return;
    }
    const plane = this.#plane;
    const exchange = new Exchange(route, request, response, {
      startedAtMs: plane.clock.nowMs(),
      slowClientMs: plane.settings.timeouts.slowClientMs,
      isDraining: () => plane.isDraining,
      observer: plane.observer,
    });
    if (request.method !== "POST") {
      exchange.routing = { reason: "refused" };
      response.setHeader("allow", "POST");
      const message = ERRORS.method_not_allowed.message({ method: request.method ?? "", allow: ["POST"] });
      exchange.fail("method_not_allowed", message, hasBody(request) ? this.#leaveBody(request) : {});
      return;
    }
    this.#running.add(exchange);
    // an answer is over when its last byte is out, so that a drain waits for it
    serveRequest(plane, exchange, beforeBody).then(() => exchange.onceOver(() => this.#ended(exchange)));
  }

  /** What the parser lets through beyond the limit, so that a caller whose key alone is that large hears of its key. */
  #refuseLargeHead(request: CallerRequest, response: CallerResponse): boolean {
    const { headerBytes } = this.#plane.settings.limits;
    if (headLength(request) <= headerBytes) return false;
    const caller = this.#plane.keys.identify(request.rawHeaders);
    response.setHeader("connection", "close");
    if (caller.kind === "invalid") {
      const { code, message } = refusalOf(caller);
      this.#answer(request, response, code, message);
    } else {
      const message = ERRORS.header_too_large.message({ limitBytes: headerBytes });
      this.#answer(request, response, "header_too_large", message);
    }
    return true;
  }

  #ended(exchange: Exchange): void {
    this.#running.delete(exchange);
    if (this.#running.size === 0) this.#onIdle?.();
  }

  #serveOther(request: CallerRequest, response: CallerResponse, path: string): void {
    if (path === LIVENESS_PATH || path === READINESS_PATH) {
      if (!isRead(request)) return this.#refuseMethod(request, response);
      const isReady = path === LIVENESS_PATH || !this.#plane.isDraining || this.#isTakenOver;
      response.writeHead(isReady ? 200 : 503, { "content-type": "text/plain" }).end(isReady ? "ok\n" : "draining\n");
      return;
    }
    if (path === MODELS_PATH || path.startsWith(MODEL_PREFIX)) {
      if (!isRead(request)) return this.#refuseMethod(request, response);
      this.#serveModels(request, response, path);
      return;
    }
    this.#answer(request, response, "not_found", ERRORS.not_found.message({ path }));
  }

  #serveModels(request: CallerRequest, response: CallerResponse, path: string): void {
    const caller = this.#plane.keys.identify(request.rawHeaders);
    if (caller.kind !== "known") {
      const { code, message } = refusalOf(caller);
      return this.#answer(request, response, code, message);
    }
    const names = allowedModels(this.#plane.directory.accounts.get(caller.rights.account), caller.rights);
    if (path === MODELS_PATH) {
      this.#sendJson(request, response, 200, { object: "list", data: names.map(modelObject) });
      return;
    }
    const name = decodeName(path.slice(MODEL_PREFIX.length));
    if (names.includes(name)) this.#sendJson(request, response, 200, modelObject(name));
    else
      this.#answer(request, response, "model_not_found", ERRORS.model_not_found.message({ model: name, known: names }));
  }

  /** An answer of this connection is under way: what came behind its request may not be answered into it. */
  #isAnswering(socket: Duplex): boolean {
    for (const { request, response } of this.#running.snapshot()) {
      if ((request.socket as unknown) === socket && response.headersSent) return true;
    }
    return false;
  }

  #refuseMethod(request: CallerRequest, response: CallerResponse): void {
    response.setHeader("allow", "GET, HEAD");
    const message = ERRORS.method_not_allowed.message({ method: request.method ?? "", allow: ["GET", "HEAD"] });
    this.#answer(request, response, "method_not_allowed", message);
  }

  #answer(request: CallerRequest, response: CallerResponse, code: ErrorCode, message: string): void {
    const shape = shapeAt(splitTarget(request.url ?? "").path);
    this.#sendJson(request, response, ERRORS[code].status, errorBody(shape, code, { message }));
  }

  #sendJson(request: CallerRequest, response: CallerResponse, status: number, value: unknown): void {
    const body = JSON.stringify(value);
    response.setHeader(REQUEST_ID_HEADER, requestIdOf(request));
    response.setHeader("content-type", "application/json");
    response.setHeader("content-length", Buffer.byteLength(body));
    if (!hasBody(request) || request.httpVersionMajor === 2) {
      response.writeHead(status).end(body);
      return;
    }
    response.writeHead(status, { connection: "close" }).write(body);
    this.#leaveBody(request).closeAfter.then(() => response.end());
  }

  /** For an answer that comes before the body has been read. */
  #leaveBody(request: CallerRequest): { mustClose: true; closeAfter: Promise<void> } {
    const { data, limits } = this.#plane.settings;
    const bounds = { limitBytes: limits.bodyBytes, deadlineMs: data.bodyMs };
    return { mustClose: true, closeAfter: drainBody(request, bounds) };
  }

  #onClientError(error: ParserError, socket: Duplex): void {
    if (error.code === PREFACE_ERROR && socket.writable && socket instanceof Socket && !(socket instanceof TLSSocket)) {
      if (takeOver(socket, error)) {
        this.#gate.watch(socket);
        return this.#sessions.accept(socket);
      }
    }
    this.#refuseConnection(error, socket);
  }

  #refuseConnection(error: ParserError, socket: Duplex): void {
    if (!socket.writable || error.code === "ECONNRESET" || this.#isAnswering(socket)) {
      socket.destroy();
      return;
    }
    const code = connectionErrorCode(error.code ?? "");
    const message =
      code === "header_too_large"
        ? ERRORS.header_too_large.message({ limitBytes: this.#plane.settings.limits.headerBytes })
        : code === "body_timeout"
          ? ERRORS.body_timeout.message({ limitMs: this.#plane.settings.data.headMs })
          : ERRORS.bad_request.message();
    const body = JSON.stringify(errorBody("openai", code, { message }));
    const { status } = ERRORS[code];
    socket.end(
      `HTTP/1.1 ${status} Error\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
    );
  }
}

/** What an interrupted answer gets to leave the process, ms. */
const FLUSH_MS = 1000;

/** A caller who has not used its connection for so long keeps it for later: it is closed as any idle one, ms. */
const IDLE_MS = 5_000;

/** How often a process that was taken over looks whether its connections are gone, ms. */
const LOOK_EVERY_MS = 50;

/** Connections that wait to be accepted. */
const BACKLOG = 4096;

const NOTHING = (): void => {};

function listenOn(server: NetServer, where: ListenOptions & { fd?: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ ...where, backlog: BACKLOG }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function secureContextOf({ cert, key, clientCa, minVersion }: ServerTls): SecureContextOptions {
  return { cert, key, minVersion: `TLSv${minVersion}`, ...(clientCa === null ? {} : { ca: clientCa }) };
}

function connectionErrorCode(code: string): "header_too_large" | "body_timeout" | "bad_request" {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return "header_too_large";
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return "body_timeout";
    default:
      return "bad_request";
  }
}

function splitTarget(target: string): { path: string } {
  const query = target.indexOf("?");
  return { path: query < 0 ? target : target.slice(0, query) };
}

/** RFC 9112, 3.2: no host, or several, is a bad request; HTTP/1.0 has none. */
function hasOneHost({ rawHeaders, httpVersionMinor }: IncomingMessage): boolean {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
  }
  return hosts === 1 || (hosts === 0 && httpVersionMinor === 0);
}

/** Characters of a request's fields and target, with what stands between them. */
function headLength({ rawHeaders, url }: CallerRequest): number {
  let length = url?.length ?? 0;
  for (let at = 0; at < rawHeaders.length; at++) length += (rawHeaders[at] as string).length + 2;
  return length;
}

/**
 * RFC 9112, 6.1: a transfer coding that is not known is refused. The parser takes whatever ends with `chunked`; a reader in
 * front of us that does not would see the end of the body elsewhere.
 */
function hasPlainFraming({ headers }: IncomingMessage): boolean {
  const coding = headers["transfer-encoding"];
  return coding === undefined || coding.toLowerCase() === "chunked";
}

function hasBody({ headers }: CallerRequest): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function isRead(request: CallerRequest): boolean {
  return request.method === "GET" || request.method === "HEAD";
}

function modelObject(name: string): Record<string, unknown> {
  return { id: name, object: "model", created: 0, owned_by: "zml" };
}

/** Model names may hold slashes and anything else; a broken escape is a name that nothing has. */
function decodeName(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
