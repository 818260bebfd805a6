/** SGLang behind a gateway: found out by itself, full inside a 200, and leaving while it still takes requests. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import type { FakeNodeOptions } from "@zml/simulator";
import { chat, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

/** An SGLang that is asked first, and a vLLM of another family. */
async function start(t: TestContext, options: Partial<FakeNodeOptions>, health = "") {
  const sglang = await fakeNode(t, { engine: "sglang", healthWaitMs: 5, ...options });
  const vllm = await fakeNode(t);
  const { gateway } = await startOn(
    t,
    `${PORTS}workers: 1
${health}nodes:
  - { id: sglang, url: "${sglang.url}", family: H100 }
  - { id: vllm, url: "${vllm.url}", family: MI300X }
policies:
  - name: p
    cost_priority: latency
    accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }]
models: [{ name: m, policy: p }]
`,
  );
  const states = () => gateway.stats().fleet.nodes;
  await until("both are healthy", () => states().every(({ state }) => state === "healthy"));
  return { gateway, sglang, vllm, states };
}

function routeOf(response: Response) {
  const { node, attempt } = decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "") ?? {};
  return [node, attempt];
}

test("an SGLang that is full inside a 200 costs no caller its answer, and no cooldown", async (t) => {
  const { gateway, sglang, states } = await start(t, { maxQueuedRequests: 0 });
  for (const stream of [true, false]) {
    const answer = await chat(gateway, { stream });
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    assert.equal(routeOf(answer)[0], "vllm");
    assert.doesNotMatch(text, /queue is full/);
  }
  assert.ok(sglang.received.posts.length >= 1, "it was asked");
  assert.ok(states().every(({ state }) => state === "healthy"));
});

test("an SGLang answers, streams with their usage included", async (t) => {
  const { gateway } = await start(t, { dataParallelRanks: 2 });
  const answer = await chat(gateway, { stream: true, max_tokens: 5, stream_options: { include_usage: true } });
  const text = await answer.text();
  assert.deepEqual([answer.status, ...routeOf(answer)], [200, "sglang", 1]);
  assert.match(text, /"completion_tokens":5,.*\n\ndata: \[DONE\]\n\n$/);
});

test("an SGLang that leaves gets no new requests, and what runs there ends well", async (t) => {
  const health = "health: { poll_interval_ms: 100, timeout_ms: 4000 }\n";
  const { gateway, sglang, states } = await start(t, { speedUp: 1, outputTokens: 400 }, health);
  const open = await chat(gateway, { stream: true });
  assert.equal(routeOf(open)[0], "sglang");
  sglang.terminate();
  await until("it is out", () => states().find(({ id }) => id === "sglang")?.state !== "healthy");
  const next = await chat(gateway);
  assert.deepEqual([next.status, routeOf(next)[0]], [200, "vllm"]);
  await next.text();
  assert.match(await open.text(), /data: \[DONE\]\n\n$/);
});
