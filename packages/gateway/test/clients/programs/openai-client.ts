/** OpenAI's own client for npm. */
import assert from "node:assert/strict";
import OpenAI, {
  APIConnectionTimeoutError,
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
} from "openai";
import { VERSION } from "openai/version";
import {
  arm,
  assertLeft,
  assertWaited,
  HASTE_MS,
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
  WANTED,
} from "./cases.ts";

const connection = { baseURL: `${stage.base_url}/v1`, apiKey: stage.api_key };
const client = new OpenAI(connection);
const once = new OpenAI({ ...connection, maxRetries: 0 });
const TOOL = { type: "function" as const, function: { name: "weather", parameters: SCHEMA } };

test("chat, with routing", async (model) => {
  const call = client.chat.completions.create({ model, messages: MESSAGES, max_tokens: 4 });
  const { data, response } = await call.withResponse();
  assert.ok(data.choices[0]?.message.content);
  assert.equal(data.usage?.completion_tokens, 4);
  assert.ok(routingOf(response.headers.get("x-zml-routing"))["node"]);
});

test("chat stream, with routing and usage", async (model) => {
  const options = { include_usage: true };
  const body = { model, messages: MESSAGES, max_tokens: 4, stream: true as const, stream_options: options };
  const { data, response } = await client.chat.completions.create(body).withResponse();
  assert.ok(routingOf(response.headers.get("x-zml-routing"))["node"]);
  let [text, tokens] = ["", 0];
  for await (const chunk of data) {
    text += chunk.choices[0]?.delta.content ?? "";
    tokens = chunk.usage?.completion_tokens ?? tokens;
  }
  assert.ok(text);
  assert.equal(tokens, 4);
});

test("a stream that is left", async (model) => {
  const stream = await client.chat.completions.create({ model, messages: MESSAGES, max_tokens: 50, stream: true });
  for await (const _ of stream) break;
  assert.ok(stream.controller.signal.aborted);
});

test(
  "policy and accelerator by headers",
  async (model) => {
    const headers = { "x-zml-accelerator": "MI300X" };
    const body = { model, messages: MESSAGES, max_tokens: 1 };
    const { response } = await client.chat.completions.create(body, { headers }).withResponse();
    assert.equal(routingOf(response.headers.get("x-zml-routing"))["family"], "MI300X");
  },
  ["vllm"],
);

test(
  "tools: call and result",
  async (model) => {
    const first = await client.chat.completions.create({ model, messages: MESSAGES, tools: [TOOL] });
    const message = first.choices[0]?.message ?? assert.fail();
    const call = message.tool_calls?.[0];
    assert.ok(call?.type === "function");
    assert.deepEqual(JSON.parse(call.function.arguments), WANTED);
    const result = { role: "tool" as const, tool_call_id: call.id, content: "rain" };
    const messages = [...MESSAGES, message, result];
    const second = await client.chat.completions.create({ model, messages, tools: [TOOL] });
    assert.ok(second.choices[0]?.message.content);
  },
  ["vllm", "llamacpp"],
);

test(
  "tools: run by the client",
  async (model) => {
    const asked: unknown[] = [];
    const fn = {
      ...TOOL.function,
      description: "the weather",
      parse: JSON.parse,
      function: (given: object) => {
        asked.push(given);
        return "rain";
      },
    };
    const tools = [{ type: "function" as const, function: fn }];
    const runner = client.chat.completions.runTools({ model, messages: MESSAGES, tools, stream: true });
    assert.ok(await runner.finalContent());
    assert.deepEqual(asked, [WANTED]);
  },
  ["vllm", "llamacpp"],
);

test("structured output: parse", async (model) => {
  const response_format = {
    type: "json_schema" as const,
    json_schema: { name: "weather", strict: true, schema: SCHEMA },
  };
  const answer = await client.chat.completions.parse({ model, messages: MESSAGES, response_format, max_tokens: 400 });
  const given = JSON.parse(answer.choices[0]?.message.content ?? "") as typeof WANTED;
  assert.equal(given.days, 2);
});

test("responses, plain and stream", async (model) => {
  const answer = await client.responses.create({ model, input: "hello", max_output_tokens: 4 });
  assert.ok(answer.output_text);
  const stream = await client.responses.create({ model, input: "hello", max_output_tokens: 4, stream: true });
  const types: string[] = [];
  for await (const event of stream) types.push(event.type);
  assert.deepEqual([types[0], types.at(-1)], ["response.created", "response.completed"]);
});

test(
  "responses stream, put together by the client",
  async (model) => {
    const stream = client.responses.stream({ model, input: "hello", max_output_tokens: 4 });
    assert.ok((await stream.finalResponse()).output_text);
  },
  ["vllm"],
);

test(
  "embeddings, base64 as the client asks by itself",
  async (model) => {
    const answer = await client.embeddings.create({ model, input: ["one", "two"] });
    assert.deepEqual(
      answer.data.map(({ embedding }) => embedding.length),
      [8, 8],
    );
    assert.ok(Math.abs((answer.data[0]?.embedding[0] ?? 0) - 0.5) < 1e-6);
  },
  ["vllm", "llamacpp"],
);

test(
  "image in the body",
  async (model) => {
    const image = { type: "image_url" as const, image_url: { url: `data:image/png;base64,${PIXEL}` } };
    const content = [{ type: "text" as const, text: "what is this?" }, image];
    assert.ok(await client.chat.completions.create({ model, messages: [{ role: "user", content }], max_tokens: 2 }));
  },
  ["vllm"],
);

test(
  "models: list and retrieve",
  async (model) => {
    const names: string[] = [];
    for await (const { id } of client.models.list()) names.push(id);
    assert.ok(names.includes(model));
    assert.equal((await client.models.retrieve(model)).id, model);
  },
  ["vllm"],
);

test(
  "errors have their classes, and no try is repeated",
  async (model) => {
    await arm("none");
    const create = (name: string, from = client, headers = {}) =>
      rejects(() => from.chat.completions.create({ model: name, messages: MESSAGES }, { headers }));
    const missing = await create("nothing");
    assert.ok(missing instanceof NotFoundError);
    assert.equal(missing.code, "model_not_found");
    assert.equal(missing.headers?.get("x-zml-routing"), "reason=refused");
    assert.ok((await create(model, client, { "x-zml-policy": "x" })) instanceof BadRequestError);
    assert.ok((await create(model, new OpenAI({ ...connection, apiKey: "x" }))) instanceof AuthenticationError);
    assert.deepEqual(await statuses(), [404, 400, 401]);
  },
  ["vllm"],
);

testFault("saturation: waits for Retry-After and is served", async (model) => {
  await arm("full");
  assert.ok(await client.chat.completions.create({ model, messages: MESSAGES, max_tokens: 2 }));
  await assertWaited();
});

testFault("saturation without retries is an InternalServerError with its code", async (model) => {
  await arm("full");
  const error = await rejects(() => once.chat.completions.create({ model, messages: MESSAGES }));
  assert.ok(error instanceof InternalServerError);
  assert.deepEqual([error.status, error.type, error.code], [503, "saturation", "queue_saturated"]);
  assert.equal(error.headers.get("retry-after"), "1");
});

testFault("a node that failed: x-should-retry: false stops it", async (model) => {
  await arm("broken");
  const error = await rejects(() => client.chat.completions.create({ model, messages: MESSAGES }));
  assert.ok(error instanceof InternalServerError);
  assert.equal(error.headers.get("x-should-retry"), "false");
  assert.deepEqual(await statuses(), [500]);
});

testFault("a stream that breaks raises APIError after what came", async (model) => {
  await arm("cut");
  let chunks = 0;
  const error = await rejects(async () => {
    const stream = await client.chat.completions.create({ model, messages: MESSAGES, stream: true });
    for await (const _ of stream) chunks += 1;
  });
  assert.ok(error instanceof APIError);
  assert.equal(error.code, "stream_interrupted");
  assert.ok(chunks >= 1);
  assert.deepEqual(await statuses(), [200]);
});

testFault("time-out: its own class, and the node is let go", async (model) => {
  await arm("slow");
  const hasty = new OpenAI({ ...connection, timeout: HASTE_MS, maxRetries: 1 });
  const error = await rejects(() => hasty.chat.completions.create({ model, messages: MESSAGES }));
  assert.ok(error instanceof APIConnectionTimeoutError);
  await assertLeft(2);
});

await run("openai (npm)", "openai", VERSION);
