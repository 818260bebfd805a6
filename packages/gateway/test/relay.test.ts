import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { type FakeNode, startFakeNode } from "@zml/simulator";
import { chat, FIXTURE_MODEL, type PlaneFixture, startPlane } from "./plane-fixture.ts";

const HARDWARE = "H100-SXM-80GB/llama-3-8b/bf16/1";
let a: FakeNode;
let b: FakeNode;
let plane: PlaneFixture;

before(async () => {
  a = await startFakeNode({ engine: "vllm", hardware: HARDWARE, model: FIXTURE_MODEL, speedUp: 50, seed: 1 });
  b = await startFakeNode({ engine: "vllm", hardware: HARDWARE, model: FIXTURE_MODEL, speedUp: 50, seed: 2 });
  plane = await startPlane([
    { id: "a", url: a.url, family: "H100" },
    { id: "b", url: b.url, family: "MI300X" },
  ]);
});

after(async () => {
  await plane.stop();
  await a.stop();
  await b.stop();
});

test("a plain answer comes back with the routing header of the node that gave it", async () => {
  const response = await chat(plane.url);
  const answer = (await response.json()) as { choices: unknown[] };
  assert.equal(response.status, 200);
  assert.equal(answer.choices.length, 1);
  const routing = decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "");
  assert.equal(routing?.node, "a");
  assert.equal(routing?.family, "H100");
  assert.equal(routing?.reason, "first_acceptable");
  await plane.settled();
});

test("a stream is relayed to its end mark", async () => {
  const response = await chat(plane.url, { stream: true });
  const text = await response.text();
  assert.match(text, /data: \[DONE\]\n\n$/);
  assert.equal(response.headers.get("content-type")?.startsWith("text/event-stream"), true);
  await plane.settled();
});

test("a node that fails before the commit point is replaced by the next, and cools down", async () => {
  a.faults.status(500, '{"error":{"message":"boom","type":"x","param":null,"code":500}}');
  try {
    const response = await chat(plane.url);
    assert.equal(response.status, 200);
    const routing = decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "");
    assert.equal(routing?.node, "b");
    assert.equal(routing?.attempt, 2);
    await response.text();
  } finally {
    await a.faults.clear();
  }
  await plane.settled();
});

test("a re-dispatch takes the best-ranked of the nodes that are left", async () => {
  const nodes = await Promise.all(
    [1, 2, 3].map((seed) =>
      startFakeNode({ engine: "vllm", hardware: HARDWARE, model: FIXTURE_MODEL, speedUp: 50, seed }),
    ),
  );
  const [fast, middling, slow] = nodes as [FakeNode, FakeNode, FakeNode];
  const three = await startPlane([
    { id: "slow", url: slow.url, tokensPerSecond: 100 },
    { id: "fast", url: fast.url, tokensPerSecond: 3000 },
    { id: "middling", url: middling.url, tokensPerSecond: 1000 },
  ]);
  try {
    fast.faults.status(500, "{}");
    const response = await chat(three.url);
    const routing = decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "");
    assert.deepEqual([response.status, routing?.node, routing?.attempt], [200, "middling", 2]);
    await response.text();
    await three.settled();
  } finally {
    await three.stop();
    await Promise.all(nodes.map((node) => node.stop()));
  }
});
