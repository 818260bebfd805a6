/**
 * The API server of a cluster: whole lists by pages, and watches. The requests are our own, since the official client's
 * list has no deadline and its informer stops for good at the first error.
 */

import type { IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import { z } from "zod";
import { request as requestHttp } from "../../node-http.ts";
import { untilAborted } from "../../until-aborted.ts";
import { lookEnded, SourceError } from "../source.ts";
import type { ClusterAccess } from "./kubernetes-access.ts";

/** Objects of one page. */
const PAGE_OBJECTS = 500;
/** Objects of one list: beyond, a selector is missing. */
const OBJECTS_MAX = 50_000;
/** Bytes of one page: an object is at most 1.5 MiB where it is stored, and few are near that. */
const PAGE_BYTES_MAX = 64 * 2 ** 20;
/** Bytes of one event. */
const EVENT_BYTES_MAX = 4 * 2 ** 20;

/** What to list. */
export interface ObjectQuery {
  readonly path: string;
  readonly labelSelector: string;
}

/** An object as far as every kind has it. */
export interface ClusterObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string | undefined;
    readonly resourceVersion?: string | undefined;
  };
}

const metadata = z.looseObject({
  name: z.string(),
  namespace: z.string().optional(),
  resourceVersion: z.string().optional(),
});
const objectSchema = z.looseObject({ metadata });
const listSchema = z.object({
  metadata: z.object({ resourceVersion: z.string().default(""), continue: z.string().optional() }),
  items: z.array(objectSchema).nullable(),
});
const eventSchema = z.object({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.looseObject({}),
});
const bookmarkSchema = z.looseObject({ metadata: z.looseObject({ resourceVersion: z.string() }) });
const statusSchema = z.looseObject({ code: z.number().default(0), reason: z.string().default("") });

/** One change that a watch tells. */
export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: ClusterObject;
}

/** How a watch ended: by the server or a cut (go on from the version), with a version that is gone, or dead. */
export type WatchEnd = { readonly kind: "closed" | "gone" | "silent"; readonly version: string };

/** An answer that is none. */
export class ApiError extends SourceError {
  /** 0: there was no answer. */
  readonly status: number;
  /** Ask no sooner than this, ms; 0: nobody said. */
  readonly retryAfterMs: number;

  constructor(
    message: string,
    { status, retryAfterMs = 0, cause }: { status: number; retryAfterMs?: number; cause?: unknown },
  ) {
    super(message, cause);
    this.name = "ApiError";
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The whole list, by pages. A list that expires between two pages is begun again once. */
export async function listObjects(
  access: ClusterAccess,
  query: ObjectQuery,
  signal: AbortSignal,
): Promise<{ objects: ClusterObject[]; version: string }> {
  try {
    return await listOnce(access, query, signal);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 410) throw error;
    return listOnce(access, query, signal);
  }
}

async function listOnce(access: ClusterAccess, query: ObjectQuery, signal: AbortSignal) {
  const objects: ClusterObject[] = [];
  let next: string | undefined = "";
  let version = "";
  while (next !== undefined) {
    const page = { limit: String(PAGE_OBJECTS), ...(next === "" ? {} : { continue: next }) };
    const text = await bodyOf(await ask(access, query, page, signal));
    const parsed = listSchema.safeParse(jsonOf(text));
    if (!parsed.success) throw new SourceError(`the API server's list of ${query.path} can't be read`);
    objects.push(...(parsed.data.items ?? []));
    if (objects.length > OBJECTS_MAX) throw new SourceError(`${query.path} has more than ${OBJECTS_MAX} objects`);
    version = parsed.data.metadata.resourceVersion;
    const { continue: token } = parsed.data.metadata;
    next = token === "" ? undefined : token;
  }
  return { objects, version };
}

/** How a watch runs. */
export interface WatchOptions {
  /** Version after which changes are told. */
  readonly version: string;
  /** The server ends the watch after this, s. */
  readonly seconds: number;
  /** Without a byte for this long it is dead, ms. */
  readonly idleMs: number;
  /** To the response's head, ms. */
  readonly connectMs: number;
  readonly signal: AbortSignal;
  /** Changes that came together. */
  readonly onEvents: (events: readonly WatchEvent[]) => void;
}

/** Watches until it ends. Rejects with ApiError when it does not begin, and with SourceError when it tells nonsense. */
export async function watchObjects(
  access: ClusterAccess,
  query: ObjectQuery,
  { version, seconds, idleMs, connectMs, signal, onEvents }: WatchOptions,
): Promise<WatchEnd> {
  const connecting = AbortSignal.any([signal, AbortSignal.timeout(connectMs)]);
  const parameters = {
    watch: "true",
    allowWatchBookmarks: "true",
    resourceVersion: version,
    timeoutSeconds: String(seconds),
  };
  let response: IncomingMessage;
  try {
    response = await ask(access, query, parameters, connecting, signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 410) return { kind: "gone", version };
    throw error;
  }
  let isSilent = false;
  let idle = setTimeout(() => undefined, 0);
  const listen = (): void => {
    clearTimeout(idle);
    idle = setTimeout(() => {
      isSilent = true;
      response.destroy();
    }, idleMs);
    idle.unref();
  };
  listen();
  const lines = new LineReader();
  try {
    for await (const chunk of response) {
      listen();
      const events: WatchEvent[] = [];
      let end: WatchEnd | null = null;
      for (const line of lines.push(chunk as Buffer)) {
        const told = readEvent(line);
        if (told.kind === "event") events.push(told.event);
        if (told.kind === "gone") end = { kind: "gone", version };
        else if (told.version !== "") version = told.version;
        if (end !== null) break;
      }
      if (events.length > 0) onEvents(events);
      if (end !== null) return end;
    }
  } catch (error) {
    if (error instanceof SourceError) throw error;
    // a cut connection: what came whole has been told, and the version says where to go on
  } finally {
    clearTimeout(idle);
    response.destroy();
  }
  return { kind: isSilent ? "silent" : "closed", version };
}

type Told =
  | { readonly kind: "event"; readonly event: WatchEvent; readonly version: string }
  | { readonly kind: "bookmark"; readonly version: string }
  | { readonly kind: "gone" };

function readEvent(line: string): Told {
  const parsed = eventSchema.safeParse(jsonOf(line));
  if (!parsed.success) throw new SourceError("the API server told a change that can't be read");
  const { type, object } = parsed.data;
  if (type === "ERROR") {
    const { code, reason } = statusSchema.catch({ code: 0, reason: "" }).parse(object);
    if (code === 410 || reason === "Expired" || reason === "Gone") return { kind: "gone" };
    throw new SourceError(`the API server ended the watch with an error (${code})`);
  }
  if (type === "BOOKMARK") {
    const bookmark = bookmarkSchema.safeParse(object);
    return { kind: "bookmark", version: bookmark.success ? bookmark.data.metadata.resourceVersion : "" };
  }
  const own = objectSchema.safeParse(object);
  if (!own.success) throw new SourceError("the API server told a change of something that has no name");
  return { kind: "event", event: { type, object: own.data }, version: own.data.metadata.resourceVersion ?? "" };
}

/** Whole lines out of pieces. */
class LineReader {
  #pieces: Buffer[] = [];
  #bytes = 0;

  *push(chunk: Buffer): Generator<string> {
    let start = 0;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, start)) {
      const line = Buffer.concat([...this.#pieces, chunk.subarray(start, at)]).toString("utf8");
      this.#pieces = [];
      this.#bytes = 0;
      start = at + 1;
      if (line.trim() !== "") yield line;
    }
    const rest = chunk.subarray(start);
    this.#bytes += rest.length;
    if (this.#bytes > EVENT_BYTES_MAX) throw new SourceError(`a change has more than ${EVENT_BYTES_MAX} bytes`);
    if (rest.length > 0) this.#pieces.push(rest);
  }
}

/** A GET whose answer is good. `signal` bounds the wait for its head, `bodySignal` its body. */
async function ask(
  access: ClusterAccess,
  { path, labelSelector }: ObjectQuery,
  parameters: Readonly<Record<string, string>>,
  signal: AbortSignal,
  bodySignal: AbortSignal = signal,
): Promise<IncomingMessage> {
  const search = new URLSearchParams(parameters);
  if (labelSelector !== "") search.set("labelSelector", labelSelector);
  const url = new URL(`${access.server}${path}?${search}`);
  const options = await untilAborted(access.options(), signal, lookEnded);
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const send = url.protocol === "https:" ? requestHttps : requestHttp;
    const headers = { ...options.headers, accept: "application/json", "user-agent": "zml" };
    const request = send(url, { ...options, headers, method: "GET" });
    const abort = (): void =>
      void request.destroy(new ApiError("the API server did not answer in time", { status: 0 }));
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    bodySignal.addEventListener("abort", abort, { once: true });
    request.once("response", (got) => {
      if (signal !== bodySignal) signal.removeEventListener("abort", abort);
      resolve(got);
    });
    request.on("close", () => {
      signal.removeEventListener("abort", abort);
      bodySignal.removeEventListener("abort", abort);
    });
    request.on("error", (error) => reject(error instanceof SourceError ? error : connectError(error)));
    request.end();
  });
  if (response.statusCode === 200) return response;
  response.on("error", () => undefined);
  response.destroy();
  throw statusError(response, path);
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response) {
      bytes += (chunk as Buffer).length;
      if (bytes > PAGE_BYTES_MAX)
        throw new SourceError(`a page of the API server has more than ${PAGE_BYTES_MAX} bytes`);
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    if (error instanceof SourceError) throw error;
    throw new ApiError("the API server's answer broke off", { status: 0, cause: error });
  } finally {
    response.destroy();
  }
  return Buffer.concat(chunks).toString("utf8");
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function statusError({ statusCode: status = 0, headers }: IncomingMessage, path: string): ApiError {
  const seconds = Number(headers["retry-after"]);
  const retryAfterMs = Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds, 300) * 1000 : 0;
  return new ApiError(statusText(status, path), { status, retryAfterMs });
}

function statusText(status: number, path: string): string {
  switch (status) {
    case 401:
      return "the API server refuses the credentials (401): renew them";
    case 403:
      return `the API server forbids ${path} (403): give the account the verbs get, list and watch there`;
    case 404:
      return `the API server has no ${path} (404)`;
    case 429:
      return "the API server has too much to do (429)";
    default:
      return `the API server answered with status ${status}`;
  }
}

function connectError(error: Error): ApiError {
  const code = "code" in error ? String(error.code) : "unknown";
  return new ApiError(`there is no connection to the API server: ${IN_WORDS[code] ?? code}`, {
    status: 0,
    cause: error,
  });
}

const IN_WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "it was cut",
  ENOTFOUND: "its name is not known",
  ETIMEDOUT: "it does not answer",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate is signed by nobody whom the kubeconfig names",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is signed by nobody whom the kubeconfig names",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate is signed by nobody whom the kubeconfig names",
  CERT_HAS_EXPIRED: "its certificate has expired",
};
