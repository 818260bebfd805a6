// What the pages talk to: the gateway of docs/quickstart.md, with fake nodes at the addresses of its file.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { fakeNode } from "../packages/gateway/test/control-fixture.ts";
import { onlySnippet } from "./page-snippets.ts";

const packages = join(import.meta.dirname, "..", "packages");
const launcher = join(packages, "gateway", "bin", "zml.mjs");

/** Addresses of a gateway. */
export interface PageGateway {
  readonly dataUrl: string;
  readonly adminUrl: string;
}

/** Serves the file of the quickstart as it says; goes with the test. */
export async function startPageGateway(t: TestContext): Promise<PageGateway> {
  const nodes = await Promise.all([
    fakeNode(t, { model: "llama-3-8b" }),
    fakeNode(t, { model: "llama-3-8b", hardware: "MI300X-192GB/llama-3-8b/bf16/1" }),
    // so long that it is still running when the next call comes
    fakeNode(t, { model: "qwen-2.5-7b", speedUp: 1, outputTokens: 4000 }),
  ]);
  const folder = mkdtempSync(join(tmpdir(), "zml-pages-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const shown = onlySnippet("docs/quickstart.md", "yaml", "nodes:").code;
  let next = 0;
  const local = shown.replaceAll(/http:\/\/10\.[\d.]+:\d+/g, () => nodes[next++]?.url ?? "");
  assert.equal(next, nodes.length, "each node of the page has one here");
  const ports = "data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\nworkers: 1\n";
  writeFileSync(join(folder, "zml.yaml"), ports + local);
  return serve(t, onlySnippet("docs/quickstart.md", "sh", "zml serve").code, folder);
}

/** Starts a line `npx zml serve …` of a page in a folder; it goes with the test. */
export async function serve(t: TestContext, line: string, cwd: string): Promise<PageGateway> {
  const [npx, name, ...args] = line.trim().split(" ");
  assert.deepEqual([npx, name], ["npx", "zml"], line);
  const [, data, admin] = await lineOf(t, [launcher, ...args], cwd, /^zml ready data=(\S+) admin=(\S+)$/);
  return { dataUrl: `http://${data}`, adminUrl: `http://${admin}` };
}

/** Starts what `npm run demo` runs; it goes with the test. */
export async function startDemo(t: TestContext): Promise<PageGateway> {
  const script = join(packages, "simulator", "src", "demo", "main.ts");
  // few calls of its own; it is ended long before its time is over
  const args = [script, "--once", "--seconds", "100", "--rate", "0.1"];
  const [, dataUrl = "", adminUrl = ""] = await lineOf(t, args, undefined, /^data (http:\S+) +admin (http:\S+)$/);
  return { dataUrl, adminUrl };
}

/** Starts a script that runs until the test ends, and waits for a line of its standard output. */
async function lineOf(
  t: TestContext,
  args: readonly string[],
  cwd: string | undefined,
  wanted: RegExp,
): Promise<RegExpExecArray> {
  const child = spawn(process.execPath, args, {
    ...(cwd !== undefined && { cwd }),
    stdio: ["ignore", "pipe", "ignore"],
  });
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  });
  const lines = createInterface({ input: child.stdout });
  return new Promise((resolve, reject) => {
    // the others are read as well, or it would wait for somebody to do so
    lines.on("line", (text) => {
      const found = wanted.exec(text);
      if (found !== null) resolve(found);
    });
    lines.on("close", () => reject(new Error(`${args[0]} ended without a line like ${wanted}`)));
  });
}
