/** What the rest of the tests may rely on from a real llama.cpp server, said by a real one. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ensureLlamaServer, type LlamaServer, startLlamaServer, writeTinyGguf } from "./index.ts";

const requestDeadlineMs = 10_000;
const limits = { timeout: 30_000 };

type ChatAnswer = {
  model: string;
  choices: [{ finish_reason: string; message: { content: string } }];
  usage: { completion_tokens: number };
};
type ChatChunk = { choices: [{ finish_reason: string | null; delta: { content?: string | null } }] };

let directory = "";
let model = "";
let server: LlamaServer;

before(
  async () => {
    directory = await mkdtemp(join(tmpdir(), "llama-server-"));
    model = join(directory, "tiny.gguf");
    await writeTinyGguf(model);
    await ensureLlamaServer();
    server = await startLlamaServer({ model, alias: "tiny" });
  },
  { timeout: 150_000 },
);

after(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

test("once it is started, /health is good and /v1/models lists its one model", limits, async () => {
  assert.deepEqual(await (await get("/health")).json(), { status: "ok" });
  const { data } = (await (await get("/v1/models")).json()) as { data: { id: string }[] };
  assert.equal(data.map(({ id }) => id).join(), "tiny");
});

test("/metrics is Prometheus text with the numbers of running and waiting requests", limits, async () => {
  const text = await (await get("/metrics")).text();
  const samples = new Map<string, number>();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, name = "", value = ""] = /^([a-z_:]+) (\S+)$/.exec(line) ?? assert.fail(line);
    samples.set(name, Number(value));
  }
  assert.equal(samples.get("llamacpp:requests_processing"), 0);
  assert.equal(samples.get("llamacpp:requests_deferred"), 0);
});

test("a plain answer is readable words and ends at max_tokens", limits, async () => {
  const answer = (await (await chat(server, { max_tokens: 12 })).json()) as ChatAnswer;
  assert.equal(answer.choices[0].finish_reason, "length");
  assert.match(answer.choices[0].message.content, /^( [a-z]+){12}$/);
  assert.equal(answer.usage.completion_tokens, 12);
});

test("a streamed answer has one event per word and ends with [DONE]", limits, async () => {
  const events = (await (await chat(server, { max_tokens: 12, stream: true })).text()).trim().split("\n\n");
  assert.equal(events.at(-1), "data: [DONE]");
  const chunks = events.slice(0, -1).map((event): ChatChunk => JSON.parse(event.slice("data: ".length)));
  const contents = chunks.map((chunk) => chunk.choices[0].delta.content ?? "");
  assert.match(contents.join(""), /^( [a-z]+){12}$/);
  assert.equal(contents.filter((content) => content !== "").length, 12);
  assert.equal(chunks.at(-1)?.choices[0].finish_reason, "length");
});

test("replies of a model whose end token outweighs its words end by themselves", limits, async (t) => {
  const ending = join(directory, "ending.gguf");
  await writeTinyGguf(ending, { eosBias: 6 });
  const short = await startLlamaServer({ model: ending });
  t.after(() => short.stop());
  const answer = (await (await chat(short, { max_tokens: 500 })).json()) as ChatAnswer;
  assert.equal(answer.choices[0].finish_reason, "stop");
});

test("a wrong model name is answered, as the server's own model", limits, async () => {
  const response = await chat(server, { model: "somebody-else", max_tokens: 1 });
  assert.equal(response.status, 200);
  assert.equal(((await response.json()) as ChatAnswer).model, "tiny");
});

test("SIGKILL cuts a stream without [DONE], and the same port serves again afterwards", limits, async (t) => {
  // So many tokens that the answer can't be over when the signal arrives.
  const first = await startLlamaServer({ model, slots: 1, contextTokens: 32_000 });
  t.after(() => first.stop());
  const response = await chat(first, { max_tokens: 30_000, stream: true });
  assert(response.body !== null);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value ?? "";
  assert.match(text, /^data: /);
  assert.equal(first.kill("SIGKILL"), true);

  await assert.rejects(async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  }, "the stream breaks instead of ending");
  assert.doesNotMatch(text, /\[DONE\]/);
  assert.deepEqual(await first.exited, { code: null, signal: "SIGKILL" });
  assert.equal(first.kill("SIGTERM"), false, "it is gone");

  const second = await startLlamaServer({ model, port: first.port });
  t.after(() => second.stop());
  assert.equal(second.port, first.port);
  assert.notEqual(second.pid, first.pid);
  assert.equal((await chat(second, { max_tokens: 1 })).status, 200);
});

test("stopping while a request runs ends within its grace, and may be repeated", limits, async (t) => {
  const busy = await startLlamaServer({ model, slots: 1, contextTokens: 32_000 });
  t.after(() => busy.stop());
  const response = await chat(busy, { max_tokens: 30_000, stream: true });
  await response.body?.getReader().read();
  const [exit, again] = await Promise.all([busy.stop(), busy.stop()]);
  assert.deepEqual(again, exit);
});

test("a port that is taken and a file that is no model are named when the server ends", limits, async () => {
  const taken = new RegExp(`ended before it was ready, port ${server.port} is taken`);
  await assert.rejects(startLlamaServer({ model, port: server.port }), taken);
  const noModel = join(directory, "no-model.gguf");
  await writeFile(noModel, "not a model");
  await assert.rejects(startLlamaServer({ model: noModel }), /no-model\.gguf ended before it was ready \(/);
});

test("a server that isn't ready at the deadline is gone when the call fails", limits, async () => {
  const binary = join(directory, "never-ready");
  await writeFile(binary, "#!/bin/sh\necho still loading\nexec sleep 60\n", { mode: 0o755 });
  await assert.rejects(
    startLlamaServer({ model, binary, startDeadlineMs: 300 }),
    /was not ready within 300 ms:\nstill loading/,
  );
});

test("the server dies with its parent, even if that is killed", limits, async (t) => {
  const script = `
    import { startLlamaServer } from ${JSON.stringify(new URL("./index.ts", import.meta.url).href)};
    const server = await startLlamaServer({ model: process.argv[1] });
    console.log(server.url);
  `;
  const parent = spawn(process.execPath, ["--input-type=module", "-e", script, model], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => parent.kill("SIGKILL"));
  const [line] = await once(parent.stdout, "data", { signal: AbortSignal.timeout(requestDeadlineMs) });
  const url = String(line).trim();
  const request = { method: "POST", body: JSON.stringify({ prompt: "hi", n_predict: 4_000, stream: true }) };
  const response = await fetch(`${url}/completion`, { ...request, signal: AbortSignal.timeout(requestDeadlineMs) });
  assert.equal(response.status, 200);
  parent.kill("SIGKILL");
  // Its end is seen where it matters, at its socket: the open answer breaks off, and no new one begins.
  await assert.rejects(response.text(), /terminated/);
  await assert.rejects(fetch(`${url}/health`, { signal: AbortSignal.timeout(requestDeadlineMs) }), /fetch failed/);
});

function get(path: string): Promise<Response> {
  return fetch(server.url + path, { signal: AbortSignal.timeout(requestDeadlineMs) });
}

function chat(target: LlamaServer, body: Record<string, unknown>): Promise<Response> {
  return fetch(`${target.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "tell a short story" }], ...body }),
    signal: AbortSignal.timeout(requestDeadlineMs),
  });
}
