/** `zml serve --takeover`: one process takes over from another under load, and everything that can go wrong with it. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { handoverPath } from "../../src/takeover/handover-messages.ts";
import { Predecessor } from "../../src/takeover/predecessor.ts";
import { comesTrue, type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";
import { type Asked, Callers } from "./soak-callers.ts";
import { SoakNode } from "./soak-node.ts";

/** Enough that requests of each kind run at each moment; more of them only cost CPU. */
const LOAD_CALLERS = 8;
const QUEUE = "policies: [{ name: wait, queue_on_saturation: true }]\nmodels: [{ name: m, policy: wait }]\n";
const ZML = join(import.meta.dirname, "../../bin/zml.mjs");

interface Stage {
  readonly folder: string;
  readonly nodes: readonly SoakNode[];
  readonly config: string;
  readonly old: GatewayProcess;
}

async function stage(t: TestContext, more: string, maxInFlight: number): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), "zml-takeover-"));
  const nodes = [new SoakNode("a", maxInFlight), new SoakNode("b", maxInFlight)];
  for (const node of nodes) await node.start();
  const config = `data: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
workers: 2
store: { path: data }
timeouts: { drain_ms: 8000 }
health: { poll_interval_ms: 500, timeout_ms: 450, unhealthy_after: 100 }
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

/** One gateway after another, as operators would: each takes over from the one before, or fails to. */
test("a gateway is taken over", async (t) => {
  const first = await stage(t, QUEUE, 1);

  await t.test("a new one that can't start leaves the old one as it was", async () => {
    const path = join(first.folder, "other.yaml");
    const failed = async (text: string): Promise<string> => {
      writeFileSync(path, text);
      const { code, text: told } = await failing(path);
      assert.equal(code, 1);
      return told;
    };
    assert.match(await failed(`${first.config}nonsense: 1\n`), /nonsense/);
    assert.match(
      await failed(first.config.replace('listen: "127.0.0.1:0"', 'listen: "127.0.0.1:9"')),
      /data\.listen is 127\.0\.0\.1:9 for it and 127\.0\.0\.1:\d+ here: a new address needs a restart/,
    );
    assert.match(
      await failed(first.config.replace("path: data", "path: nowhere")),
      /no gateway to take over at .*nowhere/,
    );
    assert.match(await failed(first.config.replace("path: data", 'path: ":memory:"')), /nothing to take over/);
    assert.ok(await isServed(first.old.dataPort));
  });

  await t.test("one that dies in the middle does so, too, and a second one at the same time is refused", async () => {
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
  });

  let next = first.old;
  await t.test(
    "the next one can; who waits for room on the old one, who runs there and who kept a connection is answered",
    async () => {
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
      for (const node of first.nodes) node.fault = "held";
      const answers = Array.from({ length: 6 }, () => isServed(first.old.dataPort));
      assert.ok(await comesTrue(async () => (await first.old.fleet()).totals.parked === 4, 10_000));
      // the new one's file may differ
      next = await successor(t, {
        ...first,
        config: first.config.replaceAll("max_in_flight: 1 ", "max_in_flight: 500 "),
      });
      assert.ok(await comesTrue(() => first.old.log.some((line) => line.includes("draining")), 10_000));
      const closed = once(socket, "close");
      // its workers hear of it after the log does: an answer in between still keeps the connection
      const isTold = async (): Promise<boolean> => {
        text = "";
        socket.write(request);
        assert.ok(await comesTrue(() => text.includes('"m"'), 5_000), "a kept connection is answered");
        return /\r\nconnection: close\r\n/i.test(text);
      };
      assert.ok(await comesTrue(isTold, 10_000), "and told to make a new one");
      await closed;
      assert.match(text, /^HTTP\/1\.1 200 /);
      for (const node of first.nodes) await node.heal();
      assert.deepEqual(await Promise.all(answers), Array(6).fill(true));
      assert.ok(await comesTrue(() => first.old.child.exitCode !== null, 20_000), "and then it ends");
      assert.equal(first.old.child.exitCode, 0);
    },
  );

  await t.test(
    "that one too, under load of new and kept connections of both versions, and streams: no request is lost",
    async (t) => {
      const asked: Asked[] = [];
      const callers = new Callers({
        port: next.dataPort,
        count: LOAD_CALLERS,
        seed: 11,
        mayBreak: () => false,
        onAsked: (one) => asked.push(one),
      });
      const startMs = performance.now();
      callers.start();
      t.after(() => callers.stop());
      assert.ok(await comesTrue(() => asked.length > 200, 20_000));
      const last = await successor(t, { ...first, config: readFileSync(next.configPath, "utf8") });
      assert.deepEqual([last.dataPort, last.adminPort], [first.old.dataPort, first.old.adminPort], "the ports stay");
      const before = asked.length;
      assert.ok(await comesTrue(() => next.child.exitCode !== null, 20_000), "the old one ends");
      assert.equal(next.child.exitCode, 0);
      assert.ok(next.log.some((line) => line.includes("another process has taken over")));
      assert.ok(!next.log.some((line) => /"interrupted":[1-9]/.test(line)), "nobody was interrupted");
      assert.ok(await comesTrue(() => asked.length > before + 100, 20_000), "the new one serves");
      const learned = (await last.fleet()).nodes.map(({ predictions }) => predictions.m?.samples ?? 0);
      assert.ok(Math.max(...learned) > asked.length - before, `and knows what the old one knew: ${learned}`);
      await callers.stop();
      t.diagnostic(`${((asked.length / (performance.now() - startMs)) * 1000).toFixed(0)} requests a second`);
      const bad = asked.filter(({ end }) => end !== "answered" && end !== "aborted");
      assert.deepEqual(
        bad.map(({ what, end }) => `${end} ${what}`),
        [],
      );
      const kinds = new Set(asked.map(({ kind }) => kind));
      assert.ok(kinds.size >= 9, [...kinds].join());
      assert.equal((await last.fleet()).totals.in_flight, 0);
    },
  );
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
