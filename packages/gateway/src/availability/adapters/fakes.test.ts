import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { classifyStatus, ENDPOINTS } from "@zml/engine";
import { type FakeNode, type FakeNodeOptions, startFakeNode } from "@zml/simulator";
import { StreamInspector } from "../../dispatch/stream-inspector.ts";
import type { Adapter, PollResponse, PollResponses } from "./adapter.ts";
import { DETECTION_PATHS, detectEngine } from "./detect.ts";
import { llamacpp } from "./llamacpp.ts";
import { sglang } from "./sglang.ts";
import { tgi } from "./tgi.ts";
import { triton } from "./triton.ts";
import { trtllm } from "./trtllm.ts";
import { vllm } from "./vllm.ts";

const LONG = "word ".repeat(400);

async function start(t: TestContext, engine: FakeNodeOptions["engine"], options: Partial<FakeNodeOptions> = {}) {
  const hardware = "H100-SXM-80GB/llama-3-8b/bf16/1";
  const node = await startFakeNode({ engine, hardware, model: "m", maxModelLen: 128, speedUp: 50, ...options });
  t.after(() => node.stop());
  return node;
}

/** Sends a chat request and classes the answer as the data plane would at the commit point. */
async function verdict(
  adapter: Adapter,
  node: FakeNode,
  request: { prompt?: string; model?: string; stream: boolean },
) {
  const { prompt = "hello", model = "m", stream } = request;
  const answer = await fetch(`${node.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, stream, max_tokens: 4, messages: [{ role: "user", content: prompt }] }),
  });
  const body = Buffer.from(await answer.arrayBuffer());
  const contentType = answer.headers.get("content-type");
  if (contentType?.startsWith("text/event-stream") !== true) {
    return (
      adapter.classify({ status: answer.status, contentType, body, firstEvent: null }) ?? classifyStatus(answer.status)
    );
  }
  const inspector = new StreamInspector();
  inspector.push(body);
  const firstEvent = inspector.firstDataEvent;
  const { status } = answer;
  return adapter.classify({ status, contentType, body: Buffer.alloc(0), firstEvent }) ?? classifyStatus(status);
}

async function get(node: FakeNode, path: string): Promise<PollResponse> {
  const answer = await fetch(node.url + path);
  return { status: answer.status, contentType: answer.headers.get("content-type"), body: await answer.text() };
}

/** What a full round of the adapter asks, or a detection. */
async function ask(
  node: FakeNode,
  paths: { health: string; metrics: string; models: string; facts: readonly string[] },
): Promise<PollResponses> {
  const facts = paths.facts.filter((path) => path.startsWith("/"));
  const [health, metrics, models, ...answers] = await Promise.all(
    [paths.health, paths.metrics, paths.models, ...facts].map((path) => get(node, path)),
  );
  assert.ok(health !== undefined && metrics !== undefined && models !== undefined);
  return {
    health,
    metrics,
    models,
    facts: Object.fromEntries(facts.map((path, index) => [path, answers[index] ?? null])),
  };
}

describe("adapters against whole polls", () => {
  for (const [adapter, engine] of [
    [vllm, "vllm"],
    [sglang, "sglang"],
    [llamacpp, "llamacpp"],
    [tgi, "tgi"],
    [trtllm, "trtllm"],
    [triton, "triton"],
  ] as const) {
    it(`${engine}: is told from the others, says what it is and what it has done`, async (t) => {
      const node = await start(t, engine, { hasMetrics: true, healthWaitMs: 5, maxModelLen: 4096 });
      for (const stream of [false, true]) assert.equal(await verdict(adapter, node, { stream }), "success");
      assert.equal(detectEngine(await ask(node, DETECTION_PATHS)), engine);
      const { probes } = adapter;
      const { health, models = "/v1/models" } = probes;
      const facts = probes.facts.map(({ path }) => path);
      const answers = await ask(node, { health, metrics: probes.metrics ?? "", models: models ?? "", facts });
      const reading = adapter.read(answers, null);
      assert.deepEqual([reading.isReady, reading.running, reading.waiting], [true, 0, 0]);
      assert.equal(reading.models?.[0]?.id, "m");
      assert.equal(reading.models?.[0]?.contextTokens, engine === "triton" ? Number.NaN : 4096);
      // a health page of SGLang costs a token: one of the detection, one of the round
      const tokens = reading.generationTokensTotal;
      if (engine === "sglang") assert.ok(tokens >= 9 && tokens <= 10, `${tokens}`);
      else assert.equal(tokens, engine === "triton" ? Number.NaN : 8);
    });

    it(`${engine}: lacks the routed endpoints that its adapter leaves out`, async (t) => {
      const node = await start(t, engine);
      const listed = adapter.capabilities(null).endpoints;
      assert.ok(listed !== null);
      assert.ok(listed.includes("chat_completions"));
      for (const endpoint of ENDPOINTS.filter((each) => !listed.includes(each))) {
        const path = `/v1/${endpoint === "chat_completions" ? "chat/completions" : endpoint}`;
        const answer = await fetch(node.url + path, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: "{}",
        });
        await answer.arrayBuffer();
        assert.equal(answer.status, 404, path);
      }
    });
  }

  it("sglang: without its flag for metrics the load is told all the same, of all ranks", async (t) => {
    const node = await start(t, "sglang", { dataParallelRanks: 2, maxSequences: 64, maxQueuedRequests: 5 });
    const { health, facts } = sglang.probes;
    const paths = { health, metrics: sglang.probes.metricsFallback ?? "", models: "/v1/models" };
    const reading = sglang.read(await ask(node, { ...paths, facts: facts.map(({ path }) => path) }), null);
    assert.deepEqual([reading.running, reading.waiting, reading.kvUse], [0, 0, 0]);
    assert.deepEqual([reading.concurrencyLimit, reading.admissionLimit], [64, 74]);
    assert.deepEqual([reading.platform, reading.version], ["cuda", "0.5.20"]);
    assert.ok(Number.isNaN(reading.generationTokensTotal));
  });
});

describe("adapters against whole answers", () => {
  for (const [adapter, engine] of [
    [vllm, "vllm"],
    [sglang, "sglang"],
    [llamacpp, "llamacpp"],
    [tgi, "tgi"],
    [trtllm, "trtllm"],
    [triton, "triton"],
  ] as const) {
    for (const stream of [false, true]) {
      it(`${engine}, stream ${stream}: good answers say nothing, long prompts and first errors are told`, async (t) => {
        const node = await start(t, engine);
        assert.equal(await verdict(adapter, node, { stream }), "success");
        assert.equal(await verdict(adapter, node, { stream, prompt: LONG }), "too_large");
        node.faults.errorFirstEvent(1);
        assert.equal(await verdict(adapter, node, { stream }), "failure");
      });
    }
  }

  it("vllm: an unknown model, a full queue, an aborted answer", async (t) => {
    const node = await start(t, "vllm", { shutdownTimeoutMs: 60_000 });
    assert.equal(await verdict(vllm, node, { stream: true, model: "x" }), "misconfigured");
    node.faults.overloaded(Number.NaN, 1);
    assert.equal(await verdict(vllm, node, { stream: true }), "overloaded");
    node.faults.abortFinish(1, 1);
    assert.equal(await verdict(vllm, node, { stream: false }), "failure");
  });

  it("sglang: a full queue, in a stream of 200 too", async (t) => {
    const node = await start(t, "sglang", { maxQueuedRequests: 0 });
    assert.equal(await verdict(sglang, node, { stream: false }), "overloaded");
    assert.equal(await verdict(sglang, node, { stream: true }), "overloaded");
  });

  it("tgi: an overload, in a stream of 200 too", async (t) => {
    const node = await start(t, "tgi", { maxConcurrentRequests: 0 });
    assert.equal(await verdict(tgi, node, { stream: false }), "overloaded");
    assert.equal(await verdict(tgi, node, { stream: true }), "overloaded");
  });

  it("trtllm: a member that it does not know is the caller's error, an engine that died the node's", async (t) => {
    const node = await start(t, "trtllm", { speedUp: 1 });
    const answer = await fetch(`${node.url}/v1/chat/completions`, {
      method: "POST",
      body: '{"messages":["x"],"zml":1}',
    });
    const body = Buffer.from(await answer.arrayBuffer());
    assert.equal(trtllm.classify({ status: answer.status, contentType: null, body, firstEvent: null }), null);
    assert.equal(classifyStatus(answer.status), "caller_error");
    node.engineDeath();
    const health = await get(node, "/health");
    assert.equal(trtllm.read({ health, metrics: null, models: null, facts: {} }, null).isReady, false);
  });

  it("triton: an unknown model, a full queue, a server that is not ready", async (t) => {
    const node = await start(t, "triton", { maxQueuedRequests: 0, loadMs: 0 });
    assert.equal(await verdict(triton, node, { stream: true, model: "x" }), "misconfigured");
    assert.equal(await verdict(triton, node, { stream: false }), "overloaded");
    assert.equal(await verdict(triton, node, { stream: true }), "overloaded");
    node.engineDeath();
    const { health, metrics } = triton.probes;
    const answers = await ask(node, { health, metrics: metrics ?? "", models: "/v1/models", facts: [] });
    assert.equal(triton.read(answers, null).isReady, false);
  });

  it("llamacpp: a server that loads", async (t) => {
    const node = await start(t, "llamacpp", { loadMs: 60_000 });
    assert.equal(await verdict(llamacpp, node, { stream: true }), "failure");
  });
});
