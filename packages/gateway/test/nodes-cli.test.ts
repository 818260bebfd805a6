/** The commands of an operator as processes: exit codes, help, and `zml nodes --watch` beside a real `zml serve`. */

import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { FleetReportJson } from "zml";
import { fakeNode, folder, PORTS, until } from "./control-fixture.ts";

const zml = join(import.meta.dirname, "..", "bin", "zml.mjs");

interface Ended {
  status: number;
  stdout: string;
  stderr: string;
}

/** Runs the command; this process goes on serving its fake nodes meanwhile. */
function run(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { env: { ...process.env, ...env }, timeout: 60_000 };
    execFile(process.execPath, [zml, ...args], options, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** A process whose output is kept. */
function start(t: TestContext, args: readonly string[]): { child: ChildProcess; stdout(): string; stderr(): string } {
  const child = spawn(process.execPath, [zml, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return { child, stdout: () => stdout, stderr: () => stderr };
}

async function serve(t: TestContext, nodes: string): Promise<{ child: ChildProcess; admin: string }> {
  const path = join(folder(t), "zml.yaml");
  writeFileSync(path, `${PORTS}store: { path: ":memory:" }\nhealth: { poll_interval_ms: 200 }\nnodes:\n${nodes}`);
  const { child, stdout, stderr } = start(t, ["serve", "-c", path]);
  await until("it is ready", () => {
    assert.equal(child.exitCode, null, stderr());
    return stdout().includes("\n");
  });
  const [, admin = ""] = /admin=(\S+)\n$/.exec(stdout()) ?? [];
  return { child, admin };
}

test("nodes --watch follows a real gateway, keeps its last word when that is killed, and ends with 0 on Ctrl-C", async (t) => {
  const fake = await fakeNode(t);
  const { child, admin } = await serve(t, `  - { id: a, url: "${fake.url}", family: H100 }\n`);
  const watch = start(t, ["nodes", "--watch", "--admin", admin]);
  await until("the node is drawn twice", () => (watch.stdout().match(/^a +H100 +vllm .*healthy/gm)?.length ?? 0) >= 2);
  fake.kill();
  await until("the node is drawn as out", () => /^a +H100 .* unhealthy \(refused\)/m.test(watch.stdout()));
  child.kill("SIGKILL");
  await once(child, "exit");
  await until("it is told", () => /^gateway gone since \d\d:\d\d:\d\d UTC/m.test(watch.stdout()));
  const last = watch.stdout().slice(watch.stdout().lastIndexOf("gateway gone since"));
  assert.match(last, /^gateway gone since .*\nNODE .*\na +H100/);
  watch.child.kill("SIGINT");
  assert.deepEqual(await once(watch.child, "exit"), [0, null], watch.stderr());
});

test("nodes, prices and nodes check of a real gateway: text, JSON and exit codes", async (t) => {
  const fake = await fakeNode(t);
  const { admin } = await serve(t, `  - { id: a, url: "${fake.url}", family: H100 }\n`);
  const table = await run(["nodes", "--admin", admin]);
  assert.equal(table.status, 0, table.stderr);
  assert.match(table.stdout, /^NODE +FAMILY +ENGINE .*\na +H100 +vllm .*\n1 node, 1 healthy, depth 0, /);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escapes are what is looked for
  assert.doesNotMatch(table.stdout, /\u001b/, "no colours in a pipe");
  const json = await run(["nodes", "a", "--json", "--admin", `http://${admin}/`]);
  assert.deepEqual(
    (JSON.parse(json.stdout) as FleetReportJson).nodes.map(({ id }) => id),
    ["a"],
  );
  assert.equal((await run(["nodes", "b", "--admin", admin])).status, 5);
  const prices = await run(["prices", "--admin", admin]);
  assert.equal(prices.status, 0);
  assert.match(prices.stdout, /no price feed is configured/);
  const none = await run(["nodes", "--admin", admin, "--state", "draining"]);
  assert.match(none.stdout, /^no node fits: the families are [^\n]+\n0 of 1 node,/);
});

test("a wrong command line ends with 2 and says what is wrong, help ends with 0 and has the exit codes", async () => {
  for (const args of [
    ["nodes", "--state", "fine"],
    ["nodes", "--limit", "-1"],
    ["nodes", "a", "b"],
    ["nodes", "check", "--timeout-ms", "soon"],
    ["init"],
    ["prices", "everything"],
  ]) {
    const { status, stdout, stderr } = await run(args);
    assert.equal(status, 2, args.join(" "));
    assert.equal(stdout, "");
    assert.match(stderr, /^error: /, args.join(" "));
  }
  for (const [args, option] of [
    [["nodes", "--help"], /--watch +draw it anew each second/],
    [["nodes", "check", "--help"], /--strict +yellow fails as well/],
    [["init", "--help"], /--force +overwrite the file/],
    [["prices", "--help"], /--all +also prices that no node names/],
  ] as const) {
    const { status, stdout } = await run(args);
    assert.equal(status, 0, args.join(" "));
    assert.match(stdout, option);
    assert.match(stdout, /\nExit codes:\n {2}0 {2}done;/);
  }
  const { stdout } = await run(["--help"]);
  for (const name of ["nodes", "init", "prices"]) assert.match(stdout, new RegExp(`^ {2}${name} `, "m"));
});
