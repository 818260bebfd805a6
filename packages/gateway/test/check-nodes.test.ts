/** `zml nodes check` against fake nodes of every engine, and against what breaks on the way to one. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, createServer as createNetServer, type Server } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import type { EngineKind, FakeNode } from "@zml/simulator";
import { selfSigned } from "../../client/test/self-signed.ts";
import { checkNodes } from "../src/commands/check-nodes.ts";
import { keptTerminal } from "../src/commands/testing/kept-terminal.ts";
import { chat, fakeNode, folder, startOn, until } from "./control-fixture.ts";
import { healthyH2, startH2Node } from "./h2-node.ts";

interface CheckedJson {
  ok: boolean;
  nodes: {
    id: string;
    level: string;
    engine: string | null;
    models: { name: string; ok: boolean; endpoint: string; tokens: number | null; tokens_per_second: number | null }[];
    points: { point: string; model: string | null; level: string; text: string; advice: string | null }[];
  }[];
}

interface Run {
  code: number;
  stdout: string;
  stderr: string;
}

type Options = Partial<Parameters<typeof checkNodes>[1]>;

/** A file with these lines of nodes. */
function file(t: TestContext, nodes: readonly string[], more = ""): string {
  const path = join(folder(t), "zml.yaml");
  writeFileSync(path, `store: { path: ":memory:" }\n${more}nodes:\n${nodes.map((node) => `  - ${node}\n`).join("")}`);
  return path;
}

/** Short idle times, so that the check of keep-alive is over soon. */
function entry(id: string, url: string, more = ""): string {
  return `{ id: ${id}, url: "${url}", family: H100, keep_alive_ms: 50, cost: { usd_per_gpu_hour: 2 }${more} }`;
}

async function check(config: string, options: Options = {}, env: Record<string, string> = {}): Promise<Run> {
  const terminal = keptTerminal({ env });
  const defaults = { ids: [], json: false, strict: false, problems: false, timeoutMs: 10_000 };
  const code = await checkNodes(terminal, { ...defaults, config, ...options });
  return { code, stdout: terminal.stdout(), stderr: terminal.stderr() };
}

async function checkJson(config: string, options: Options = {}, env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await check(config, { json: true, ...options }, env);
  assert.equal(stderr, "");
  const json = JSON.parse(stdout) as CheckedJson;
  assert.equal(json.ok, code === 0);
  const [first] = json.nodes;
  assert.ok(first !== undefined);
  const pointOf = (name: string) => first.points.find(({ point }) => point === name);
  return { code, json, first, pointOf };
}

async function listening(t: TestContext, server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    if ("closeAllConnections" in server) (server as unknown as { closeAllConnections(): void }).closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

test("http_version 2 at a node that speaks HTTP/1.1 only: red, since every request would fail", async (t) => {
  const node = await fakeNode(t);
  const { code, pointOf } = await checkJson(file(t, [entry("a", node.url, ', http_version: "2"')]));
  assert.equal(code, 1);
  assert.equal(pointOf("model")?.level, "green", "over HTTP/1.1 all is well");
  assert.equal(pointOf("http2")?.level, "red");
  assert.match(pointOf("http2")?.text ?? "", /HTTP\/2.*: every request would fail$/);
  assert.equal((await checkJson(file(t, [entry("a", node.url)]))).pointOf("http2"), undefined);
});

test("http_version 2 at a node that speaks it is green", async (t) => {
  const node = await startH2Node(healthyH2("a"));
  t.after(() => node.stop());
  const { pointOf } = await checkJson(file(t, [entry("a", node.url, ', http_version: "2"')]));
  assert.equal(pointOf("http2")?.level, "green", JSON.stringify(pointOf("http2")));
});

test("nothing listens there: red, with what to do, and no other point is guessed", async (t) => {
  const gone = await fakeNode(t);
  gone.kill();
  const { code, first, pointOf } = await checkJson(file(t, [entry("a", gone.url)]));
  assert.equal(code, 1);
  assert.deepEqual(
    first.points.map(({ point, level }) => [point, level]),
    [["reachable", "red"]],
  );
  assert.match(pointOf("reachable")?.text ?? "", /ECONNREFUSED/);
  assert.match(pointOf("reachable")?.advice ?? "", /start the engine/);
});

test("a name that does not exist and an address that no node has are red", async (t) => {
  const name = await checkJson(file(t, [entry("a", "http://nobody.invalid:8000")]));
  assert.match(name.pointOf("reachable")?.text ?? "", /name can't be looked up/);
  assert.equal(name.code, 1);
});

test("a node that takes the connection and never answers ends by the deadline", async (t) => {
  const fake = await fakeNode(t);
  fake.faults.blackhole();
  const startedAtMs = performance.now();
  const { code, pointOf } = await checkJson(file(t, [entry("a", fake.url)]), { timeoutMs: 400 });
  assert.ok(performance.now() - startedAtMs < 5_000, `${performance.now() - startedAtMs} ms`);
  assert.equal(code, 1);
  assert.equal(pointOf("reachable")?.level, "green");
  assert.equal(pointOf("ready")?.level, "red");
  assert.match(pointOf("ready")?.text ?? "", /no answer \(timeout\)/);
});

test("a node whose health is green and whose models never answer is red", async (t) => {
  const fake = await fakeNode(t);
  fake.faults.greenButDead();
  const { code, pointOf } = await checkJson(file(t, [entry("a", fake.url, ", models: [m]")]), { timeoutMs: 600 });
  assert.equal(code, 1);
  assert.equal(pointOf("ready")?.level, "green");
  assert.deepEqual(
    { level: pointOf("model")?.level, text: pointOf("model")?.text },
    { level: "red", text: "no answer: no answer in time" },
  );
});

test("a node that breaks off in mid-answer is red", async (t) => {
  const fake = await fakeNode(t, { outputTokens: 64 });
  fake.faults.cutAfterEvents(3, "rst");
  const { code, pointOf } = await checkJson(file(t, [entry("a", fake.url, ", models: [m]")]));
  assert.equal(code, 1);
  assert.match(pointOf("model")?.text ?? "", /the connection broke/);
});

test("a node that asks for a key is red without it, green with it, and a wrong one is not printed", async (t) => {
  const fake = await fakeNode(t, { apiKey: "sesame-open-1234" });
  const none = await checkJson(file(t, [entry("a", fake.url, ", models: [m]")]));
  assert.equal(none.code, 1);
  assert.match(none.pointOf("model")?.text ?? "", /refuses the key \(401\)/);
  assert.match(none.pointOf("model")?.advice ?? "", /api_key_env/);

  const config = file(t, [entry("a", fake.url, ", models: [m], api_key_env: NODE_KEY")]);
  const right = await checkJson(config, {}, { NODE_KEY: "sesame-open-1234" });
  assert.equal(right.pointOf("model")?.level, "green", right.pointOf("model")?.text);

  // as OpenAI's own answer repeats it
  fake.faults.status(401, '{"error":{"message":"Incorrect API key provided: wrong-key-5678"}}');
  for (const json of [false, true]) {
    const wrong = await check(config, { json }, { NODE_KEY: "wrong-key-5678" });
    assert.equal(wrong.code, 1);
    assert.match(wrong.stdout, /Incorrect API key provided: \[secret\]/);
    assert.doesNotMatch(wrong.stdout + wrong.stderr, /wrong-key|sesame/);
  }
});

test("a model under a wrong name is red, with the names that the node lists", async (t) => {
  const fake = await fakeNode(t, { model: "org/llama-3" });
  const { code, pointOf } = await checkJson(file(t, [entry("a", fake.url, ", models: [llama3]")]));
  assert.equal(code, 1);
  const point = pointOf("model");
  assert.equal(point?.model, "llama3");
  assert.match(point?.text ?? "", /does not serve llama3 \(404\): it lists org\/llama-3/);
  assert.match(point?.advice ?? "", /upstream_model/);
});

test("an engine that answers any name does not pass for the model that it is asked for", async (t) => {
  const fake = await fakeNode(t, { engine: "llamacpp", model: "org/llama-3" });
  const wrong = await checkJson(file(t, [entry("a", fake.url, ", models: [llama3]")]));
  assert.equal(wrong.pointOf("model")?.level, "yellow", wrong.pointOf("model")?.text);
  assert.match(wrong.pointOf("model")?.text ?? "", /although llama3 is not in its list: it lists org\/llama-3/);
  const right = await checkJson(
    file(t, [entry("a", fake.url, ", models: [{ name: llama3, upstream_model: org/llama-3 }]")]),
  );
  assert.equal(right.pointOf("model")?.level, "green", right.pointOf("model")?.text);
});

test("a page of HTML is no serving engine", async (t) => {
  const html = "<!DOCTYPE html><html><body>Sign in</body></html>";
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/html" });
    response.end(html);
  });
  const port = await listening(t, server);
  const { code, pointOf } = await checkJson(file(t, [entry("a", `http://127.0.0.1:${port}`, ", models: [m]")]));
  assert.equal(code, 1);
  assert.match(pointOf("model")?.text ?? "", /an HTML page, no answer of a serving engine/);
  const stated = await checkJson(file(t, [entry("a", `http://127.0.0.1:${port}`, ", engine: vllm, models: [m]")]));
  assert.equal(stated.pointOf("engine")?.level, "yellow", "nothing shows vLLM");
});

test("what speaks no HTTP ends in red, and soon", async (t) => {
  const port = await listening(
    t,
    createNetServer((socket) => {
      socket.on("error", () => undefined);
      socket.end("220 smtp.example ready\r\n");
    }),
  );
  const { code, pointOf } = await checkJson(file(t, [entry("a", `http://127.0.0.1:${port}`, ", models: [m]")]));
  assert.equal(code, 1);
  assert.equal(pointOf("ready")?.level, "red");
});

/** The text of a check in a process of its own, which trusts an authority. */
async function checkTrusting(t: TestContext, cert: string, node: string): Promise<string> {
  const config = file(t, [node]);
  const ca = `${config}.pem`;
  writeFileSync(ca, cert);
  const zml = join(import.meta.dirname, "..", "bin", "zml.mjs");
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: ca };
  const child = promisify(execFile)(process.execPath, [zml, "nodes", "check", "-c", config], { env, timeout: 30_000 });
  // it is no serving engine, so that other points are red
  return child.then(
    () => assert.fail("red is 1"),
    (error: { code: number; stdout: string }) => {
      assert.equal(error.code, 1);
      return error.stdout;
    },
  );
}

test("TLS: an unknown authority, another name and a port without TLS are red, each with its cure", async (t) => {
  const { key, cert } = selfSigned();
  const server = createTlsServer({ key, cert }, (request, response) => {
    request.resume();
    response.end("{}");
  });
  const port = await listening(t, server);
  const unknown = await checkJson(file(t, [entry("a", `https://127.0.0.1:${port}`)]));
  assert.equal(unknown.code, 1);
  assert.match(unknown.pointOf("tls")?.text ?? "", /authority that is not known here \(DEPTH_ZERO_SELF_SIGNED_CERT\)/);
  assert.match(unknown.pointOf("tls")?.advice ?? "", /NODE_EXTRA_CA_CERTS/);

  const [trusted, wrongName] = await Promise.all([
    checkTrusting(t, cert, entry("a", `https://127.0.0.1:${port}`, ", server_name: localhost")),
    checkTrusting(t, cert, entry("a", `https://127.0.0.1:${port}`, ", server_name: node.example")),
  ]);
  assert.match(
    trusted,
    /^ {2}yellow {2}tls {9}TLSv1\.[23], its certificate is valid for \d days?, for localhost\n +→ renew it$/m,
  );
  assert.match(wrongName, /^ {2}red {5}tls {9}its certificate is for another name\n +→ set server_name/m);

  const plain = await fakeNode(t);
  const noTls = await checkJson(file(t, [entry("a", plain.url.replace("http:", "https:"))]));
  assert.match(noTls.pointOf("tls")?.text ?? "", /does not speak TLS/);
});

const ENGINES: readonly EngineKind[] = ["vllm", "sglang", "tgi", "llamacpp", "trtllm", "triton"];

for (const engine of ENGINES) {
  test(`a well-kept ${engine} is served, measured and not red, detected or stated`, async (t) => {
    // slow enough that a stream of 64 tokens takes some tens of milliseconds
    const fake = await fakeNode(t, { engine, hasMetrics: true, outputTokens: 64, speedUp: 4 });
    const nodes = [
      entry("detected", fake.url, ", models: [m]"),
      entry("stated", fake.url, `, models: [m], engine: ${engine}, max_in_flight: 8`),
    ];
    const { code, json } = await checkJson(file(t, nodes));
    assert.equal(code, 0, JSON.stringify(json));
    for (const node of json.nodes) {
      assert.notEqual(node.level, "red");
      assert.equal(node.engine, engine);
      const [model] = node.models;
      assert.ok(model?.ok);
      assert.equal(model.endpoint, "chat_completions");
      assert.equal(model.tokens, 64);
      assert.ok(model.tokens_per_second === null || model.tokens_per_second > 0);
      const level = (name: string) => node.points.find(({ point }) => point === name)?.level;
      for (const name of ["reachable", "ready", "engine", "model", "metrics", "price", "keep_alive"]) {
        assert.equal(level(name), "green", `${node.id} ${name}: ${JSON.stringify(node.points)}`);
      }
    }
    assert.equal(json.nodes[1]?.points.find(({ point }) => point === "limit")?.level, "green");
  });
}

test("an engine that is another one than is stated is red", async (t) => {
  const fake = await fakeNode(t, { engine: "sglang", hasMetrics: true });
  const { code, pointOf } = await checkJson(file(t, [entry("a", fake.url, ", engine: vllm, models: [m]")]));
  assert.equal(code, 1);
  assert.match(pointOf("engine")?.text ?? "", /stated as vllm, and it is sglang/);
  assert.match(pointOf("engine")?.advice ?? "", /state engine: sglang, or leave engine out/);
});

test("a platform is green, yellow where it is not told, red where it is another", async (t) => {
  const amd = await fakeNode(t, { engine: "sglang", accelerator: "AMD Instinct MI300X" });
  const nvidia = await fakeNode(t, { engine: "sglang" });
  const silent = await fakeNode(t);
  const level = async (fake: FakeNode) => {
    const { pointOf } = await checkJson(file(t, [entry("a", fake.url, ", models: [m], platform: ROCm")]));
    return pointOf("platform");
  };
  assert.equal((await level(amd))?.level, "green");
  const other = await level(nvidia);
  assert.deepEqual([other?.level, other?.text], ["red", "built for cuda, and it has to be for rocm"]);
  assert.equal((await level(silent))?.level, "yellow");
});

test("nodes of one family that are built for different platforms, or have other contexts of a model, are told", async (t) => {
  const amd = await fakeNode(t, { engine: "sglang", accelerator: "AMD Instinct MI300X", maxModelLen: 4096 });
  const nvidia = await fakeNode(t, { engine: "sglang", maxModelLen: 8192 });
  const { code, json } = await checkJson(file(t, [entry("a", amd.url), entry("b", nvidia.url)]));
  assert.equal(code, 0, "yellow alone does not fail");
  const texts = json.nodes.map(({ points }) =>
    points.filter(({ level }) => level === "yellow").map(({ text }) => text),
  );
  assert.ok(texts[0]?.includes("4096 tokens, and b has 8192: longer requests go past it"), JSON.stringify(texts));
  assert.ok(texts[0]?.includes("built for rocm, and b of the same family for cuda"), JSON.stringify(texts));
  assert.ok(texts[1]?.includes("built for cuda, and a of the same family for rocm"), JSON.stringify(texts));
});

test("a stated context above the engine's own is red", async (t) => {
  const fake = await fakeNode(t, { maxModelLen: 4096 });
  const models = ", models: [{ name: m, context_tokens: 32768 }]";
  const { code, pointOf } = await checkJson(file(t, [entry("a", fake.url, models)]));
  assert.equal(code, 1);
  assert.equal(pointOf("context")?.text, "32768 tokens are stated, and the node takes 4096");
});

test("a model that only embeds is asked for an embedding", async (t) => {
  const fake = await fakeNode(t);
  const models = ", models: [{ name: m, endpoints: [embeddings] }]";
  const { code, first } = await checkJson(file(t, [entry("a", fake.url, models)]));
  assert.equal(code, 0, JSON.stringify(first));
  assert.deepEqual(
    first.models.map(({ ok, endpoint, tokens }) => ({ ok, endpoint, tokens })),
    [{ ok: true, endpoint: "embeddings", tokens: null }],
  );
  assert.ok(fake.received.all.some(({ path }) => path === "/v1/embeddings"));
  assert.ok(!fake.received.all.some(({ path }) => path === "/v1/chat/completions"));
});

test("metrics that are off, a limit that is not told and a price that is not stated are yellow, and --strict fails", async (t) => {
  const fake = await fakeNode(t, { engine: "sglang" });
  const url = fake.url;
  const config = file(t, [`{ id: a, url: "${url}", family: H100, keep_alive_ms: 50 }`]);
  const { code, pointOf } = await checkJson(config);
  assert.equal(code, 0);
  assert.equal(pointOf("price")?.level, "yellow");
  assert.deepEqual(
    [pointOf("metrics")?.level, pointOf("metrics")?.advice],
    ["yellow", "start it with --enable-metrics"],
  );
  assert.equal((await check(config, { strict: true })).code, 1);
});

test("idle connections: a node that closes sooner than keep_alive_ms is yellow with the number to set", async (t) => {
  const fake = await fakeNode(t, { keepAliveMs: 100 });
  const node = `{ id: a, url: "${fake.url}", family: H100, keep_alive_ms: 3000 }`;
  const { pointOf } = await checkJson(file(t, [node]));
  const point = pointOf("keep_alive");
  assert.equal(point?.level, "yellow");
  const [, ms = ""] = /set keep_alive_ms below (\d+)/.exec(point.advice ?? "") ?? [];
  assert.ok(Number(ms) > 0 && Number(ms) < 3000, point.advice ?? "");
});

test("a node that nobody's file states models for is asked for those that it lists, registered ones first", async (t) => {
  const fake = await fakeNode(t, { aliases: Array.from({ length: 20 }, (_, index) => `alias-${index}`) });
  const all = await checkJson(file(t, [entry("a", fake.url)]));
  assert.equal(all.first.models.length, 16);
  assert.ok(all.first.points.some(({ text, level }) => level === "yellow" && text === "5 models more were not asked"));
  const registered = await checkJson(file(t, [entry("a", fake.url)], "models: [{ name: alias-7 }]\n"));
  assert.deepEqual(
    registered.first.models.map(({ name }) => name),
    ["alias-7"],
  );
});

test("one hung node of many holds up no other, and nodes are checked side by side", async (t) => {
  const good = await fakeNode(t, { speedUp: 200 });
  const hung = await fakeNode(t);
  hung.faults.blackhole();
  const nodes = Array.from({ length: 40 }, (_, index) => entry(`n${index}`, index % 8 === 0 ? hung.url : good.url));
  const startedAtMs = performance.now();
  const { json, code } = await checkJson(file(t, nodes), { timeoutMs: 3000 });
  const tookMs = performance.now() - startedAtMs;
  assert.equal(code, 1);
  assert.equal(json.nodes.filter(({ level }) => level === "red").length, 5);
  assert.ok(tookMs < 12_000, `five nodes hung for 3 s each, and all took ${tookMs.toFixed(0)} ms`);
});

test("the text has a line for each point, --problems leaves green ones out, and the last line counts", async (t) => {
  const fake = await fakeNode(t);
  const config = file(t, [
    entry("a", fake.url, ", models: [m], max_in_flight: 64"),
    entry("b", fake.url, ", models: [m]"),
  ]);
  const { code, stdout } = await check(config);
  assert.equal(code, 0);
  assert.match(
    stdout,
    /^green {3}a {2}H100 {2}http:\/\/127\.0\.0\.1:\d+\n {2}green {3}reachable {3}127\.0\.0\.1:\d+ took/,
  );
  assert.match(stdout, /\n {2}green {3}model {7}m: chat_completions answers: first token after \d+ ms, 8 tokens/);
  assert.match(
    stdout,
    /\n {2}yellow {2}limit {7}the engine does not tell its limit, and 256 is assumed\n {22}→ set max_in_flight/,
  );
  assert.match(stdout, /\n\n2 nodes: 1 green, 1 yellow, 0 red\n$/);
  const problems = await check(config, { problems: true, strict: true });
  assert.equal(problems.code, 1);
  assert.equal(problems.stdout.match(/green {3}\w/g)?.length, 1, "the line of the node itself");
  assert.match(problems.stdout, /1 yellow, 0 red \(--strict: yellow fails\)\n$/);
});

test("an unknown id is a wrong command line, a bad file and an empty one are failures", async (t) => {
  const config = file(t, [entry("h100-a", "http://127.0.0.1:1")]);
  const unknown = await check(config, { ids: ["h100-b"] });
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /lists no node "h100-b": is it h100-a\?\n$/);
  const missing = await check("/nonexistent/zml.yaml");
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /there is no such file/);
  const empty = join(folder(t), "zml.yaml");
  writeFileSync(empty, "nodes: []\n");
  assert.match((await check(empty)).stderr, /lists no nodes/);
});

test("with --admin the router's view is compared: what it does not know, and what it has out", async (t) => {
  const [known, stranger] = [await fakeNode(t), await fakeNode(t)];
  const ports = "data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\n";
  const { gateway } = await startOn(
    t,
    `${ports}health: { poll_interval_ms: 100 }\nnodes:\n  - ${entry("a", known.url, ", models: [m]")}\n`,
  );
  await until("it was polled", () => gateway.stats().fleet.nodes.every(({ state }) => state === "healthy"));
  await (await chat(gateway)).text();
  const config = file(t, [entry("a", known.url, ", models: [m]"), entry("b", stranger.url, ", models: [m]")]);
  const seen = await checkJson(config, { admin: gateway.adminUrl });
  const router = (index: number) => seen.json.nodes[index]?.points.find(({ point }) => point === "router");
  assert.equal(router(0)?.level, "green", router(0)?.text);
  assert.match(router(1)?.text ?? "", /does not know the node/);

  known.faults.status(500);
  await until("it cools down", async () => {
    await (await chat(gateway)).text();
    return gateway.stats().fleet.nodes.some(({ state }) => state === "cooling_down");
  });
  await known.faults.clear();
  const cooling = await checkJson(config, { ids: ["a"], admin: gateway.adminUrl });
  assert.match(cooling.pointOf("router")?.text ?? "", /the gateway has it as cooling_down/);
  assert.equal(cooling.pointOf("model")?.level, "green");

  const nobody = await check(config, { admin: "127.0.0.1:1" });
  assert.equal(nobody.code, 1);
  assert.match(nobody.stderr, /no gateway answers at http:\/\/127\.0\.0\.1:1/);
});

test("nodes that a gateway found by itself are checked by its source's template", async (t) => {
  const fake = await fakeNode(t, { apiKey: "found-key-1" });
  const path = folder(t);
  const targets = join(path, "targets.json");
  writeFileSync(targets, JSON.stringify([{ targets: [new URL(fake.url).host], labels: { family: "MI300X" } }]));
  const sources = `discovery:\n  sources:\n    - { name: found, kind: file_sd, paths: ["${targets}"], labels: { family: family }, node: { keep_alive_ms: 50, api_key_env: FOUND_KEY } }\n`;
  const env = { FOUND_KEY: "found-key-1" };
  const ports = "data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\n";
  const { gateway, path: config } = await startOn(t, ports + sources, { env });
  await until("it was found", () => gateway.stats().fleet.nodes.some(({ state }) => state === "healthy"));
  const { first, json } = await checkJson(config, { admin: gateway.adminUrl }, env);
  assert.equal(json.nodes.length, 1);
  assert.match(first.id, /^found:127\.0\.0\.1:\d+$/);
  const model = first.points.find(({ point }) => point === "model");
  assert.equal(model?.level, "green", model?.text);
});
