import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { drawSpanId, drawTraceContext } from "../trace-ids.ts";
import { ExportCounts } from "./export-counts.ts";
import type { TraceTarget } from "./export-messages.ts";
import type { TraceRecord } from "./request-record.ts";
import { createSpanWriter } from "./span-writer.ts";

interface Export {
  readonly headers: IncomingHttpHeaders;
  readonly url: string;
  readonly body: Buffer;
}

/** A receiver that answers as a test says; without an answer it never does. */
async function receiver(t: TestContext, answer: ((count: number) => number) | null) {
  const exports: Export[] = [];
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    exports.push({ headers: request.headers, url: request.url ?? "", body: Buffer.concat(pieces) });
    if (answer !== null) response.writeHead(answer(exports.length)).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { exports, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces` };
}

const TARGET: Omit<TraceTarget, "url"> = {
  headers: { authorization: "Bearer token" },
  serviceName: "edge",
  batchSpans: 4,
  exportEveryMs: 60_000,
  timeoutMs: 2_000,
  queueSpans: 100,
};

function start(url: string, change: Partial<TraceTarget> = {}) {
  const counts = new ExportCounts();
  const ended: [number, boolean][] = [];
  const writer = createSpanWriter(
    { ...TARGET, url, ...change },
    {
      counts,
      ...{ unixOriginMs: Date.now(), productVersion: "1.0.0" },
      redact: (text) => text.replaceAll("secret", "[hidden]"),
      onExport: (spans, error) => ended.push([spans, error === null]),
    },
  );
  const write = (change: Partial<TraceRecord> = {}) => {
    const { traceId } = drawTraceContext();
    counts.enter("Spans", 2, 1_000);
    writer.write({
      ...{ requestId: "r", method: "POST", route: "/v1/chat/completions", httpVersion: 1, clientAddress: "" },
      ...{ account: "default", key: "", model: "m", policy: "p", endpoint: "chat_completions", isStream: false },
      ...{ node: "", family: "", decision: "", reason: "", outcome: "saturated", code: "queue_saturated" },
      ...{ status: 503, dispatches: 0, startedAtMs: 0, admittedAtMs: 1, endedAtMs: 2, waitedMs: 0, decideMs: 0 },
      ...{ firstTokenMs: Number.NaN, promptTokens: Number.NaN, outputTokens: Number.NaN, traceId },
      ...{ spanId: drawSpanId(), parentId: null, traceState: "", waits: [], decisions: [], attempts: [], spanCount: 2 },
      ...change,
    });
  };
  return { writer, counts, ended, write };
}

test("a batch leaves when it is full, with the headers and the resource that were asked for", async (t) => {
  const { exports, url } = await receiver(t, () => 200);
  const { writer, counts, ended, write } = start(url);
  for (let count = 0; count < 5; count++) write();
  await writer.end(5_000);
  assert.deepEqual(ended.map(([spans]) => spans).toSorted(), [2, 4, 4]);
  assert.ok(ended.every(([, isGood]) => isGood));
  assert.equal(exports[0]?.url, "/v1/traces");
  assert.equal(exports[0]?.headers["authorization"], "Bearer token");
  assert.equal(exports[0]?.headers["content-type"], "application/x-protobuf");
  const text = Buffer.concat(exports.map(({ body }) => body)).toString("latin1");
  for (const word of ["service.name", "edge", "queue_saturated", "zml.policy"]) assert.ok(text.includes(word), word);
  assert.equal(counts.get("queuedSpans"), 0);
  assert.equal(counts.get("droppedSpans"), 0);
});

test("what is no full batch leaves after its time", async (t) => {
  const { exports, url } = await receiver(t, () => 200);
  const { writer, write } = start(url, { exportEveryMs: 20 });
  write();
  const deadline = performance.now() + 10_000;
  while (exports.length === 0) {
    assert.ok(performance.now() < deadline);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await writer.end(5_000);
});

test("spans that a receiver refuses are counted, and what a caller wrote is cleaned", async (t) => {
  const { exports, url } = await receiver(t, () => 400);
  const { writer, counts, ended, write } = start(url);
  write({ requestId: "my secret id" });
  await writer.end(5_000);
  assert.deepEqual(ended, [[2, false]]);
  assert.equal(counts.get("droppedSpans"), 2);
  assert.equal(counts.get("queuedSpans"), 0);
  assert.doesNotMatch(exports[0]?.body.toString("latin1") ?? "", /secret/);
});

test("the end waits for a receiver that says nothing as long as it may, and an export no longer than its time", async (t) => {
  const { url } = await receiver(t, null);
  const long = start(url);
  long.write();
  const startMs = performance.now();
  await long.writer.end(100);
  assert.ok(performance.now() - startMs < 1_500, "it did not wait for the export's own deadline");
  assert.equal(long.counts.get("queuedSpans"), 2, "what was lost can be told");
  const short = start(url, { timeoutMs: 100 });
  short.write();
  await short.writer.end(10_000);
  assert.deepEqual(short.ended, [[2, false]]);
});
