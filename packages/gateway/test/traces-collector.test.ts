/** Traces as the OpenTelemetry Collector receives them, from a gateway with fake nodes. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { chat, decisionOf, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";
import { buildOtelReceiver, type OtelReceiver, type ReceivedSpan, startOtelReceiver } from "./otel-receiver.ts";

const POLICY = `policies:
  - { name: fast, accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }], cost_priority: latency }
models: [{ name: m, policy: fast }]
keys: [{ name: app, value_env: APP_KEY, scopes: [infer] }]
`;
const KEY = "a-key-that-nobody-may-read";
const PROMPT = "a prompt that nobody may read";
const CALLER = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };

const missing = await buildOtelReceiver();

/** False: it was left out, and says so. */
function hasReceiver(t: TestContext): boolean {
  if (missing === null) return true;
  assert.equal(process.env.CI, undefined, missing);
  t.skip(`left out: ${missing}`);
  return false;
}

async function startTraced(t: TestContext, traces: string) {
  const receiver = await startOtelReceiver(t);
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const nodes = `nodes:
  - { id: a, url: "${a.url}", family: H100 }
  - { id: b, url: "${b.url}", family: MI300X }
`;
  const telemetry = `telemetry: { traces: { endpoint: "${receiver.endpoint}", export_every_ms: 50, ${traces} } }\n`;
  const started = await startOn(t, PORTS + nodes + POLICY + telemetry, {
    env: { APP_KEY: KEY, OTLP_TOKEN: "Bearer a-token-that-nobody-may-read" },
    productVersion: "1.2.3",
  });
  const ask = (body: object = {}, headers: Record<string, string> = {}) =>
    chat(started.gateway, body, {
      headers: { "content-type": "application/json", authorization: `Bearer ${KEY}`, ...headers },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: PROMPT }], ...body }),
    });
  return { a, b, receiver, ask, ...started };
}

async function rootsOf(receiver: OtelReceiver, count: number): Promise<ReceivedSpan[]> {
  const roots = () => receiver.spans().filter(({ kind, name }) => kind === 2 && name.startsWith("POST "));
  await until(`${count} requests are received`, () => roots().length >= count);
  return roots();
}

test("the Collector gets a request as one span, its five steps as children, and the node's parent is its dispatch", async (t) => {
  if (!hasReceiver(t)) return;
  const { a, receiver, ask } = await startTraced(
    t,
    "ratio: 0, headers: [{ name: authorization, value_env: OTLP_TOKEN }]",
  );
  const sentMs = Date.now();
  const answer = await ask(
    { stream: true, stream_options: { include_usage: true } },
    { traceparent: `00-${CALLER.traceId}-${CALLER.spanId}-01`, tracestate: "rojo=00f067aa0ba902b7" },
  );
  await answer.text();
  const [root] = await rootsOf(receiver, 1);
  assert.ok(root !== undefined);
  assert.equal(root.traceId, CALLER.traceId);
  assert.equal(root.parentSpanId, CALLER.spanId);
  assert.equal(root.traceState, "rojo=00f067aa0ba902b7");
  const spans = receiver.spans();
  assert.ok(spans.every(({ traceId }) => traceId === CALLER.traceId));
  const children = spans.filter(({ parentSpanId }) => parentSpanId === root.spanId);
  assert.deepEqual(
    children.map(({ name }) => name),
    ["admission", "availability", "cost", "dispatch", "failover"],
  );
  for (const child of children) {
    assert.ok(child.startNs >= root.startNs && child.endNs <= root.endNs, `${child.name} is within the request`);
    assert.ok(child.endNs >= child.startNs);
  }
  assert.ok(Math.abs(Number(root.startNs / 1_000_000n) - sentMs) < 60_000, "wall-clock time");

  const id = decisionOf(answer);
  const expected = {
    "http.request.method": "POST",
    "http.route": "/v1/chat/completions",
    "http.response.status_code": 200,
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.request.stream": true,
    "gen_ai.usage.output_tokens": 8,
    "zml.account": "default",
    "zml.key": "app",
    "zml.policy": "fast",
    "zml.node": "a",
    "zml.family": "H100",
    "zml.reason": "first_acceptable",
    "zml.outcome": "delivered",
    "zml.decision": id,
    "zml.redispatches": 0,
    "zml.queue_wait_ms": 0,
  };
  for (const [name, value] of Object.entries(expected)) assert.equal(root.attributes[name], value, name);
  assert.ok(Number(root.attributes["gen_ai.usage.input_tokens"]) > 0);
  assert.ok(Number(root.attributes["gen_ai.response.time_to_first_chunk"]) > 0);
  assert.deepEqual(root.events, ["first_token"]);
  assert.equal(root.status, 0);
  assert.equal(root.resource["service.name"], "zml");
  assert.equal(root.resource["service.version"], "1.2.3");

  const dispatch = children.find(({ name }) => name === "dispatch");
  assert.ok(dispatch !== undefined);
  assert.equal(dispatch.kind, 3);
  assert.equal(dispatch.attributes["server.address"], "127.0.0.1");
  assert.equal(dispatch.attributes["server.port"], Number(new URL(a.url).port));
  assert.equal(dispatch.attributes["gen_ai.provider.name"], "vllm");
  assert.deepEqual(dispatch.events, ["first_byte", "first_token"]);
  const sent = a.received.posts.at(-1)?.headers;
  assert.equal(sent?.["traceparent"], `00-${CALLER.traceId}-${dispatch.spanId}-01`);
  assert.equal(sent?.["tracestate"], "rojo=00f067aa0ba902b7");
  assert.doesNotMatch(receiver.text(), /nobody may read|nobody-may-read/);
});

test("attempts of a re-dispatched request are siblings, and a request that was not sampled is told when it fails", async (t) => {
  if (!hasReceiver(t)) return;
  const { a, b, receiver, ask } = await startTraced(t, "ratio: 0");
  await (await ask()).text();
  a.faults.status(500, '{"error":{"message":"boom","type":"x","param":null,"code":500}}');
  await (await ask()).text();
  const [root] = await rootsOf(receiver, 1);
  assert.equal(root?.attributes["zml.redispatches"], 1);
  const spans = receiver.spans().filter(({ traceId }) => traceId === root?.traceId);
  const attempts = spans.filter(({ name }) => name === "dispatch");
  assert.deepEqual(
    attempts.map(({ attributes }) => [attributes["zml.node"], attributes["zml.outcome"], attributes["zml.attempt"]]),
    [
      ["a", "failure", 1],
      ["b", "success", 2],
    ],
  );
  assert.deepEqual(
    attempts.map(({ status }) => status),
    [2, 0],
  );
  assert.equal(attempts[0]?.attributes["error.type"], "500");
  const moves = spans.filter(({ name }) => name === "failover").map(({ attributes }) => attributes["zml.next_move"]);
  assert.deepEqual(moves, ["redispatch", "deliver"]);
  assert.equal(b.received.posts.at(-1)?.headers["traceparent"], `00-${root?.traceId}-${attempts[1]?.spanId}-00`);
  await a.faults.clear();
  assert.equal(receiver.spans().filter(({ kind }) => kind === 2).length, 1, "the request that went well is not told");
});

test("a receiver that is down costs no request, is one line in the log, and gets what comes once it is back", async (t) => {
  if (!hasReceiver(t)) return;
  const { gateway, receiver, ask, log } = await startTraced(t, "ratio: 1, timeout_ms: 300");
  await receiver.stop();
  for (let turn = 0; turn < 3; turn++) {
    assert.equal((await ask()).status, 200);
    await until("an export has failed", () => failed(gateway.metrics()) >= 6 * (turn + 1));
  }
  const lines = log.lines.filter(({ message }) => message.startsWith("traces can't be exported"));
  assert.equal(lines.length, 1);
  const again = await startOtelReceiver(t, receiver.port);
  assert.equal((await ask()).status, 200);
  await until("it has spans", () => again.spans().length > 0);
  await until("it is said", () => log.has("info", /traces can be exported again/));
});

function failed(page: string): number {
  return Number(/^zml_trace_spans_total\{result="failed"\} (\d+)/m.exec(page)?.[1] ?? 0);
}
