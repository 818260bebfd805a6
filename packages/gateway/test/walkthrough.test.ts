/** Promises of the walkthrough that only the whole gateway can keep. docs/walkthrough.md says which test covers which. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeRoutingHeader, type ReceivedRouting } from "@zml/protocol/wire";
import { readConfig } from "../src/config/read-config.ts";
import { chat, decisionOf, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

const node = (id: string, url: string, family: string, price: number) =>
  `  - { id: ${id}, url: "${url}", family: ${family}, models: [m], cost: { usd_per_gpu_hour: ${price} } }\n`;

const policy = (name: string, families: readonly string[], rest = "cost_priority: cost") =>
  `  - { name: ${name}, accelerator_preference: [${families
    .map((family, index) => `{ family: ${family}, priority: ${index + 1} }`)
    .join(", ")}], ${rest} }\n`;

const MODEL = "models:\n  - { name: m, policy: batch }\n";

function routingOf(response: Response): ReceivedRouting {
  const routing = decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "");
  assert.ok(routing !== null);
  return routing;
}

test("the caller gets the routing header that the node got, with all five members", async (t) => {
  const fake = await fakeNode(t);
  const { gateway } = await startOn(
    t,
    `${PORTS}nodes:\n${node("a", fake.url, "H100", 2)}policies:\n${policy("batch", ["H100"])}${MODEL}`,
  );
  for (const stream of [false, true]) {
    const response = await chat(gateway, { stream });
    assert.equal(response.status, 200);
    await response.text();
    const header = response.headers.get("x-zml-routing");
    assert.equal(fake.received.posts.at(-1)?.headers["x-zml-routing"], header);
    const { decision, ...rest } = routingOf(response);
    assert.match(decision ?? "", /^[0-9a-f-]{36}$/);
    assert.deepEqual(rest, {
      node: "a",
      policy: "batch",
      family: "H100",
      queueDepth: 0,
      attempt: 1,
      reason: "cheapest",
    });
    await until("its place is free", () => gateway.stats().fleet.totals.in_flight === 0);
  }
});

test("a model's policy is used, and a call names another one in its header or its body", async (t) => {
  const [h100, mi300x] = [await fakeNode(t), await fakeNode(t)];
  const { gateway } = await startOn(
    t,
    `${PORTS}nodes:\n${node("h", h100.url, "H100", 3)}${node("m", mi300x.url, "MI300X", 2)}policies:\n${policy(
      "batch",
      ["MI300X"],
    )}${policy("fast", ["H100"], "cost_priority: latency")}${MODEL}`,
  );
  const ask = async (body: object, headers: Record<string, string> = {}) => {
    const response = await chat(gateway, body, { headers: { "content-type": "application/json", ...headers } });
    await response.text();
    const source = gateway.explain(decisionOf(response))?.policy.source;
    const { node: id, policy: name } = routingOf(response);
    return [id, name, source];
  };
  assert.deepEqual(await ask({}), ["m", "batch", "model"]);
  assert.deepEqual(await ask({ policy: "fast" }), ["h", "fast", "call"]);
  const init = {
    model: "m",
    messages: [{ role: "user", content: "hi" }],
  };
  assert.deepEqual(await ask(init, { "x-zml-policy": "fast" }), ["h", "fast", "call"]);
});

test("a new family is a change of configuration: the same call goes there once nodes and policy name it", async (t) => {
  const [h100, mi300x] = [await fakeNode(t), await fakeNode(t)];
  const before = `${PORTS}nodes:\n${node("h", h100.url, "H100", 3)}policies:\n${policy("batch", ["H100"])}${MODEL}`;
  const { gateway, write } = await startOn(t, before);
  const call = async () => {
    const response = await chat(gateway);
    await response.text();
    assert.equal(response.status, 200);
    return routingOf(response).family;
  };
  assert.equal(await call(), "H100");

  const nodes = `nodes:\n${node("h", h100.url, "H100", 3)}${node("m", mi300x.url, "MI300X", 2)}`;
  write(`${PORTS}${nodes}policies:\n${policy("batch", ["H100"])}${MODEL}`);
  assert.equal((await gateway.reload()).kind, "applied");
  await until("the new node has answered a poll", () =>
    gateway.stats().fleet.nodes.every(({ state }) => state === "healthy"),
  );
  assert.equal(await call(), "H100", "a family outside the chain is never added");

  write(`${PORTS}${nodes}policies:\n${policy("batch", ["MI300X", "H100"])}${MODEL}`);
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal(await call(), "MI300X");
  const [there] = mi300x.received.posts;
  assert.equal(there?.bodySha256, h100.received.posts[0]?.bodySha256, "the same bytes on either family");
});

test("while the preferred family is gone the next in the chain serves, and with none left a 503 says so", async (t) => {
  const [h100, mi300x] = [await fakeNode(t), await fakeNode(t)];
  const { gateway } = await startOn(
    t,
    `${PORTS}nodes:\n${node("h", h100.url, "H100", 3)}${node("m", mi300x.url, "MI300X", 2)}policies:\n${policy(
      "batch",
      ["MI300X", "H100"],
      "cost_priority: latency",
    )}${MODEL}`,
  );
  const ask = async () => {
    const response = await chat(gateway);
    return { status: response.status, body: await response.text(), routing: routingOf(response) };
  };
  assert.equal((await ask()).routing.node, "m");
  mi300x.kill();
  const failedOver = await ask();
  assert.deepEqual([failedOver.status, failedOver.routing.node, failedOver.routing.attempt], [200, "h", 2]);
  const later = await ask();
  assert.deepEqual([later.status, later.routing.node, later.routing.attempt], [200, "h", 1], "not asked again");
  h100.kill();
  const none = await ask();
  assert.equal(none.status, 503);
  const { error } = JSON.parse(none.body) as { error: { type: string; code: string; families: unknown[] } };
  assert.deepEqual([error.type, error.code, error.families.length], ["saturation", "no_node_available", 2]);
});

test("the defaults are the walkthrough's: polls every 5 s, 30 s of cooldown, no queue, balanced", () => {
  const { config } = readConfig("policies: [{ name: p }]\n", { fileName: "zml.yaml", env: {}, cores: 2 });
  assert.equal(config?.health.pollIntervalMs, 5000);
  assert.equal(config?.failover.cooldownMs, 30_000);
  const [only] = config?.policies ?? [];
  assert.equal(only?.queueOnSaturation, false);
  assert.equal(only?.costPriority, "balanced");
});
