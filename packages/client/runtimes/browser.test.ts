/**
 * The installed package in a real Chromium, on a page of another origin than the gateway's. Not part of `npm test`, since
 * it needs a browser: `node --test packages/client/runtimes/browser.test.ts`, with `chromium` in the path (Debian:
 * `apt-get install chromium`).
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { installClient } from "../../../scripts/install-package.ts";
import { fakeNode, PORTS, startOn } from "../../gateway/test/control-fixture.ts";

/** Chromium's first start on a busy machine takes some seconds; a hang ends long before the runner's limit. */
const PATIENCE_MS = 60_000;

/** Runs in the page: everything that an application would do first, and two ways to go wrong. */
const SCRIPT = `
  import { ZML, SaturationError } from "/client/index.js";
  const told = { userAgent: navigator.userAgent };
  try {
    const client = new ZML({ baseUrl: location.hash.slice(1), maxRetries: 0 });
    const messages = [{ role: "user", content: "hello" }];
    const answer = await client.infer({ model: "m", messages, max_tokens: 4 });
    told.text = answer.text.length > 0;
    told.node = answer.routing?.node;
    told.requestId = typeof answer.requestId;
    const stream = await client.infer({ model: "m", messages, max_tokens: 4, stream: true, accelerator: "H100" });
    told.early = stream.routing?.hint;
    told.chunks = 0;
    for await (const _ of stream) told.chunks += 1;
    const stop = new AbortController();
    const cut = await client.infer({ model: "m", messages, max_tokens: 4000, stream: true, signal: stop.signal });
    try {
      for await (const _ of cut) stop.abort(new Error("enough"));
    } catch (error) {
      told.aborted = error.message;
    }
    told.unknown = await client.infer({ model: "x", messages }).catch((error) => [error.name, error.code]);
    const nobody = new ZML({ baseUrl: "http://127.0.0.1:9", maxRetries: 0 });
    told.closed = await nobody.infer({ model: "m", messages }).catch((error) => error.name);
  } catch (error) {
    told.failed = String(error);
  }
  await fetch("/told", { method: "POST", body: JSON.stringify(told) });
`;

test("a page of another origin infers, streams, aborts and fails as elsewhere", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zml-browser-"));
  const { folder: packageFolder } = installClient(folder);
  const files = new Set(readdirSync(packageFolder).filter((name) => name.endsWith(".js")));
  const told = Promise.withResolvers<Record<string, unknown>>();
  const page = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://page");
    const file = pathname.replace("/client/", "");
    if (request.method === "POST") {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => void parts.push(part));
      request.on("end", () => {
        response.end();
        told.resolve(JSON.parse(Buffer.concat(parts).toString("utf8")) as Record<string, unknown>);
      });
    } else if (files.has(file)) {
      response.writeHead(200, { "content-type": "text/javascript" }).end(readFileSync(join(packageFolder, file)));
    } else {
      response.writeHead(200, { "content-type": "text/html" }).end(`<script type="module">${SCRIPT}</script>`);
    }
  });
  await new Promise<void>((resolve) => page.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;
  const node = await fakeNode(t);
  const { gateway } = await startOn(
    t,
    `${PORTS.replace("data: { listen: 127.0.0.1:0 }", `data: { listen: 127.0.0.1:0, cors_origins: ["${origin}"] }`)}` +
      `nodes: [{ id: h100-a, url: "${node.url}", family: H100 }]\n`,
  );
  const browser = spawn(
    "chromium",
    [
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      `--user-data-dir=${join(folder, "profile")}`,
      `${origin}/#${gateway.dataUrl}`,
    ],
    { stdio: "ignore", detached: true },
  );
  const failed = new Promise<never>((_, reject) => {
    browser.once("error", (error) => reject(new Error(`chromium does not start (${error.message}): install it`)));
  });
  const timer = setTimeout(() => told.reject(new Error("the page told nothing in time")), PATIENCE_MS);
  t.after(async () => {
    clearTimeout(timer);
    const ended = new Promise((resolve) => browser.once("exit", resolve));
    // its helpers are in its group
    if (browser.pid !== undefined) process.kill(-browser.pid, "SIGKILL");
    await ended;
    page.close();
    page.closeAllConnections();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const { userAgent, chunks, ...rest } = await Promise.race([told.promise, failed]);
  assert.match(String(userAgent), /Chrom/);
  assert.ok(Number(chunks) > 1, `${chunks} chunks`);
  assert.deepEqual(rest, {
    text: true,
    node: "h100-a",
    requestId: "string",
    early: "used",
    aborted: "enough",
    unknown: ["NotFoundError", "model_not_found"],
    closed: "APIConnectionError",
  });
});
