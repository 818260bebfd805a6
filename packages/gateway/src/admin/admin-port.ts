/**
 * The admin port. It listens with `node:http`, answers probes and everything that is refused at the door, and hands the
 * rest to the app, which is loaded for the first request that gets this far: an idle gateway pays for neither its memory
 * nor its time to load.
 */

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { ListenAddress } from "@zml/protocol";
import { ADMIN_PROBLEMS, PROBLEM_TYPE, problemBody } from "@zml/protocol/admin/problem-codes";
import type { GatewayLog } from "../control/gateway-log.ts";
import { listenError } from "../control/port-probe.ts";
import { createServer } from "../node-http.ts";
import { PAGES_FOLDER } from "../pages-folder.ts";
import { descriptorOf } from "../takeover/descriptor.ts";
import { drawTraceContext, requestIdOf } from "../trace-ids.ts";
import { AdminProblem } from "./admin-problem.ts";
import type { AdminSources } from "./admin-sources.ts";
import { authenticate, authorize, isOpen, type Principal } from "./authorize.ts";
import { GUARD_HEADERS, refuseCrossSite, refuseForeignHost } from "./browser-guard.ts";
import { DashboardFiles } from "./dashboard-files.ts";

/** A head that is not complete after this long ends its connection, ms. */
const HEAD_MS = 10_000;
/** Idle connections are closed after this long, ms: tools ask a few times and go. */
const KEEP_ALIVE_MS = 5_000;
/** How often the server looks for heads and requests that are too slow, ms. */
const CHECK_INTERVAL_MS = 1_000;
/** Twice the largest key that is answered with a 401 in place of a 431: 64 KiB. */
const HEAD_BYTES = 128 * 1024;

/** Limits of the port. */
export interface AdminLimits {
  /** Largest body of a change of many objects, bytes. */
  readonly bodyBytes: number;
  /** A request that has not arrived after this long is refused, ms. */
  readonly requestMs: number;
  /** Open connections; further ones are closed. */
  readonly connections: number;
}

/** Answers what has passed the door. */
export interface AdminApp {
  serve(request: IncomingMessage, response: ServerResponse, caller: AdminCaller): void;
}

/** What the door found out. */
export interface AdminCaller {
  readonly principal: Principal;
  readonly requestId: string;
}

export class AdminPort {
  readonly #sources: AdminSources;
  readonly #log: GatewayLog;
  readonly #server: Server;
  #host = "";
  readonly #pages = new DashboardFiles(PAGES_FOLDER);
  #app: { readonly bodyBytes: number; readonly loaded: Promise<AdminApp> } | null = null;

  constructor(sources: AdminSources) {
    this.#sources = sources;
    this.#log = sources.log;
    const { requestMs, connections } = sources.limits();
    const options = {
      headersTimeout: Math.min(HEAD_MS, requestMs),
      requestTimeout: requestMs,
      connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, requestMs),
      keepAliveTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: HEAD_BYTES,
      // Node's own answer to a missing one has no body
      requireHostHeader: false,
    };
    this.#server = createServer(options, (request, response) => this.#serve(request, response));
    this.#server.maxConnections = connections;
    this.#server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
      const detail = "expect can't be met: send 100-continue, or leave that header out";
      this.#refuse(request, response, requestIdOf(request), new AdminProblem("expectation_failed", detail));
    });
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket) => answerBadHttp(error, socket, requestMs));
  }

  /** Whether the app has been loaded. */
  get hasApp(): boolean {
    return this.#app !== null;
  }

  /**
   * Starts to listen.
   *
   * @param taken the listening socket of a gateway that this one takes over, by descriptor.
   * @returns the port, chosen by the system when `address.port` is 0.
   * @throws StartError when the address can't be had.
   */
  async listen(address: ListenAddress, taken: number | null = null): Promise<number> {
    this.#host = address.host;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (error) => reject(listenError(error, address, "admin.listen")));
      this.#server.listen(taken === null ? { host: address.host, port: address.port } : { fd: taken }, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** Its listening socket, by descriptor; null: it can't be told. */
  get socket(): number | null {
    return descriptorOf(this.#server);
  }

  /** Follows changed limits; they hold from the next request and the next connection on. */
  applyLimits(): void {
    const { requestMs, connections } = this.#sources.limits();
    this.#server.headersTimeout = Math.min(HEAD_MS, requestMs);
    this.#server.requestTimeout = requestMs;
    this.#server.maxConnections = connections;
  }

  async close(): Promise<void> {
    if (this.#server.listening) {
      await new Promise<void>((resolve) => {
        this.#server.close(() => resolve());
        this.#server.closeAllConnections();
      });
    }
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const requestId = requestIdOf(request);
    response.setHeader("x-request-id", requestId);
    for (const [name, value] of Object.entries(GUARD_HEADERS)) response.setHeader(name, value);
    const [path = "/"] = (request.url ?? "/").split("?", 1);
    try {
      if (path === "/healthz" || path === "/readyz") {
        this.#probe(path, request, response);
        return;
      }
      holdToOneHost(request);
      if (DashboardFiles.has(path)) {
        this.#page(path, request, response, requestId);
        return;
      }
      const principal = this.#admit(request);
      if (path === "/metrics") {
        this.#metrics(principal, request, response);
        return;
      }
      this.#appOnUse().then(
        (app) => app.serve(request, response, { principal, requestId }),
        (error: unknown) => this.#refuse(request, response, requestId, error),
      );
    } catch (error) {
      this.#refuse(request, response, requestId, error);
    }
  }

  /** @throws AdminProblem for whoever may not ask for anything here. */
  #admit(request: IncomingMessage): Principal {
    const access = this.#sources.access();
    if (isOpen(access, this.#host) && !access.allowUnauthenticated) {
      refuseForeignHost(request.headers.host, this.#host);
    }
    refuseCrossSite(request.method ?? "GET", request.headers);
    return authenticate(request, access, { listenHost: this.#host, unixMs: Date.now() });
  }

  #probe(path: "/healthz" | "/readyz", request: IncomingMessage, response: ServerResponse): void {
    onlyRead(request);
    const isReady = path === "/healthz" || this.#sources.isReady();
    const status = path === "/healthz" ? "ok" : isReady ? "ready" : "not_ready";
    request.resume();
    sendJson(request, response, { status: isReady ? 200 : 503, type: "application/json", body: { status } });
  }

  /** Pages hold no data and are served to everybody; what they show they ask for with a key. */
  #page(path: string, request: IncomingMessage, response: ServerResponse, requestId: string): void {
    onlyRead(request);
    request.resume();
    this.#pages.answer(path, request.headers).then(
      ({ status, headers, body }) => {
        response.writeHead(status, headers);
        response.end(request.method === "HEAD" ? undefined : body);
      },
      (error: NodeJS.ErrnoException) => {
        const isMissing = error.code === "ENOENT";
        const detail = "the dashboard is not built: npm run build:dashboard makes it";
        this.#refuse(request, response, requestId, isMissing ? new AdminProblem("not_found", detail) : error);
      },
    );
  }

  #metrics(principal: Principal, request: IncomingMessage, response: ServerResponse): void {
    authorize(principal, "operator_read");
    onlyRead(request);
    const [, query = ""] = (request.url ?? "").split("?", 2);
    const errors = [...new URLSearchParams(query).keys()].map((key) => {
      return { path: key.slice(0, 128), message: "it is not known here", hint: "leave it out" };
    });
    if (errors.length > 0)
      throw new AdminProblem("invalid_query", "the query is not valid: /metrics takes none", { errors });
    request.resume();
    send(request, response, {
      status: 200,
      type: "text/plain; version=0.0.4; charset=utf-8",
      text: this.#sources.metrics(),
    });
  }

  /** Loaded on use, made anew when its limit of bodies has changed; a load that failed is tried again. */
  #appOnUse(): Promise<AdminApp> {
    const { bodyBytes } = this.#sources.limits();
    if (this.#app?.bodyBytes === bodyBytes) return this.#app.loaded;
    const loaded = import("./admin-app.ts").then(({ createAdminApp }) => createAdminApp(this.#sources));
    this.#app = { bodyBytes, loaded };
    loaded.catch(() => {
      if (this.#app?.loaded === loaded) this.#app = null;
    });
    return loaded;
  }

  #refuse(request: IncomingMessage, response: ServerResponse, requestId: string, error: unknown): void {
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const problem = error instanceof AdminProblem ? error : unknownFailure(error, requestId, this.#log);
    for (const [name, value] of Object.entries(problem.headers)) response.setHeader(name, value);
    // what is left of a body is not waited for
    if (hasBody(request)) response.setHeader("connection", "close");
    const body = problemBody(problem.code, { detail: problem.message, requestId, ...errorsOf(problem) });
    sendJson(request, response, { status: problem.status, type: PROBLEM_TYPE, body });
  }
}

/** The problem that stands for what nobody expected; its cause goes into the log. */
export function unknownFailure(error: unknown, requestId: string, log: GatewayLog): AdminProblem {
  const shown = error instanceof Error ? (error.stack ?? error.message) : String(error);
  log.error({ request_id: requestId, error: shown }, "an admin route failed");
  return new AdminProblem(
    "internal_error",
    `the gateway failed in a way that it does not know: its log has ${requestId}`,
  );
}

/** The field errors of a problem, where there are some. */
export function errorsOf({ errors }: AdminProblem): { errors?: NonNullable<AdminProblem["errors"]> } {
  return errors === undefined ? {} : { errors };
}

/** @throws AdminProblem 400. */
function holdToOneHost({ headersDistinct, httpVersion }: IncomingMessage): void {
  const hosts = headersDistinct["host"] ?? [];
  if (hosts.length === 1 || (hosts.length === 0 && httpVersion === "1.0")) return;
  throw new AdminProblem("bad_request", `the request has ${hosts.length} host headers: send one`);
}

/** @throws AdminProblem 405. */
function onlyRead({ method }: IncomingMessage): void {
  if (method === "GET" || method === "HEAD") return;
  const headers = { allow: "GET, HEAD" };
  throw new AdminProblem("method_not_allowed", `${method} is not allowed here: use GET or HEAD`, { headers });
}

function sendJson(
  request: IncomingMessage,
  response: ServerResponse,
  { status, type, body }: { status: number; type: string; body: unknown },
): void {
  send(request, response, { status, type, text: `${JSON.stringify(body)}\n` });
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, type, text }: { status: number; type: string; text: string },
): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(text) });
  response.end(request.method === "HEAD" ? undefined : text);
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}

/** Answers what the parser gave up on, by hand, since there is no response to write to. */
function answerBadHttp(error: NodeJS.ErrnoException, socket: Duplex, requestMs: number): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const problem =
    error.code === "HPE_HEADER_OVERFLOW"
      ? new AdminProblem("header_too_large", `the request head is larger than ${HEAD_BYTES} bytes: send less`)
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? new AdminProblem("request_timeout", `the request did not arrive within ${requestMs} ms: send it faster`)
        : new AdminProblem("bad_request", "this is no valid HTTP request: check the client or the proxy in between");
  const requestId = drawTraceContext().traceId;
  const text = `${JSON.stringify(problemBody(problem.code, { detail: problem.message, requestId }))}\n`;
  const { status, title } = ADMIN_PROBLEMS[problem.code];
  const head = [
    `HTTP/1.1 ${status} ${title}`,
    `content-type: ${PROBLEM_TYPE}`,
    `content-length: ${Buffer.byteLength(text)}`,
    `x-request-id: ${requestId}`,
    "cache-control: no-store",
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${text}`);
}
