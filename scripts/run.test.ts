import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";

const lock = JSON.stringify({
  packages: {
    "": { name: "checkout" },
    "node_modules/a": { version: "1.0.0", integrity: "sha512-a" },
    "node_modules/other-platform": { version: "1.0.0", integrity: "sha512-b", optional: true },
  },
});
const installedLock = JSON.stringify({
  packages: { "node_modules/a": { version: "1.0.0", integrity: "sha512-a" } },
});

// What npm does as far as run.mjs can see: it takes a while, counts in calls.log, writes the hidden lock last.
const goodNpm = `
const fs = require("node:fs");
fs.appendFileSync("calls.log", process.argv[2] + "\\n");
setTimeout(() => {
  fs.mkdirSync("node_modules", { recursive: true });
  fs.writeFileSync("node_modules/.package-lock.json", ${JSON.stringify(installedLock)});
}, 300);
`;
const offlineNpm = `
process.stderr.write("npm error code ENOTFOUND\\nnpm error network request failed\\n");
process.exitCode = 1;
`;

const echoTask = 'process.stdout.write(process.argv.slice(2).join(" "));\nprocess.exitCode = 7;\n';

/** A checkout with run.mjs, one task (bench:decide) and an npm of the test's own. */
function makeCheckout(t: TestContext, options: { npm?: string; task?: string; isInstalled?: boolean }): string {
  const root = mkdtempSync(join(tmpdir(), "zml-run-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  for (const folder of ["scripts", "bench", "npm"]) mkdirSync(join(root, folder));
  for (const file of ["run.mjs", "install.mjs", "pinned-node.mjs"]) {
    copyFileSync(join(import.meta.dirname, file), join(root, "scripts", file));
  }
  writeFileSync(join(root, "package-lock.json"), lock);
  writeFileSync(join(root, "npm", "npm-cli.js"), options.npm ?? goodNpm);
  if (options.task !== undefined) writeFileSync(join(root, "bench", "decide.ts"), options.task);
  if (options.isInstalled === true) {
    mkdirSync(join(root, "node_modules"));
    writeFileSync(join(root, "node_modules", ".package-lock.json"), installedLock);
  }
  return root;
}

function start(root: string, args: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [join(root, "scripts", "run.mjs"), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, npm_execpath: join(root, "npm", "npm-cli.js"), ...env },
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output.stderr += text;
  });
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    child.on("close", (code) => resolve({ code, ...output }));
  });
  return { child, ended };
}

function npmCalls(root: string): string[] {
  const log = join(root, "calls.log");
  return existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : [];
}

test("a fresh checkout installs, says so, and runs the task with its arguments and exit code", async (t) => {
  const root = makeCheckout(t, { task: echoTask });
  const { code, stdout, stderr } = await start(root, ["bench:decide", "--json", "x y"]).ended;
  assert.deepEqual({ code, stdout }, { code: 7, stdout: "--json x y" });
  assert.match(stderr, /installing dependencies \(about 20 s\)…/);
  assert.deepEqual(npmCalls(root), ["ci"]);
});

test("an installed checkout calls no npm, whatever other platforms would install", async (t) => {
  const root = makeCheckout(t, { task: echoTask, isInstalled: true });
  const { code, stderr } = await start(root, ["bench:decide"]).ended;
  assert.deepEqual({ code, stderr }, { code: 7, stderr: "zml: bench:decide: checking dependencies\n" });
  assert.deepEqual(npmCalls(root), []);
});

test("a lock file that changed is installed again", async (t) => {
  const root = makeCheckout(t, { task: echoTask, isInstalled: true });
  writeFileSync(join(root, "node_modules", ".package-lock.json"), installedLock.replace("1.0.0", "0.9.0"));
  assert.equal((await start(root, ["bench:decide"]).ended).code, 7);
  assert.deepEqual(npmCalls(root), ["ci"]);
});

test("of three runs at once one installs and all run", async (t) => {
  const root = makeCheckout(t, { task: echoTask });
  const results = await Promise.all([1, 2, 3].map(() => start(root, ["bench:decide"]).ended));
  assert.deepEqual(
    results.map((result) => result.code),
    [7, 7, 7],
  );
  assert.deepEqual(npmCalls(root), ["ci"]);
});

test("the lock of a run that died does not block the next", async (t) => {
  const root = makeCheckout(t, { task: echoTask });
  const dead = start(root, ["no-such-task"]);
  await dead.ended;
  mkdirSync(join(root, ".cache"));
  writeFileSync(join(root, ".cache", "install.lock"), String(dead.child.pid));
  assert.equal((await start(root, ["bench:decide"]).ended).code, 7);
});

test("a registry out of reach shows npm's output and ends in one line that says what to do", async (t) => {
  const { code, stderr } = await start(makeCheckout(t, { task: echoTask, npm: offlineNpm }), ["bench:decide"]).ended;
  assert.equal(code, 1);
  assert.match(stderr, /npm error network request failed\n/);
  assert.match(stderr, /zml: cannot reach the npm registry \(ENOTFOUND\); check the network, .*\n$/);
});

test("a system without npm is refused in one line", async (t) => {
  const root = makeCheckout(t, { task: echoTask });
  const { code, stderr } = await start(root, ["bench:decide"], { npm_execpath: "", PATH: join(root, "bench") }).ended;
  assert.equal(code, 1);
  assert.match(stderr, /zml: npm is not in the PATH; install npm 10 or newer\n$/);
});

test("a task that this checkout lacks, or that nobody knows, is refused in one line", async (t) => {
  const root = makeCheckout(t, { isInstalled: true });
  assert.deepEqual(await start(root, ["bench:decide"]).ended, {
    code: 1,
    stdout: "",
    stderr: "zml: cannot run bench:decide: bench/decide.ts does not exist in this checkout\n",
  });
  const { code, stderr } = await start(root, ["dance"]).ended;
  assert.equal(code, 1);
  assert.match(stderr, /^zml: unknown task "dance"; known: demo, test, .*check, .*\n$/);
});

test("SIGTERM reaches the task, and the task decides how it ends", async (t) => {
  const task =
    'process.on("SIGTERM", () => { process.stdout.write("drained"); process.exit(5); });\n' +
    'setInterval(() => {}, 1000);\nprocess.stdout.write("ready ");\n';
  const { child, ended } = start(makeCheckout(t, { task, isInstalled: true }), ["bench:decide"]);
  child.stdout.once("data", () => child.kill("SIGTERM"));
  const { code, stdout } = await ended;
  assert.deepEqual({ code, stdout }, { code: 5, stdout: "ready drained" });
});
