import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { FakeNode } from "./node.ts";
import { startFakeNode } from "./node.ts";
import type { FakeNodeOptions } from "./node-options.ts";

const HARDWARE = "H100-SXM-80GB/llama-3-8b/bf16/1";
const HELLO = { model: "m", messages: [{ role: "user", content: "hello there" }], max_tokens: 4 };

async function fake(t: TestContext, options: Partial<FakeNodeOptions> & Pick<FakeNodeOptions, "engine">) {
  const node = await startFakeNode({ hardware: HARDWARE, model: "m", speedUp: 50, ...options });
  t.after(() => node.stop());
  return node;
}

function post(node: FakeNode, body: unknown, signal?: AbortSignal) {
  return fetch(`${node.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}

async function get(node: FakeNode, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(node.url + path);
  return { status: response.status, text: await response.text() };
}

test("trtllm: an unknown member is refused with a text, and so is a prompt that is too long", async (t) => {
  const node = await fake(t, { engine: "trtllm", maxModelLen: 64 });
  const extra = await post(node, { ...HELLO, policy: "p" });
  assert.equal(extra.status, 400);
  assert.match(((await extra.json()) as { error: string }).error, /extra_forbidden.*'policy'/);
  const long = await post(node, { ...HELLO, messages: [{ role: "user", content: "word ".repeat(100) }] });
  assert.equal(long.status, 400);
  assert.match(((await long.json()) as { error: string }).error, /^The sum of prompt length \(\d+\) and max tokens/);
  assert.equal((await post(node, { ...HELLO, top_k: 5, model: "whatever" })).status, 200);
});

test("trtllm: the JSON page is emptied by reading, and the Prometheus page needs its options", async (t) => {
  const node = await fake(t, { engine: "trtllm", hasMetrics: true });
  await (await post(node, HELLO)).text();
  const iterations = JSON.parse((await get(node, "/metrics")).text) as { maxNumActiveRequests: number }[];
  assert.ok(iterations.length >= 4);
  assert.equal(iterations[0]?.maxNumActiveRequests, 256);
  assert.equal((await get(node, "/metrics")).text, "[]");
  const { text } = await get(node, "/prometheus/metrics");
  assert.match(text, /^trtllm_generation_tokens_total\{engine_type="undefined",model_name="m"\} 4\.0$/m);
  assert.match(text, /^trtllm_request_success_total\{.*finished_reason="length".*\} 1\.0$/m);
  const plain = await fake(t, { engine: "trtllm" });
  assert.equal((await get(plain, "/prometheus/metrics")).status, 404);
  assert.equal((await get(plain, "/metrics")).text, "[]");
  const old = await fake(t, { engine: "trtllm", hasMetrics: true, hasOldMetricNames: true });
  assert.match((await get(old, "/prometheus/metrics")).text, /^num_requests_running\{/m);
});

test("trtllm: a caller that leaves frees its place at the next look, not before", async (t) => {
  const node = await fake(t, { engine: "trtllm", speedUp: 1, disconnectPollMs: 150 });
  const control = new AbortController();
  const response = await post(node, { ...HELLO, stream: true, max_tokens: 4000 }, control.signal);
  await response.body?.getReader().read();
  control.abort();
  await until(() => node.received.posts[0]?.closeCause === "caller-closed");
  assert.equal(node.runningCount, 1);
  await until(() => node.runningCount === 0);
});

test("trtllm: a dead engine is a 503 with a text, and then no process", async (t) => {
  const node = await fake(t, { engine: "trtllm", speedUp: 1 });
  const running = post(node, { ...HELLO, max_tokens: 4000 });
  await until(() => node.runningCount === 1);
  node.engineDeath();
  const { status, text } = await get(node, "/health");
  assert.deepEqual([status, text.startsWith("LLM is unavailable")], [503, true]);
  assert.equal((await running).status, 500);
  await until(() => node.state === "down");
});

test("triton: 400 until it is ready, on both health pages", async (t) => {
  const node = await fake(t, { engine: "triton", loadMs: 100 });
  assert.equal((await get(node, "/v2/health/live")).status, 200);
  assert.equal((await get(node, "/health/ready")).status, 400);
  assert.equal((await get(node, "/v2/health/ready")).status, 400);
  await untilAsync(async () => (await get(node, "/v2/health/ready")).status === 200);
  assert.equal((await get(node, "/health/ready")).status, 200);
});

test("triton: unknown members, unknown models, a full queue and 64 MiB are each refused in their way", async (t) => {
  const node = await fake(t, { engine: "triton", maxQueuedRequests: 0 });
  const told = async (body: unknown) => {
    const response = await post(node, body);
    return [response.status, JSON.stringify(await response.json())] as const;
  };
  const [extra, what] = await told({ ...HELLO, policy: "p" });
  assert.deepEqual([extra, what.includes("extra_forbidden")], [422, true]);
  assert.deepEqual(await told({ ...HELLO, model: "x" }), [400, '{"detail":"Unknown model: x"}']);
  assert.deepEqual(await told(HELLO), [503, '{"detail":"Exceeds maximum queue size"}']);
  const [large, why] = await told({ ...HELLO, user: "x".repeat(64 * 2 ** 20) });
  assert.deepEqual([large, why.includes("content_too_large")], [413, true]);
});

test("triton: numbers of the model stand beside those of its ensemble", async (t) => {
  const node = await fake(t, { engine: "triton" });
  await (await post(node, HELLO)).text();
  const { text } = await get(node, "/metrics");
  assert.match(text, /^nv_inference_request_success\{model="ensemble",version="1"\} 1$/m);
  assert.match(text, /^nv_trt_llm_request_metrics\{model="m",request_type="scheduled",version="1"\} 0$/m);
  const closed = await fake(t, { engine: "triton", hasMetrics: false });
  assert.equal((await get(closed, "/metrics")).status, 404);
});

test("triton: a dead backend leaves a server that is not ready", async (t) => {
  const node = await fake(t, { engine: "triton", speedUp: 1 });
  const response = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
  const reader = response.body?.getReader();
  await reader?.read();
  node.engineDeath();
  const rest = async () => {
    while ((await reader?.read())?.done === false);
  };
  await assert.rejects(rest());
  assert.equal((await get(node, "/health/ready")).status, 400);
  assert.equal(node.state, "up");
});

async function until(isSo: () => boolean): Promise<void> {
  return untilAsync(() => Promise.resolve(isSo()));
}

async function untilAsync(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error("it did not become so within 10 s");
    await new Promise(setImmediate);
  }
}
