/** What a reload leaves alone, what it refuses, and the ways in which a file is replaced. */

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { readConfigFile, readConfigFileAgain } from "../src/commands/config-file.ts";
import { startGateway } from "../src/control/gateway.ts";
import { certificatePath } from "./certificates.ts";
import { chat, folder, PORTS, startOn, until } from "./control-fixture.ts";
import { type NodeCall, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
const BROKEN = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
const STREAM = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const TOKEN = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n';

/** A node that is healthy, and answers calls as it is told. */
async function scripted(t: TestContext, answer: (call: NodeCall) => void): Promise<ScriptedNode> {
  const node = await startScriptedNode((call) => (isPost(call) ? answer(call) : call.write(OK)));
  t.after(() => node.stop());
  return node;
}

function isPost({ requestLine }: NodeCall): boolean {
  return requestLine.startsWith("POST");
}

const entry = (id: string, { url }: ScriptedNode, model: string): string =>
  `  - { id: ${id}, url: "${url}", family: H100, engine: custom, models: [${model}], keep_alive_ms: 60000 }\n`;

test("what a reload does not change keeps its counts, its cooldown, its connections and its running stream", async (t) => {
  let held: NodeCall | null = null;
  const good = await scripted(t, (call) => {
    if (!call.body.includes('"stream":true')) return call.write(OK);
    held = call;
    call.write(STREAM + TOKEN);
  });
  const bad = await scripted(t, (call) => call.write(BROKEN));
  const nodes = `nodes:\n${entry("good", good, "m")}${entry("bad", bad, "bad")}`;
  const { gateway, write } = await startOn(t, `${PORTS}workers: 1\n${nodes}`);
  const rowOf = (id: string) => gateway.stats().fleet.nodes.find((row) => row.id === id);
  assert.equal((await chat(gateway, { model: "bad" })).status, 500);
  const stream = await chat(gateway, { stream: true });
  await (await chat(gateway)).text();
  const before = { good: rowOf("good"), bad: rowOf("bad") };
  assert.equal(before.good?.in_flight, 1);
  assert.equal(before.bad?.state, "cooling_down");

  const next = `${nodes}${entry("new", good, "other")}policies: [{ name: p, cost_priority: latency }]\n`;
  write(`${PORTS}workers: 1\nfailover: { retry_budget: 0.5 }\n${next}`);
  const result = await gateway.reload();
  assert.ok(result.kind === "applied" && result.isAcknowledged);

  assert.equal(rowOf("good")?.in_flight, 1, "the running stream is still counted");
  assert.equal(rowOf("bad")?.state, "cooling_down");
  const [leftMs, leftBeforeMs] = [rowOf("bad")?.cooldown_remaining_ms, before.bad?.cooldown_remaining_ms];
  assert.ok((leftMs ?? 0) > 0 && (leftMs ?? 0) <= (leftBeforeMs ?? 0), "its cooldown runs on, and did not begin anew");
  await (await chat(gateway)).text();
  const connections = good.calls.filter(isPost).map(({ connection }) => connection);
  assert.equal(connections[2], connections[1], "the idle connection of before is used again");
  (held as NodeCall | null)?.write(`${TOKEN}data: [DONE]\n\n`);
  (held as NodeCall | null)?.fin();
  assert.equal(await stream.text(), `${TOKEN}${TOKEN}data: [DONE]\n\n`, "the stream is whole");
  await until("its place is given back", () => rowOf("good")?.in_flight === 0);
});

test("every problem of a bad file is told with its line, and nothing of it is in force", async (t) => {
  const node = await scripted(t, (call) => call.write(OK));
  const { gateway, write } = await startOn(t, `${PORTS}nodes:\n${entry("a", node, "m")}`);
  const { version } = gateway.stats().fleet;
  write(`${PORTS}nodes:
  - { id: b, url: "${node.url}", family: H100, models: [m] }
  - { id: c, url: ftp://x, family: H100 }
policies:
  - { name: p, cost_priority: cheap }
models:
  - { name: m, policy: nobody }
`);
  const result = await gateway.reload();
  assert.ok(result.kind === "refused");
  const places = result.problems.map((problem) => /zml\.yaml:(\d+):\d+ (\S+?):? /.exec(problem)?.slice(1).join(" "));
  assert.deepEqual(places, ["5 nodes[1].url", "7 policies[0].cost_priority", "9 models[0].policy"]);
  const { fleet } = gateway.stats();
  assert.equal(fleet.version, version);
  assert.deepEqual(
    fleet.nodes.map(({ id }) => id),
    ["a"],
  );
  assert.equal((await chat(gateway)).status, 200);
});

test("a file that Kubernetes swaps behind its links is noticed", async (t) => {
  const node = await scripted(t, (call) => call.write(OK));
  const mount = folder(t);
  const [path, data] = [join(mount, "zml.yaml"), join(mount, "..data")];
  // as the kubelet mounts a ConfigMap: the file is a link through ..data, which is swapped by a rename
  const publish = (name: string, text: string): void => {
    mkdirSync(join(mount, name));
    writeFileSync(join(mount, name, "zml.yaml"), text);
    symlinkSync(name, `${data}_tmp`);
    renameSync(`${data}_tmp`, data);
  };
  publish("..2026_01", PORTS);
  symlinkSync(join("..data", "zml.yaml"), path);
  const read = await readConfigFile(path, {});
  assert.ok(read.config !== undefined && read.source !== undefined);
  const gateway = await startGateway({
    config: read.config,
    secrets: read.secrets,
    source: read.source,
    readAgain: (before) => readConfigFileAgain(path, {}, before),
    configPath: path,
  });
  t.after(() => gateway.stop(0));
  publish("..2026_02", `${PORTS}nodes:\n${entry("a", node, "m")}`);
  await until("the swapped file is in force", () => gateway.stats().fleet.nodes.length === 1);
  publish("..2026_03", `${PORTS}nodes:\n${entry("a", node, "m")}${entry("b", node, "m")}`);
  await until("so is the next one", () => gateway.stats().fleet.nodes.length === 2);
});

test("a file with the same text is not looked into again, unless a certificate that it names has changed", async (t) => {
  const place = folder(t);
  const path = join(place, "zml.yaml");
  const cert = join(place, "node.pem");
  copyFileSync(certificatePath("ca"), cert);
  const text = "nodes:\n  - { id: a, url: https://a, family: H100, models: [m], tls: { ca_file: node.pem } }\n";
  writeFileSync(path, text);
  const { config, source, secrets, errors } = await readConfigFile(path, {});
  assert.ok(config !== undefined && source !== undefined, JSON.stringify(errors));
  const again = () => readConfigFileAgain(path, {}, { config, source, secrets });
  assert.equal(await again(), null);
  copyFileSync(certificatePath("other-ca"), cert);
  assert.notEqual(await again(), null, "another certificate");
  writeFileSync(cert, "none");
  assert.equal((await again())?.errors.length, 1, "a broken certificate");
  copyFileSync(certificatePath("ca"), cert);
  assert.equal(await again(), null);
  writeFileSync(path, `${text}policies: []\n`);
  assert.notEqual(await again(), null, "another text");
});
