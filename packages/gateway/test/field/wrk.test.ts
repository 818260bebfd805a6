/** F: connections of callers under load, by wrk. Where it is missing the test says how to get it. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { chatBody } from "../raw-client.ts";
import { healthy } from "../scripted-node.ts";
import { isLong, longForm, startField } from "./field-fixture.ts";

const run = promisify(execFile);

/** What wrk tells of a run. */
interface Counted {
  readonly requests: number;
  /** Answers that are no 2xx or 3xx, and what went wrong with connections. */
  readonly errors: number;
}

/** Runs wrk for so long; null: it is not installed, which has been said. @param lua what is asked, in wrk's own terms */
async function wrk(
  t: TestContext,
  url: string,
  { lua, connections, seconds }: { lua: string; connections: number; seconds: number },
): Promise<Counted | null> {
  const folder = mkdtempSync(join(tmpdir(), "zml-wrk-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const script = join(folder, "ask.lua");
  writeFileSync(script, `${ASK}${lua}\n${TELL}`);
  const args = ["-t", "1", "-c", String(connections), "-d", `${seconds}s`, "--timeout", "30s", "-s", script, url];
  try {
    const { stdout } = await run("wrk", args, { timeout: (seconds + 60) * 1000 });
    const [, requests, errors] = /^told (\d+) (\d+)$/m.exec(stdout) ?? [];
    return { requests: Number(requests), errors: Number(errors) };
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
    const hint = "wrk is not installed: apt-get install wrk";
    assert.equal(process.env.CI, undefined, hint);
    t.skip(`left out: ${hint}`);
    return null;
  }
}

const ASK = `wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.body = [[${chatBody()}]]
wrk.headers["Content-Type"] = "application/json"
`;

const TELL = `function done(summary)
  local e = summary.errors
  print(string.format("told %d %d", summary.requests, e.connect + e.read + e.write + e.status + e.timeout))
end
`;

describe("callers by wrk", () => {
  test("F03: a new connection for each request, for a minute in the long form: no error", longForm, async (t) => {
    const { plane } = await startField(t, [healthy("a"), healthy("b")]);
    const lua = 'wrk.headers["Connection"] = "close"';
    const counted = await wrk(t, plane.url, { lua, connections: 32, seconds: isLong ? 60 : 5 });
    if (counted === null) return;
    assert.equal(counted.errors, 0);
    assert.ok(counted.requests > 0, `${counted.requests} were answered`);
  });

  test("F01, F03: pauses around the time for which nodes keep idle connections: no error", longForm, async (t) => {
    // by default connections to nodes are kept for 4 s, and nodes keep theirs for 5 s
    const pauseMs = isLong ? 5_000 : 500;
    const keepAliveMs = isLong ? 4_000 : 400;
    const nodes = [healthy("a"), healthy("b")].map((script) => ({ script, keepAliveMs }));
    const { plane } = await startField(t, nodes);
    const lua = `function delay() return math.random(${pauseMs * 0.94}, ${pauseMs * 1.06}) end`;
    const counted = await wrk(t, plane.url, { lua, connections: isLong ? 200 : 40, seconds: isLong ? 60 : 5 });
    if (counted === null) return;
    assert.equal(counted.errors, 0);
    assert.ok(counted.requests > 0, `${counted.requests} were answered`);
  });
});
