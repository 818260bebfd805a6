import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { test } from "node:test";
import type { FakeNode } from "./node.ts";
import { startFakeNode } from "./node.ts";
import type { FakeNodeOptions } from "./node-options.ts";

const HELLO = { model: "m", messages: [{ role: "user", content: "hello there" }] };
const LONG = { ...HELLO, max_tokens: 4000, ignore_eos: true };

async function fake(t: TestContext, options: Partial<FakeNodeOptions> & Pick<FakeNodeOptions, "engine">) {
  const hardware = "H100-SXM-80GB/llama-3-8b/bf16/1";
  const node = await startFakeNode({ hardware, model: "m", speedUp: 50, ...options });
  t.after(() => node.stop());
  return node;
}

function post(node: FakeNode, body: unknown, path = "/v1/chat/completions", signal?: AbortSignal) {
  return fetch(node.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
}

async function get(node: FakeNode, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(node.url + path);
  return { status: response.status, text: await response.text() };
}

/** Waits until `isTrue`, turn by turn of the event loop. */
async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setImmediate(resolve));
}

async function isSilent(promise: Promise<unknown>): Promise<boolean> {
  const quiet = new Promise<string>((resolve) => setTimeout(resolve, 40, "quiet"));
  return (await Promise.race([promise.catch(() => "failed"), quiet])) === "quiet";
}

test("hang: requests and polls arrive and are never answered", async (t) => {
  const node = await fake(t, { engine: "vllm" });
  node.faults.hang();
  assert.ok(await isSilent(post(node, HELLO)));
  assert.ok(await isSilent(fetch(`${node.url}/health`)));
  assert.equal(node.received.posts[0]?.bodyBytes, JSON.stringify(HELLO).length);
});

test("green but dead: health answers, inference doesn't", async (t) => {
  const node = await fake(t, { engine: "tgi" });
  node.faults.greenButDead();
  assert.ok(await isSilent(post(node, HELLO)));
  assert.equal((await get(node, "/health")).status, 200);
});

test("blackhole: an open stream falls silent and stays open", async (t) => {
  const node = await fake(t, { engine: "vllm", speedUp: 1 });
  const reader = (await post(node, { ...LONG, stream: true })).body?.getReader();
  await reader?.read();
  node.faults.blackhole();
  // What was on its way may still come, once.
  const late = reader?.read() ?? Promise.resolve();
  assert.ok((await isSilent(late)) || (await isSilent(reader?.read() ?? Promise.resolve())));
  assert.equal(node.received.posts[0]?.closeCause, "open");
});

test("slow health and a slow first byte come as late as told, and only there", async (t) => {
  const node = await fake(t, { engine: "vllm" });
  node.faults.slowHealth(60);
  assert.ok(await isSilent(fetch(`${node.url}/health`)));
  assert.equal((await get(node, "/v1/models")).status, 200);
  node.faults.slowFirstByte(60);
  assert.ok(await isSilent(post(node, { ...HELLO, max_tokens: 1 })));
});

test("stall: a stream stops after the events told and goes on later, complete", async (t) => {
  const node = await fake(t, { engine: "vllm" });
  node.faults.stallAfterEvents(2, 30, 1);
  const text = await (await post(node, { ...HELLO, stream: true, max_tokens: 6 })).text();
  assert.equal(text.match(/"content":"[^"]/g)?.length, 6);
  assert.match(text, /\[DONE\]/);
});

test("an error as the first event of a stream comes with 200, in each engine's shape", async (t) => {
  const shapes = {
    vllm: /^data: \{"error":\{"message":"EngineCore.*\n\ndata: \[DONE\]\n\n$/,
    sglang: /^data: \{"error":\{"object":"error",.*"code":500\}\}\n\ndata: \[DONE\]\n\n$/,
    tgi: /^data:\{"error":\{"message":".*","http_status_code":422\}\}\n\n$/,
    llamacpp: /^data: \{"error":\{"code":500,.*\}\}\n\n$/,
    trtllm: /^data: \{"error":"Internal server error"\}\n\n$/,
    triton: /^data: \{"error":"in ensemble .*"\}\n\n$/,
  };
  for (const engine of ["vllm", "sglang", "tgi", "llamacpp", "trtllm", "triton"] as const) {
    const node = await fake(t, { engine });
    node.faults.errorFirstEvent(1);
    const response = await post(node, { ...HELLO, stream: true });
    assert.equal(response.status, 200);
    assert.match(await response.text(), shapes[engine]);
    node.faults.errorFirstEvent(1);
    assert.equal((await post(node, HELLO)).status, engine === "tgi" ? 424 : 500);
  }
});

test("abort-finish ends an answer with finish_reason abort and the usual marker", async (t) => {
  const node = await fake(t, { engine: "vllm" });
  node.faults.abortFinish(2, 2);
  const text = await (await post(node, { ...HELLO, stream: true, max_tokens: 9 })).text();
  assert.equal(text.match(/"content":"[^"]/g)?.length, 2);
  assert.match(text, /"finish_reason":"abort".*\n\ndata: \[DONE\]\n\n$/);
  assert.match(await (await post(node, { ...HELLO, max_tokens: 9 })).text(), /"finish_reason":"abort"/);
  const metrics = (await get(node, "/metrics")).text;
  assert.match(metrics, /finished_reason="abort",model_name="m"\} 0\.0/);
});

test("a misconfigured node answers 401 or 404 in its engine's shape", async (t) => {
  const node = await fake(t, { engine: "vllm" });
  node.faults.misconfigured(404);
  const unknown = await post(node, HELLO);
  assert.deepEqual([unknown.status, (await unknown.text()).includes("does not exist")], [404, true]);
  node.faults.misconfigured(401);
  assert.equal((await post(node, HELLO)).status, 401);
});

test("llama.cpp: a burst that takes all HTTP workers makes /health hang, not fail", async (t) => {
  const node = await fake(t, { engine: "llamacpp", speedUp: 1, httpThreads: 2 });
  const control = new AbortController();
  const burst = [1, 2].map(() =>
    post(node, { ...LONG, stream: true }, undefined, control.signal).catch(() => undefined),
  );
  await until(() => node.runningCount === 2);
  const health = get(node, "/health");
  assert.ok(await isSilent(health));
  await Promise.all(burst);
  control.abort();
  assert.equal((await health).status, 200);
});

test("llama.cpp: a plain request that was left runs on when /metrics was read meanwhile, else it stops", async (t) => {
  const node = await fake(t, { engine: "llamacpp", speedUp: 1 });
  for (const isScraped of [false, true]) {
    const control = new AbortController();
    const plain = post(node, LONG, undefined, control.signal).catch(() => undefined);
    await until(() => node.runningCount === 1);
    if (isScraped) await get(node, "/metrics");
    control.abort();
    await plain;
    await until(() => node.received.posts.at(-1)?.closeCause === "caller-closed");
    assert.equal(node.runningCount, isScraped ? 1 : 0);
  }
});

test("llama.cpp says that it loads, on every route, until it has", async (t) => {
  const node = await fake(t, { engine: "llamacpp", loadMs: 60_000 });
  const health = await get(node, "/health");
  assert.equal(health.status, 503);
  assert.equal(health.text, '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}');
  assert.equal((await post(node, HELLO)).status, 503);
});

test("TGI after SIGTERM refuses new connections and finishes what runs", async (t) => {
  const node = await fake(t, { engine: "tgi" });
  const stream = await post(node, { ...HELLO, stream: true, max_tokens: 40, ignore_eos: true });
  node.terminate();
  assert.match(await stream.text(), /"finish_reason":"length".*\n\ndata:\[DONE\]\n\n$/);
  await until(() => node.state === "down");
  await assert.rejects(get(node, "/health"));
});

test("vLLM: the other routes have the right shape", async (t) => {
  const node = await fake(t, { engine: "vllm", maxModelLen: 4096 });
  assert.match((await get(node, "/v1/models")).text, /"id":"m".*"max_model_len":4096/);
  assert.equal((await get(node, "/version")).text, '{"version":"0.32.0"}');
  assert.equal((await get(node, "/load")).text, '{"server_load":0}');
  assert.equal((await get(node, "/ping")).status, 200);
  const embeddings = await (await post(node, { model: "m", input: ["a", "b"] }, "/v1/embeddings")).text();
  assert.equal(embeddings.match(/"object":"embedding"/g)?.length, 2);
  const ranked = await (await post(node, { model: "m", query: "q", documents: ["a", "b"] }, "/v1/rerank")).text();
  assert.match(ranked, /"relevance_score":1\b/);
  const input = { model: "m", input: "hello", max_output_tokens: 2, stream: true };
  assert.match(await (await post(node, input, "/v1/responses")).text(), /event: response\.completed\n/);
  assert.match(
    await (await post(node, { ...HELLO, max_tokens: 2 }, "/v1/messages")).text(),
    /"stop_reason":"max_tokens"/,
  );
  const two = await (await post(node, { ...HELLO, max_tokens: 3, n: 2 })).text();
  assert.match(two, /"index":1.*"completion_tokens":6/);
});

test("llama.cpp: /props and /slots tell slots and context", async (t) => {
  const node = await fake(t, { engine: "llamacpp" });
  assert.match((await get(node, "/props")).text, /"n_ctx":8192.*"total_slots":4/);
  assert.equal((await get(node, "/slots")).text.match(/"is_processing":false/g)?.length, 4);
  assert.equal((await get(node, "/version")).status, 404);
});
