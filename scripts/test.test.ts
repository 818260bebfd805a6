import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";

const totals =
  /ℹ tests \d+\nℹ suites \d+\nℹ pass \d+\nℹ fail \d+\nℹ cancelled \d+\nℹ skipped \d+\nℹ todo \d+\nℹ duration_ms [\d.]+\n$/;

const passing = 'import { test } from "node:test";\ntest("holds", () => {});\n';
const failing = 'import { test } from "node:test";\ntest("breaks", () => { throw new Error("cause"); });\n';

/** Runs test.ts in a checkout with these test files and nothing installed, so that every tool of the checks is missing. */
function runTests(t: TestContext, files: Record<string, string>, args: readonly string[]) {
  const root = mkdtempSync(join(tmpdir(), "zml-test-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  writeFileSync(join(root, "package.json"), '{ "type": "module" }');
  mkdirSync(join(root, "scripts"));
  for (const file of ["test.ts", "checks.ts", "marked-processes.ts", "totals-last.ts"]) {
    copyFileSync(join(import.meta.dirname, file), join(root, "scripts", file));
  }
  for (const [file, source] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), source);
  }
  // The mark of node --test would make the inner run report to the outer one.
  const { NODE_TEST_CONTEXT: _context, FORCE_COLOR: _color, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "scripts", "test.ts"), ...args], {
    encoding: "utf8",
    env,
  });
  return { code: status, stdout, stderr };
}

test("failed checks make the exit code, tests run all the same, and the totals come last", (t) => {
  const { code, stdout } = runTests(t, { "packages/a/src/x.test.ts": passing }, []);
  assert.equal(code, 1);
  assert.match(stdout, /✖ knip/);
  assert.match(stdout, /✔ holds.*✖ check failed: layers \(details at the top\)\n/s);
  assert.match(stdout, totals);
});

test("a filter chooses by part of the path and leaves out the checks", (t) => {
  const files = { "packages/a/src/x.test.ts": passing, "packages/b/real/y.test.ts": failing };
  const { code, stdout } = runTests(t, files, ["packages/a"]);
  assert.equal(code, 0);
  assert.doesNotMatch(stdout, /breaks|knip \(/);
  assert.match(stdout, totals);
});

test("the details of a failed test stand above the totals", (t) => {
  const { code, stdout } = runTests(t, { "packages/b/real/y.test.ts": failing }, ["packages/b"]);
  assert.equal(code, 1);
  assert.match(stdout, /failing tests:.*Error: cause.*ℹ fail 1/s);
  assert.match(stdout, totals);
});

test("a filter that matches nothing is refused", (t) => {
  const { code, stderr } = runTests(t, { "packages/a/src/x.test.ts": passing }, ["nowhere"]);
  assert.deepEqual(
    { code, stderr },
    { code: 1, stderr: "zml: no test file matches nowhere; a filter is a part of a path\n" },
  );
});

test("a file whose event loop never empties is killed and a failure", (t) => {
  const hanging =
    'import { test } from "node:test";\ntest("hangs", () => new Promise(() => setInterval(() => {}, 1000)));\n';
  const { code, stdout } = runTests(t, { "bench/x.test.ts": hanging }, ["bench", "--test-timeout=700"]);
  assert.equal(code, 1);
  assert.match(stdout, /test timed out after 700ms/);
  assert.match(stdout, /✖ did not end in time, killed: \d+ .*x\.test\.ts\n/);
  assert.match(stdout, totals);
});

for (const { held, stdio } of [
  { held: "with a pipe of its own", stdio: "ignore" },
  { held: "that holds the pipe of its test", stdio: "inherit" },
]) {
  test(`a process ${held} that a test leaves behind is named, killed and a failure`, (t) => {
    const leaving = [
      'import { spawn } from "node:child_process";',
      'import { test } from "node:test";',
      'test("leaves", () => {',
      `  const options = { detached: true, stdio: "${stdio}" } as const;`,
      '  spawn(process.execPath, ["-e", "setInterval(() => {}, 1000) // left"], options).unref();',
      "});",
    ].join("\n");
    const files = { "packages/a/test/x.test.ts": leaving };
    const { code, stdout } = runTests(t, files, ["packages/a", "--test-timeout=700"]);
    assert.equal(code, 1);
    assert.match(stdout, /✖ (left running by a test|did not end in time), killed: \d+ .*\/\/ left\n/);
    assert.match(stdout, totals);
  });
}
