/** docs/operations/check-nodes.md, line by line: every command that it shows is run, and prints what it shows. */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { assertPrinted, onlySnippet, type Snippet, snippetsOf } from "../../../scripts/page-snippets.ts";
import { fakeNode, folder, until } from "./control-fixture.ts";

const PAGE = "docs/operations/check-nodes.md";
const zml = join(import.meta.dirname, "..", "bin", "zml.mjs");
const MODEL = "llama3-70b";

test("docs: the page about checking nodes shows what its commands print", { timeout: 120_000 }, async (t) => {
  const common = { model: MODEL, outputTokens: 64, speedUp: 2 };
  const [h100, mi300x] = await Promise.all([
    fakeNode(t, common),
    fakeNode(t, { ...common, engine: "sglang", accelerator: "AMD Instinct MI300X" }),
  ]);
  const local = (text: string) =>
    text.replaceAll("10.0.0.11:8000", new URL(h100.url).host).replaceAll("10.0.0.21:8000", new URL(mi300x.url).host);
  const cwd = folder(t);
  const file = local(onlySnippet(PAGE, "yaml", "nodes:").code);
  writeFileSync(join(cwd, "zml.yaml"), `data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\n${file}`);
  const admin = await serve(t, cwd);

  const commands = snippetsOf(PAGE, "sh");
  assert.equal(commands.length, 5);
  for (const snippet of commands) {
    const [npx, name, ...args] = local(snippet.code).trim().split(" ");
    assert.deepEqual([npx, name], ["npx", "zml"], snippet.place);
    const asksGateway = args[0] === "prices" || (args[0] === "nodes" && args[1] !== "check");
    const { status, stdout, stderr } = await run(asksGateway ? [...args, "--admin", admin] : args, cwd);
    assert.equal(status, args.includes("--strict") ? 1 : 0, `${snippet.place}: ${stdout}${stderr}`);
    assertPrinted(withShown(snippet, local), stdout);
  }
  const first = await run(["check-config", "-c", "first.yaml"], cwd);
  assert.match(first.stdout, /^first\.yaml: ok, 2 nodes, 1 policy, 0 models, 0 warnings\n$/);
  const checked = await run(["nodes", "check", "-c", "first.yaml"], cwd);
  assert.equal(checked.status, 0, checked.stdout);
});

function withShown(snippet: Snippet, local: (text: string) => string): Snippet {
  return { ...snippet, shown: local(snippet.shown ?? assert.fail(`${snippet.place} shows what it prints`)) };
}

function run(args: readonly string[], cwd: string): Promise<{ status: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [zml, ...args], { cwd, timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** The address of the admin port of a gateway on the page's file. */
async function serve(t: TestContext, cwd: string): Promise<string> {
  const child = spawn(process.execPath, [zml, "serve"], { cwd, stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => {
    stdout += String(text);
  });
  child.stderr.on("data", (text) => {
    stderr += String(text);
  });
  await until("it is ready", () => {
    assert.equal(child.exitCode, null, stderr);
    return stdout.includes("\n");
  });
  return /admin=(\S+)\n$/.exec(stdout)?.[1] ?? assert.fail(stdout);
}
