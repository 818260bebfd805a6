/** The data port and clients that others wrote: curl, nghttp, h2load. Where one is missing the test says how to get it. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { certificatePath, identity } from "./certificates.ts";
import { startPlane } from "./plane-fixture.ts";
import { chatBody } from "./raw-client.ts";
import { healthy, startScriptedNode } from "./scripted-node.ts";

const run = promisify(execFile);

/** Debian's package of each. */
const PACKAGES = { curl: "curl", nghttp: "nghttp2-client", h2load: "nghttp2-client" } as const;

/** Runs a tool; null: it is not installed, which has been said. */
async function tool(t: TestContext, name: keyof typeof PACKAGES, args: readonly string[]): Promise<string | null> {
  try {
    const { stdout } = await run(name, args, { timeout: 30_000 });
    return stdout;
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
    const hint = `${name} is not installed: apt-get install ${PACKAGES[name]}`;
    assert.equal(process.env.CI, undefined, hint);
    t.skip(`left out: ${hint}`);
    return null;
  }
}

async function ports(t: TestContext) {
  const node = await startScriptedNode(healthy("a"));
  const clear = await startPlane([{ id: "a", url: node.url }]);
  const secret = await startPlane([{ id: "a", url: node.url }], {
    tls: { ...identity("server"), clientCa: null, minVersion: "1.2" },
  });
  const place = mkdtempSync(join(tmpdir(), "zml-h2-"));
  const body = join(place, "body.json");
  writeFileSync(body, chatBody());
  t.after(async () => {
    await Promise.all([clear.stop(), secret.stop()]);
    await node.stop();
    rmSync(place, { recursive: true });
  });
  const path = "/v1/chat/completions";
  return { clear, body, http: `${clear.url}${path}`, https: `https://localhost:${secret.port}${path}` };
}

test("curl: HTTP/1.1, HTTP/2 with prior knowledge, and both over TLS", async (t) => {
  const { http, https, body } = await ports(t);
  const ca = ["--cacert", certificatePath("ca"), "--connect-to", "localhost::127.0.0.1:"];
  const calls: [string[], string][] = [
    [["--http1.1", http], "1.1"],
    [["--http2-prior-knowledge", http], "2"],
    [["--http1.1", ...ca, https], "1.1"],
    [["--http2", ...ca, https], "2"],
  ];
  for (const [args, version] of calls) {
    const shown = ["-sS", "-o", join("/", "dev", "null"), "-w", "%{http_code} %{http_version}", "-m", "10"];
    const json = ["-H", "content-type: application/json", "--data-binary", `@${body}`];
    const out = await tool(t, "curl", [...shown, ...json, ...args]);
    if (out === null) return;
    assert.equal(out, `200 ${version}`);
  }
});

test("nghttp: a request over HTTP/2 with prior knowledge, and over TLS", async (t) => {
  const { http, https, body } = await ports(t);
  for (const url of [http, https]) {
    const out = await tool(t, "nghttp", ["-t", "10", "-d", body, "-H", "content-type: application/json", url]);
    if (out === null) return;
    assert.match(out, /"content":"a"/);
  }
});

test("h2load: 2,000 requests over 4 connections of 32 streams, none lost", async (t) => {
  const { http, clear, body } = await ports(t);
  const out = await tool(t, "h2load", ["-n", "2000", "-c", "4", "-m", "32", "-T", "10", "-d", body, http]);
  if (out === null) return;
  assert.match(out, /2000 succeeded, 0 failed, 0 errored, 0 timeout/);
  assert.match(out, /2000 2xx/);
  await clear.settled();
});
