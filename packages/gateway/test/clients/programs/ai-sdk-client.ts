/** Vercel's AI SDK with its provider for OpenAI-compatible servers, and with OpenAI's own provider (Responses API). */
import assert from "node:assert/strict";
import {
  arm,
  assertLeft,
  HASTE_MS,
  load,
  PIXEL,
  rejects,
  routingOf,
  run,
  seen,
  stage,
  statuses,
  test,
  testFault,
  versionOf,
  WANTED,
} from "./cases.ts";

const { generateText, streamText, embedMany, tool, stepCountIs, isStepCount, Output, APICallError } = load("ai");
const { createOpenAICompatible } = load("@ai-sdk/openai-compatible");
const { createOpenAI } = load("@ai-sdk/openai");
const { z } = load("zod");

Reflect.set(globalThis, "AI_SDK_LOG_WARNINGS", false);

const connection = { baseURL: `${stage.base_url}/v1`, apiKey: stage.api_key };
const compatible = createOpenAICompatible({
  name: "zml",
  ...connection,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const prompt = "what is the weather like in Oslo?";
const input = z.object({ city: z.enum(["Oslo", "Rome"]), days: z.literal(2) });

test("generateText, with routing from response.headers", async (model) => {
  const answer = await generateText({ model: compatible(model), prompt, maxOutputTokens: 4 });
  assert.ok(answer.text);
  assert.equal(answer.usage.outputTokens, 4);
  assert.ok(routingOf(answer.response.headers["x-zml-routing"])["node"]);
});

test("streamText, with routing from response.headers", async (model) => {
  const answer = streamText({ model: compatible(model), prompt, maxOutputTokens: 4 });
  let text = "";
  for await (const part of answer.textStream) text += part;
  assert.ok(text);
  assert.equal((await answer.usage).outputTokens, 4);
  assert.ok(routingOf((await answer.response).headers["x-zml-routing"])["node"]);
});

test(
  "tools: an agent's loop, plain and streamed",
  async (model) => {
    const asked: unknown[] = [];
    const weather = tool({
      description: "the weather",
      inputSchema: input,
      execute: async (given: unknown) => {
        asked.push(given);
        return "rain";
      },
    });
    const options = { model: compatible(model), prompt, tools: { weather }, stopWhen: (stepCountIs ?? isStepCount)(3) };
    assert.ok((await generateText(options)).text);
    assert.ok(await streamText(options).text);
    assert.deepEqual(asked, [WANTED, WANTED]);
  },
  ["vllm", "llamacpp"],
);

test("structured output", async (model) => {
  const output = Output.object({ schema: input });
  const answer = await generateText({ model: compatible(model), prompt, output, maxOutputTokens: 400 });
  assert.equal(answer.output.days, 2);
});

test(
  "OpenAI's provider on the Responses API, plain and streamed",
  async (model) => {
    const openai = createOpenAI(connection);
    assert.ok((await generateText({ model: openai(model), prompt, maxOutputTokens: 4 })).text);
    assert.ok(await streamText({ model: openai(model), prompt, maxOutputTokens: 4 }).text);
  },
  ["vllm"],
);

test("OpenAI's provider on the chat API", async (model) => {
  const openai = createOpenAI(connection);
  assert.ok((await generateText({ model: openai.chat(model), prompt, maxOutputTokens: 4 })).text);
});

test(
  "embedMany",
  async (model) => {
    const embed = compatible.embeddingModel ?? compatible.textEmbeddingModel;
    const { embeddings } = await embedMany({ model: embed(model), values: ["one", "two"] });
    assert.deepEqual(
      embeddings.map((vector: number[]) => vector.length),
      [8, 8],
    );
  },
  ["vllm", "llamacpp"],
);

test(
  "image in the body",
  async (model) => {
    const content = [
      { type: "text", text: "what is this?" },
      { type: "file", mediaType: "image/png", data: Buffer.from(PIXEL, "base64") },
    ];
    assert.ok(
      await generateText({ model: compatible(model), messages: [{ role: "user", content }], maxOutputTokens: 2 }),
    );
  },
  ["vllm"],
);

test(
  "policy by headers",
  async (model) => {
    const headers = { "x-zml-accelerator": "MI300X" };
    const answer = await generateText({ model: compatible(model), prompt, headers, maxOutputTokens: 1 });
    assert.equal(routingOf(answer.response.headers["x-zml-routing"])["family"], "MI300X");
  },
  ["vllm"],
);

test(
  "errors are APICallError with status and headers, and no try is repeated",
  async (model) => {
    await arm("none");
    const missing = await rejects(() => generateText({ model: compatible("nothing"), prompt }));
    assert.ok(APICallError.isInstance(missing), String(missing));
    assert.deepEqual([missing.statusCode, missing.isRetryable], [404, false]);
    assert.match(missing.message, /there is no model "nothing"/);
    const stranger = createOpenAICompatible({ name: "zml", ...connection, apiKey: "x" });
    assert.equal((await rejects(() => generateText({ model: stranger(model), prompt }))).statusCode, 401);
    assert.deepEqual(await statuses(), [404, 401]);
  },
  ["vllm"],
);

testFault("saturation: waits for Retry-After and is served", async (model) => {
  await arm("full");
  assert.ok((await generateText({ model: compatible(model), prompt, maxOutputTokens: 2 })).text);
  const { calls } = await seen();
  assert.deepEqual(
    calls.map(({ status }) => status),
    [503, 200],
  );
  assert.ok((calls[1]?.waited_ms ?? 0) >= 950, JSON.stringify(calls));
});

testFault("a node that failed: x-should-retry is not known to it, maxRetries: 0 stops it", async (model) => {
  await arm("broken");
  const error = await rejects(() => generateText({ model: compatible(model), prompt, maxRetries: 1 }));
  assert.equal(error.lastError?.responseHeaders["x-should-retry"], "false", String(error));
  assert.equal((await statuses()).length, 2);
  await arm("broken");
  await rejects(() => generateText({ model: compatible(model), prompt, maxRetries: 0 }));
  assert.deepEqual(await statuses(), [500]);
});

testFault("a stream that breaks is told to onError, and ends with finishReason error", async (model) => {
  await arm("cut");
  const errors: unknown[] = [];
  const answer = streamText({
    model: compatible(model),
    prompt,
    maxRetries: 0,
    onError: ({ error }: { error: unknown }) => errors.push(error),
  });
  let text = "";
  for await (const part of answer.textStream) text += part;
  assert.ok(text);
  assert.match(JSON.stringify(errors) + String(errors), /broke off/);
  assert.equal(await answer.finishReason, "error");
});

testFault("a caller who aborts lets the node go", async (model) => {
  await arm("slow");
  const abortSignal = AbortSignal.timeout(HASTE_MS);
  await rejects(() => generateText({ model: compatible(model), prompt, abortSignal, maxRetries: 0 }));
  await assertLeft();
});

await run("Vercel AI SDK", "ai", versionOf("ai"));
