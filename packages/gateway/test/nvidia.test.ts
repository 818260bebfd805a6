/** trtllm-serve and Triton behind a gateway: found out by themselves, refusing what they don't know, full, and leaving. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import type { FakeNodeOptions } from "@zml/simulator";
import { chat, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

/** An NVIDIA server that is asked first, and a vLLM of another family. */
async function start(t: TestContext, engine: "trtllm" | "triton", options: Partial<FakeNodeOptions> = {}, more = "") {
  const nvidia = await fakeNode(t, { engine, ...options });
  const vllm = await fakeNode(t);
  const { gateway } = await startOn(
    t,
    `${PORTS}workers: 1
health: { poll_interval_ms: 100, timeout_ms: 4000 }
nodes:
  - { id: nvidia, url: "${nvidia.url}", family: H100${more} }
  - { id: vllm, url: "${vllm.url}", family: MI300X }
policies:
  - name: p
    cost_priority: latency
    accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }]
models: [{ name: m, policy: p }]
`,
  );
  const states = () => gateway.stats().fleet.nodes;
  const stateOf = (id: string) => states().find((node) => node.id === id);
  await until("both are healthy", () => states().every(({ state }) => state === "healthy"));
  return { gateway, nvidia, vllm, stateOf };
}

function nodeOf(response: Response): string | undefined {
  return decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.node;
}

for (const engine of ["trtllm", "triton"] as const) {
  test(`${engine}: is found out, and gets no member of ours, which it would refuse`, async (t) => {
    const { gateway, nvidia, stateOf } = await start(t, engine, { hasMetrics: true });
    assert.equal(stateOf("nvidia")?.engine, engine);
    for (const stream of [false, true]) {
      const answer = await chat(gateway, { stream, policy: "p", accelerator: "H100", max_tokens: 3 });
      const text = await answer.text();
      assert.deepEqual([answer.status, nodeOf(answer)], [200, "nvidia"], text);
    }
    const body = nvidia.received.posts[0]?.body.toString() ?? "";
    assert.doesNotMatch(body, /policy|accelerator/);
    await until("its load is known", () => stateOf("nvidia")?.running === 0);
    // what reading takes away is read once, to find out which engine it is
    const jsonPages = nvidia.received.all.filter(({ path }) => path === "/metrics").length;
    if (engine === "trtllm") assert.equal(jsonPages, 1);
  });

  test(`${engine}: a member that nobody knows is the caller's error, and costs the node nothing`, async (t) => {
    const { gateway, stateOf } = await start(t, engine);
    const answer = await chat(gateway, { no_such_member: 1 });
    assert.equal(answer.status, engine === "trtllm" ? 400 : 422);
    assert.match(await answer.text(), /extra_forbidden/);
    assert.equal(stateOf("nvidia")?.state, "healthy");
  });

  test(`${engine}: one that is full costs no caller its answer, and no cooldown`, async (t) => {
    const { gateway, nvidia, stateOf } = await start(t, engine, { maxQueuedRequests: 0 });
    const answer = await chat(gateway);
    assert.deepEqual([answer.status, nodeOf(answer)], [200, "vllm"]);
    await answer.text();
    assert.ok(nvidia.received.posts.length >= 1, "it was asked");
    assert.equal(stateOf("nvidia")?.state, "healthy");
  });

  test(`${engine}: one whose engine dies is out, and its callers are served elsewhere`, async (t) => {
    const { gateway, nvidia, stateOf } = await start(t, engine);
    nvidia.engineDeath();
    const answer = await chat(gateway);
    assert.deepEqual([answer.status, nodeOf(answer)], [200, "vllm"]);
    await answer.text();
    await until("it is out", () => stateOf("nvidia")?.state !== "healthy");
  });
}

test("trtllm: with its engine stated, the page that reading empties is never read", async (t) => {
  const { nvidia, stateOf } = await start(t, "trtllm", { hasMetrics: true }, ", engine: trtllm");
  await until("its load is known", () => stateOf("nvidia")?.running === 0);
  assert.equal(nvidia.received.all.filter(({ path }) => path === "/metrics").length, 0);
});
