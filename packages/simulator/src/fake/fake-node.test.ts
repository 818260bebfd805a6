import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import type { TestContext } from "node:test";
import { test } from "node:test";
import type { FakeNode } from "./node.ts";
import { startFakeNode } from "./node.ts";
import type { FakeNodeOptions } from "./node-options.ts";

const HARDWARE = "H100-SXM-80GB/llama-3-8b/bf16/1";
const HELLO = { model: "m", messages: [{ role: "user", content: "hello there" }] };

async function fake(t: TestContext, options: Partial<FakeNodeOptions> & Pick<FakeNodeOptions, "engine">) {
  const node = await startFakeNode({
    hardware: HARDWARE,
    model: "m",
    speedUp: 50,
    healthWaitMs: 5,
    disconnectPollMs: 0,
    ...options,
  });
  t.after(() => node.stop());
  return node;
}

function post(node: FakeNode, body: unknown, path = "/v1/chat/completions", headers: Record<string, string> = {}) {
  return fetch(node.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

async function get(node: FakeNode, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(node.url + path);
  return { status: response.status, text: await response.text() };
}

/** All bytes of one connection until the node closes it. */
async function raw(node: FakeNode, request: string): Promise<string> {
  const socket = connect(node.port, "127.0.0.1");
  let text = "";
  socket.on("data", (part) => {
    text += part.toString("latin1");
  });
  socket.on("error", () => {});
  socket.write(request);
  await new Promise<void>((resolve) => socket.on("close", () => resolve()));
  return text;
}

function rawChat(body: unknown, extra = "connection: close\r\n"): string {
  const text = JSON.stringify(body);
  return (
    "POST /v1/chat/completions HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\n" +
    `${extra}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
  );
}

function healthPath(engine: FakeNodeOptions["engine"]): string {
  return engine === "triton" ? "/health/ready" : "/health";
}

function value(metrics: string, series: string): number {
  const line = metrics.split("\n").find((one) => one.startsWith(`${series} `));
  return line === undefined ? Number.NaN : Number(line.slice(series.length + 1));
}

for (const engine of ["vllm", "sglang", "tgi", "llamacpp", "trtllm", "triton"] as const) {
  test(`${engine}: one event per token, usage on demand, an end marker`, async (t) => {
    const node = await fake(t, { engine });
    const body = { ...HELLO, stream: true, max_tokens: 5, stream_options: { include_usage: true } };
    const text = await (await post(node, body)).text();
    assert.equal(text.match(/"content":"[^"]/g)?.length, 5);
    assert.match(text, /"choices":\[\],.*"usage":\{"prompt_tokens":7,"total_tokens":12,"completion_tokens":5[,}]/);
    assert.match(text, /data: ?\[DONE\]\n\n$/);
    assert.match(text, /"finish_reason":"length"/);
    assert.equal(text.startsWith("data: "), engine !== "tgi");
  });

  test(`${engine}: the log tells what arrived and how it ended`, async (t) => {
    const node = await fake(t, { engine });
    await (await post(node, { ...HELLO, max_completion_tokens: 2 })).text();
    const [entry] = node.received.posts;
    assert.equal(entry?.closeCause, "answered");
    assert.equal(entry?.bodyBytes, entry?.body.length);
    assert.equal(entry?.bodySha256.length, 64);
    assert.equal(entry?.status, 200);
  });

  test(`${engine}: an unknown route gets the engine's own 404`, async (t) => {
    const node = await fake(t, { engine });
    const { status, text } = await get(node, "/nothing");
    assert.equal(status, 404);
    const expected = {
      vllm: '{"detail":"Not Found"}',
      sglang: '{"detail":"Not Found"}',
      trtllm: '{"detail":"Not Found"}',
      triton: '{"detail":"Not Found"}',
      tgi: "",
      llamacpp: '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}',
    };
    assert.equal(text, expected[engine]);
  });

  test(`${engine}: a key is asked for inference, never for /health`, async (t) => {
    const node = await fake(t, { engine, apiKey: "k" });
    assert.equal((await post(node, HELLO)).status, 401);
    assert.equal((await post(node, { ...HELLO, max_tokens: 1 }, undefined, { authorization: "Bearer k" })).status, 200);
    assert.equal((await get(node, healthPath(engine))).status, 200);
  });

  test(`${engine}: killed it refuses, started again it answers on the same port with counters at zero`, async (t) => {
    const node = await fake(t, { engine });
    const { port } = node;
    const open = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
    node.kill();
    await assert.rejects(open.text());
    await assert.rejects(post(node, HELLO));
    assert.equal(node.received.posts[0]?.closeCause, "node-cut");
    await node.start();
    assert.equal(node.port, port);
    assert.equal((await post(node, { ...HELLO, max_tokens: 1 })).status, 200);
  });

  test(`${engine}: streams are cut after the events told, each in its way`, async (t) => {
    const node = await fake(t, { engine, pingIntervalMs: 60_000 });
    const body = { ...HELLO, stream: true, max_tokens: 50 };
    for (const how of ["fin", "rst", "end-without-marker"] as const) {
      node.faults.cutAfterEvents(3, how, 1);
      const text = await raw(node, rawChat(body));
      assert.equal(text.match(/data:/g)?.length ?? 0, 3, how);
      assert.equal(text.endsWith("\r\n0\r\n\r\n"), how === "end-without-marker", how);
    }
    node.faults.badChunk(1, 1);
    assert.match(await raw(node, rawChat(body)), /zz;not a size/);
  });

  test(`${engine}: a caller that leaves a stream frees its place`, async (t) => {
    const node = await fake(t, { engine, speedUp: 1 });
    const control = new AbortController();
    const response = await fetch(`${node.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...HELLO, stream: true, max_tokens: 4000 }),
      signal: control.signal,
    });
    await response.body?.getReader().read();
    assert.equal(node.runningCount, 1);
    control.abort();
    while (node.runningCount > 0) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(node.received.posts[0]?.closeCause, "caller-closed");
  });

  test(`${engine}: status, overload and first-byte faults touch inference only and end with clear`, async (t) => {
    const node = await fake(t, { engine });
    node.faults.status(502, "bad gateway", {}, 1);
    assert.equal((await post(node, HELLO)).status, 502);
    node.faults.overloaded(7, 1);
    const full = await post(node, HELLO);
    assert.deepEqual([full.status, full.headers.get("retry-after")], [engine === "tgi" ? 429 : 503, "7"]);
    node.faults.refuse();
    await assert.rejects(
      fetch(`${node.url}/health`, { headers: { connection: "close" } }).then(() => get(node, healthPath(engine))),
    );
    await node.faults.clear();
    assert.equal((await get(node, healthPath(engine))).status, 200);
    node.faults.gzip();
    const zipped = await post(node, { ...HELLO, max_tokens: 1 });
    assert.equal(zipped.headers.get("content-encoding"), "gzip");
    assert.match(await zipped.text(), /assistant/);
  });
}

test("vLLM: the request id becomes the answer's id and an unknown model is a 404", async (t) => {
  const node = await fake(t, { engine: "vllm" });
  const answer = await (await post(node, { ...HELLO, max_tokens: 1 }, undefined, { "x-request-id": "r1" })).text();
  assert.match(answer, /"id":"chatcmpl-r1"/);
  const unknown = await post(node, { ...HELLO, model: "other" });
  assert.equal(unknown.status, 404);
  assert.match(await unknown.text(), /"type":"NotFoundError","param":"model","code":404/);
});

test("llama.cpp: the model name is ignored and invalid JSON is a 500", async (t) => {
  const node = await fake(t, { engine: "llamacpp" });
  assert.match(await (await post(node, { ...HELLO, model: "other", max_tokens: 1 })).text(), /"model":"m"/);
  assert.equal((await post(node, "{")).status, 500);
  assert.equal((await post(node, { ...HELLO, messages: [], max_tokens: 0 })).status, 200);
});

test("a prompt that is too long gets each engine's own refusal", async (t) => {
  const long = { ...HELLO, messages: [{ role: "user", content: "x".repeat(500) }], stream: true };
  const vllm = await post(await fake(t, { engine: "vllm", maxModelLen: 100 }), long);
  assert.equal(vllm.status, 400);
  assert.match(await vllm.text(), /maximum context length is 100 tokens/);
  const llama = await post(await fake(t, { engine: "llamacpp", maxModelLen: 100 }), long);
  assert.equal(llama.status, 400);
  assert.match(await llama.text(), /exceed_context_size_error","n_prompt_tokens":129,"n_ctx":100/);
  const tgi = await fake(t, { engine: "tgi", maxModelLen: 100 });
  const stream = await post(tgi, long);
  assert.equal(stream.status, 200);
  assert.match(
    await stream.text(),
    /^data:\{"error":\{"message":"Input validation error.*"http_status_code":422\}\}\n\n$/,
  );
  assert.equal((await post(tgi, { ...long, stream: false })).status, 422);
});

test("keep-alive: llama.cpp says 5 s and 100 requests, vLLM says nothing; both close when idle", async (t) => {
  const llama = await fake(t, { engine: "llamacpp" });
  const said = await fetch(`${llama.url}/health`);
  assert.equal(said.headers.get("keep-alive"), "timeout=5, max=100");
  const vllm = await fake(t, { engine: "vllm", keepAliveMs: 50 });
  const text = await raw(vllm, "GET /health HTTP/1.1\r\nhost: node\r\n\r\n");
  assert.match(text, /^HTTP\/1.1 200 OK/);
  assert.doesNotMatch(text, /connection|keep-alive/i);
});

test("llama.cpp: a connection carries 100 requests and is closed then", async (t) => {
  const node = await fake(t, { engine: "llamacpp" });
  const text = await raw(node, "GET /health HTTP/1.1\r\nhost: node\r\n\r\n".repeat(100));
  assert.equal(text.match(/\{"status":"ok"\}/g)?.length, 100);
});

test("llama.cpp: pings come as comments while a request waits for a slot", async (t) => {
  const node = await fake(t, { engine: "llamacpp", maxSequences: 1, speedUp: 1, pingIntervalMs: 10 });
  const first = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
  const second = await post(node, { ...HELLO, stream: true, max_tokens: 1 });
  const part = await second.body?.getReader().read();
  assert.equal(Buffer.from(part?.value ?? []).toString(), ":\n\n");
  assert.equal(value((await get(node, "/metrics")).text, "llamacpp:requests_deferred"), 1);
  await first.body?.cancel();
});

test("llama.cpp after SIGTERM: the listener is gone, a stream is silent, hears one comment and is cut", async (t) => {
  const node = await fake(t, { engine: "llamacpp", speedUp: 1, terminateSilenceMs: 60 });
  const response = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
  const reader = response.body?.getReader();
  await reader?.read();
  node.terminate();
  await assert.rejects(once(connect(node.port, "127.0.0.1"), "connect"), /ECONNREFUSED/);
  let text = "";
  await assert.rejects(async () => {
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      text += Buffer.from(part.value).toString();
    }
  });
  assert.match(text, /:\n\n$/);
  assert.doesNotMatch(text, /DONE/);
});

test("vLLM after SIGTERM without drain: answers end with finish_reason abort and [DONE]", async (t) => {
  const node = await fake(t, { engine: "vllm", speedUp: 1 });
  const response = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
  node.terminate();
  const text = await response.text();
  assert.match(text, /"finish_reason":"abort"[^\n]*\n\ndata: \[DONE\]\n\n$/);
});

test("vLLM draining: pages stay green, a new request gets 500, what runs is finished", async (t) => {
  const node = await fake(t, { engine: "vllm", speedUp: 20, shutdownTimeoutMs: 20_000 });
  const running = await post(node, { ...HELLO, stream: true, max_tokens: 100, ignore_eos: true });
  node.terminate();
  assert.equal((await get(node, "/health")).status, 200);
  const refused = await post(node, HELLO);
  assert.equal(refused.status, 500);
  assert.match(await refused.text(), /cannot schedule new futures after shutdown/);
  assert.match(await running.text(), /"finish_reason":"length"[^\n]*\n\ndata: \[DONE\]/);
});

test("vLLM whose engine dies: an error event and [DONE] in streams, 500 for plain, 503 from /health", async (t) => {
  const node = await fake(t, { engine: "vllm", speedUp: 1 });
  const stream = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
  const plain = post(node, { ...HELLO, max_tokens: 4000 });
  while (node.runningCount + node.waitingCount < 2) await new Promise((resolve) => setImmediate(resolve));
  node.engineDeath();
  assert.match(await stream.text(), /data: \{"error":\{.*\}\}\n\ndata: \[DONE\]\n\n$/);
  assert.equal((await plain).status, 500);
  assert.equal((await get(node, "/health")).status, 503);
});

test("vLLM with a queue limit answers 503 without Retry-After and counts it", async (t) => {
  const node = await fake(t, { engine: "vllm", speedUp: 1, maxQueuedRequests: 1 });
  const first = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
  const full = await post(node, HELLO);
  assert.deepEqual([full.status, full.headers.get("retry-after")], [503, null]);
  const series = 'vllm:admission_rejections_total{model_name="m",reason="max_num_queued_reqs"}';
  assert.equal(value((await get(node, "/metrics")).text, series), 1);
  await first.body?.cancel();
});

test("TGI when full: 429 for plain, 200 and an error event for streams, counted by kind", async (t) => {
  const node = await fake(t, { engine: "tgi", speedUp: 1, maxConcurrentRequests: 1 });
  const first = await post(node, { ...HELLO, stream: true, max_tokens: 4000 });
  const plain = await post(node, HELLO);
  assert.equal(plain.status, 429);
  assert.equal(await plain.text(), '{"error":"Model is overloaded","error_type":"overloaded"}');
  const stream = await post(node, { inputs: "hello" }, "/generate_stream");
  assert.equal(stream.status, 200);
  assert.equal(await stream.text(), 'data:{"error":"Model is overloaded","error_type":"overloaded"}\n\n');
  assert.equal(value((await get(node, "/metrics")).text, 'tgi_request_failure{err="overloaded"}'), 2);
  await first.body?.cancel();
});

test("TGI: series don't exist before first use, and a chat request is counted twice", async (t) => {
  const node = await fake(t, { engine: "tgi" });
  assert.doesNotMatch((await get(node, "/metrics")).text, /tgi_/);
  await (await post(node, { ...HELLO, max_tokens: 2 })).text();
  const { text } = await get(node, "/metrics");
  assert.equal(value(text, "tgi_request_count"), 2);
  assert.equal(value(text, "tgi_request_success"), 1);
});

test("TGI: /generate_stream has no space after data: and no end marker", async (t) => {
  const node = await fake(t, { engine: "tgi" });
  const body = { inputs: "hello", parameters: { max_new_tokens: 3 } };
  const text = await (await post(node, body, "/generate_stream")).text();
  assert.equal(text.match(/^data:\{/gm)?.length, 3);
  assert.doesNotMatch(text, /DONE/);
  assert.match(text, /"generated_text":"[^"]+","details":\{"finish_reason":"length","generated_tokens":3/);
});
