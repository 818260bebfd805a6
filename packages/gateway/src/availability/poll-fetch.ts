/** One GET of a poll: bounded in time and bytes, on a socket of its own. */

import { ConnectError, NodeConnection, targetOf } from "../http1/node-connection.ts";
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

/** Largest response head of a poll, bytes. */
const POLL_HEAD_BYTES_MAX = 64 * 1024;

/** Makes the client that polls use outside of tests. */
export function createPollClient(): PollClient {
  /** What ends each poll that runs. */
  const running = new Set<(error: Error) => void>();
  return {
    async fetch(request) {
      try {
        return await ask(running, request);
      } catch (error) {
        // a GET may be asked twice: a full accept queue or a middle box says nothing about the node
        if (faultOf(error) !== "reset" || request.signal.aborted) throw toPollError(error, request);
      }
      try {
        return await ask(running, request);
      } catch (error) {
        throw toPollError(error, request);
      }
    },
    close() {
      for (const fail of [...running]) fail(new PollError("timeout", "the poller ends"));
      return Promise.resolve();
    },
  };
}

/**
 * Asks once, on a connection of its own. uvicorn and llama.cpp close idle sockets after 5 s, so that a poll every 5 s
 * would reuse each one just as the server closes it; and a pause too short for that race would leave nothing to reuse.
 */
function ask(running: Set<(error: Error) => void>, request: PollRequest): Promise<PollResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<PollResponse>();
  if (request.signal.aborted) return Promise.reject(new PollError("timeout", "no time is left"));
  const target = targetOf(request.origin, { connectMs: CONNECT_TIMEOUT_MS, headerBytes: POLL_HEAD_BYTES_MAX });
  const connection = new NodeConnection(target);
  const end = (): void => {
    request.signal.removeEventListener("abort", onAbort);
    connection.abort();
    running.delete(fail);
  };
  const fail = (error: Error): void => {
    end();
    reject(error);
  };
  running.add(fail);
  const onAbort = (): void => fail(new PollError("timeout", "the poll's time is over"));
  request.signal.addEventListener("abort", onAbort);
  const chunks: Buffer[] = [];
  let bytes = 0;
  let status = 0;
  let contentType: string | null = null;
  connection.send(
    {
      method: "GET",
      path: request.path,
      headers: ["connection", "close", ...Object.entries(request.headers).flat()],
      body: null,
    },
    {
      onStart() {},
      onHead(headStatus, headers) {
        status = headStatus;
        contentType = headers["content-type"] ?? null;
      },
      onBody(chunk) {
        bytes += chunk.length;
        if (bytes <= POLL_BODY_BYTES_MAX) chunks.push(chunk);
        else fail(new PollError("too_large", `the answer to a poll is larger than ${POLL_BODY_BYTES_MAX} bytes`));
      },
      onEnd() {
        end();
        resolve({ status, contentType, body: Buffer.concat(chunks, bytes).toString("utf8") });
      },
      onError: fail,
    },
  );
  return promise;
}

function toPollError(error: unknown, request: PollRequest): PollError {
  if (error instanceof PollError && error.fault === "too_large") return error;
  const fault = request.signal.aborted ? "timeout" : faultOf(error);
  return new PollError(fault, `GET ${request.origin}${request.path} got no answer: ${fault} (${codeOf(error)})`, error);
}

const UNREACHABLE_CODES: ReadonlySet<string> = new Set(["ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

function faultOf(error: unknown): PollFault {
  if (error instanceof PollError) return error.fault;
  const code = codeOf(error);
  if (code === "ECONNREFUSED") return "refused";
  if (code === "ETIMEDOUT") return "timeout";
  return UNREACHABLE_CODES.has(code) ? "unreachable" : "reset";
}

function codeOf(error: unknown): string {
  if (error instanceof ConnectError) return error.code;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : error instanceof Error ? error.name : "unknown";
}
