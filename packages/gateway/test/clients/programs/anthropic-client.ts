/** Anthropic's own client for npm. */
import assert from "node:assert/strict";
import {
  arm,
  assertLeft,
  assertWaited,
  HASTE_MS,
  load,
  MESSAGES,
  PIXEL,
  rejects,
  routingOf,
  run,
  SCHEMA,
  stage,
  statuses,
  test,
  testFault,
  versionOf,
  WANTED,
} from "./cases.ts";

const sdk = load("@anthropic-ai/sdk");
const connection = { baseURL: stage.base_url, apiKey: stage.api_key };
const client = new sdk.Anthropic(connection);
const once = new sdk.Anthropic({ ...connection, maxRetries: 0 });
const TOOL = { name: "weather", input_schema: SCHEMA };

test("message, with routing", async (model) => {
  const call = client.messages.create({ model, messages: MESSAGES, max_tokens: 4 });
  const { data, response } = await call.withResponse();
  assert.ok(data.content[0].text);
  assert.deepEqual([data.stop_reason, data.usage.output_tokens], ["max_tokens", 4]);
  assert.ok(routingOf(response.headers.get("x-zml-routing"))["node"]);
});

test("stream, put together by the client", async (model) => {
  const stream = client.messages.stream({ model, messages: MESSAGES, max_tokens: 4 });
  let text = "";
  stream.on("text", (delta: string) => {
    text += delta;
  });
  const final = await stream.finalMessage();
  assert.equal(final.content[0].text, text);
  assert.equal(final.usage.output_tokens, 4);
});

test(
  "tools: use and result",
  async (model) => {
    const body = { model, max_tokens: 100, tools: [TOOL] };
    const first = await client.messages.stream({ ...body, messages: MESSAGES }).finalMessage();
    const [use] = first.content;
    assert.deepEqual([first.stop_reason, use.input], ["tool_use", WANTED]);
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "rain" }] };
    const messages = [...MESSAGES, { role: "assistant", content: first.content }, result];
    assert.equal((await client.messages.create({ ...body, messages })).content[0].type, "text");
  },
  ["vllm", "llamacpp"],
);

test(
  "image in the body",
  async (model) => {
    const source = { type: "base64", media_type: "image/png", data: PIXEL };
    const content = [
      { type: "image", source },
      { type: "text", text: "what is this?" },
    ];
    assert.ok(await client.messages.create({ model, messages: [{ role: "user", content }], max_tokens: 2 }));
  },
  ["vllm"],
);

test(
  "errors in Anthropic's shape have their classes, and no try is repeated",
  async (model) => {
    await arm("none");
    const create = (name: string, from = client) =>
      rejects(() => from.messages.create({ model: name, messages: MESSAGES, max_tokens: 1 }));
    const missing = await create("nothing");
    assert.ok(missing instanceof sdk.NotFoundError);
    assert.equal(missing.error.error.type, "not_found_error");
    assert.ok(
      (await create(model, new sdk.Anthropic({ ...connection, apiKey: "x" }))) instanceof sdk.AuthenticationError,
    );
    const count = await rejects(() => client.messages.countTokens({ model, messages: MESSAGES }));
    assert.ok(count instanceof sdk.NotFoundError);
    assert.equal(count.error.error.type, "not_found_error");
    assert.deepEqual(await statuses(), [404, 401, 404]);
  },
  ["vllm"],
);

testFault("saturation: waits for Retry-After and is served", async (model) => {
  await arm("full");
  assert.ok(await client.messages.create({ model, messages: MESSAGES, max_tokens: 2 }));
  await assertWaited();
});

testFault("saturation without retries is an overloaded_error", async (model) => {
  await arm("full");
  const error = await rejects(() => once.messages.create({ model, messages: MESSAGES, max_tokens: 2 }));
  assert.ok(error instanceof sdk.InternalServerError);
  assert.deepEqual([error.status, error.error.error.type], [503, "overloaded_error"]);
});

testFault("a node that failed: x-should-retry: false stops it", async (model) => {
  await arm("broken");
  const error = await rejects(() => client.messages.create({ model, messages: MESSAGES, max_tokens: 2 }));
  assert.ok(error instanceof sdk.InternalServerError);
  assert.deepEqual(await statuses(), [500]);
});

testFault("a stream that breaks raises APIError after what came", async (model) => {
  await arm("cut");
  const types: string[] = [];
  const error = await rejects(async () => {
    const body = { model, messages: MESSAGES, max_tokens: 50, stream: true };
    for await (const { type } of await client.messages.create(body)) types.push(type);
  });
  assert.ok(error instanceof sdk.APIError, String(error));
  assert.equal(error.error.error.code, "stream_interrupted");
  assert.ok(types.includes("content_block_delta"));
});

testFault("time-out: its own class, and the node is let go", async (model) => {
  await arm("slow");
  const hasty = new sdk.Anthropic({ ...connection, timeout: HASTE_MS, maxRetries: 0 });
  const error = await rejects(() => hasty.messages.create({ model, messages: MESSAGES, max_tokens: 2 }));
  assert.ok(error instanceof sdk.APIConnectionTimeoutError);
  await assertLeft();
});

await run("@anthropic-ai/sdk (npm)", "@anthropic-ai/sdk", versionOf("@anthropic-ai/sdk"));
