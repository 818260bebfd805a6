/** A stand-in for the API server of a cluster: lists by pages, watches, and whatever goes wrong with them. */

import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** An object as the server holds it. */
export interface HeldObject {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly [key: string]: unknown };
  readonly [key: string]: unknown;
}

interface Event {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: HeldObject;
}

export interface ApiServerOptions {
  /** Key and certificate, PEM; absent: clear text. */
  readonly tls?: { readonly key: string; readonly cert: string };
  readonly token?: string;
  /** Objects per page, whatever is asked for. */
  readonly pageObjects?: number;
}

export class ApiServer {
  readonly asked: {
    readonly path: string;
    readonly query: URLSearchParams;
    readonly authorization: string | undefined;
  }[] = [];
  readonly watches = new Set<ServerResponse>();
  /** Answers in place of the server; returns true when it did. */
  intercept: (request: IncomingMessage, response: ServerResponse, url: URL) => boolean = () => false;
  token: string;
  pageObjects: number;
  readonly #objects = new Map<string, HeldObject>();
  readonly #events: Event[] = [];
  #version = 100;
  /** Versions up to this one are forgotten. */
  #goneUpTo = 0;
  url = "";

  constructor({ token = "hunter2-token", pageObjects = 500 }: ApiServerOptions) {
    this.token = token;
    this.pageObjects = pageObjects;
  }

  get lists(): number {
    return this.asked.filter(({ query }) => !query.has("watch") && !query.has("continue")).length;
  }

  /** Adds or changes an object; watches hear of it. */
  set(object: HeldObject): void {
    const key = keyOf(object);
    const type = this.#objects.has(key) ? "MODIFIED" : "ADDED";
    this.#version += 1;
    const held = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    this.#objects.set(key, held);
    this.#tell({ version: this.#version, type, object: held });
  }

  remove(name: string, namespace = "default"): void {
    const key = `${namespace}/${name}`;
    const object = this.#objects.get(key);
    if (object === undefined) throw new Error(`there is no ${key}`);
    this.#objects.delete(key);
    this.#version += 1;
    const held = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    this.#tell({ version: this.#version, type: "DELETED", object: held });
  }

  /** Changes that no watch hears of. */
  silently(change: () => void): void {
    const held = [...this.watches];
    this.watches.clear();
    change();
    for (const watch of held) this.watches.add(watch);
  }

  bookmark(): void {
    this.#version += 1;
    const object = { kind: "EndpointSlice", metadata: { resourceVersion: String(this.#version) } };
    this.write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`);
  }

  /** Forgets every version; running watches are told so. */
  expire(): void {
    this.#goneUpTo = this.#version;
    this.#version += 1;
    const object = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" };
    this.write(`${JSON.stringify({ type: "ERROR", object })}\n`);
    this.endWatches();
  }

  /** Bytes to every watch. */
  write(text: string): void {
    for (const watch of this.watches) watch.write(text);
  }

  endWatches(): void {
    for (const watch of this.watches) watch.end();
  }

  cutWatches(): void {
    for (const watch of this.watches) watch.destroy();
  }

  serve(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", "http://cluster.test");
    const { authorization } = request.headers;
    this.asked.push({ path: url.pathname, query: url.searchParams, authorization });
    if (this.intercept(request, response, url)) return;
    if (authorization !== `Bearer ${this.token}`) {
      status(response, 401, "Unauthorized");
      return;
    }
    if (url.searchParams.has("watch")) this.#watch(response, url);
    else this.#list(response, url);
  }

  #list(response: ServerResponse, url: URL): void {
    const objects = this.#matching(url);
    const token = url.searchParams.get("continue");
    const [at = 0, version = this.#version] = (token ?? "")
      .split("-")
      .filter((part) => part !== "")
      .map(Number);
    if (token !== null && version <= this.#goneUpTo) {
      status(response, 410, "Expired");
      return;
    }
    const next = at + this.pageObjects;
    const more = next < objects.length ? { continue: `${next}-${version}` } : {};
    json(response, { metadata: { resourceVersion: String(version), ...more }, items: objects.slice(at, next) });
  }

  #watch(response: ServerResponse, url: URL): void {
    const version = Number(url.searchParams.get("resourceVersion"));
    if (version < this.#goneUpTo) {
      status(response, 410, "Expired");
      return;
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    this.watches.add(response);
    response.on("close", () => this.watches.delete(response));
    for (const event of this.#events) if (event.version > version) response.write(eventText(event));
  }

  #matching(url: URL): HeldObject[] {
    const [, namespace] = /\/namespaces\/([^/]+)\//.exec(url.pathname) ?? [];
    return [...this.#objects.values()].filter(
      (object) => namespace === undefined || object.metadata.namespace === namespace,
    );
  }

  #tell(event: Event): void {
    this.#events.push(event);
    this.write(eventText(event));
  }
}

/** Starts one; it goes with the test. */
export async function apiServer(t: TestContext, options: ApiServerOptions = {}): Promise<ApiServer> {
  const api = new ApiServer(options);
  const serve = (request: IncomingMessage, response: ServerResponse): void => api.serve(request, response);
  const server = options.tls === undefined ? createServer(serve) : createTlsServer(options.tls, serve);
  await once(server.listen(0, "127.0.0.1"), "listening");
  api.url = `${options.tls === undefined ? "http" : "https"}://127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return api;
}

/** A kubeconfig for the server. Returns its path. */
export function kubeconfigFor(
  t: TestContext,
  { url, token }: Pick<ApiServer, "url" | "token">,
  { ca, namespace }: { ca?: string; namespace?: string } = {},
): string {
  const folder = mkdtempSync(join(tmpdir(), "zml-kube-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "config");
  const trust =
    ca === undefined
      ? { "insecure-skip-tls-verify": true }
      : { "certificate-authority-data": Buffer.from(ca).toString("base64") };
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server: url, ...trust } }],
    users: [{ name: "u", user: { token } }],
    contexts: [
      { name: "main", context: { cluster: "c", user: "u", ...(namespace === undefined ? {} : { namespace }) } },
    ],
    "current-context": "main",
  };
  // JSON is YAML
  writeFileSync(path, JSON.stringify(config));
  return path;
}

/** An EndpointSlice. */
export function slice(
  name: string,
  endpoints: readonly {
    readonly ip: string;
    readonly ready?: boolean;
    readonly terminating?: boolean;
    readonly pod?: string;
  }[],
  {
    labels = {},
    annotations = {},
    namespace = "default",
    ports = [{ name: "http", port: 8000 }],
    addressType = "IPv4",
  }: {
    readonly labels?: object;
    readonly annotations?: object;
    readonly namespace?: string;
    readonly ports?: readonly object[];
    readonly addressType?: string;
  } = {},
): HeldObject {
  return {
    metadata: { name, namespace, labels: { "kubernetes.io/service-name": "vllm", ...labels }, annotations },
    addressType,
    ports,
    endpoints: endpoints.map(({ ip, pod, ...conditions }) => ({
      addresses: [ip],
      conditions,
      ...(pod === undefined ? {} : { targetRef: { kind: "Pod", name: pod } }),
    })),
  };
}

/** A pod. */
export function pod(
  name: string,
  {
    ip,
    isReady = true,
    labels = {},
    annotations = {},
    isLeaving = false,
    phase = "Running",
    ports = [{ containerPort: 8000 }],
  }: {
    readonly ip?: string;
    readonly isReady?: boolean;
    readonly labels?: object;
    readonly annotations?: object;
    readonly isLeaving?: boolean;
    readonly phase?: string;
    readonly ports?: readonly object[];
  },
): HeldObject {
  return {
    metadata: {
      name,
      namespace: "default",
      labels,
      annotations,
      ...(isLeaving ? { deletionTimestamp: "2026-11-30T00:00:00Z" } : {}),
    },
    spec: { containers: [{ name: "engine", ports }] },
    status: {
      phase,
      ...(ip === undefined ? {} : { podIP: ip, podIPs: [{ ip }] }),
      conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
    },
  };
}

export function status(
  response: ServerResponse,
  code: number,
  reason: string,
  headers: Record<string, string> = {},
): void {
  response.writeHead(code, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify({ kind: "Status", code, reason, message: `refused: ${reason}` }));
}

function json(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

function eventText({ type, object }: Event): string {
  return `${JSON.stringify({ type, object })}\n`;
}

function keyOf({ metadata: { namespace, name } }: HeldObject): string {
  return `${namespace}/${name}`;
}
