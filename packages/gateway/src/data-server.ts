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
import { ERRORS } from "@zml/protocol/errors";
import type { CallerRequest, CallerResponse } from "./caller.ts";
import { ConnectionGate } from "./connection-gate.ts";
import { allowOrigin } from "./cross-origin.ts";
import type { DataPlane } from "./data-plane.ts";
import { DenseSet } from "./dense-set.ts";
import { Exchange } from "./exchange.ts";
import { CallerAnswer } from "./http1/caller-answer.ts";
import { refuseConnection } from "./http1/refuse-connection.ts";
import { CallerSessions, KEY_MARGIN_BYTES, type StreamCall } from "./http2/caller-sessions.ts";
import { type ParserError, PREFACE_ERROR, takeOver } from "./http2/take-over.ts";
import { createServer } from "./node-http.ts";
import { OwnAnswers } from "./own-answers.ts";
import { serveRequest } from "./request.ts";
import { hasBody, hasOneHost, hasPlainFraming, pathOf } from "./request-head.ts";
import { INFERENCE_ROUTES } from "./routes.ts";
import { descriptorOf } from "./takeover/descriptor.ts";
import type { ServerTls } from "./thread-messages.ts";

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
  readonly #answers: OwnAnswers;
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
    this.#answers = new OwnAnswers(plane, () => !plane.isDraining || this.#isTakenOver);
    this.#gate = new ConnectionGate(plane.connections, plane.log, data);
    this.#limitConnections();
    this.#server.on("request", (request, response) => {
      if (!this.#isRefused(request, response)) this.#serve(request, response, NOTHING);
    });
    this.#server.on("checkContinue", (request, response) => {
      if (!this.#isRefused(request, response)) this.#serve(request, response, () => response.writeContinue());
    });
    this.#server.on("checkExpectation", (request, response) => {
      if (!this.#isRefused(request, response)) this.#answers.refuseExpectation(request, response);
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
    this.#answers.refuse(request, response, "bad_request", ERRORS.bad_request.message());
    return true;
  }

  #serveStream({ request, response, isAcceptable, sendContinue }: StreamCall): void {
    const { expect } = request.headers;
    if (!isAcceptable) this.#answers.refuse(request, response, "bad_request", ERRORS.bad_request.message());
    else if (expect === undefined) this.#serve(request, response, NOTHING);
    else if (expect.toLowerCase() === "100-continue") this.#serve(request, response, sendContinue);
    else this.#answers.refuseExpectation(request, response);
    // an answer that was given at once, by no exchange that would watch it
    if (response.writableEnded && response.socket !== null && response.socket.writableLength > 0) {
      response.socket.setTimeout(this.#plane.settings.timeouts.slowClientMs);
    }
  }

  #serve(request: CallerRequest, response: CallerResponse, beforeBody: () => void): void {
    if (allowOrigin(request, response, this.#plane.settings.data.corsOrigins)) return;
    if (this.#answers.refuseLargeHead(request, response)) return;
    const path = pathOf(request);
    const route = INFERENCE_ROUTES.get(path);
    if (route === undefined) {
      this.#answers.serve(request, response, path);
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
      exchange.fail("method_not_allowed", message, hasBody(request) ? this.#answers.leaveBody(request) : {});
      return;
    }
    this.#running.add(exchange);
    // an answer is over when its last byte is out, so that a drain waits for it
    serveRequest(plane, exchange, beforeBody).then(() => exchange.onceOver(() => this.#ended(exchange)));
  }

  #ended(exchange: Exchange): void {
    this.#running.delete(exchange);
    if (this.#running.size === 0) this.#onIdle?.();
  }

  /** An answer of this connection is under way: what came behind its request may not be answered into it. */
  #isAnswering(socket: Duplex): boolean {
    for (const { request, response } of this.#running.snapshot()) {
      if ((request.socket as unknown) === socket && response.headersSent) return true;
    }
    return false;
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
    const { limits, data } = this.#plane.settings;
    refuseConnection(socket, error.code ?? "", { headerBytes: limits.headerBytes, headMs: data.headMs });
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
