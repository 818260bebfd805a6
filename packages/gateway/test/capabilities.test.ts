/** Requests go to nodes that can do what they need, or are told that none can: two nodes of two families each. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { chat, decisionOf, fakeNode, PORTS, type Started, startOn, until } from "./control-fixture.ts";

interface Node {
  url: string;
  models: string;
  family?: string;
}

/** A gateway in front of nodes, the first of which is asked first: `models` is the entry of the file. */
async function gatewayOf(t: TestContext, nodes: readonly Node[], rest = ""): Promise<Started> {
  const entries = nodes.map(({ url, models, family = "H100" }, index) => {
    return `  - { id: ${"abc"[index]}, url: "${url}", family: ${family}, engine: vllm, models: [${models}] }\n`;
  });
  const text = `${PORTS}workers: 1\nnodes:\n${entries.join("")}policies:
  - name: p
    cost_priority: latency
    accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }]
models: [{ name: m, policy: p }]
${rest}`;
  const started = await startOn(t, text);
  const { gateway } = started;
  await until("the nodes are polled", () => gateway.stats().fleet.nodes.every(({ state }) => state === "healthy"));
  return started;
}

const part = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
const image = { messages: [{ role: "user", content: [{ type: "text", text: "what is it?" }, part] }] };
const prompt = (bytes: number) => ({ messages: [{ role: "user", content: "word ".repeat(bytes / 5) }] });

function nodeOf(response: Response): string | undefined {
  return decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.node;
}

async function refusal(response: Response) {
  assert.equal(response.headers.get("retry-after"), null, "waiting would not help");
  assert.equal(decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.reason, "no_capable_node");
  const { error } = (await response.json()) as {
    error: { message: string; type: string; param: string; code: string; families: unknown };
  };
  return { status: response.status, ...error };
}

test("images go to the vision node, text to either, and the record says why", async (t) => {
  const [text, vision] = await Promise.all([fakeNode(t), fakeNode(t)]);
  const { gateway } = await gatewayOf(t, [
    { url: text.url, models: "{ name: m, images: false }" },
    { url: vision.url, models: "m", family: "MI300X" },
  ]);
  assert.equal(nodeOf(await chat(gateway)), "a");
  const seen = await chat(gateway, image);
  assert.deepEqual([seen.status, nodeOf(seen)], [200, "b"]);
  const decision = gateway.explain(decisionOf(seen));
  assert.equal(decision?.request.images, true);
  assert.deepEqual(decision?.families[0]?.excluded, { images_unsupported: 1 });
});

test("images that no node reads are the caller's mistake, in the shape of the endpoint, and reach no node", async (t) => {
  const [a, b] = await Promise.all([fakeNode(t), fakeNode(t)]);
  const models = "{ name: m, images: false }";
  const { gateway } = await gatewayOf(t, [
    { url: a.url, models },
    { url: b.url, models, family: "MI300X" },
  ]);
  const { message, ...rest } = await refusal(await chat(gateway, image));
  const families = ["H100", "MI300X"].map((family) => ({ family, reason: "images_unsupported", nodes: 1 }));
  const type = "invalid_request_error";
  assert.deepEqual(rest, { status: 400, type, param: "messages", code: "images_unsupported", families });
  assert.match(message, /no node that serves "m" reads images/);
  const source = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" };
  const messages = [{ role: "user", content: [{ type: "image", source }] }];
  const anthropic = await fetch(`${gateway.dataUrl}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", max_tokens: 8, messages }),
  });
  assert.equal(anthropic.status, 400);
  const body = (await anthropic.json()) as { type: string; error: { type: string; code: string } };
  assert.deepEqual([body.type, body.error.type, body.error.code], ["error", type, "images_unsupported"]);
  assert.equal(a.received.posts.length + b.received.posts.length, 0);
});

test("an image's base64 is no text: it fits into a context that is smaller than its bytes", async (t) => {
  const node = await fakeNode(t, { maxModelLen: 8192 });
  const large = await fakeNode(t, { maxModelLen: 131_072 });
  const { gateway } = await gatewayOf(t, [
    { url: node.url, models: "m" },
    { url: large.url, models: "m", family: "MI300X" },
  ]);
  const url = `data:image/png;base64,${"iVBORw0KGgo".repeat(20_000)}`;
  const messages = [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }];
  assert.equal(nodeOf(await chat(gateway, { messages, max_tokens: 8 })), "a");
});

test("a prompt that probably does not fit goes to the larger context without a try on the smaller", async (t) => {
  const [small, large] = await Promise.all([fakeNode(t, { maxModelLen: 1024 }), fakeNode(t, { maxModelLen: 65_536 })]);
  const { gateway } = await gatewayOf(t, [
    { url: small.url, models: "m" },
    { url: large.url, models: "m", family: "MI300X" },
  ]);
  assert.equal(nodeOf(await chat(gateway, prompt(1000))), "a");
  const asked = small.received.posts.length;
  const long = await chat(gateway, prompt(20_000));
  assert.deepEqual([long.status, nodeOf(long)], [200, "b"]);
  const limited = await chat(gateway, { max_tokens: 4000 });
  assert.deepEqual([limited.status, nodeOf(limited)], [200, "b"]);
  assert.equal(small.received.posts.length, asked, "the small node was not asked");
  const excluded = gateway.explain(decisionOf(long))?.families[0]?.excluded;
  assert.deepEqual(excluded, { context_too_small: 1 });
});

test("a prompt that probably fits nowhere is judged by the largest node, in its own words", async (t) => {
  const [small, large] = await Promise.all([fakeNode(t, { maxModelLen: 1024 }), fakeNode(t, { maxModelLen: 2048 })]);
  const { gateway } = await gatewayOf(t, [
    { url: small.url, models: "m" },
    { url: large.url, models: "m", family: "MI300X" },
  ]);
  const response = await chat(gateway, prompt(40_000));
  assert.deepEqual([response.status, nodeOf(response)], [400, "b"]);
  assert.match(await response.text(), /maximum context length is 2048/);
  assert.equal(small.received.posts.length, 0);
});

test("a prompt that certainly fits nowhere is refused with the sizes, and reaches no node", async (t) => {
  const node = await fakeNode(t, { maxModelLen: 2048 });
  const { gateway } = await gatewayOf(t, [{ url: node.url, models: "m" }]);
  const { status, code, param, message } = await refusal(await chat(gateway, prompt(600_000)));
  assert.deepEqual([status, code, param], [400, "context_length_exceeded", "messages"]);
  assert.match(message, /maximum context length is 2048 tokens .* the prompt has at least 4096: send less/);
  assert.equal(node.received.posts.length, 0);
});

test("a node that only embeds gets no chat, and a model that nobody embeds is told so", async (t) => {
  const [embeds, chats] = await Promise.all([fakeNode(t), fakeNode(t)]);
  const { gateway } = await gatewayOf(t, [
    { url: embeds.url, models: "{ name: m, endpoints: [embeddings] }, { name: e, endpoints: [embeddings] }" },
    { url: chats.url, models: "{ name: m, endpoints: [chat_completions] }", family: "MI300X" },
  ]);
  assert.equal(nodeOf(await chat(gateway)), "b");
  const { status, code, param, message } = await refusal(await chat(gateway, { model: "e" }));
  assert.deepEqual([status, code, param], [404, "endpoint_unsupported", "model"]);
  assert.match(message, /no node that serves "e" answers \/v1\/chat\/completions/);
});

test("a node that could do it and is full or gone makes it saturation, not a mistake", async (t) => {
  const [text, vision] = await Promise.all([fakeNode(t), fakeNode(t)]);
  const { gateway, write } = await gatewayOf(t, [
    { url: text.url, models: "{ name: m, images: false }" },
    { url: vision.url, models: "m", family: "MI300X" },
  ]);
  assert.ok(write);
  await vision.stop();
  // the first request meets the refused connect, the next one the cooldown
  await (await chat(gateway, image)).text();
  const response = await chat(gateway, image);
  assert.equal(response.status, 503);
  assert.notEqual(response.headers.get("retry-after"), null);
  const { error } = (await response.json()) as { error: { type: string; families: { reason: string }[] } };
  assert.equal(error.type, "saturation");
  assert.equal(error.families[0]?.reason, "images_unsupported");
});

test("an adapter goes to the node that has it, and the record counts the nodes that have its base alone", async (t) => {
  const [both, base] = await Promise.all([fakeNode(t, { aliases: ["lora"] }), fakeNode(t)]);
  const { gateway } = await gatewayOf(t, [
    { url: base.url, models: "m" },
    { url: both.url, models: "m, { name: lora, adapter_of: m }", family: "MI300X" },
  ]);
  const response = await chat(gateway, { model: "lora" });
  assert.deepEqual([response.status, nodeOf(response)], [200, "b"]);
  const decision = gateway.explain(decisionOf(response));
  const [h100] = decision?.families.filter(({ family }) => family === "H100") ?? [];
  assert.deepEqual([h100?.nodes, h100?.excluded], [0, { adapter_missing: 1 }]);
});
