/** The commands of the control plane against a real `zml serve`: what they change is in force, and outlives what it has to. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { FakeNode } from "@zml/simulator";
import { createProgram } from "../src/commands/program.ts";
import { keptTerminal } from "../src/commands/testing/kept-terminal.ts";
import { fakeNode, folder, until } from "./control-fixture.ts";

const zml = join(import.meta.dirname, "..", "bin", "zml.mjs");
const PORTS = "data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\nworkers: 2\n";

interface Served {
  readonly data: string;
  readonly path: string;
  /** Runs one line of the command tree against it. */
  run(line: readonly string[], options?: { input?: string; env?: Record<string, string> }): Promise<Ended>;
}

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}

async function serve(t: TestContext, text: string, env: Record<string, string> = {}): Promise<Served> {
  const place = folder(t);
  const path = join(place, "zml.yaml");
  writeFileSync(path, PORTS + text);
  const child = spawn(process.execPath, [zml, "serve", "-c", path], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  let [ready, log] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    ready += piece;
  });
  child.stderr.setEncoding("utf8").on("data", (piece: string) => {
    log += piece;
  });
  await until("it is ready", () => {
    assert.equal(child.exitCode, null, log);
    return ready.includes("\n");
  });
  const [, data = "", admin = ""] = /data=(\S+) admin=(\S+)/.exec(ready) ?? [];
  return {
    data: `http://${data}`,
    path,
    async run(line, { input = "", env: given = {} } = {}) {
      const terminal = keptTerminal({ env: given, input });
      let code = 0;
      const unused = (): never => assert.fail("this line runs no gateway");
      const program = createProgram({
        terminal,
        logStream: { writableLength: 0, destroyed: false, write: () => undefined },
        version: "0.0.0",
        end: (exitCode) => {
          code = exitCode;
        },
        endNow: unused,
        signals: unused,
        onUncaught: unused,
        socketChannel: unused,
        startSuccessor: unused,
        watch: () => ({
          stop: new AbortController().signal,
          nowMs: Date.now,
          wait: (ms) => delay(ms).then(() => undefined),
        }),
      });
      await program.parseAsync(["node", "zml", ...line, "--admin", admin]);
      return { code, out: terminal.stdout(), error: terminal.stderr() };
    },
  };
}

function nodeText({ url }: FakeNode, id = "a"): string {
  return `nodes:\n  - { id: ${id}, url: "${url}", family: H100, models: [m] }\n`;
}

function call(data: string, { key, stream = false }: { key?: string; stream?: boolean } = {}): Promise<Response> {
  return fetch(`${data}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(key !== undefined && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ model: "m", stream, messages: [{ role: "user", content: "hi" }] }),
  });
}

test("apply makes what get --yaml prints, and the file's own objects are refused with their line", async (t) => {
  const fake = await fakeNode(t);
  const owned = "policies:\n  - { name: owned, cost_priority: latency }\n";
  const { run, data, path } = await serve(t, owned);
  const part = `${nodeText(fake)}policies:\n  - { name: chat, cost_priority: cost }\nmodels:\n  - { name: m, policy: chat }\n`;
  assert.equal((await run(["apply", "-f", "-", "--dry-run"], { input: part })).code, 0);
  assert.match((await run(["get", "nodes"])).out, /^no node is declared/, "a dry run makes nothing");
  const made = await run(["apply", "-f", "-", "--yes", "--json"], { input: part });
  assert.equal(made.code, 0, made.error);
  const { changes } = JSON.parse(made.out) as { changes: { name: string; action: string }[] };
  assert.deepEqual(changes.map(({ name, action }) => `${action} ${name}`).sort(), [
    "created a",
    "created chat",
    "created m",
  ]);
  await until("the node serves", async () => (await call(data)).status === 200);

  const { out: yaml } = await run(["get", "policy", "chat", "--yaml"]);
  assert.equal((await run(["diff", "-f", "-"], { input: yaml })).code, 0);
  const edited = yaml.replace("cost_priority: cost", "cost_priority: balanced");
  const differs = await run(["diff", "-f", "-"], { input: edited });
  assert.equal(differs.code, 7);
  assert.match(differs.out, /^~ policy chat\n {4}cost_priority: cost → balanced\n/);

  const refused = await run(["apply", "-f", "-", "--yes"], { input: owned.replace("latency", "cost") });
  assert.equal(refused.code, 6);
  assert.match(refused.error, /zml\.yaml:5/, "where the file declares it");
  assert.equal((await run(["delete", "policy", "owned"])).code, 6);
  assert.equal((await run(["delete", "policy", "chat"])).code, 6, "a model needs it");
  assert.equal((await run(["delete", "model", "m"])).code, 0);
  assert.equal((await run(["delete", "policy", "chat"])).code, 0);
  assert.equal((await run(["get", "policy", "chat"])).code, 5);

  const exported = `${path}.exported`;
  assert.equal((await run(["export", "-o", exported])).code, 0);
  assert.match(readFileSync(exported, "utf8"), /- id: a\n/);
  const { out: audited } = await run(["audit", "policies"]);
  assert.match(audited, /deleted policy chat, by loopback[\s\S]+created policy chat, by loopback/);
});

test("what is wrong with an applied part is told with its lines, and a bad file with its own", async (t) => {
  const { run, path } = await serve(t, "");
  const part = "policies:\n  - { name: p, cost_priority: cheap }\nmodels:\n  - { name: m, policy: nobody }\n";
  const refused = await run(["apply", "-f", "-", "--yes"], { input: part });
  assert.equal(refused.code, 1);
  assert.match(refused.error, /^standard input:2:\d+ policies\[0\]\.cost_priority: /m);
  const before = await run(["status", "--json"]);
  writeFileSync(path, `${PORTS}nodes: 7\n`);
  const reloaded = await run(["reload"]);
  assert.equal(reloaded.code, 1);
  assert.match(reloaded.error, /zml\.yaml:4:\d+ nodes: /);
  const version = ({ out }: Ended) => (JSON.parse(out) as { version: number }).version;
  assert.equal(version(await run(["status", "--json"])), version(before));
  assert.match((await run(["status"])).out, /\nreloads .* was refused\n.*zml\.yaml:4/);
});

test("a key that is made opens the data port, its rotation overlaps, and its deletion closes it", async (t) => {
  const fake = await fakeNode(t);
  const { run, data } = await serve(t, nodeText(fake));
  assert.equal((await call(data)).status, 200, "without keys nobody is asked");
  const made = await run(["keys", "create", "app", "--scope", "infer", "--model", "m", "--quiet"]);
  assert.equal(made.code, 0, made.error);
  assert.match(made.out, /^zml_\S{43}\n$/, "the key, alone");
  const key = made.out.trim();
  assert.equal((await call(data)).status, 401);
  assert.equal((await call(data, { key })).status, 200);
  const rotated = await run(["keys", "rotate", "app", "--overlap", "1h", "--quiet"]);
  assert.equal((await call(data, { key: rotated.out.trim() })).status, 200);
  assert.equal((await call(data, { key })).status, 200, "the old value overlaps");
  assert.match((await run(["keys"])).out, /^app +default +infer +m +any +never +api/m);
  for (const line of [["keys"], ["keys", "--json"], ["audit", "--json"], ["export"]]) {
    const { out } = await run(line);
    assert.ok(!out.includes(key) && !out.includes(rotated.out.trim()), `${line.join(" ")} shows no key`);
  }
  // the last key: without any, nobody would be asked again
  await run(["keys", "create", "other"]);
  assert.equal((await run(["keys", "delete", "app"])).code, 0);
  assert.equal((await call(data, { key })).status, 401);
});

test("drain --wait lets a running stream end, and undrain brings the node back", async (t) => {
  const fake = await fakeNode(t, { speedUp: 1, outputTokens: 60 });
  const { run, data } = await serve(t, nodeText(fake));
  const stream = await call(data, { stream: true });
  const drained = run(["drain", "a", "--wait", "--timeout", "1m"]);
  assert.match(await stream.text(), /data: \[DONE\]/);
  const { code, out, error } = await drained;
  assert.deepEqual([code, out], [0, "node a is drained\n"], error);
  assert.equal((await call(data)).status, 503);
  assert.equal((await run(["undrain", "a"])).code, 0);
  assert.equal((await call(data)).status, 200);
  assert.match((await run(["decisions", "--node", "a"])).out, /^2 decisions, newest first/m);
  assert.match((await run(["cooldown", "a", "--for", "1m"])).out, /gets no traffic for 60s|gets no traffic for \d+s/);
  assert.equal((await call(data)).status, 503);
  assert.equal((await run(["cooldown", "a", "--clear"])).code, 0);
  assert.equal((await call(data)).status, 200);
  assert.equal((await run(["drain", "b"])).code, 5);
});

test("with an admin key in the file every command needs one, and an account's own key changes only what is its own", async (t) => {
  const keys = `accounts: [{ name: acme }]
keys:
  - { name: ops, value_env: OPS_KEY, scopes: [admin] }
  - { name: acme, value_env: ACME_KEY, scopes: [admin], account: acme }
`;
  const { run } = await serve(t, keys, { OPS_KEY: "operators-own-key", ACME_KEY: "the-key-of-acme-0" });
  const denied = await run(["get", "policies"]);
  assert.equal(denied.code, 4);
  assert.match(denied.error, /ZML_ADMIN_KEY/);
  assert.equal((await run(["get", "policies"], { env: { ZML_ADMIN_KEY: "another" } })).code, 4);
  assert.equal((await run(["status"], { env: { ZML_ADMIN_KEY: "operators-own-key" } })).code, 0);
  const acme = { env: { ZML_ADMIN_KEY: "the-key-of-acme-0" } };
  assert.equal((await run(["keys", "create", "app", "--quiet"], acme)).code, 0);
  assert.equal((await run(["keys", "create", "app", "--account", "default"], acme)).code, 4);
  assert.match((await run(["keys"], acme)).out, /^app +acme /m);
  assert.doesNotMatch((await run(["keys"], acme)).out, /^ops /m);
  assert.equal((await run(["status"], acme)).code, 4);
  assert.equal((await run(["models"], acme)).code, 0, "its registrations, as the fleet is for operators");
});
