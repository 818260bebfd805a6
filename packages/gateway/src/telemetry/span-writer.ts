/**
 * Requests as spans of OpenTelemetry, sent to an OTLP receiver. The SDK gets ids and times that were noted while the
 * request ran; it batches, serialises and tries again. Loaded on the export thread, when traces are on.
 *
 * A request is a span of kind server; its children are the five steps by their names, `admission.queue` for a wait, and
 * one `dispatch` of kind client for each attempt. Names of attributes are those of the semantic conventions for HTTP and
 * generative AI (1.45), our own begin with `zml.`.
 */

import {
  type Attributes,
  type Context,
  createTraceState,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AlwaysOnSampler, BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import { drawSpanId } from "../trace-ids.ts";
import type { ExportCounts } from "./export-counts.ts";
import type { TraceTarget } from "./export-messages.ts";
import type { TraceRecord } from "./request-record.ts";
import type { AttemptNote, DecisionNote } from "./request-trace.ts";

/** The longest value of an attribute; model names have 256 bytes. */
const VALUE_LENGTH_MAX = 1024;

/** `gen_ai.operation.name` of an endpoint; the conventions have no word for the last. */
const OPERATIONS: Readonly<Record<string, string>> = {
  chat_completions: "chat",
  completions: "text_completion",
  responses: "chat",
  messages: "chat",
  embeddings: "embeddings",
  rerank: "rerank",
};

/** Outcomes of an attempt that are no fault of the node's. */
const GOOD_OUTCOMES: ReadonlySet<string> = new Set(["success", "caller_error", "cancelled", "unsent"]);

export interface SpanWriterOptions {
  readonly counts: ExportCounts;
  /** Unix ms of engine time 0. */
  readonly unixOriginMs: number;
  readonly productVersion: string;
  readonly redact: (text: string) => string;
  /** An export ended. @param error null: the receiver has the spans. */
  readonly onExport: (spans: number, error: string | null) => void;
  /** Default: OTLP over HTTP. */
  readonly exporter?: SpanExporter;
}

export interface SpanWriter {
  readonly timeoutMs: number;
  write(record: TraceRecord): void;
  /** Sends what waits, and ends. Spans that did not leave within so long are lost, and counted. */
  end(withinMs: number): Promise<void>;
}

export function createSpanWriter(target: TraceTarget, options: SpanWriterOptions): SpanWriter {
  const { counts, unixOriginMs, redact, onExport } = options;
  const exporter =
    options.exporter ??
    new OTLPTraceExporter({ url: target.url, headers: { ...target.headers }, timeoutMillis: target.timeoutMs });
  const processor = new BatchSpanProcessor({
    exporter: counting(exporter, (spans, error) => {
      counts.leave("Spans", spans);
      if (error !== null) counts.drop("Spans", spans);
      onExport(spans, error);
    }),
    // the queue in front of this one has the bound
    maxQueueSize: Number.MAX_SAFE_INTEGER,
    maxExportBatchSize: target.batchSpans,
    scheduledDelayMillis: target.exportEveryMs,
    // its own limit is beyond the exporter's, which tells more of what happened
    exportTimeoutMillis: target.timeoutMs + 1000,
  });
  const ids = { trace: "", span: "" };
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": target.serviceName, "service.version": options.productVersion }),
    sampler: new AlwaysOnSampler(),
    idGenerator: { generateTraceId: () => ids.trace, generateSpanId: () => ids.span },
    spanProcessors: [processor],
    spanLimits: { attributeValueLengthLimit: VALUE_LENGTH_MAX },
  });
  const tracer = provider.getTracer("zml", options.productVersion);

  /** One span under a parent; null: the trace begins with it. */
  function span(
    record: TraceRecord,
    { name, id, parentId, kind = SpanKind.INTERNAL, startMs, endMs, attributes, events = [], error = null }: SpanFacts,
  ): void {
    ids.trace = record.traceId;
    ids.span = id;
    const began = tracer.startSpan(
      name,
      { kind, startTime: unixOriginMs + startMs, attributes: withoutUnknown(attributes, redact) },
      contextOf(record, parentId),
    );
    for (const event of events) {
      if (!Number.isNaN(event.atMs)) began.addEvent(event.name, event.attributes ?? {}, unixOriginMs + event.atMs);
    }
    if (error !== null) began.setStatus({ code: SpanStatusCode.ERROR, message: error });
    began.end(unixOriginMs + Math.max(startMs, endMs));
  }

  return {
    timeoutMs: target.timeoutMs,
    write(record) {
      span(record, requestFacts(record));
      const child = (facts: Omit<SpanFacts, "id" | "parentId"> & { id?: string }): void => {
        span(record, { parentId: record.spanId, id: drawSpanId(), ...facts });
      };
      child(admissionFacts(record));
      for (const { startMs, endMs } of record.waits) child({ name: "admission.queue", startMs, endMs, attributes: {} });
      for (const decision of record.decisions) {
        const candidatesMs = Number.isNaN(decision.candidatesMs) ? decision.endMs : decision.candidatesMs;
        const { startMs, endMs } = decision;
        child({ name: "availability", startMs, endMs: candidatesMs, attributes: availabilityFacts(decision) });
        child({ name: "cost", startMs: candidatesMs, endMs, attributes: costFacts(decision) });
      }
      for (const attempt of record.attempts) {
        child(dispatchFacts(record, attempt));
        child({
          name: "failover",
          startMs: attempt.endMs,
          endMs: attempt.settledMs,
          attributes: { "zml.outcome": attempt.outcome, "zml.next_move": attempt.move, "zml.node": attempt.node },
        });
      }
    },
    async end(withinMs) {
      const deadline = Promise.withResolvers<void>();
      const timer = setTimeout(deadline.resolve, withinMs);
      await Promise.race([provider.shutdown().catch(() => undefined), deadline.promise]);
      clearTimeout(timer);
    },
  };
}

interface SpanFacts {
  readonly name: string;
  readonly id: string;
  readonly parentId: string | null;
  readonly kind?: SpanKind;
  /** Engine clock, ms. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  /** NaN: it did not happen. */
  readonly events?: readonly { name: string; atMs: number; attributes?: Attributes }[];
  /** Null: it went well. */
  readonly error?: string | null;
}

function requestFacts(record: TraceRecord): SpanFacts {
  const { account, policy, key, decision, reason, outcome, code, status, requestId } = record;
  const isError = status === 0 || status >= 500 || code === "stream_interrupted";
  return {
    name: `${record.method} ${record.route}`,
    id: record.spanId,
    parentId: record.parentId,
    kind: SpanKind.SERVER,
    startMs: record.startedAtMs,
    endMs: record.endedAtMs,
    attributes: {
      "http.request.method": record.method,
      "http.route": record.route,
      "url.path": record.route,
      "http.response.status_code": status === 0 ? Number.NaN : status,
      "network.protocol.version": record.httpVersion === 2 ? "2" : "1.1",
      "client.address": record.clientAddress,
      ...generationFacts(record, record),
      "gen_ai.response.time_to_first_chunk": record.isStream ? seconds(record.firstTokenMs) : Number.NaN,
      "error.type": isError ? code || (status === 0 ? outcome : String(status)) : "",
      "zml.request_id": requestId,
      "zml.account": account,
      "zml.key": key,
      "zml.policy": policy,
      "zml.decision": decision,
      "zml.node": record.node,
      "zml.family": record.family,
      "zml.reason": reason,
      "zml.outcome": outcome,
      "zml.redispatches": Math.max(0, record.dispatches - 1),
      "zml.queue_wait_ms": record.waitedMs,
    },
    events: [{ name: "first_token", atMs: record.startedAtMs + record.firstTokenMs }],
    error: isError ? code || outcome : null,
  };
}

/** Until it was admitted, or refused. */
function admissionFacts(record: TraceRecord): Omit<SpanFacts, "id" | "parentId"> {
  const isAdmitted = !Number.isNaN(record.admittedAtMs);
  return {
    name: "admission",
    startMs: record.startedAtMs,
    endMs: isAdmitted ? record.admittedAtMs : record.endedAtMs,
    attributes: { "zml.account": record.account, "zml.policy": record.policy, "zml.key": record.key },
    error: isAdmitted ? null : record.code || record.outcome,
  };
}

function availabilityFacts({ candidates, dataAgeMs }: DecisionNote): Attributes {
  return { "zml.candidates": candidates, "zml.data_age_ms": dataAgeMs };
}

function costFacts(decision: DecisionNote): Attributes {
  return {
    "zml.decision": decision.id,
    "zml.reason": decision.reason,
    "zml.node": decision.node,
    "zml.family": decision.family,
    "zml.queue_depth": decision.depth,
    "zml.estimate_ms": decision.estimateMs,
    "zml.cost_usd": decision.costUsd,
  };
}

/** The call of a node, which the node's own spans have as parent. */
function dispatchFacts(record: TraceRecord, attempt: AttemptNote): Omit<SpanFacts, "parentId"> {
  const { outcome, fault, status, startMs, firstByteMs, firstTokenMs } = attempt;
  const isError = !GOOD_OUTCOMES.has(outcome);
  return {
    name: "dispatch",
    id: attempt.spanId,
    kind: SpanKind.CLIENT,
    startMs,
    endMs: Number.isNaN(attempt.endMs) ? record.endedAtMs : attempt.endMs,
    attributes: {
      ...addressOf(attempt.url),
      "http.request.method": "POST",
      "http.response.status_code": status < 0 ? Number.NaN : status,
      "http.request.resend_count": attempt.number > 1 ? attempt.number - 1 : Number.NaN,
      "gen_ai.provider.name": attempt.engine ?? "unknown",
      ...generationFacts(record, attempt),
      "gen_ai.response.time_to_first_chunk": record.isStream ? seconds(firstTokenMs - startMs) : Number.NaN,
      "error.type": isError ? (fault ?? (status < 0 ? outcome : String(status))) : "",
      "zml.node": attempt.node,
      "zml.family": attempt.family,
      "zml.decision": attempt.decision,
      "zml.attempt": attempt.number,
      "zml.outcome": outcome,
    },
    events: [
      { name: "first_byte", atMs: firstByteMs },
      { name: "first_token", atMs: firstTokenMs },
    ],
    error: isError ? (fault ?? outcome) : null,
  };
}

/** What the conventions for generative AI name. */
function generationFacts(
  { endpoint, model, isStream }: TraceRecord,
  { promptTokens, outputTokens }: { promptTokens: number; outputTokens: number },
): Attributes {
  return {
    "gen_ai.operation.name": OPERATIONS[endpoint] ?? endpoint,
    "gen_ai.request.model": model,
    "gen_ai.request.stream": isStream,
    "gen_ai.usage.input_tokens": promptTokens,
    "gen_ai.usage.output_tokens": outputTokens,
  };
}

function addressOf(url: string): Attributes {
  if (!URL.canParse(url)) return {};
  const { hostname, port, protocol } = new URL(url);
  return {
    "server.address": hostname.replace(/^\[|\]$/g, ""),
    "server.port": port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  };
}

function seconds(ms: number): number {
  return ms / 1000;
}

/** NaN and empty texts are unknown; texts may hold what a caller wrote. */
function withoutUnknown(attributes: Attributes, redact: (text: string) => string): Attributes {
  const known: Attributes = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === "" || value === undefined || (typeof value === "number" && Number.isNaN(value))) continue;
    known[name] = typeof value === "string" ? redact(value) : value;
  }
  return known;
}

function contextOf({ traceId, traceState }: TraceRecord, parentId: string | null): Context {
  if (parentId === null) return ROOT_CONTEXT;
  const state = traceState === "" ? {} : { traceState: createTraceState(traceState) };
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId: parentId, traceFlags: TraceFlags.SAMPLED, ...state });
}

/** An exporter that tells how each of its exports ended. */
function counting(exporter: SpanExporter, onEnd: (spans: number, error: string | null) => void): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        // 0: success
        onEnd(spans.length, result.code === 0 ? null : (result.error?.message ?? "it gave no reason"));
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush === undefined ? {} : { forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve() }),
  };
}
