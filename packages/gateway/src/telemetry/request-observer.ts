/**
 * What a serving thread notes of single requests for traces and the access log, and hands on in batches. With both off a
 * request costs two comparisons; what is sampled costs what it notes.
 */

import { ENDPOINTS, type Ending, REASONS } from "@zml/engine";
import type { Exchange } from "../exchange.ts";
import type { WorkerSettings } from "../thread-messages.ts";
import type { TraceContext } from "../trace-ids.ts";
import { endingOf } from "./ending.ts";
import type { ExportCounts } from "./export-counts.ts";
import type { RequestRecord, TraceRecord } from "./request-record.ts";
import { RequestTrace } from "./request-trace.ts";

/** Batches leave at this pace, ms, or when they are this large. */
const FLUSH_MS = 250;
const BATCH_MAX = 256;

/** 2^56: the random part of a trace id are its last 14 hex digits (W3C Trace Context, level 2). */
const RANDOM_RANGE = 2 ** 56;
const RANDOM_DIGITS = 14;

/** Endings that callers did not ask for. */
const FAILED: ReadonlySet<Ending> = new Set([
  "saturated",
  "parked_in_vain",
  "given_up",
  "interrupted",
  "over_time",
  "internal_error",
]);

export interface RequestBatch {
  readonly traces: readonly TraceRecord[];
  readonly lines: readonly RequestRecord[];
}

export interface RequestObserverOptions {
  readonly counts: ExportCounts;
  readonly send: (batch: RequestBatch) => void;
  readonly settings: WorkerSettings["observe"];
  /** In [0, 1). Default: Math.random. */
  readonly random?: () => number;
}

export class RequestObserver {
  readonly #counts: ExportCounts;
  readonly #send: (batch: RequestBatch) => void;
  readonly #random: () => number;
  #settings: WorkerSettings["observe"];
  #traces: TraceRecord[] = [];
  #lines: RequestRecord[] = [];
  #timer: NodeJS.Timeout | null = null;

  constructor({ counts, send, settings, random = Math.random }: RequestObserverOptions) {
    this.#counts = counts;
    this.#send = send;
    this.#settings = settings;
    this.#random = random;
  }

  /** For requests that begin from now on. */
  setSettings(settings: WorkerSettings["observe"]): void {
    this.#settings = settings;
  }

  /** Requests are traced, if not each. */
  get isTracing(): boolean {
    return this.#settings.traces !== null;
  }

  /**
   * A request begins.
   *
   * @param given the caller's `traceparent`, valid; null: it brought none. @param drawn ids for it.
   * @returns what to note on; null: it is not sampled.
   */
  begin(given: string | null, drawn: TraceContext): RequestTrace | null {
    const { traces } = this.#settings;
    if (traces === null) return null;
    const traceId = given === null ? drawn.traceId : given.slice(3, 35);
    const isSampled =
      given !== null && traces.isParentBased
        ? (Number.parseInt(given.slice(53), 16) & 1) === 1
        : isInShare(traceId, traces.ratio);
    return isSampled ? this.#trace(given, drawn, true) : null;
  }

  /** A request that was not sampled fails, or needs a second node: what is known of it can still be told. */
  beginLate(exchange: Exchange): RequestTrace | null {
    if (this.#settings.traces?.keepsFailed !== true) return null;
    return this.#trace(exchange.givenTraceparent, exchange.drawn, false);
  }

  #trace(given: string | null, drawn: TraceContext, isSampled: boolean): RequestTrace {
    return new RequestTrace({
      traceId: given === null ? drawn.traceId : given.slice(3, 35),
      // the id that was drawn for a parent is the request's own; a caller that brought none hears of it
      spanId: drawn.parentId,
      parentId: given === null ? null : given.slice(36, 52),
      isSampled,
    });
  }

  /** A request ended. */
  end(exchange: Exchange, nowMs: number): void {
    const { traces, accessLog } = this.#settings;
    if (traces === null && accessLog === null && exchange.trace === null) return;
    const { tally, interruption } = exchange;
    const ending = endingOf(tally, interruption);
    const hasFailed = FAILED.has(ending) || tally.dispatches > 1;
    const trace = exchange.trace ?? (hasFailed ? this.beginLate(exchange) : null);
    const isLogged = accessLog !== null && ((hasFailed && accessLog.keepsFailed) || this.#random() < accessLog.ratio);
    if (trace !== null) {
      if (this.#traces.length >= BATCH_MAX) this.flush();
      this.#traces.push({
        ...recordOf(exchange, ending, nowMs, traces?.clientAddress === true),
        spanId: trace.spanId,
        parentId: trace.parentId,
        traceState: exchange.traceState,
        waits: trace.waits,
        decisions: trace.decisions,
        attempts: trace.attempts,
        spanCount: trace.spanCount,
      });
    }
    if (isLogged) {
      if (this.#lines.length >= BATCH_MAX) this.flush();
      this.#lines.push(recordOf(exchange, ending, nowMs, accessLog.clientAddress));
    }
    if (trace !== null || isLogged) this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS).unref();
  }

  /** Hands on what was noted, as far as the queues have room. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#traces.length === 0 && this.#lines.length === 0) return;
    const { traces, accessLog } = this.#settings;
    const counts = this.#counts;
    const batch = {
      traces: this.#traces.filter(({ spanCount }) => counts.enter("Spans", spanCount, traces?.queueSpans ?? 0)),
      lines: this.#lines.filter(() => counts.enter("Lines", 1, accessLog?.queueLines ?? 0)),
    };
    this.#traces = [];
    this.#lines = [];
    if (batch.traces.length > 0 || batch.lines.length > 0) this.#send(batch);
  }
}

/** Whether a trace is within a share of all, the same for each who asks. @param ratio 0 to 1. */
export function isInShare(traceId: string, ratio: number): boolean {
  if (ratio <= 0) return false;
  return Number.parseInt(traceId.slice(-RANDOM_DIGITS), 16) >= (1 - ratio) * RANDOM_RANGE;
}

function recordOf(exchange: Exchange, ending: Ending, nowMs: number, hasAddress: boolean): RequestRecord {
  const { tally, routing, admitted, request, route } = exchange;
  return {
    requestId: exchange.requestId,
    method: request.method ?? "",
    route: route.path,
    httpVersion: request.httpVersionMajor,
    clientAddress: hasAddress ? (request.socket.remoteAddress ?? "") : "",
    account: exchange.account ?? "",
    key: exchange.keyName ?? "",
    model: admitted?.model.name ?? "",
    policy: admitted?.policy.name ?? "",
    endpoint: ENDPOINTS[route.endpoint] ?? "",
    isStream: admitted?.isStream ?? false,
    node: routing.node ?? "",
    family: routing.family ?? "",
    decision: routing.decision ?? "",
    reason: routing.reason ?? REASONS[tally.reason] ?? "",
    outcome: ending,
    code: tally.code ?? "",
    status: tally.status,
    dispatches: tally.dispatches,
    startedAtMs: exchange.startedAtMs,
    admittedAtMs: admitted?.admittedAtMs ?? Number.NaN,
    endedAtMs: nowMs,
    waitedMs: tally.waitedMs,
    decideMs: tally.decideMs,
    firstTokenMs: tally.firstTokenMs,
    promptTokens: tally.promptTokens,
    outputTokens: tally.outputTokens,
    traceId: exchange.traceparent.slice(3, 35),
  };
}
