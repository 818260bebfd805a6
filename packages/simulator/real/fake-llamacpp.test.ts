/** The fake llama.cpp says what the real one says: the same members and events on every generating route. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type FakeNode, startFakeNode } from "../src/index.ts";
import { ensureLlamaServer, type LlamaServer, startLlamaServer, writeTinyGguf } from "./index.ts";

const limits = { timeout: 30_000 };
const ROUTES = {
  "/v1/chat/completions": { messages: [{ role: "user", content: "hello" }], max_tokens: 4 },
  "/v1/responses": { input: "hello", max_output_tokens: 4 },
  "/v1/messages": { messages: [{ role: "user", content: "hello" }], max_tokens: 4 },
} as const;

let directory = "";
let real: LlamaServer;
let fake: FakeNode;

before(
  async () => {
    directory = await mkdtemp(join(tmpdir(), "fake-llamacpp-"));
    const model = join(directory, "tiny.gguf");
    await writeTinyGguf(model);
    await ensureLlamaServer();
    real = await startLlamaServer({ model, alias: "tiny" });
    const hardware = "H100-SXM-80GB/llama-3-8b/bf16/1";
    fake = await startFakeNode({ engine: "llamacpp", hardware, model: "tiny", speedUp: 50, outputTokens: 50 });
  },
  { timeout: 150_000 },
);

after(async () => {
  await real?.stop();
  await fake?.stop();
  await rm(directory, { recursive: true, force: true });
});

for (const [path, body] of Object.entries(ROUTES)) {
  test(`${path}: a whole answer has the members that the real one has`, limits, async () => {
    const ask = async (url: string) => shapeOf(await (await post(url + path, body)).json());
    assert.deepEqual(await ask(fake.url), await ask(real.url));
  });

  test(`${path}: a stream has the events that the real one has`, limits, async () => {
    const ask = async (url: string) => eventsOf(await (await post(url + path, { ...body, stream: true })).text());
    assert.deepEqual(await ask(fake.url), await ask(real.url));
  });
}

function post(url: string, body: object): Promise<Response> {
  const init = { method: "POST", headers: { "content-type": "application/json" } };
  const signal = AbortSignal.timeout(10_000);
  return fetch(url, { ...init, body: JSON.stringify({ model: "tiny", ...body }), signal });
}

/** Names of members and types of values; of a list its first item. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [shapeOf(value[0])];
  if (typeof value !== "object" || value === null) return value === null ? null : typeof value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shapeOf(member)]));
}

/** Name and shape of each event; a run of like ones counts as one. */
function eventsOf(text: string): unknown[] {
  const events = text
    .trimEnd()
    .split("\n\n")
    .map((event) => {
      const [, data = ""] = /^data: (.+)$/m.exec(event) ?? [];
      return { name: /^event: (.+)$/m.exec(event)?.[1], data: data === "[DONE]" ? data : shapeOf(JSON.parse(data)) };
    });
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  return events.filter((event, index) => !same(event, events[index - 1]));
}
