/**
 * One request and its answer on the data port: who asked, what the answer carries, whether anybody still waits for it.
 * The only place that writes to the caller.
 */

import type { RouteRequest } from "@zml/engine";
import { ERRORS, type ErrorCode, type ErrorDetails, errorBody } from "@zml/protocol/errors";
import {
  encodeRoutingHeader,
  REQUEST_ID_HEADER,
  RETRY_AFTER_HEADER,
  ROUTING_HEADER,
  type Routing,
  SHOULD_RETRY_HEADER,
  TRACEPARENT_HEADER,
} from "@zml/protocol/wire";
import type { AnswerHead } from "./attempt-result.ts";
import type { CallerRequest, CallerResponse } from "./caller.ts";
import type { DenseMember } from "./dense-set.ts";
import type { AnswerSink } from "./dispatch/attempt-run.ts";
import type { InferenceRoute } from "./routes.ts";
import type { RequestObserver } from "./telemetry/request-observer.ts";
import { createTally, type RequestTally } from "./telemetry/request-tally.ts";
import type { RequestTrace } from "./telemetry/request-trace.ts";
import { drawTraceContext, requestIdOf, type TraceContext } from "./trace-ids.ts";

/** Why a request ends before its answer does. */
export type Interruption = "caller_gone" | "total_timeout" | "shutting_down";

/** Headers of a node's answer that a caller gets; everything else stays between ZML and the node. */
const ANSWER_HEADERS = [
  "content-type",
  "content-encoding",
  "content-language",
  "cache-control",
  "retry-after",
  "retry-after-ms",
  "openai-processing-ms",
  "openai-version",
  "x-ratelimit-limit-requests",
  "x-ratelimit-remaining-requests",
];

const UNLIMITED_ANSWER_HEADERS = ANSWER_HEADERS.filter((name) => !name.startsWith("x-ratelimit-"));

/** How an error answer differs from its row in the error table. */
export interface ErrorOptions {
  extra?: ErrorDetails["extra"];
  param?: string;
  /** In the place of the row's type (see `ErrorDetails`). */
  type?: string;
  /** Wait before another try, ms; NaN: none is told. */
  retryAfterMs?: number;
  /** False: everything that makes sense was tried; SDKs that know the header don't retry. */
  shouldRetry?: false;
  /** The connection can't be used again. */
  mustClose?: boolean;
  /** Settles when the connection may close; at once without it. */
  closeAfter?: Promise<void>;
}

export class Exchange implements AnswerSink, DenseMember {
  /** Place among the requests that run. */
  slot = -1;
  readonly request: CallerRequest;
  readonly response: CallerResponse;
  readonly route: InferenceRoute;
  /** Ties the attempts of a request together. */
  readonly requestId: string;
  /** The caller's, else one of ours; the caller hears of it. */
  readonly traceparent: string;
  /** The caller's, where it is valid. */
  readonly givenTraceparent: string | null;
  /** Ids that were drawn for this request. */
  readonly drawn: TraceContext;
  /** What is noted of it for a trace; null: nothing. */
  trace: RequestTrace | null;
  /** Who calls, once that is known; `keyName` null: no key is asked. */
  account: string | null = null;
  keyName: string | null = null;
  /** Null: not admitted so far. */
  admitted: RouteRequest | null = null;
  #routing: Routing = {};
  #routingHeader: string | null = null;
  /** When its head had come, engine clock ms. */
  readonly startedAtMs: number;
  readonly tally: RequestTally = createTally();
  /** Header fields that tell the caller how its limits stand, a line each; empty: it has no such limits. */
  limitLines = "";
  /** Set once the request ends early. */
  interruption: Interruption | null = null;
  readonly #slowClientMs: number;
  readonly #isDraining: () => boolean;
  #onInterrupt: ((interruption: Interruption) => void) | null = null;
  #onOver: (() => void) | null = null;
  #totalTimer: NodeJS.Timeout | null = null;

  constructor(
    route: InferenceRoute,
    request: CallerRequest,
    response: CallerResponse,
    options: { startedAtMs: number; slowClientMs: number; isDraining: () => boolean; observer: RequestObserver },
  ) {
    this.route = route;
    this.request = request;
    this.response = response;
    this.startedAtMs = options.startedAtMs;
    this.#slowClientMs = options.slowClientMs;
    this.#isDraining = options.isDraining;
    const trace = request.headers[TRACEPARENT_HEADER];
    const drawn = drawTraceContext();
    this.requestId = requestIdOf(request, drawn.traceId);
    this.drawn = drawn;
    this.givenTraceparent = typeof trace === "string" && TRACEPARENT.test(trace) ? trace : null;
    const { observer } = options;
    this.trace = observer.begin(this.givenTraceparent, drawn);
    // what we don't trace we don't ask nodes to trace
    const isLeftOut = this.trace === null && observer.isTracing;
    this.traceparent = this.givenTraceparent ?? (isLeftOut ? unsampled(drawn) : drawn.traceparent);
    // the response closes on every path; that it had not been written to its end is what tells a caller who left
    response.on("close", () => {
      if (!response.writableFinished) this.interrupt("caller_gone");
      this.#onOver?.();
    });
    response.on("error", () => this.interrupt("caller_gone"));
  }

  /** The caller's `tracestate`, which means nothing without a `traceparent`. */
  get traceState(): string {
    const given = this.givenTraceparent === null ? undefined : this.request.headers["tracestate"];
    return typeof given === "string" ? given : "";
  }

  /** What is known of the routing so far. */
  get routing(): Routing {
    return this.#routing;
  }

  set routing(routing: Routing) {
    this.#routing = routing;
    this.#routingHeader = null;
  }

  /** The routing as a header; the node and the caller get the same one. */
  get routingHeader(): string {
    this.#routingHeader ??= encodeRoutingHeader(this.#routing);
    return this.#routingHeader;
  }

  /** Bounds the whole request, queue included. */
  limitTotal(ms: number | null): void {
    if (ms !== null) this.#totalTimer = setTimeout(() => this.interrupt("total_timeout"), ms);
  }

  /** Ends the request early: whatever stage runs is told. */
  interrupt(interruption: Interruption): void {
    if (this.interruption !== null) return;
    this.interruption = interruption;
    this.#onInterrupt?.(interruption);
  }

  /** Names the stage that an interruption ends; replaces the one before. Told at once if it has already happened. */
  onInterrupt(stage: ((interruption: Interruption) => void) | null): void {
    this.#onInterrupt = stage;
    if (stage !== null && this.interruption !== null) stage(this.interruption);
  }

  /** Calls back once the last byte of the answer is out, or its connection is gone; at once if that has happened. */
  onceOver(callback: () => void): void {
    if (this.response.writableFinished || this.response.destroyed) callback();
    else this.#onOver = callback;
  }

  /** Everything that was started for this request ends here. */
  close(): void {
    this.#onInterrupt = null;
    if (this.#totalTimer !== null) clearTimeout(this.#totalTimer);
  }

  commit({ status, headers }: AnswerHead, held: Buffer): boolean {
    const fields = this.#fields(headers);
    // a stream may end with an error event of ours, so that its length is not the node's to say
    if (isStream(headers)) pushStreamHints(fields, headers);
    else if (headers["content-length"] !== undefined) fields.push("content-length", headers["content-length"]);
    this.tally.status = status;
    this.response.writeHead(status, fields);
    return this.response.write(held);
  }

  write(bytes: string | Buffer): boolean {
    return this.response.writePiece(bytes);
  }

  onDrain(callback: () => void): void {
    this.#watchSlowness();
    this.response.onceWritable(() => {
      // after the end the socket's timer is the server's, for keep-alive
      if (!this.response.writableEnded) this.request.socket.setTimeout(0);
      callback();
    });
  }

  /** A node's answer that is whole. */
  deliver({ status, headers }: AnswerHead, body: Buffer, options: { shouldRetry?: false } = {}): void {
    if (this.response.headersSent || this.response.destroyed) return;
    const fields = this.#fields(headers);
    if (options.shouldRetry === false) fields.push(SHOULD_RETRY_HEADER, "false");
    fields.push("content-length", String(body.length));
    this.tally.status = status;
    this.response.writeHead(status, fields);
    this.#end(body);
  }

  /** An error of our own, in the shape of the route. */
  fail(code: ErrorCode, message: string, options: ErrorOptions = {}): void {
    this.tally.code = code;
    if (this.response.headersSent || this.response.destroyed) return;
    const row = ERRORS[code];
    const body = Buffer.from(
      JSON.stringify(
        errorBody(this.route.shape, code, {
          message,
          param: options.param ?? null,
          extra: options.extra ?? {},
          ...(options.type === undefined ? {} : { type: options.type }),
        }),
      ),
    );
    const fields = this.#fields({});
    fields.push("content-type", "application/json", "content-length", String(body.length));
    const { retryAfterMs } = options;
    if (retryAfterMs !== undefined && !Number.isNaN(retryAfterMs)) {
      fields.push(RETRY_AFTER_HEADER, String(Math.ceil(retryAfterMs / 1000)));
    }
    if (options.shouldRetry === false) fields.push(SHOULD_RETRY_HEADER, "false");
    if (options.mustClose === true) fields.push("connection", "close");
    this.tally.status = row.status;
    this.response.writeHead(row.status, fields);
    // a stream of HTTP/2 ends alone, and tells a caller who still sends to stop
    if (options.closeAfter === undefined || this.request.httpVersionMajor === 2) {
      this.#end(body);
      return;
    }
    // the end closes the connection, and closing while the caller still sends would reset it before it has read this
    this.response.write(body);
    options.closeAfter.then(() => this.#end());
  }

  /** The end of a committed answer. */
  endAnswer(): void {
    this.#end();
  }

  /**
   * A committed answer that broke: one error event where one can stand, else the connection breaks. Never a made-up end.
   */
  breakAnswer(code: ErrorCode, message: string, canTakeErrorEvent: boolean): void {
    this.tally.code = code;
    if (!canTakeErrorEvent) {
      this.response.destroy();
      return;
    }
    const data = JSON.stringify(errorBody(this.route.shape, code, { message }));
    this.#end(this.route.shape === "anthropic" ? `event: error\ndata: ${data}\n\n` : `data: ${data}\n\n`);
  }

  #end(last?: Buffer | string): void {
    if (last === undefined) this.response.end();
    // as text, head and body leave in one write; Latin-1 keeps every byte
    else if (Buffer.isBuffer(last) && last.length <= ONE_WRITE_BYTES_MAX)
      this.response.end(last.toString("latin1"), "latin1");
    else this.response.end(last);
    // a caller who does not take the rest may not hold its connection for ever
    if (this.request.socket.writableLength > 0) this.#watchSlowness();
  }

  /**
   * Ends the connection when the caller takes nothing for too long. A socket's own timer counts as progress what the
   * kernel takes of a chunk; when it fires, the server destroys the socket. An answer that waits for its turn behind
   * another one on the same connection has no socket yet, and is not watched.
   */
  #watchSlowness(): void {
    this.response.socket?.setTimeout(this.#slowClientMs);
  }

  /** Header fields of any answer: ours, and those of the node that callers get. */
  #fields(headers: AnswerHead["headers"]): string[] {
    const { limitLines } = this;
    this.response.setLines(
      `${REQUEST_ID_HEADER}: ${this.requestId}\r\n${TRACEPARENT_HEADER}: ${this.traceparent}\r\n` +
        `${ROUTING_HEADER}: ${this.routingHeader}\r\n${limitLines}`,
    );
    const fields: string[] = [];
    // a caller with limits of its own hears of those, not of the gateway's at the node
    for (const name of limitLines === "" ? ANSWER_HEADERS : UNLIMITED_ANSWER_HEADERS) {
      const value = headers[name];
      if (typeof value === "string") fields.push(name, value);
    }
    if (this.#isDraining()) fields.push("connection", "close");
    return fields;
  }
}

/** Answers up to this size are sent together with their head. */
const ONE_WRITE_BYTES_MAX = 16 * 1024;

function unsampled({ traceId, parentId }: TraceContext): string {
  return `00-${traceId}-${parentId}-00`;
}

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

function isStream(headers: AnswerHead["headers"]): boolean {
  return /^text\/event-stream/i.test(headers["content-type"] ?? "");
}

/** Asks proxies in front of us not to hold events back. */
function pushStreamHints(fields: string[], headers: AnswerHead["headers"]): void {
  fields.push("x-accel-buffering", "no");
  if (headers["cache-control"] === undefined) fields.push("cache-control", "no-cache, no-transform");
}
