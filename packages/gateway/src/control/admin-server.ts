/** The admin port: what operators ask. Plain `node:http`, since its few routes need no framework. */

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ERRORS, type ErrorCode, errorBody, isLoopback, type ListenAddress } from "@zml/protocol";
import { keyDigest } from "../config/key-digest.ts";
import type { PricesReportJson } from "../cost/index.ts";
import type { DiscoveryReportJson } from "../discovery/index.ts";
import type { DecisionJson } from "../evidence/decision-json.ts";
import { createServer } from "../node-http.ts";
import type { WorkerKeys } from "../thread-messages.ts";
import type { FleetReportJson } from "./fleet-report.ts";
import type { GatewayLog } from "./gateway-log.ts";
import { listenError } from "./port-probe.ts";

/** Who may ask. */
export interface AdminAccess {
  /** All keys; those with the scope `admin` open the port. */
  readonly keys: WorkerKeys;
  readonly allowUnauthenticated: boolean;
}

/** What the routes answer with. */
export interface AdminSources {
  findDecision(id: string): DecisionJson | null;
  fleet(): FleetReportJson;
  prices(): PricesReportJson;
  discovery(): DiscoveryReportJson;
  isReady(): boolean;
  access(): AdminAccess;
  readonly log: GatewayLog;
}

const DECISIONS = "/admin/v1/decisions/";

type Answer = { readonly status: number; readonly body: unknown; readonly headers?: Readonly<Record<string, string>> };

export class AdminServer {
  readonly #sources: AdminSources;
  readonly #server: Server;
  #host = "";

  constructor(sources: AdminSources) {
    this.#sources = sources;
    this.#server = createServer({ requestTimeout: 30_000, headersTimeout: 10_000 }, (request, response) => {
      this.#serve(request, response);
    });
    this.#server.keepAliveTimeout = 5_000;
  }

  /**
   * Starts to listen.
   *
   * @returns the port, chosen by the system when `address.port` is 0.
   * @throws StartError when the address can't be had.
   */
  async listen(address: ListenAddress): Promise<number> {
    this.#host = address.host;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (error) => reject(listenError(error, address, "admin.listen")));
      this.#server.listen({ host: address.host, port: address.port }, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    // bodies are not read: no route takes one
    request.resume();
    let answer: Answer;
    try {
      answer = this.#answer(request);
    } catch (error) {
      this.#sources.log.error({ error: error instanceof Error ? error.stack : String(error) }, "an admin route failed");
      answer = refuse("internal_error", ERRORS.internal_error.message({ requestId: "in the log" }));
    }
    const text = `${JSON.stringify(answer.body)}\n`;
    response.writeHead(answer.status, {
      "content-type": "application/json; charset=utf-8",
      "content-length": Buffer.byteLength(text),
      "cache-control": "no-store",
      ...answer.headers,
    });
    response.end(request.method === "HEAD" ? undefined : text);
  }

  #answer(request: IncomingMessage): Answer {
    const [path = "/"] = (request.url ?? "/").split("?", 1);
    const method = request.method ?? "GET";
    const isProbe = path === "/healthz" || path === "/readyz";
    if (!isProbe) {
      const refusal = this.#authorize(request);
      if (refusal !== null) return refusal;
    }
    const route = this.#route(path);
    if (route === null) return refuse("not_found", ERRORS.not_found.message({ path }));
    if (method === "GET" || method === "HEAD") return route();
    const allow = ["GET", "HEAD"];
    return {
      ...refuse("method_not_allowed", ERRORS.method_not_allowed.message({ method, allow })),
      headers: { allow: allow.join(", ") },
    };
  }

  #route(path: string): (() => Answer) | null {
    const sources = this.#sources;
    switch (path) {
      case "/healthz":
        return () => ({ status: 200, body: { status: "ok" } });
      case "/readyz":
        return () =>
          sources.isReady()
            ? { status: 200, body: { status: "ready" } }
            : { status: 503, body: { status: "not_ready" } };
      case "/admin/v1/fleet":
        return () => ({ status: 200, body: sources.fleet() });
      case "/admin/v1/prices":
        return () => ({ status: 200, body: sources.prices() });
      case "/admin/v1/discovery":
        return () => ({ status: 200, body: sources.discovery() });
    }
    if (!path.startsWith(DECISIONS) || path.length === DECISIONS.length) return null;
    const id = decodeSegment(path.slice(DECISIONS.length));
    if (id === null) return null;
    return () => {
      const decision = sources.findDecision(id);
      return decision === null ? refuse("not_found", unknownDecision(id)) : { status: 200, body: decision };
    };
  }

  /** Denies by default: without keys only this machine gets in, unless the operator said otherwise. */
  #authorize(request: IncomingMessage): Answer | null {
    const { keys, allowUnauthenticated } = this.#sources.access();
    const isOpen = !keys.list.some(({ scopes }) => scopes.includes("admin"));
    if (isOpen && (isLoopback(this.#host) || allowUnauthenticated)) return null;
    const [, given] = /^bearer +([!-~]+)$/i.exec(request.headers.authorization ?? "") ?? [];
    const challenge = { headers: { "www-authenticate": "Bearer" } };
    if (given === undefined) return { ...refuse("missing_api_key", ERRORS.missing_api_key.message()), ...challenge };
    const digest = keyDigest(keys.pepper, given);
    const key = keys.list.find((one) => one.digest === digest && one.expiresAtMs > Date.now());
    if (key === undefined) {
      return { ...refuse("invalid_api_key", ERRORS.invalid_api_key.message({ fault: "unknown" })), ...challenge };
    }
    if (key.scopes.includes("admin")) return null;
    return refuse("key_scope", ERRORS.key_scope.message({ key: key.name, scope: "admin" }));
  }
}

/** What somebody reads who asks for a decision that is not there. */
function unknownDecision(id: string): string {
  const shown = JSON.stringify(id.length > 128 ? `${id.slice(0, 128)}…` : id);
  return (
    `there is no decision ${shown}: ids stand in the header x-zml-routing, and each worker remembers its last ` +
    "evidence.ring_records decisions since the start"
  );
}

function refuse(code: ErrorCode, message: string): Answer {
  return { status: ERRORS[code].status, body: errorBody("openai", code, { message }) };
}

function decodeSegment(segment: string): string | null {
  if (segment.includes("/")) return null;
  try {
    return decodeURIComponent(segment);
  } catch {
    return null;
  }
}
