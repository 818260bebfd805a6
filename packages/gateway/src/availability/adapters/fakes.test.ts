import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { classifyStatus } from "@zml/engine";
import { type FakeNode, type FakeNodeOptions, startFakeNode } from "@zml/simulator";
import { StreamInspector } from "../../dispatch/stream-inspector.ts";
import type { Adapter } from "./adapter.ts";
import { llamacpp } from "./llamacpp.ts";
import { tgi } from "./tgi.ts";
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

describe("adapters against whole answers", () => {
  for (const [adapter, engine] of [
    [vllm, "vllm"],
    [llamacpp, "llamacpp"],
    [tgi, "tgi"],
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

  it("tgi: an overload, in a stream of 200 too", async (t) => {
    const node = await start(t, "tgi", { maxConcurrentRequests: 0 });
    assert.equal(await verdict(tgi, node, { stream: false }), "overloaded");
    assert.equal(await verdict(tgi, node, { stream: true }), "overloaded");
  });

  it("llamacpp: a server that loads", async (t) => {
    const node = await start(t, "llamacpp", { loadMs: 60_000 });
    assert.equal(await verdict(llamacpp, node, { stream: true }), "failure");
  });
});
