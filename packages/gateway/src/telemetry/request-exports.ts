/**
 * Traces and the access log, seen from the control thread: it starts the export thread when one of them is on, hands it
 * what the serving threads noted, and counts what became of it. A receiver that is down is one line in the log.
 */

import { Worker } from "node:worker_threads";
import type { TelemetryConfig } from "@zml/protocol";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import type { GatewayLog } from "../control/gateway-log.ts";
import { ExportCounts } from "./export-counts.ts";
import type {
  ExportSettings,
  ExportThreadStart,
  FromExportThread,
  ToExportThread,
  TraceTarget,
} from "./export-messages.ts";
import type { LogFormat } from "./log-lines.ts";
import type { MetricFamily } from "./metric-family.ts";
import type { RequestBatch } from "./request-observer.ts";

/** Room for objects in the thread, MB: a full queue of spans, and what the SDK makes of a batch. */
const HEAP = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 };
/** A thread that died is started again after this long, ms. */
const RESTART_MS = 5_000;
/** What a thread without traces gets to hand on its last lines, ms. */
const LINES_FLUSH_MS = 1_000;
const TRACES_PATH = "/v1/traces";

export interface RequestExportsOptions {
  readonly log: GatewayLog;
  readonly unixOriginMs: number;
  readonly productVersion: string;
  readonly format: LogFormat;
  /** Takes whole lines. */
  readonly writeLines: (text: string) => void;
}

export class RequestExports {
  readonly counts = new ExportCounts();
  readonly #options: RequestExportsOptions;
  #settings: ExportSettings | null = null;
  #flushMs = 0;
  #thread: Worker | null = null;
  #restart: NodeJS.Timeout | null = null;
  #isStopping = false;
  #exported = 0;
  #failed = 0;
  #isFailing = false;

  constructor(options: RequestExportsOptions) {
    this.#options = options;
  }

  /** Follows the configuration. */
  configure(telemetry: TelemetryConfig, secrets: ConfigSecrets, redacted: readonly string[]): void {
    const traces = traceTarget(telemetry, secrets);
    const isOn = traces !== null || telemetry.accessLog.ratio > 0;
    this.#flushMs = traces === null ? LINES_FLUSH_MS : telemetry.traces.flushMs;
    this.#settings = isOn ? { traces, format: this.#options.format, secrets: redacted } : null;
    if (this.#settings === null) void this.#endThread();
    else if (this.#thread === null) this.#start();
    else this.#post({ kind: "configure", settings: this.#settings });
  }

  /** What a serving thread noted. */
  take(batch: RequestBatch): void {
    if (this.#thread !== null) this.#post({ kind: "observed", batch });
    else {
      for (const { spanCount } of batch.traces) this.#lose("Spans", spanCount);
      this.#lose("Lines", batch.lines.length);
    }
  }

  /** Lets what waits leave, within `telemetry.traces.flush_ms`. The serving threads have ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    if (this.#restart !== null) clearTimeout(this.#restart);
    await this.#endThread();
    const lost = this.counts.get("queuedSpans");
    if (lost > 0) this.#options.log.warn({ spans: lost }, "traces were lost: the receiver did not take them in time");
  }

  metrics(): MetricFamily[] {
    const cells = (kind: "Spans" | "Lines") => this.counts.get(`dropped${kind}`) >>> 0;
    return [
      {
        name: "zml_trace_spans_total",
        help: "Spans by what became of them: exported, failed (the receiver did not take them), dropped (no room in the queue).",
        type: "counter",
        values: [
          { labels: { result: "exported" }, value: this.#exported },
          { labels: { result: "failed" }, value: this.#failed },
          { labels: { result: "dropped" }, value: Math.max(0, cells("Spans") - this.#failed) },
        ],
      },
      {
        name: "zml_trace_queued_spans",
        help: "Spans that wait for the receiver.",
        type: "gauge",
        values: [{ labels: {}, value: this.counts.get("queuedSpans") }],
      },
      {
        name: "zml_access_log_lines_dropped_total",
        help: "Lines of the access log that found no room in the queue.",
        type: "counter",
        values: [{ labels: {}, value: cells("Lines") }],
      },
    ];
  }

  #lose(kind: "Spans" | "Lines", count: number): void {
    this.counts.leave(kind, count);
    this.counts.drop(kind, count);
  }

  #start(): void {
    const { unixOriginMs, productVersion, log } = this.#options;
    const workerData: ExportThreadStart = { counts: this.counts.buffer, unixOriginMs, productVersion };
    const thread = new Worker(new URL("./export-thread.ts", import.meta.url), {
      workerData,
      name: "zml-exports",
      // the exporter would read variables of its own from it
      env: {},
      resourceLimits: HEAP,
    });
    this.#thread = thread;
    let died = "it ended without an error";
    thread.on("message", (message: FromExportThread) => this.#receive(message));
    thread.on("error", (error) => {
      died = error instanceof Error ? (error.stack ?? error.message) : String(error);
    });
    thread.on("exit", () => {
      if (this.#thread !== thread) return;
      this.#thread = null;
      this.counts.reset();
      if (this.#isStopping || this.#settings === null) return;
      log.error({ error: died, restartInMs: RESTART_MS }, "the export thread died; traces and access lines are lost");
      this.#restart = setTimeout(() => {
        if (this.#thread === null && this.#settings !== null) this.#start();
      }, RESTART_MS).unref();
    });
    // nobody waits for it when the process ends
    thread.unref();
    if (this.#settings !== null) this.#post({ kind: "configure", settings: this.#settings });
  }

  #post(message: ToExportThread): void {
    this.#thread?.postMessage(message);
  }

  #receive(message: FromExportThread): void {
    switch (message.kind) {
      case "lines":
        this.counts.leave("Lines", message.count);
        this.#options.writeLines(message.text);
        break;
      case "exported":
        this.#noteExport(message.spans, message.error);
        break;
      case "ended":
        break;
    }
  }

  /** Says once that the receiver can't be reached, and once that it can again. */
  #noteExport(spans: number, error: string | null): void {
    const { log } = this.#options;
    const endpoint = this.#settings?.traces?.url ?? "";
    if (error === null) {
      this.#exported += spans;
      if (this.#isFailing) log.info({ endpoint, failed: this.#failed }, "traces can be exported again");
      this.#isFailing = false;
      return;
    }
    this.#failed += spans;
    if (!this.#isFailing) {
      log.warn({ endpoint, error, spans }, "traces can't be exported: they are dropped and counted until they can");
    }
    this.#isFailing = true;
  }

  async #endThread(): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
    const withinMs = this.#flushMs;
    const ended = Promise.withResolvers<void>();
    const timer = setTimeout(ended.resolve, withinMs + LINES_FLUSH_MS);
    thread.on("message", (message: FromExportThread) => {
      if (message.kind === "ended") ended.resolve();
    });
    thread.once("exit", () => ended.resolve());
    this.#post({ kind: "end", withinMs });
    await ended.promise;
    clearTimeout(timer);
    if (this.#thread === thread) this.#thread = null;
    await thread.terminate();
    // a configuration that came meanwhile wants one
    if (!this.#isStopping && this.#settings !== null && this.#thread === null) this.#start();
  }
}

function traceTarget({ traces }: TelemetryConfig, secrets: ConfigSecrets): TraceTarget | null {
  if (traces.endpoint === null) return null;
  const { serviceName, batchSpans, exportEveryMs, timeoutMs, queueSpans } = traces;
  const base = traces.endpoint.replace(/\/+$/, "");
  return {
    url: base.endsWith(TRACES_PATH) ? base : `${base}${TRACES_PATH}`,
    headers: Object.fromEntries([...secrets.traceHeaders].map(([name, secret]) => [name, secret.reveal()])),
    serviceName,
    batchSpans,
    exportEveryMs,
    timeoutMs,
    queueSpans,
  };
}
