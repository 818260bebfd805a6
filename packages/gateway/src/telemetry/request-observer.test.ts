import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Exchange } from "../exchange.ts";
import type { WorkerSettings } from "../thread-messages.ts";
import { drawTraceContext } from "../trace-ids.ts";
import { ExportCounts } from "./export-counts.ts";
import { isInShare, type RequestBatch, RequestObserver } from "./request-observer.ts";
import { createTally } from "./request-tally.ts";

type Settings = WorkerSettings["observe"];
const TRACES = { ratio: 1, isParentBased: true, keepsFailed: true, clientAddress: false, queueSpans: 8192 };
const LINES = { ratio: 1, keepsFailed: true, clientAddress: false, queueLines: 8192 };

function fixture(settings: Settings, random = () => 0.5) {
  const batches: RequestBatch[] = [];
  const counts = new ExportCounts();
  const observer = new RequestObserver({ counts, settings, send: (batch) => batches.push(batch), random });
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const given = (flags: string) => `00-${traceId}-b7ad6b7169203331-${flags}`;
  /** A request that ended with nothing noted of it on the way. */
  const end = (tally: Partial<ReturnType<typeof createTally>> = {}) => {
    const drawn = drawTraceContext();
    const exchange = {
      trace: observer.begin(null, drawn),
      ...{ drawn, givenTraceparent: null, traceparent: drawn.traceparent, traceState: "", interruption: null },
      tally: { ...createTally(), dispatches: 1, status: 200, ...tally },
      ...{ routing: {}, admitted: null, route: { path: "/v1/chat/completions", endpoint: 0 }, requestId: "r" },
      request: { method: "POST", httpVersionMajor: 1, socket: {} },
      ...{ account: "default", keyName: null, startedAtMs: 0 },
    };
    observer.end(exchange as unknown as Exchange, 10);
  };
  return { observer, batches, counts, given, traceId, end };
}

test("with both off nothing is noted and nothing leaves", () => {
  const { observer, batches, end } = fixture({ traces: null, accessLog: null });
  end();
  end({ code: "internal_error", status: 500 });
  observer.flush();
  assert.deepEqual(batches, []);
  assert.equal(observer.isTracing, false);
});

test("a caller's flag decides where there is one, the ratio for all others", () => {
  const never = fixture({ traces: { ...TRACES, ratio: 0 }, accessLog: null });
  const drawn = drawTraceContext();
  assert.equal(never.observer.begin(null, drawn), null);
  assert.equal(never.observer.begin(never.given("00"), drawn), null);
  const trace = never.observer.begin(never.given("01"), drawn);
  assert.deepEqual(
    [trace?.traceId, trace?.parentId, trace?.spanId],
    [never.traceId, "b7ad6b7169203331", drawn.parentId],
  );
  assert.equal(trace?.traceparent, `00-${never.traceId}-${drawn.parentId}-01`);
  // the second bit says that the id is random, and nothing of sampling
  assert.equal(never.observer.begin(never.given("02"), drawn), null);
  const always = fixture({ traces: TRACES, accessLog: null });
  assert.equal(always.observer.begin(always.given("00"), drawn), null);
  assert.notEqual(always.observer.begin(null, drawn), null);
  const strangers = fixture({ traces: { ...TRACES, ratio: 0, isParentBased: false }, accessLog: null });
  assert.equal(strangers.observer.begin(strangers.given("01"), drawn), null);
});

test("a share of trace ids is kept, the same ones by everybody, and more of a larger share", () => {
  const ids = Array.from({ length: 20_000 }, () => drawTraceContext().traceId);
  const kept = ids.filter((id) => isInShare(id, 0.1)).length;
  assert.ok(kept > 1_700 && kept < 2_300, String(kept));
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(ids.length - 1), (ratio, index) => {
      const id = ids[index] as string;
      assert.ok(!isInShare(id, ratio / 2) || isInShare(id, ratio));
      assert.equal(isInShare(id, 0), false);
      assert.equal(isInShare(id, 1), true);
    }),
  );
});

test("a request that fails is told although it was not sampled, one that goes well is not", () => {
  const { observer, batches, end } = fixture({ traces: { ...TRACES, ratio: 0 }, accessLog: null });
  end();
  end({ code: "model_not_found", status: 404 });
  end({ code: "queue_saturated", status: 503, dispatches: 0 });
  end({ dispatches: 2 });
  observer.flush();
  assert.deepEqual(
    batches.flatMap(({ traces }) => traces.map(({ outcome, dispatches }) => [outcome, dispatches])),
    [
      ["saturated", 0],
      ["delivered", 2],
    ],
  );
  const off = fixture({ traces: { ...TRACES, ratio: 0, keepsFailed: false }, accessLog: null });
  off.end({ code: "queue_saturated", status: 503 });
  off.observer.flush();
  assert.deepEqual(off.batches, []);
});

test("the access log has its share of requests, and each that failed", () => {
  const draws = [0.1, 0.9, 0.2, 0.9];
  const { observer, batches, end } = fixture(
    { traces: null, accessLog: { ...LINES, ratio: 0.5 } },
    () => draws.shift() ?? 1,
  );
  for (let count = 0; count < 4; count++) end();
  end({ code: "upstream_failed", status: 502 });
  observer.flush();
  assert.equal(batches.flatMap(({ lines }) => lines).length, 3);
});

test("what the queues have no room for is dropped and counted, and the serving thread keeps nothing of it", () => {
  const { observer, batches, counts, end } = fixture({
    traces: { ...TRACES, queueSpans: 10 },
    accessLog: { ...LINES, queueLines: 3 },
  });
  for (let count = 0; count < 1000; count++) end();
  observer.flush();
  // a request without decision is two spans
  assert.equal(batches.flatMap(({ traces }) => traces).length, 5);
  assert.equal(batches.flatMap(({ lines }) => lines).length, 3);
  assert.equal(counts.get("queuedSpans"), 10);
  assert.equal(counts.get("droppedSpans"), 1990);
  assert.equal(counts.get("droppedLines"), 997);
  counts.leave("Spans", 10);
  end();
  observer.flush();
  assert.equal(batches.at(-1)?.traces.length, 1);
});
