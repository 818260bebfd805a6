import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fakeNode, folder, PORTS, until } from "./control-fixture.ts";

const zml = join(import.meta.dirname, "..", "bin", "zml.mjs");

function file(t: TestContext, text: string): string {
  const path = join(folder(t), "zml.yaml");
  writeFileSync(path, text);
  return path;
}

function run(args: readonly string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [zml, ...args], {
    encoding: "utf8",
    env: { ...process.env, ...env },
  });
  return { status, stdout, stderr };
}

interface Served {
  child: ChildProcess;
  data: string;
  admin: string;
  stdout(): string;
  stderr(): string;
}

/** Starts `zml serve` and waits for its line. */
async function serve(t: TestContext, path: string): Promise<Served> {
  const child = spawn(process.execPath, [zml, "serve", "-c", path], { stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  await until("it is ready", () => {
    assert.equal(child.exitCode, null, stderr);
    return stdout.includes("\n");
  });
  const [, data = "", admin = ""] = /^zml ready data=(\S+) admin=(\S+)\n$/.exec(stdout) ?? [];
  assert.notEqual(data, "", stdout);
  return { child, data, admin, stdout: () => stdout, stderr: () => stderr };
}

test("serve prints one line, answers, explains, and ends with 0 after a drain", async (t) => {
  const fake = await fakeNode(t);
  const path = file(t, `${PORTS}nodes:\n  - { id: a, url: "${fake.url}", family: H100 }\n`);
  const { child, data, admin, stdout, stderr } = await serve(t, path);
  const response = await fetch(`http://${data}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }] }),
  });
  assert.equal(response.status, 200);
  await response.text();
  const [, id = ""] = /decision="([^"]+)"/.exec(response.headers.get("x-zml-routing") ?? "") ?? [];
  const told = run(["explain", id, "--admin", admin]);
  assert.equal(told.status, 0, told.stderr);
  assert.match(told.stdout, new RegExp(`^decision {2}${id} at `));
  assert.match(told.stdout, /result {4}a \(H100\)/);
  const json = run(["explain", id, "--admin", `http://${admin}`, "--json"]);
  assert.equal((JSON.parse(json.stdout) as { decision: string }).decision, id);
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [0, null]);
  assert.equal(stdout().split("\n").length, 2, "one line on standard output");
  for (const line of stderr().trim().split("\n")) assert.doesNotThrow(() => JSON.parse(line), line);
});

test("decisions --tail prints what ends while it runs, decide and money tell of it, and Ctrl-C ends the tail with 0", async (t) => {
  const fake = await fakeNode(t);
  const node = `  - { id: a, url: "${fake.url}", family: H100, cost: { usd_per_gpu_hour: 3 } }\n`;
  const { data, admin } = await serve(t, file(t, `${PORTS}nodes:\n${node}`));
  const tail = spawn(process.execPath, [zml, "decisions", "--tail", "--json", "--admin", admin, "--family", "H100"]);
  t.after(() => tail.kill("SIGKILL"));
  let [lines, said] = ["", ""];
  tail.stdout.setEncoding("utf8").on("data", (text: string) => {
    lines += text;
  });
  tail.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }] });
  // the tail begins when it has asked for the first time
  await until("the tail tells of a request", async () => {
    const response = await fetch(`http://${data}/v1/chat/completions`, { method: "POST", body });
    await response.text();
    return lines.includes("\n");
  });
  tail.kill("SIGINT");
  assert.deepEqual(await once(tail, "exit"), [0, null], said);
  const [first = ""] = lines.split("\n");
  const told = JSON.parse(first) as { choice: { node: string }; outcome: { kind: string; cost_usd: number } };
  assert.deepEqual([told.choice.node, told.outcome.kind, said], ["a", "success", ""]);
  assert.ok(told.outcome.cost_usd > 0);

  const decided = run(["decide", "--model", "m", "--down", "a", "--admin", admin]);
  assert.equal(decided.status, 0, decided.stderr);
  assert.match(decided.stdout, /result {4}no node: no node is healthy[\s\S]*\nas it is {2}a \(H100\): /);
  const unknown = run(["decide", "--model", "m", "--price", "TPU=1", "--admin", admin]);
  assert.deepEqual([unknown.status, unknown.stdout], [1, ""]);
  assert.match(unknown.stderr, /overrides\.prices: there is no node or family "TPU": known: H100, a/);
  const draft = file(t, "name: chat\naccelerator_preference:\n  - { family: B200, priority: 1 }\n");
  const refused = run(["decide", "--model", "m", "--policy-draft", draft, "--admin", admin]);
  assert.deepEqual([refused.status, refused.stdout], [1, ""]);
  assert.equal(
    refused.stderr,
    `${draft}:3:15 accelerator_preference[0].family: there is no family "B200": known: H100\n`,
  );
  const spent = run(["money", "--by", "family", "--window", "start", "--admin", admin]);
  assert.match(spent.stdout, /^FAMILY +USD[\s\S]*\nH100 +0\.0/, spent.stderr);
  assert.match(
    run(["status", "--admin", admin]).stdout,
    /\nmoney {4}requests of the last .* the fleet costs 3\.00 an hour/,
  );
  assert.equal(run(["decisions", "--tail", "--watch", "--admin", admin]).status, 2);
});

test("SIGHUP reads the file again, and a refused file leaves the old one in force", async (t) => {
  const path = file(t, PORTS);
  const { child, admin, stderr } = await serve(t, path);
  const version = async () => {
    const fleet = await fetch(`http://${admin}/admin/v1/fleet`);
    return ((await fleet.json()) as { version: number }).version;
  };
  const before = await version();
  writeFileSync(path, `${PORTS}nodes: 7\n`);
  child.kill("SIGHUP");
  await until("the refusal is logged", () => /zml\.yaml:3:\d+ nodes/.test(stderr()));
  assert.equal(await version(), before);
  writeFileSync(path, `${PORTS}nodes:\n  - { id: a, url: "http://127.0.0.1:1", family: H100, models: [m] }\n`);
  child.kill("SIGHUP");
  await until("the new file is in force", async () => (await version()) > before);
});

test("L01: a second signal ends it at once", async (t) => {
  const fake = await fakeNode(t, { speedUp: 1, outputTokens: 4000 });
  const path = file(t, `${PORTS}nodes:\n  - { id: a, url: "${fake.url}", family: H100 }\n`);
  const { child, data, stderr } = await serve(t, path);
  const response = await fetch(`http://${data}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], stream: true }),
  });
  child.kill("SIGTERM");
  await until("it drains", () => stderr().includes("draining"));
  assert.equal(child.exitCode, null);
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [null, "SIGTERM"]);
  await response.text().catch(() => "");
});

test("serve names a taken port and what to do, and ends with 1", async (t) => {
  const { data } = await serve(t, file(t, PORTS));
  const { status, stdout, stderr } = run([
    "serve",
    "-c",
    file(t, `data: { listen: "${data}" }\nadmin: { listen: 127.0.0.1:0 }\n`),
  ]);
  assert.equal(status, 1);
  assert.equal(stdout, "");
  assert.match(stderr, new RegExp(`^zml: data\\.listen ${data} is taken by another process: stop that one, or set`));
});

test("serve and check-config print every problem of a file at once, with line and path", (t) => {
  const path = file(t, "nodes:\n  - { id: a, url: ftp://x, family: H100 }\n  - { id: a, family: H100 }\npolcies: []\n");
  for (const command of ["serve", "check-config"]) {
    const { status, stdout, stderr } = run([command, "-c", path]);
    assert.equal(status, 1);
    assert.equal(stdout, "");
    assert.match(stderr, /:2:\d+ nodes\[0\]\.url: /);
    assert.match(stderr, /:3:\d+ nodes\[1\]/);
    assert.match(stderr, /:4:\d+ polcies: .*policies/);
  }
});

test("check-config says ok with 0 and shows warnings", (t) => {
  const path = file(t, "nodes:\n  - { id: a, url: http://a, family: H100, models: [m] }\nmodels: [{ name: nobody }]\n");
  const { status, stdout, stderr } = run(["check-config", "-c", path]);
  assert.equal(status, 0);
  assert.match(stdout, /: ok, 1 node, 0 policies, 1 model, 1 warning\n$/);
  assert.match(stderr, /^warning: .*:3:\d+ models\[0\]/);
  const json = JSON.parse(run(["check-config", "-c", path, "--json"]).stdout) as { ok: boolean; warnings: unknown[] };
  assert.deepEqual({ ok: json.ok, warnings: json.warnings.length }, { ok: true, warnings: 1 });
});

test("a file that is not there, a gateway that is not there and an id that is not there say what to do", async (t) => {
  const missing = run(["check-config", "-c", "/nonexistent/zml.yaml"]);
  assert.equal(missing.status, 1);
  assert.match(missing.stderr, /there is no such file: name the file with -c FILE/);
  const gone = await fakeNode(t);
  gone.kill();
  const nobody = run(["explain", "x", "--admin", gone.url]);
  assert.equal(nobody.status, 3);
  assert.match(nobody.stderr, /no gateway answers at http:\S+ \(ECONNREFUSED\): is zml serve running there\?/);
  const { admin } = await serve(t, file(t, PORTS));
  const unknown = run(["explain", "01890000-0000-7000-8000-000000000000", "--admin", admin]);
  assert.equal(unknown.status, 5);
  assert.match(unknown.stderr, /^zml: there is no decision "01890000-/);
});

test("a wrong command line ends with 2, help and version with 0", () => {
  assert.equal(run(["serve", "--nonsense"]).status, 2);
  const bare = run(["check-config", "fleet.yaml"]);
  assert.equal(bare.status, 2);
  assert.match(bare.stderr, /too many arguments[\s\S]*\(-c FILE names the file\)\n$/);
  assert.equal(run(["nonsense"]).status, 2);
  assert.equal(run(["explain"]).status, 2);
  const help = run(["--help"]);
  assert.equal(help.status, 0);
  assert.match(help.stdout, /Exit codes:/);
  const version = run(["--version"]);
  assert.equal(version.status, 0);
  assert.match(version.stdout, /^\d+\.\d+\.\d+\n$/);
});
