/** One GET of a poll: bounded in time and bytes, on a connection that lives no longer than its round. */

import { codeOf } from "../http1/error-code.ts";
import { NodeConnection, targetOf } from "../http1/node-connection.ts";
import { LINK_LOCAL } from "../http1/node-lookup.ts";
import type { NodeTls } from "../http1/open-socket.ts";
import type { PollResponse } from "./adapters/adapter.ts";

/** Largest body of a poll: vLLM with 8 ranks writes a few hundred KiB of metrics. */
const POLL_BODY_BYTES_MAX = 4 * 1024 * 1024;

/** A connect that takes longer is given up, so that a node that comes back is not waited for by an old attempt. */
const CONNECT_TIMEOUT_MS = 4_000;

/**
 * Why a poll got no answer. `refused`: the host is there and nothing listens; `unreachable`: no way to the host;
 * `link_local`: the name has only addresses that no node has. The last three came from the node: `too_large`, `encoded`
 * (compressed, which nobody asked for), `redirect` (never followed: it leads to where the operator pointed at nothing).
 */
export type PollFault =
  | "refused"
  | "unreachable"
  | "timeout"
  | "reset"
  | "link_local"
  | "too_large"
  | "encoded"
  | "redirect";

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
  /** Round that it is part of: it may use that one's connection. Absent: a connection of its own. */
  readonly round?: RoundConnection;
  /** The host's name in TLS and in the host field; default: that of `origin`. */
  readonly serverName?: string | null;
  /** Also where the node's address is link-local. Default false. */
  readonly allowsLinkLocal?: boolean;
  /** TLS of the node; default: the system's authorities, the host's name. */
  readonly tls?: NodeTls | null;
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
  const once = (request: PollRequest, connection: NodeConnection, isKept: boolean) =>
    ask({ running, request, connection, isKept });
  const onOwn = (request: PollRequest) => once(request, connectionTo(request), false);
  const first = async (request: PollRequest): Promise<PollResponse> => {
    const shared = await request.round?.place(request);
    if (shared == null) return onOwn(request);
    try {
      return await once(request, shared, true);
    } finally {
      request.round?.free();
    }
  };
  return {
    async fetch(request) {
      try {
        return await first(request);
      } catch (error) {
        // a GET may be asked twice: a full accept queue or a middle box says nothing about the node, nor does one that
        // closes after each answer
        if (faultOf(error) !== "reset" || request.signal.aborted) throw toPollError(error, request);
      }
      try {
        return await onOwn(request);
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

function connectionTo({ origin, serverName = null, allowsLinkLocal = false, tls = null }: PollRequest) {
  const limits = { connectMs: CONNECT_TIMEOUT_MS, headerBytes: POLL_HEAD_BYTES_MAX, serverName, allowsLinkLocal, tls };
  // a GET that a closed connection lost is asked again whatever closed it
  return new NodeConnection(targetOf(origin, limits), { tellsStale: false });
}

/** Asks once. `isKept`: whoever owns the connection closes it after an answer, and the node need not. */
function ask({
  running,
  request,
  connection,
  isKept,
}: {
  running: Set<(error: Error) => void>;
  request: PollRequest;
  connection: NodeConnection;
  isKept: boolean;
}): Promise<PollResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<PollResponse>();
  if (request.signal.aborted) return Promise.reject(new PollError("timeout", "no time is left"));
  const leave = (): void => {
    stopListening();
    running.delete(fail);
  };
  const fail = (error: Error): void => {
    leave();
    connection.abort();
    reject(error);
  };
  running.add(fail);
  const onAbort = (): void => fail(new PollError("timeout", "the poll's time is over"));
  const stopListening = whenAborted(request, onAbort);
  const chunks: Buffer[] = [];
  let bytes = 0;
  let status = 0;
  let contentType: string | null = null;
  const fields = Object.entries(request.headers).flat();
  connection.send(
    {
      method: "GET",
      path: request.path,
      headers: isKept ? fields : ["connection", "close", ...fields],
      body: null,
    },
    {
      onStart() {},
      onHead(headStatus, headers) {
        status = headStatus;
        contentType = headers["content-type"] ?? null;
        const encoding = headers["content-encoding"] ?? "identity";
        if (headStatus >= 300 && headStatus < 400) {
          fail(new PollError("redirect", `the answer to a poll is a redirect (${headStatus}), which is not followed`));
        } else if (encoding.toLowerCase() !== "identity") {
          fail(new PollError("encoded", "the answer to a poll is compressed, which was not asked for"));
        }
      },
      onBody(chunk) {
        bytes += chunk.length;
        if (bytes <= POLL_BODY_BYTES_MAX) chunks.push(Buffer.from(chunk));
        else fail(new PollError("too_large", `the answer to a poll is larger than ${POLL_BODY_BYTES_MAX} bytes`));
      },
      onEnd() {
        leave();
        if (!isKept) connection.abort();
        resolve({ status, contentType, body: textOf(chunks, bytes) });
      },
      onError: fail,
    },
  );
  return promise;
}

/** Calls back when the request's time is over. Returns what ends that. */
function whenAborted({ signal, round }: PollRequest, onAbort: () => void): () => void {
  if (round?.signal === signal) return round.whenOver(onAbort);
  signal.addEventListener("abort", onAbort);
  return () => signal.removeEventListener("abort", onAbort);
}

/**
 * The connection of one round: its requests go over it one after the other, since a connection costs more than what is
 * asked on it. Requests that have waited for `PATIENCE_MS` take connections of their own, so that one slow path never
 * holds up another.
 */
export class RoundConnection {
  readonly #waiting: ((connection: NodeConnection | null) => void)[] = [];
  #origin: string | null = null;
  #connection: NodeConnection | null;
  #isTaken = false;
  readonly #patienceMs: number;
  #isShared = true;
  /** Requests that were done with it. */
  #freed = 0;
  #timer: NodeJS.Timeout | null = null;

  /** Aborts when the round's time is over. */
  readonly signal: AbortSignal;
  /** What to tell then: one listener for all requests, since each costs as much as all else that a request sets up. */
  readonly #overs = new Set<() => void>();

  /**
   * @param signal aborts when the round's time is over. @param kept connection of the last round, to the same origin;
   *   null: none. @param patienceMs how long a request waits for another.
   */
  constructor(signal: AbortSignal, kept: NodeConnection | null, patienceMs = PATIENCE_MS) {
    this.#patienceMs = patienceMs;
    this.signal = signal;
    signal.addEventListener("abort", () => {
      for (const onOver of [...this.#overs]) onOver();
    });
    this.#connection = kept;
  }

  /** Waits for the connection. Null: use another one. After use, `free` it. */
  place(request: PollRequest): NodeConnection | null | Promise<NodeConnection | null> {
    const { origin } = request;
    this.#origin ??= origin;
    if (!this.#isShared || origin !== this.#origin) return null;
    this.#connection ??= connectionTo(request);
    if (!this.#isTaken) {
      this.#isTaken = true;
      return this.#connection;
    }
    if (this.#timer === null) this.#watch();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Calls back when the round's time is over. Returns what ends that. */
  whenOver(onOver: () => void): () => void {
    this.#overs.add(onOver);
    return () => this.#overs.delete(onOver);
  }

  /** Hands the connection to the next request. */
  free(): void {
    this.#freed += 1;
    const next = this.#waiting.shift();
    if (next === undefined) this.#isTaken = false;
    else next(this.#connection);
  }

  /** Ends the round; no request of it runs. Returns the connection if it is to be kept, else closes it. */
  end(isKept: boolean): NodeConnection | null {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#stopSharing();
    if (isKept && this.#connection?.isBusy === false) return this.#connection;
    this.#connection?.abort();
    return null;
  }

  /** Stops sharing when nothing was answered for a while. */
  #watch(): void {
    const freedBefore = this.#freed;
    this.#timer = setTimeout(() => {
      // a thread that was held hears of its timers before it hears of answers that came meanwhile
      setImmediate(() => {
        this.#timer = null;
        if (this.#freed === freedBefore) this.#stopSharing();
        else if (this.#waiting.length > 0) this.#watch();
      });
    }, this.#patienceMs);
  }

  #stopSharing(): void {
    if (this.#waiting.length > 0) this.#isShared = false;
    for (const resolve of this.#waiting.splice(0)) resolve(null);
  }
}

/**
 * Beside the interval, what a row's age may have is 600 ms (see the poller's period): an answer within 500 ms and this
 * wait stay below it.
 */
const PATIENCE_MS = 50;

function textOf(chunks: readonly Buffer[], bytes: number): string {
  const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes);
  return whole.toString("utf8");
}

function toPollError(error: unknown, request: PollRequest): PollError {
  if (error instanceof PollError && isAnswered(error)) return error;
  const fault = request.signal.aborted ? "timeout" : faultOf(error);
  return new PollError(fault, `GET ${request.origin}${request.path} got no answer: ${fault} (${codeOf(error)})`, error);
}

const UNREACHABLE_CODES: ReadonlySet<string> = new Set(["ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

/** True when the node answered, only not with anything that can be read. */
export function isAnswered(error: unknown): boolean {
  return error instanceof PollError && ANSWERED.has(error.fault);
}

const ANSWERED: ReadonlySet<PollFault> = new Set(["too_large", "encoded", "redirect"]);

function faultOf(error: unknown): PollFault {
  if (error instanceof PollError) return error.fault;
  const code = codeOf(error);
  if (code === "ECONNREFUSED") return "refused";
  if (code === "ETIMEDOUT") return "timeout";
  if (code === LINK_LOCAL) return "link_local";
  return UNREACHABLE_CODES.has(code) ? "unreachable" : "reset";
}
