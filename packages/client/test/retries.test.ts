/** What is sent again and when, with a clock that moves by sleeping only. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  answering,
  chatAnswer,
  type ScriptedNode,
  startScriptedNode,
  streaming,
} from "../../gateway/test/scripted-node.ts";
import { APIStatusError, type ClientOptions, RateLimitError, SaturationError, ZML } from "../src/index.ts";
import { fakeTiming } from "./fake-timing.ts";

const ask = { model: "m", messages: [{ role: "user", content: "hello" }] };
const SATURATED = JSON.stringify({
  error: {
    message: "every healthy node is full: try again after Retry-After",
    type: "saturation",
    code: "queue_saturated",
    param: null,
    families: [{ family: "H100", reason: "at_capacity", nodes: 2 }, { family: "MI300X" }],
  },
});

interface Told {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** Calls a server that gives these answers in turn, and then good ones. */
async function run(t: { after(f: () => Promise<void>): void }, answers: readonly Told[], options: ClientOptions = {}) {
  const node = await startScriptedNode((call, index) => {
    const { status, headers = {}, body = "{}" } = answers[index] ?? { status: 200, body: chatAnswer("good") };
    answering(status, body, headers)(call, index);
  });
  t.after(() => node.stop());
  const timing = fakeTiming();
  const client = new ZML({ baseUrl: node.url, timing, ...options });
  const result: unknown = await client.infer(ask).then(
    ({ text }) => text,
    (error: unknown) => error,
  );
  assert.equal(timing.timers, 0);
  return { node, timing, client, result };
}

test("a status of the caller's own making is not sent again", async (t) => {
  for (const status of [400, 401, 403, 404, 405, 413, 415, 422, 424, 431, 501, 505]) {
    const { node, result } = await run(t, [{ status }]);
    assert.ok(result instanceof APIStatusError, String(status));
    assert.equal(node.calls.length, 1, String(status));
  }
});

test("a status that may pass is sent again, twice, with growing waits and the same bytes", async (t) => {
  for (const status of [408, 409, 429, 500, 502, 503, 504, 529]) {
    const { node, timing, result } = await run(t, [{ status }, { status }]);
    assert.equal(result, "good", String(status));
    assert.deepEqual(timing.waits, [500, 1000]);
    const [first, ...others] = node.calls.map(({ body }) => String(body));
    for (const other of others) assert.equal(other, first);
  }
  const { node, result } = await run(t, [{ status: 500 }, { status: 500 }, { status: 502 }]);
  assert.ok(result instanceof APIStatusError);
  assert.equal(result.status, 502, "the last one is told");
  assert.equal(node.calls.length, 3);
});

test("x-should-retry wins over the status, both ways, but nothing good is sent again", async (t) => {
  const no = { "x-should-retry": "false" };
  const yes = { "x-should-retry": "true" };
  const stopped = await run(t, [{ status: 503, headers: no }]);
  assert.ok(stopped.result instanceof APIStatusError);
  assert.equal(stopped.result.shouldRetry, false);
  assert.equal(stopped.node.calls.length, 1);
  const again = await run(t, [{ status: 422, headers: yes }]);
  assert.equal(again.result, "good");
  const good = await run(t, [{ status: 200, headers: yes, body: chatAnswer("first") }]);
  assert.equal(good.result, "first");
  assert.equal(good.node.calls.length, 1);
});

test("Retry-After is obeyed in seconds, as a date, and in milliseconds, which win", async (t) => {
  const cases: [Record<string, string>, number][] = [
    [{ "retry-after": "7" }, 7000],
    [{ "retry-after": "0" }, 0],
    [{ "retry-after": "1.5" }, 1500],
    [{ "retry-after": "90" }, 90_000],
    // the fake clock starts at midnight of that day
    [{ "retry-after": "Mon, 30 Nov 2026 00:00:09 GMT" }, 9000],
    [{ "retry-after": "Sun, 29 Nov 2026 00:00:00 GMT" }, 0],
    [{ "retry-after-ms": "250", "retry-after": "7" }, 250],
    [{ "retry-after-ms": "soon", "retry-after": "7" }, 7000],
    // what can't be read is as if it were absent
    [{ "retry-after": "soon" }, 500],
    [{ "retry-after": "-1" }, 500],
    [{ "retry-after": "1e3" }, 500],
    [{ "retry-after": "" }, 500],
  ];
  for (const [headers, wait] of cases) {
    const { timing, result } = await run(t, [{ status: 429, headers }]);
    assert.equal(result, "good");
    assert.deepEqual(timing.waits, [wait], JSON.stringify(headers));
  }
});

test("a Retry-After that does not fit in what is left of the deadline is told at once", async (t) => {
  const headers = { "retry-after": "60" };
  const { timing, node, result } = await run(t, [{ status: 503, headers, body: SATURATED }], { timeoutMs: 60_000 });
  assert.ok(result instanceof SaturationError);
  assert.equal(result.retryAfter, 60);
  assert.deepEqual(result.families, [{ family: "H100", reason: "at_capacity", nodes: 2 }], "what is half is left out");
  assert.match(result.message, /the server asks to wait 60 s/);
  assert.deepEqual(timing.waits, []);
  assert.equal(node.calls.length, 1);
  const absurd = await run(t, [{ status: 503, headers: { "retry-after": "9".repeat(400) } }]);
  assert.ok(absurd.result instanceof APIStatusError);
  assert.deepEqual(absurd.timing.waits, []);
  // the waits before count
  const second = await run(
    t,
    [
      { status: 429, headers },
      { status: 429, headers },
    ],
    { timeoutMs: 100_000 },
  );
  assert.ok(second.result instanceof RateLimitError);
  assert.deepEqual(second.timing.waits, [60_000]);
});

test("a back-off that does not fit is not waited for either", async (t) => {
  const { timing, result } = await run(t, [{ status: 500 }, { status: 500 }, { status: 500 }], {
    timeoutMs: 1400,
    maxRetries: 9,
  });
  assert.ok(result instanceof APIStatusError);
  assert.deepEqual(timing.waits, [500]);
});

test("waits grow up to 8 s, and chance takes off at most a quarter", async (t) => {
  const all = Array.from({ length: 6 }, () => ({ status: 500 }));
  const { timing } = await run(t, all, { maxRetries: 6 });
  assert.deepEqual(timing.waits, [500, 1000, 2000, 4000, 8000, 8000]);
  const random = fakeTiming(1 - Number.EPSILON);
  const { result } = await run(t, all.slice(0, 2), { timing: random });
  assert.equal(result, "good");
  assert.deepEqual(
    random.waits.map((ms) => Math.round(ms)),
    [375, 750],
  );
});

test("retries are counted per call, and none are made when there are to be none", async (t) => {
  const none = await run(t, [{ status: 500 }], { maxRetries: 0 });
  assert.equal(none.node.calls.length, 1);
  const node: ScriptedNode = await startScriptedNode(answering(500, "{}"));
  t.after(() => node.stop());
  const timing = fakeTiming();
  const client = new ZML({ baseUrl: node.url, timing });
  await assert.rejects(client.infer({ ...ask, maxRetries: 1 }), APIStatusError);
  assert.equal(node.calls.length, 2);
  await assert.rejects(client.models.list({ maxRetries: 0 }), APIStatusError);
  assert.equal(node.calls.length, 3);
});

test("the deadline of one call does not count for the next", async (t) => {
  const { client, timing, node } = await run(t, [{ status: 503, headers: { "retry-after": "500" } }]);
  assert.deepEqual(timing.waits, [500_000]);
  assert.equal((await client.infer(ask)).text, "good");
  assert.equal(node.calls.length, 3);
});

test("a stream whose head was good is never sent again, whatever comes then", async (t) => {
  const node = await startScriptedNode(streaming());
  t.after(() => node.stop());
  const client = new ZML({ baseUrl: node.url, timing: fakeTiming() });
  await assert.rejects((await client.infer({ ...ask, stream: true })).next());
  assert.equal(node.calls.length, 1);
});

test("an abort ends the wait between two attempts", async (t) => {
  const controller = new AbortController();
  const node = await startScriptedNode((call, index) => {
    answering(503, "{}", { "retry-after": "60" })(call, index);
  });
  t.after(() => node.stop());
  // the real clock, so that the wait is one
  const client = new ZML({ baseUrl: node.url });
  const fetched = client.infer({ ...ask, signal: controller.signal });
  const reason = new Error("enough");
  node.script = () => assert.fail("it was sent again");
  setImmediate(() => controller.abort(reason));
  await assert.rejects(fetched, reason);
});

test("a trace context that a program gives goes along, with each try", async (t) => {
  const node = await startScriptedNode((call, index) => {
    answering(index === 0 ? 503 : 200, index === 0 ? "{}" : chatAnswer("good"))(call, index);
  });
  t.after(() => node.stop());
  const client = new ZML({ baseUrl: node.url, timing: fakeTiming() });
  const context = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "rojo=1" };
  assert.equal((await client.infer({ ...ask, extraHeaders: context })).text, "good");
  assert.deepEqual(
    node.calls.map(({ headers: { traceparent, tracestate } }) => ({ traceparent, tracestate })),
    [context, context],
  );
});
