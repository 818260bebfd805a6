/** What holds for callers of HTTP/1.1 holds for those of HTTP/2: the same tests run again, and their calls go over h2c. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const FILES = ["accounting", "cancel", "capabilities-queue", "commit-point", "queue", "relay", "robustness"];

/** All of it, at most, ms. */
const DEADLINE_MS = 120_000;

for (const name of FILES) {
  test(`over HTTP/2 as over HTTP/1.1: ${name}`, { timeout: DEADLINE_MS }, async (t) => {
    const env: NodeJS.ProcessEnv = { ...process.env, ZML_TEST_HTTP_VERSION: "2" };
    // else the child reports to our runner in its own format
    delete env.NODE_TEST_CONTEXT;
    const file = fileURLToPath(new URL(`${name}.test.ts`, import.meta.url));
    const child = spawn(process.execPath, ["--test", "--test-reporter=tap", file], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    t.after(() => child.kill());
    let output = "";
    child.stdout.on("data", (text) => {
      output += text;
    });
    child.stderr.on("data", (text) => {
      output += text;
    });
    const code = await new Promise((resolve) => child.once("close", resolve));
    assert.equal(code, 0, output);
    assert.doesNotMatch(output, /^# pass 0$/m, "no test ran");
  });
}
