/**
 * Entry of the export thread: requests that ended become spans and lines here, so that neither the serving threads nor the
 * control thread hold OpenTelemetry's SDK or wait for a receiver. It runs only while traces or the access log are on.
 */

import { strict as assert } from "node:assert";
import { parentPort, workerData } from "node:worker_threads";
import { accessLines } from "./access-lines.ts";
import { ExportCounts } from "./export-counts.ts";
import type { ExportSettings, ExportThreadStart, FromExportThread, ToExportThread } from "./export-messages.ts";
import { createRedactor } from "./redact.ts";
import type { RequestBatch } from "./request-observer.ts";
import type { SpanWriter } from "./span-writer.ts";

assert(parentPort !== null, "this file runs as a thread");
const port = parentPort;
const start = workerData as ExportThreadStart;
const counts = new ExportCounts(start.counts);

let settings: ExportSettings = { traces: null, format: "json", secrets: [] };
let redact = createRedactor([]);
let spans: SpanWriter | null = null;
/** Messages are taken one after the other, also where one of them waits. */
let turn: Promise<void> = Promise.resolve();

function send(message: FromExportThread): void {
  port.postMessage(message);
}

port.on("message", (message: ToExportThread) => {
  turn = turn.then(() => take(message));
});

async function take(message: ToExportThread): Promise<void> {
  switch (message.kind) {
    case "configure":
      await configure(message.settings);
      break;
    case "observed":
      tell(message.batch);
      break;
    case "end":
      await spans?.end(message.withinMs);
      send({ kind: "ended" });
      port.close();
      break;
  }
}

async function configure(next: ExportSettings): Promise<void> {
  const isSame = JSON.stringify(next.traces) === JSON.stringify(settings.traces);
  settings = next;
  redact = createRedactor(next.secrets);
  if (isSame) return;
  const before = spans;
  spans = null;
  // what waits goes where it was meant to go, beside what comes now
  void before?.end(before.timeoutMs);
  if (next.traces === null) return;
  const { createSpanWriter } = await import("./span-writer.ts");
  spans = createSpanWriter(next.traces, {
    counts,
    unixOriginMs: start.unixOriginMs,
    productVersion: start.productVersion,
    redact: (text) => redact(text),
    onExport: (count, error) => send({ kind: "exported", spans: count, error: error === null ? null : redact(error) }),
  });
}

function tell({ traces, lines }: RequestBatch): void {
  for (const trace of traces) {
    if (spans !== null) spans.write(trace);
    else {
      counts.leave("Spans", trace.spanCount);
      counts.drop("Spans", trace.spanCount);
    }
  }
  if (lines.length === 0) return;
  const text = accessLines(lines, { unixOriginMs: start.unixOriginMs, format: settings.format, redact });
  // they stay in the queue until the control thread has handed them to whoever reads the log
  send({ kind: "lines", text, count: lines.length });
}
