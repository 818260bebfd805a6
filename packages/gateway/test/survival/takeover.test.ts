/** `zml serve --takeover`: one process takes over from another under load, and everything that can go wrong with it. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { handoverPath } from "../../src/takeover/handover-messages.ts";
import { Predecessor } from "../../src/takeover/predecessor.ts";
import { comesTrue, type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";
import { type Asked, Callers } from "./soak-callers.ts";
import { SoakNode } from "./soak-node.ts";

const ZML = join(import.meta.dirname, "../../bin/zml.mjs");

interface Stage {
  readonly folder: string;
  readonly nodes: readonly SoakNode[];
  readonly config: string;
  readonly old: GatewayProcess;
}

async function stage(t: TestContext, more = "", maxInFlight = 500): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), "zml-takeover-"));
  const nodes = [new SoakNode("a", maxInFlight), new SoakNode("b", maxInFlight)];
  for (const node of nodes) await node.start();
  const config = `data: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
workers: 2
store: { path: data }
timeouts: { drain_ms: 8000 }
health: { poll_interval_ms: 500, timeout_ms: 450 }
${more}nodes:
${nodes.map(({ id, port }) => `  - { id: ${id}, url: "http://127.0.0.1:${port}", family: F, engine: custom, models: [m], max_in_flight: ${maxInFlight} }\n`).join("")}`;
  const old = await startGatewayProcess(config, { folder });
  t.after(async () => {
    await old.stop();
    for (const node of nodes) await node.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  assert.ok(await comesTrue(async () => (await old.fleet()).totals.healthy_nodes === 2, 10_000));
  assert.ok(await comesTrue(() => existsSync(handoverPath(join(folder, "data"))), 5_000));
  return { folder, nodes, config, old };
}

async function successor(t: TestContext, { config, folder }: Stage): Promise<GatewayProcess> {
  const next = await startGatewayProcess(config, { folder, args: ["--takeover"] });
  t.after(() => next.stop());
  return next;
}

/** Runs a takeover that fails; gives what it says. */
async function failing(path: string): Promise<{ code: number | null; text: string }> {
  const child: ChildProcess = spawn(
    process.execPath,
    [ZML, "serve", "--takeover", "-c", path, "--log-level", "silent"],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
  });
  await once(child, "close");
  return { code: child.exitCode, text };
}

async function isServed(port: number): Promise<boolean> {
  const body = JSON.stringify({ model: "m", messages: [], user: "probe" });
  const url = `http://127.0.0.1:${port}/v1/chat/completions`;
  return (await fetch(url, { method: "POST", body })).status === 200;
}

test("under load of new and kept connections of both versions, and streams, no request is lost", async (t) => {
  const first = await stage(t);
  const asked: Asked[] = [];
  const callers = new Callers({
    port: first.old.dataPort,
    count: 24,
    seed: 11,
    mayBreak: () => false,
    onAsked: (one) => asked.push(one),
  });
  callers.start();
  t.after(() => callers.stop());
  assert.ok(await comesTrue(() => asked.length > 300, 20_000));
  // twice, so that a process that took over is taken over itself
  let running = first.old;
  for (let times = 0; times < 2; times++) {
    const next = await successor(t, first);
    assert.deepEqual([next.dataPort, next.adminPort], [running.dataPort, running.adminPort], "the ports stay");
    const before = asked.length;
    assert.ok(await comesTrue(() => running.child.exitCode !== null, 20_000), "the old one ends");
    assert.equal(running.child.exitCode, 0);
    assert.ok(running.log.some((line) => line.includes("another process has taken over")));
    assert.ok(!running.log.some((line) => /"interrupted":[1-9]/.test(line)), "nobody was interrupted");
    assert.ok(await comesTrue(() => asked.length > before + 200, 20_000), "the new one serves");
    running = next;
  }
  await callers.stop();
  const bad = asked.filter(({ end }) => end !== "answered" && end !== "aborted");
  assert.deepEqual(
    bad.map(({ what, end }) => `${end} ${what}`),
    [],
  );
  const kinds = new Set(asked.map(({ kind }) => kind));
  assert.ok(kinds.size >= 9, [...kinds].join());
  assert.equal((await running.fleet()).totals.in_flight, 0);
});

test("who waits for room on the old one, and who runs there, is answered", async (t) => {
  const policy = "policies: [{ name: wait, queue_on_saturation: true }]\nmodels: [{ name: m, policy: wait }]\n";
  const first = await stage(t, policy, 1);
  for (const node of first.nodes) node.fault = "held";
  const answers = Array.from({ length: 6 }, () => isServed(first.old.dataPort));
  assert.ok(await comesTrue(async () => (await first.old.fleet()).totals.parked === 4, 10_000));
  await successor(t, first);
  assert.ok(await comesTrue(() => first.old.log.some((line) => line.includes("draining")), 10_000));
  for (const node of first.nodes) await node.heal();
  assert.deepEqual(await Promise.all(answers), Array(6).fill(true));
  assert.ok(await comesTrue(() => first.old.child.exitCode === 0, 10_000), "and then it ends");
});

test("a kept connection is served once more and told to make a new one", async (t) => {
  const first = await stage(t);
  const socket = connect(first.old.dataPort, "127.0.0.1");
  t.after(() => socket.destroy());
  let text = "";
  socket.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
  });
  const request = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
  socket.write(request);
  assert.ok(await comesTrue(() => text.includes('"m"'), 5_000));
  assert.doesNotMatch(text, /connection: close/i);
  text = "";
  await successor(t, first);
  socket.write(request);
  await once(socket, "close");
  assert.match(text, /^HTTP\/1\.1 200 [\s\S]*\r\nconnection: close\r\n[\s\S]*"m"/i);
});

test("a new one that can't start leaves the old one as it was, and the next one can try", async (t) => {
  const first = await stage(t);
  const path = join(first.folder, "other.yaml");
  writeFileSync(path, `${first.config}nonsense: 1\n`);
  const bad = await failing(path);
  assert.equal(bad.code, 1);
  assert.match(bad.text, /nonsense/);
  writeFileSync(path, first.config.replace('listen: "127.0.0.1:0"', 'listen: "127.0.0.1:9"'));
  const moved = await failing(path);
  assert.equal(moved.code, 1);
  assert.match(
    moved.text,
    /data\.listen is 127\.0\.0\.1:9 for it and 127\.0\.0\.1:\d+ here: a new address needs a restart/,
  );
  writeFileSync(path, first.config.replace("path: data", "path: nowhere"));
  assert.match((await failing(path)).text, /no gateway to take over at .*nowhere/);
  writeFileSync(path, first.config.replace("path: data", 'path: ":memory:"'));
  assert.match((await failing(path)).text, /nothing to take over/);
  assert.ok(await isServed(first.old.dataPort));
  const next = await successor(t, first);
  assert.ok(await isServed(next.dataPort));
});

test("one that dies in the middle leaves the old one as it was; a second one at the same time is refused", async (t) => {
  const first = await stage(t);
  const path = handoverPath(join(first.folder, "data"));
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(statSync(join(path, "..")).mode & 0o777, 0o700);
  const dying = connect(path);
  let said = "";
  dying.setEncoding("utf8").on("data", (piece: string) => {
    said += piece;
  });
  const address = { host: "127.0.0.1", port: 0 };
  const hello = { kind: "hello", version: 1, token: "t", pid: process.pid, data: address, admin: address };
  dying.write(`${JSON.stringify(hello)}\n`);
  assert.ok(await comesTrue(() => said.includes("welcome"), 10_000));
  const second = await failing(first.old.configPath);
  assert.equal(second.code, 1);
  assert.match(second.text, new RegExp(`refuses: process ${process.pid} is taking over already`));
  dying.destroy();
  assert.ok(await comesTrue(() => first.old.log.some((line) => line.includes("this one serves on")), 10_000));
  assert.ok(await isServed(first.old.dataPort));
  const next = await successor(t, first);
  assert.ok(await isServed(next.dataPort));
});

test("an old one that hangs is told after a deadline, and one that is not there at once", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zml-hung-"));
  const path = join(folder, "sock");
  const held: Socket[] = [];
  const hung = createServer((socket) => held.push(socket)).listen(path);
  t.after(() => {
    for (const socket of held) socket.destroy();
    hung.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const channel = { token: "t", onNote: () => undefined, close: () => undefined };
  const address = { host: "127.0.0.1", port: 0 };
  const own = { data: address, admin: address };
  await assert.rejects(new Predecessor(path, channel, 100).begin(own), {
    name: "StartError",
    message: /did not answer "hello" within 100 ms and serves on: look at its log, or stop it/,
  });
  const gone = new Predecessor(join(folder, "nobody"), channel, 10_000);
  await assert.rejects(gone.begin(own), /closed the conversation and serves on/);
});
