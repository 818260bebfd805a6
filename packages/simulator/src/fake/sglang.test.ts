import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { FakeNode } from "./node.ts";
import { startFakeNode } from "./node.ts";
import type { FakeNodeOptions } from "./node-options.ts";

const HARDWARE = "H100-SXM-80GB/llama-3-8b/bf16/1";
const HELLO = { model: "m", messages: [{ role: "user", content: "hello there" }], max_tokens: 4 };

async function fake(t: TestContext, options: Partial<FakeNodeOptions> = {}) {
  const node = await startFakeNode({
    engine: "sglang",
    hardware: HARDWARE,
    model: "m",
    speedUp: 50,
    healthWaitMs: 5,
    ...options,
  });
  t.after(() => node.stop());
  return node;
}

function post(node: FakeNode, body: unknown, path = "/v1/chat/completions", signal?: AbortSignal) {
  return fetch(node.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}

type Loads = { accelerator: string; loads: Record<string, number>[] };

async function json<T>(node: FakeNode, path: string): Promise<T> {
  return (await (await fetch(node.url + path)).json()) as T;
}

async function status(node: FakeNode, path: string): Promise<number> {
  const response = await fetch(node.url + path);
  await response.arrayBuffer();
  return response.status;
}

/** Sum over all series of a metric. */
async function total(node: FakeNode, name: string, label = ""): Promise<number> {
  const text = await (await fetch(`${node.url}/metrics`)).text();
  const values = text.split("\n").filter((line) => line.startsWith(`sglang:${name}{`) && line.includes(label));
  return values.length === 0 ? Number.NaN : values.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

test("while it starts only /health says so", async (t) => {
  const node = await fake(t, { loadMs: 60_000 });
  assert.equal(await status(node, "/health"), 503);
  assert.equal(await status(node, "/health_generate"), 503);
  for (const path of ["/v1/models", "/v1/loads", "/model_info", "/ping"]) assert.equal(await status(node, path), 200);
});

test("/health costs a token, and a wait", async (t) => {
  const node = await fake(t, { hasMetrics: true, healthWaitMs: 40 });
  const startMs = performance.now();
  assert.equal(await status(node, "/health"), 200);
  assert.ok(performance.now() - startMs >= 39);
  assert.equal(await total(node, "realtime_tokens_total", 'mode="decode"'), 1);
  assert.equal(await total(node, "num_requests_total"), 0);
});

test("metrics need their flag, the load is told without", async (t) => {
  const node = await fake(t, { accelerator: "AMD Instinct MI300X" });
  assert.equal(await status(node, "/metrics"), 404);
  const { accelerator, loads } = await json<Loads>(node, "/v1/loads");
  assert.equal(accelerator, "AMD Instinct MI300X");
  assert.deepEqual(
    loads.map(({ dp_rank, num_running_reqs, num_waiting_reqs }) => [dp_rank, num_running_reqs, num_waiting_reqs]),
    [[0, 0, 0]],
  );
});

test("data-parallel ranks share what runs, waits and fits", async (t) => {
  const node = await fake(t, { dataParallelRanks: 2, maxSequences: 4, hasMetrics: true, speedUp: 0.01 });
  const abort = new AbortController();
  const calls = Array.from({ length: 7 }, () =>
    post(node, { ...HELLO, max_tokens: 4000 }, undefined, abort.signal).catch(() => null),
  );
  while (node.runningCount < 4 || node.waitingCount < 3) await new Promise((resolve) => setImmediate(resolve));
  const { loads } = await json<Loads>(node, "/v1/loads");
  assert.deepEqual(
    loads.map(({ num_running_reqs, num_waiting_reqs, max_running_requests }) => [
      num_running_reqs,
      num_waiting_reqs,
      max_running_requests,
    ]),
    [
      [2, 1, 2],
      [2, 2, 2],
    ],
  );
  assert.equal(await total(node, "num_queue_reqs", 'dp_rank="1"'), 2);
  assert.equal(await total(node, "num_running_reqs"), 4);
  abort.abort();
  await Promise.all(calls);
});

test("the token counter moves when a request ends, the live one with every step", async (t) => {
  const node = await fake(t, { hasMetrics: true, speedUp: 2 });
  const abort = new AbortController();
  const response = await post(node, { ...HELLO, stream: true, max_tokens: 4000 }, undefined, abort.signal);
  await response.body?.getReader().read();
  while (!((await total(node, "realtime_tokens_total", 'mode="decode"')) > 1)) await new Promise(setImmediate);
  assert.equal(await total(node, "generation_tokens_total"), 0);
  abort.abort();
  while ((await total(node, "num_aborted_requests_total")) === 0) await new Promise(setImmediate);
  await (await post(node, HELLO)).text();
  assert.equal(await total(node, "generation_tokens_total"), 4);
  assert.equal(await total(node, "num_requests_total"), 2);
});

test("a full queue is a 503, and in a stream an error event of a 200", async (t) => {
  const node = await fake(t, { maxQueuedRequests: 0 });
  const plain = await post(node, HELLO);
  assert.equal(plain.status, 503);
  assert.deepEqual(await plain.json(), {
    object: "error",
    message: "The request queue is full.",
    type: "503",
    param: null,
    code: 503,
  });
  const stream = await post(node, { ...HELLO, stream: true });
  assert.equal(stream.status, 200);
  assert.match(await stream.text(), /^data: \{"error":\{.*queue is full.*"code":503\}\}\n\ndata: \[DONE\]\n\n$/);
});

test("a prompt that is too long is a 400, in a stream too, and embeddings are refused", async (t) => {
  const node = await fake(t, { maxModelLen: 16 });
  const long = { ...HELLO, messages: [{ role: "user", content: "word ".repeat(40) }] };
  for (const stream of [false, true]) {
    const answer = await post(node, { ...long, stream });
    assert.equal(answer.status, 400);
    assert.match(await answer.text(), /longer than the model's context length/);
  }
  assert.match(await (await post(node, { ...HELLO, max_tokens: 16 })).text(), /maximum context length of 16 tokens/);
  assert.equal((await post(node, { input: "x" }, "/v1/embeddings")).status, 400);
});

test("a stream has its reason in a chunk of its own and a usage member in each", async (t) => {
  const node = await fake(t);
  const body = { ...HELLO, model: "anything", stream: true, stream_options: { include_usage: true } };
  const events = (await (await post(node, body)).text()).split("\n\n").filter((event) => event !== "");
  assert.equal(events.at(-1), "data: [DONE]");
  const chunks = events.slice(0, -1).map((event) => JSON.parse(event.slice("data: ".length)));
  assert.equal(chunks.length, 1 + 4 + 1 + 1);
  assert.ok(chunks.every((chunk) => "usage" in chunk && chunk.model === "anything"));
  const [reason, usage] = chunks.slice(-2);
  assert.deepEqual([reason.choices[0].delta.content, reason.choices[0].finish_reason], [null, "length"]);
  assert.deepEqual([usage.choices, usage.usage.completion_tokens], [[], 4]);
});

test("told to end it drains, takes new requests all the while, and only /health refuses", async (t) => {
  const node = await fake(t, { speedUp: 1 });
  const abort = new AbortController();
  const first = await post(node, { ...HELLO, stream: true, max_tokens: 4000 }, undefined, abort.signal);
  await first.body?.getReader().read();
  node.terminate();
  assert.equal(await status(node, "/health"), 503);
  assert.equal(await status(node, "/v1/loads"), 200);
  assert.equal((await post(node, HELLO)).status, 200);
  abort.abort();
  while (node.state !== "down") await new Promise((resolve) => setImmediate(resolve));
});

test("the death of its scheduler takes the process with it", async (t) => {
  const node = await fake(t, { speedUp: 1 });
  const open = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
  node.engineDeath();
  await assert.rejects(open.text());
  assert.equal(node.state, "down");
});
