import assert from "node:assert/strict";
import { fork, spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";

const launcher = join(import.meta.dirname, "..", "bin", "zml.mjs");

/** Makes this Node look old until it has been re-executed; `hasExecve` false takes away what came with Node 23.11. */
function pretendOld(hasExecve: boolean): string[] {
  const script = [
    "if (process.env.ZML_REEXEC === undefined) {",
    '  Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.1.0" } });',
    hasExecve ? "" : "  process.execve = undefined;",
    "}",
  ].join("\n");
  return ["--import", `data:text/javascript,${encodeURIComponent(script)}`];
}

/** A package folder with the launcher and the given files; `hasPinned` puts this Node beside it as the pinned one. */
function makePackage(t: TestContext, files: Record<string, string>, hasPinned: boolean): string {
  const root = mkdtempSync(join(tmpdir(), "zml-launcher-"));
  t.after(() => rmSync(root, { recursive: true }));
  for (const folder of ["bin", "src", "dist"]) mkdirSync(join(root, folder));
  writeFileSync(join(root, "package.json"), '{ "type": "module" }');
  copyFileSync(launcher, join(root, "bin", "zml.mjs"));
  for (const [file, source] of Object.entries(files)) writeFileSync(join(root, file), source);
  if (hasPinned) {
    const bin = join(root, "node_modules", `node-linux-${process.arch}`, "bin");
    mkdirSync(bin, { recursive: true });
    symlinkSync(process.execPath, join(bin, "node"));
  }
  return join(root, "bin", "zml.mjs");
}

function run(args: readonly string[]): { code: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  return { code: status, stdout, stderr };
}

const echo = 'process.stdout.write(process.argv.slice(2).join(" "));\nprocess.exitCode = 7;\n';

test("arguments go in and the exit code comes out", (t) => {
  const zml = makePackage(t, { "src/main.ts": echo }, false);
  assert.deepEqual(run([zml, "serve", "-c", "x y"]), { code: 7, stdout: "serve -c x y", stderr: "" });
});

test("a checkout runs its sources, whatever an older build left in dist", (t) => {
  const zml = makePackage(t, { "src/main.ts": echo, "dist/main.js": 'throw new Error("stale");\n' }, false);
  assert.equal(run([zml, "a"]).stdout, "a");
});

test("a built package runs what was built", (t) => {
  const zml = makePackage(t, { "dist/main.js": echo }, false);
  assert.deepEqual(run([zml, "a"]), { code: 7, stdout: "a", stderr: "" });
});

test("a warning that something is experimental is not shown, others are", (t) => {
  const source = 'process.emitWarning("x", "ExperimentalWarning");\nprocess.emitWarning("seen", "OtherWarning");\n';
  const { stderr } = run([makePackage(t, { "dist/main.js": source }, false)]);
  assert.match(stderr, /OtherWarning: seen/);
  assert.doesNotMatch(stderr, /Experimental/);
});

const allocator =
  "const { MALLOC_ARENA_MAX, MALLOC_TRIM_THRESHOLD_ } = process.env;\n" +
  "process.stdout.write(JSON.stringify([process.argv.slice(2), MALLOC_ARENA_MAX, MALLOC_TRIM_THRESHOLD_]));\n";

test("a gateway is started with an allocator that gives memory back", { skip: process.platform !== "linux" }, (t) => {
  const zml = makePackage(t, { "dist/main.js": allocator }, false);
  assert.deepEqual(JSON.parse(run([zml, "serve", "-c", "x y"]).stdout), [["serve", "-c", "x y"], "2", "1048576"]);
  assert.deepEqual(
    JSON.parse(run([zml, "status"]).stdout),
    [["status"], null, null],
    "a command that ends soon is not",
  );
});

test("an allocator that the operator has set stays", (t) => {
  const zml = makePackage(t, { "dist/main.js": allocator }, false);
  const env = { ...process.env, MALLOC_ARENA_MAX: "8" };
  const { stdout } = spawnSync(process.execPath, [zml, "serve"], { encoding: "utf8", env });
  assert.deepEqual(JSON.parse(stdout), [["serve"], "8", null]);
});

test("a gateway that was given a channel keeps it", async (t) => {
  const zml = makePackage(t, { "dist/main.js": 'process.send("here");\nprocess.disconnect();\n' }, false);
  const child = fork(zml, ["serve"], { execArgv: [] });
  const said = new Promise((resolve) => child.once("message", resolve));
  const ended = new Promise((resolve) => child.once("exit", (code) => resolve(`ended with ${code}`)));
  assert.equal(await Promise.race([said, ended]), "here");
});

test("an old Node without a pinned one beside it is refused in one line that says what to do", (t) => {
  const { code, stdout, stderr } = run([...pretendOld(true), makePackage(t, { "src/main.ts": echo }, false)]);
  assert.deepEqual({ code, stdout }, { code: 1, stdout: "" });
  assert.match(stderr, /^zml: needs Node 24\.12 or newer, this is 20\.1\.0 \(.*\); install Node 24.*\n$/);
});

for (const hasExecve of [true, false]) {
  const way = hasExecve ? "by execve" : "by a child";

  test(`an old Node hands over to the pinned one (${way})`, { skip: process.platform !== "linux" }, (t) => {
    const zml = makePackage(t, { "src/main.ts": echo }, true);
    const { code, stdout, stderr } = run([...pretendOld(hasExecve), zml, "serve", "-c", "x y"]);
    assert.deepEqual({ code, stdout, stderr }, { code: 7, stdout: "serve -c x y", stderr: "" });
  });

  test(`a signal reaches the pinned Node (${way})`, { skip: process.platform !== "linux" }, async (t) => {
    const source =
      'process.on("SIGTERM", () => { process.stdout.write("drained"); process.exit(5); });\n' +
      'setInterval(() => {}, 1000);\nprocess.stdout.write("ready ");\n';
    const zml = makePackage(t, { "src/main.ts": source }, true);
    const child = spawn(process.execPath, [...pretendOld(hasExecve), zml], { stdio: ["ignore", "pipe", "inherit"] });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      if (stdout === "") child.kill("SIGTERM");
      stdout += text;
    });
    const code = await new Promise((resolve) => child.on("close", resolve));
    assert.deepEqual({ code, stdout }, { code: 5, stdout: "ready drained" });
  });

  test(`a death by signal is passed on (${way})`, { skip: process.platform !== "linux" }, (t) => {
    const zml = makePackage(
      t,
      { "src/main.ts": 'process.kill(process.pid, "SIGTERM");\nsetInterval(() => {}, 1000);\n' },
      true,
    );
    assert.equal(spawnSync(process.execPath, [...pretendOld(hasExecve), zml]).signal, "SIGTERM");
  });
}
