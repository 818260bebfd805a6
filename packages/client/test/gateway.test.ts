/** The client through a real gateway, onto scripted nodes and fake engines. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DecisionJson } from "@zml/protocol/admin";
import type OpenAI from "openai";
import { fakeNode, PORTS, startOn } from "../../gateway/test/control-fixture.ts";
import { endAfterEach, startPair } from "../../gateway/test/pair-fixture.ts";
import { FIXTURE_MODEL as model, until } from "../../gateway/test/plane-fixture.ts";
import { chunk, healthy, type NodeScript, STREAM_HEAD, token } from "../../gateway/test/scripted-node.ts";
import {
  APIConnectionError,
  AuthenticationError,
  BadRequestError,
  type ChatChunk,
  type Decision,
  type InferStream,
  NotFoundError,
  SaturationError,
  UpstreamError,
  ZML,
} from "../src/index.ts";
import { fakeTiming } from "./fake-timing.ts";

const started = endAfterEach();
const messages = [{ role: "user", content: "hello" }];

async function pair(...args: Parameters<typeof startPair>) {
  const all = await startPair(...args);
  started.push(all.plane, all.a, all.b);
  return { ...all, client: new ZML({ baseUrl: all.plane.url, timing: fakeTiming() }) };
}

test("when every node is full, the error tells what each family said, and the call goes through once one has room", async () => {
  const holding: NodeScript = (call) => {
    call.write(STREAM_HEAD);
    call.write(chunk(token("a")));
  };
  const full = { maxInFlight: 1 };
  const { client, plane } = await pair(holding, { bScript: holding, a: full, b: full });
  const streams: InferStream<ChatChunk>[] = [];
  for (let index = 0; index < 2; index++) streams.push(await client.infer({ model, messages, stream: true }));
  const error: unknown = await client.infer({ model, messages, maxRetries: 0 }).catch((cause: unknown) => cause);
  assert.ok(error instanceof SaturationError, String(error));
  assert.deepEqual([error.status, error.code, error.shouldRetry], [503, "queue_saturated", undefined]);
  assert.deepEqual(error.families, [
    { family: "H100", reason: "at_capacity", nodes: 1 },
    { family: "MI300X", reason: "at_capacity", nodes: 1 },
  ]);
  assert.ok(error.retryAfter !== undefined && error.retryAfter >= 1 && error.retryAfter <= 60);
  assert.deepEqual([error.routing?.reason, error.routing?.node], ["queue_saturated", undefined]);
  // the wait of the retry is when the others leave
  const timing = { ...fakeTiming(), sleep: async () => leave() };
  async function leave(): Promise<void> {
    for (const stream of streams) stream.close();
    await plane.settled();
  }
  const patient = new ZML({ baseUrl: plane.url, timing });
  const late = await patient.infer({ model, messages, stream: true });
  assert.equal(late.routing?.node, "a");
  late.close();
  await plane.settled();
});

test("what the gateway tried in vain is not tried again by the client", async () => {
  const { client, a, b } = await pair((call) => call.rst(), { bScript: (call) => call.rst() });
  const error: unknown = await client.infer({ model, messages }).catch((cause: unknown) => cause);
  assert.ok(error instanceof UpstreamError, String(error));
  assert.deepEqual([error.status, error.code, error.shouldRetry], [502, "upstream_failed", false]);
  assert.match(error.message, /all \d attempts failed/);
  assert.deepEqual([a.calls.length, b.calls.length], [1, 1]);
});

test("an unknown model, an unknown policy and a wrong key are told with what is known", async () => {
  const { client, plane } = await pair(healthy("a"));
  const missing: unknown = await client.infer({ model: "none", messages }).catch((cause: unknown) => cause);
  assert.ok(missing instanceof NotFoundError);
  assert.match(missing.message, new RegExp(`the models are "${model}"`));
  const policy: unknown = await client.infer({ model, messages, policy: "none" }).catch((cause: unknown) => cause);
  assert.ok(policy instanceof BadRequestError);
  assert.deepEqual([policy.code, policy.routing?.reason], ["policy_not_found", "refused"]);
  const wrong = new ZML({ baseUrl: `${plane.url}/elsewhere` });
  await assert.rejects(wrong.infer({ model, messages }), NotFoundError);
});

test("a wrong key and none are told apart, and a good one is taken", async () => {
  const keys = [{ name: "app", value: "good" }];
  const { plane } = await pair(healthy("a"), { plane: { keys } });
  const code = async (apiKey?: string): Promise<unknown> => {
    const client = new ZML({ baseUrl: plane.url, apiKey });
    const error: unknown = await client.infer({ model, messages }).catch((cause: unknown) => cause);
    return error instanceof AuthenticationError ? error.code : error;
  };
  await assert.rejects(
    new ZML({ baseUrl: plane.url, apiKey: "none" }).infer({ model, messages }),
    /apiKey or ZML_API_KEY/,
  );
  assert.equal(await code(), "missing_api_key");
  assert.equal(await code("bad"), "invalid_api_key");
  assert.equal((await new ZML({ baseUrl: plane.url, apiKey: "good" }).infer({ model, messages })).text, "a");
});

test("a node that dies in the middle of a stream is an upstream error after the events that came", async () => {
  const { promise: half, resolve } = Promise.withResolvers<void>();
  const { client, plane } = await pair(async (call) => {
    call.write(STREAM_HEAD);
    call.write(chunk(token("Hel")));
    await half;
    call.rst();
  });
  const stream = await client.infer({ model, messages, stream: true });
  assert.equal(stream.routing?.node, "a", "before the first event");
  assert.equal((await stream.next()).value?.choices[0]?.delta.content, "Hel");
  resolve();
  await assert.rejects(stream.next(), (error) => {
    assert.ok(error instanceof UpstreamError, String(error));
    assert.equal(error.code, "stream_interrupted");
    assert.equal(error.routing?.node, "a");
    return true;
  });
  await plane.settled();
});

test("leaving a stream, aborting one, and aborting a plain call each reach the node", async () => {
  const { client, plane, a } = await pair((call) => {
    if (!call.body.includes('"stream":true')) return;
    call.write(STREAM_HEAD);
    call.write(chunk(token("Hel")));
  });
  for await (const _ of await client.infer({ model, messages, stream: true })) break;
  await until(() => a.calls[0]?.isClosed === true);
  const controller = new AbortController();
  const aborted = await client.infer({ model, messages, stream: true, signal: controller.signal });
  await aborted.next();
  const plain = assert.rejects(client.infer({ model, messages, signal: controller.signal }), { name: "AbortError" });
  await until(() => a.calls.length === 3);
  controller.abort();
  await plain;
  await assert.rejects(aborted.next(), { name: "AbortError" });
  await until(() => a.calls.every(({ isClosed }) => isClosed));
  await plane.settled();
});

test("a gateway that goes away in the middle is an error, not an end", async () => {
  const { client, plane, a } = await pair((call) => {
    call.write(STREAM_HEAD);
    call.write(chunk(token("Hel")));
  });
  const stream = await client.infer({ model, messages, stream: true });
  await stream.next();
  const failed = assert.rejects(
    stream.next(),
    (error) => error instanceof Error && /broke off|told of an error/.test(error.message),
  );
  await plane.stop();
  await failed;
  await until(() => a.calls[0]?.isClosed === true);
  await assert.rejects(new ZML({ baseUrl: plane.url, maxRetries: 0 }).infer({ model, messages }), APIConnectionError);
});

test("the hint and the policy travel as headers, and the node gets the body alone", async () => {
  const { client, a, b } = await pair(healthy("a"));
  const answer = await client.infer({ model, messages, accelerator: "MI300X", policy: "p", top_k: 5 });
  assert.equal(answer.text, "b");
  const { decision, ...rest } = answer.routing ?? {};
  assert.deepEqual(rest, {
    node: "b",
    policy: "p",
    family: "MI300X",
    queueDepth: 0,
    attempt: 1,
    reason: "hinted",
    hint: "used",
  });
  assert.match(decision ?? "", /^[0-9a-f-]{36}$/);
  assert.match(answer.requestId ?? "", /^[0-9a-f]{32}$/);
  assert.deepEqual(JSON.parse(String(b.calls[0]?.body)), { model, messages, top_k: 5 });
  assert.equal(a.calls.length, 0);
});

test("what the client adds to an answer is not enumerable", async () => {
  const { client } = await pair(healthy("a"));
  const answer = await client.infer({ model, messages });
  assert.deepEqual(Object.keys(answer).sort(), ["choices", "id", "object", "usage"]);
  assert.equal("routing" in JSON.parse(JSON.stringify(answer)), false);
  assert.equal(answer.routing?.family, "H100");
});

test("a request that went to a second node says so", async () => {
  const { client } = await pair((call) => call.rst());
  const answer = await client.infer({ model, messages });
  assert.deepEqual([answer.text, answer.routing?.node, answer.routing?.attempt], ["b", "b", 2]);
});

test("messages and tools of the openai client's types are taken as they are", async () => {
  const { client } = await pair(healthy("a"));
  const theirs: OpenAI.ChatCompletionMessageParam[] = [
    { role: "system", content: "be brief" },
    { role: "user", content: [{ type: "text", text: "hello" }] },
    { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "1", content: "3" },
  ];
  const tools: OpenAI.ChatCompletionTool[] = [
    { type: "function", function: { name: "f", parameters: { type: "object" } } },
  ];
  assert.equal((await client.infer({ model, messages: theirs, tools })).text, "a");
});

test("a decision is explained by the id of an answer's routing; its type is what the gateway sends", async (t) => {
  const node = await fakeNode(t);
  const { gateway } = await startOn(
    t,
    `${PORTS}nodes:\n  - { id: a, url: "${node.url}", family: H100, models: [m] }\n`,
  );
  const client = new ZML({ baseUrl: gateway.dataUrl, adminUrl: gateway.adminUrl });
  const stream = await client.infer({ model: "m", messages, stream: true });
  let text = "";
  for await (const each of stream) text += each.choices[0]?.delta.content ?? "";
  assert.notEqual(text, "");
  const id = stream.routing?.decision ?? "";
  const decision: Decision = await client.decisions.explain(id);
  assert.deepEqual([decision.decision, decision.choice.node, decision.request.model], [id, "a", "m"]);
  assert.deepEqual(
    decision.families.map(({ family, is_chosen }) => [family, is_chosen]),
    [["H100", true]],
  );
  // compiles only while the gateway's type has what the client's promises
  const promised: Omit<Decision, "routing" | "requestId"> = {} as DecisionJson as Mutable<DecisionJson>;
  assert.ok(promised);
  await assert.rejects(client.decisions.explain("0198c0de-7000-7000-8000-000000000001"), (error) => {
    assert.ok(error instanceof NotFoundError);
    assert.match(error.message, /there is no decision/);
    return true;
  });
  const { data } = await client.models.list();
  assert.deepEqual(
    data.map(({ id: name }) => name),
    ["m"],
  );
  assert.equal((await client.models.get("m")).id, "m");
  await assert.rejects(client.models.get("org/none"), NotFoundError);
});

/** What is read only at the gateway is the caller's own here. */
type Mutable<T> = T extends readonly (infer E)[]
  ? Mutable<E>[]
  : T extends object
    ? { -readonly [K in keyof T]: Mutable<T[K]> }
    : T;
