/** One GET of a poll, over undici: bounded in time and bytes, on a socket of its own. */

import type { Dispatcher } from "undici";
import { Agent, Client, H2CClient, request as send } from "../undici.ts";
import type { PollResponse } from "./adapters/adapter.ts";

/** Largest body of a poll: vLLM with 8 ranks writes a few hundred KiB of metrics. */
const POLL_BODY_BYTES_MAX = 4 * 1024 * 1024;

/** A connect that takes longer is given up, so that a node that comes back is not waited for by an old attempt. */
const CONNECT_TIMEOUT_MS = 4_000;

/** Why a poll got no answer. `refused`: the host is there and nothing listens; `unreachable`: no way to the host. */
export type PollFault = "refused" | "unreachable" | "timeout" | "reset" | "too_large";

/** A poll without an answer. */
export class PollError extends Error {
  readonly fault: PollFault;

  constructor(fault: PollFault, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "PollError";
    this.fault = fault;
  }
}

/** What to ask. */
export interface PollRequest {
  readonly origin: string;
  /** Path with query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly httpVersion: "1.1" | "2";
  /** Aborts when the poll's time is over. */
  readonly signal: AbortSignal;
}

/** Asks once. Rejects with `PollError` only. */
export type PollFetch = (request: PollRequest) => Promise<PollResponse>;

/** A fetch with its own sockets; `close` ends them. */
export interface PollClient {
  readonly fetch: PollFetch;
  close(): Promise<void>;
}

/** The poll's own deadline rules, and its own bound on bytes. */
const LIMITS = { headersTimeout: 0, bodyTimeout: 0, maxResponseSize: POLL_BODY_BYTES_MAX };

const HTTP1 = {
  // Unbounded per origin, since nodes that share one must not wait for each other; a round asks at most five paths.
  connections: null,
  connect: { timeout: CONNECT_TIMEOUT_MS },
  // No keep-alive. uvicorn and llama.cpp close idle sockets after 5 s, so that a poll every 5 s would reuse each one
  // just as the server closes it; and a pause too short for that race would leave nothing to reuse.
  pipelining: 0,
};

/** HTTP/2 by prior knowledge in clear text, by ALPN under TLS: one session, a stream per poll. */
function openHttp2(origin: URL): Dispatcher {
  if (origin.protocol === "http:") return new H2CClient(origin, { ...LIMITS, connect: HTTP1.connect });
  return new Client(origin, { ...LIMITS, connect: HTTP1.connect, allowH2: true });
}

/** Makes the client that polls use outside of tests. */
export function createPollClient(): PollClient {
  const http1 = new Agent({ ...LIMITS, ...HTTP1, allowH2: false });
  let http2: Dispatcher | undefined;
  const agentFor = (request: PollRequest): Dispatcher => {
    if (request.httpVersion === "1.1") return http1;
    http2 ??= new Agent({ factory: (origin) => openHttp2(new URL(origin)) });
    return http2;
  };
  return {
    async fetch(request) {
      const agent = agentFor(request);
      try {
        return await ask(agent, request);
      } catch (error) {
        // a GET may be asked twice: a full accept queue or a middle box says nothing about the node
        if (faultOf(error) !== "reset" || request.signal.aborted) throw toPollError(error, request);
      }
      try {
        return await ask(agent, request);
      } catch (error) {
        throw toPollError(error, request);
      }
    },
    async close() {
      await Promise.all([http1.destroy(), http2?.destroy()]);
    },
  };
}

async function ask(agent: Dispatcher, request: PollRequest): Promise<PollResponse> {
  const { statusCode, headers, body } = await send(agent, {
    origin: request.origin,
    path: request.path,
    method: "GET",
    headers: request.headers,
    signal: request.signal,
  });
  return { status: statusCode, contentType: contentTypeOf(headers), body: await readBounded(body) };
}

/** `maxResponseSize` counts what was announced; a chunked body is counted here. */
async function readBounded(body: Dispatcher.ResponseData["body"]): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    const buffer = chunk as Buffer;
    bytes += buffer.length;
    if (bytes > POLL_BODY_BYTES_MAX) {
      body.destroy();
      throw new PollError("too_large", `the answer to a poll is larger than ${POLL_BODY_BYTES_MAX} bytes`);
    }
    chunks.push(buffer);
  }
  return Buffer.concat(chunks, bytes).toString("utf8");
}

function contentTypeOf(headers: Dispatcher.ResponseData["headers"]): string | null {
  const value = headers["content-type"];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

function toPollError(error: unknown, request: PollRequest): PollError {
  if (error instanceof PollError) return error;
  const fault = request.signal.aborted ? "timeout" : faultOf(error);
  return new PollError(fault, `GET ${request.origin}${request.path} got no answer: ${fault} (${codeOf(error)})`, error);
}

const TIMEOUT_CODES: ReadonlySet<string> = new Set(["UND_ERR_CONNECT_TIMEOUT", "ETIMEDOUT"]);
const UNREACHABLE_CODES: ReadonlySet<string> = new Set(["ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

function faultOf(error: unknown): PollFault {
  if (error instanceof PollError) return error.fault;
  const code = codeOf(error);
  if (code === "ECONNREFUSED") return "refused";
  if (code === "UND_ERR_RES_EXCEEDED_MAX_SIZE") return "too_large";
  if (UNREACHABLE_CODES.has(code)) return "unreachable";
  if (TIMEOUT_CODES.has(code) || (error instanceof Error && error.name === "AbortError")) return "timeout";
  return "reset";
}

function codeOf(error: unknown): string {
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : error instanceof Error ? error.name : "unknown";
}
