/** Tool calls and structured outputs of the fakes, as the clients of each API read them. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { test } from "node:test";
import { exampleOf } from "./forced-output.ts";
import type { JsonObject } from "./json-object.ts";
import type { FakeNode } from "./node.ts";
import { startFakeNode } from "./node.ts";
import type { FakeNodeOptions } from "./node-options.ts";

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string", enum: ["Oslo", "Rome"] }, days: { type: "integer", minimum: 2 } },
  required: ["city", "days"],
} as const;
const WANTED = { city: "Oslo", days: 2 };
const USER = { role: "user", content: "what is the weather like in Oslo?" };
const CHAT_TOOL = { type: "function", function: { name: "weather", parameters: SCHEMA } };

async function fake(t: TestContext, engine: FakeNodeOptions["engine"]): Promise<FakeNode> {
  const hardware = "H100-SXM-80GB/llama-3-8b/bf16/1";
  const node = await startFakeNode({ engine, hardware, model: "m", speedUp: 50, outputTokens: 5 });
  t.after(() => node.stop());
  return node;
}

function post(node: FakeNode, path: string, body: object): Promise<Response> {
  const text = JSON.stringify({ model: "m", ...body });
  return fetch(node.url + path, { method: "POST", headers: { "content-type": "application/json" }, body: text });
}

// biome-ignore lint/suspicious/noExplicitAny: the shapes are what is tested
async function json(node: FakeNode, path: string, body: object): Promise<any> {
  return (await post(node, path, body)).json();
}

/** The data of a stream's events. */
// biome-ignore lint/suspicious/noExplicitAny: the shapes are what is tested
async function events(node: FakeNode, path: string, body: object): Promise<any[]> {
  const text = await (await post(node, path, { ...body, stream: true })).text();
  const data = [...text.matchAll(/^data: (.+)$/gm)].map(([, value]) => value ?? "");
  return data.filter((value) => value !== "[DONE]").map((value) => JSON.parse(value));
}

for (const engine of ["vllm", "sglang", "llamacpp", "trtllm"] as const) {
  test(`${engine}: a chat calls the tool that it is offered, and answers in words once it has the result`, async (t) => {
    const node = await fake(t, engine);
    const path = "/v1/chat/completions";
    const { choices } = await json(node, path, { messages: [USER], tools: [CHAT_TOOL] });
    assert.equal(choices[0].finish_reason, "tool_calls");
    const [call] = choices[0].message.tool_calls;
    assert.equal(call.function.name, "weather");
    assert.deepEqual(JSON.parse(call.function.arguments), WANTED);

    const chunks = await events(node, path, { messages: [USER], tools: [CHAT_TOOL] });
    const deltas = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
    assert.equal(deltas[0].function.name, "weather");
    assert.equal(typeof deltas[0].id, "string");
    assert.deepEqual(JSON.parse(deltas.map((delta) => delta.function.arguments).join("")), WANTED);
    assert.deepEqual(new Set(deltas.map((delta) => delta.index)), new Set([0]));
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.finish_reason).findLast(Boolean), "tool_calls");

    const result = { role: "tool", tool_call_id: call.id, content: "rain" };
    const messages = [USER, choices[0].message, result];
    const second = await json(node, path, { messages, tools: [CHAT_TOOL] });
    assert.equal(second.choices[0].message.content.split(" ").length, 5);
    const never = await json(node, path, { messages: [USER], tools: [CHAT_TOOL], tool_choice: "none" });
    assert.equal(typeof never.choices[0].message.content, "string");
  });

  test(`${engine}: a schema for the answer is kept, and a limit cuts it short`, async (t) => {
    const node = await fake(t, engine);
    const format = { type: "json_schema", json_schema: { name: "w", schema: SCHEMA } };
    const body = { messages: [USER], response_format: format };
    const { choices } = await json(node, "/v1/chat/completions", body);
    assert.deepEqual(JSON.parse(choices[0].message.content), WANTED);
    assert.equal(choices[0].finish_reason, "stop");
    const cut = await json(node, "/v1/chat/completions", { ...body, max_tokens: 2 });
    assert.equal(cut.choices[0].finish_reason, "length");
    assert.equal(cut.choices[0].message.content, '{"city":');
  });
}

for (const engine of ["vllm", "llamacpp"] as const) {
  test(`${engine}: /v1/responses calls functions and answers in words once it has the output`, async (t) => {
    const node = await fake(t, engine);
    const path = "/v1/responses";
    const tools = [{ type: "function", name: "weather", parameters: SCHEMA }];
    const { output } = await json(node, path, { input: "weather?", tools });
    assert.deepEqual([output[0].type, output[0].name], ["function_call", "weather"]);
    assert.deepEqual(JSON.parse(output[0].arguments), WANTED);
    const chunks = await events(node, path, { input: "weather?", tools });
    const deltas = chunks.filter(({ type }) => type === "response.function_call_arguments.delta");
    assert.deepEqual(JSON.parse(deltas.map(({ delta }) => delta).join("")), WANTED);
    assert.equal(chunks.at(-1).response.output[0].call_id, chunks[2].item.call_id);
    const input = [{ role: "user", content: "weather?" }, output[0]];
    input.push({ type: "function_call_output", call_id: output[0].call_id, output: "rain" });
    const second = await json(node, path, { input, tools });
    assert.equal(second.output[0].content[0].text.split(" ").length, 5);
    const text = { format: { type: "json_schema", name: "w", schema: SCHEMA } };
    const third = await json(node, path, { input: "weather?", text });
    assert.deepEqual(JSON.parse(third.output[0].content[0].text), WANTED);
  });

  test(`${engine}: /v1/messages uses tools and answers in words once it has the result`, async (t) => {
    const node = await fake(t, engine);
    const path = "/v1/messages";
    const body = { max_tokens: 50, tools: [{ name: "weather", input_schema: SCHEMA }] };
    const first = await json(node, path, { ...body, messages: [USER] });
    const [use] = first.content;
    assert.deepEqual([first.stop_reason, use.type, use.name], ["tool_use", "tool_use", "weather"]);
    assert.deepEqual(use.input, WANTED);
    const chunks = await events(node, path, { ...body, messages: [USER] });
    const deltas = chunks.filter(({ type }) => type === "content_block_delta");
    assert.deepEqual(JSON.parse(deltas.map(({ delta }) => delta.partial_json).join("")), WANTED);
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "rain" }] };
    const messages = [USER, { role: "assistant", content: first.content }, result];
    const second = await json(node, path, { ...body, messages });
    assert.deepEqual([second.stop_reason, second.content[0].type], ["end_turn", "text"]);
  });

  test(`${engine}: embeddings come as numbers, or as base64 of the same float32`, async (t) => {
    const node = await fake(t, engine);
    const plain = await json(node, "/v1/embeddings", { input: ["a", "b"] });
    const packed = await json(node, "/v1/embeddings", { input: ["a", "b"], encoding_format: "base64" });
    const bytes = Buffer.from(packed.data[1].embedding, "base64");
    assert.deepEqual([...new Float32Array(new Uint8Array(bytes).buffer)], plain.data[1].embedding);
  });
}

test("vllm: events of /v1/responses are numbered from 0 without a gap, for words and for a call", async (t) => {
  const node = await fake(t, "vllm");
  const tools = [{ type: "function", name: "weather", parameters: SCHEMA }];
  for (const body of [{ input: "hello" }, { input: "hello", tools }]) {
    const numbers = (await events(node, "/v1/responses", body)).map((event) => event.sequence_number);
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => index),
    );
  }
});

test("an example of a schema has what the schema names, also through references and options", () => {
  const schema: JsonObject = {
    type: "object",
    properties: {
      at: { $ref: "#/$defs/place" },
      sure: { type: "boolean" },
      note: { anyOf: [{ type: "null" }, { type: "string", minLength: 7 }] },
      parts: { type: "array", items: { type: "number" }, minItems: 2 },
      kind: { const: "w" },
    },
    $defs: { place: { type: "object", properties: { name: { type: "string" }, next: { $ref: "#/$defs/place" } } } },
  };
  const example = exampleOf(schema) as { at: { name: string } };
  assert.equal(example.at.name, "light");
  assert.deepEqual({ ...example, at: null }, { at: null, sure: true, note: "light--", parts: [1, 1], kind: "w" });
});
