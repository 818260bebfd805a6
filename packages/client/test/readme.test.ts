/** Every snippet of README.md, compiled and run against a real gateway, from the installed package. */
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { installClient } from "../../../scripts/install-package.ts";
import { fakeNode, PORTS, startOn } from "../../gateway/test/control-fixture.ts";

const client = join(import.meta.dirname, "..");
const modules = join(client, "..", "..", "node_modules");
const readme = readFileSync(join(client, "README.md"), "utf8");
const snippets = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text);

/** What each prints, in order. */
const prints = [
  /^\S.*\nmi300x-a MI300X cheapest\n$/s,
  /^\S.* 16 used\n$/s,
  /^from mi300x-a\n\S.*\n$/s,
  /^\S*\nstopped\n$/,
  /^404 model_not_found .*the models are "llama3-70b"/,
  /^\[ 'llama3-70b' \]\n2\n$/,
  /^MI300X \d+(\.\d+)? true\n$/,
];

test("every snippet of the README compiles in a strict project, and does what it says", async (t) => {
  const project = realpathSync(mkdtempSync(join(tmpdir(), "zml-readme-")));
  t.after(() => rmSync(project, { recursive: true, force: true }));
  installClient(project);
  const node = await fakeNode(t, { model: "llama3-70b", outputTokens: 16 });
  const { gateway } = await startOn(
    t,
    `${PORTS}nodes:
  - { id: mi300x-a, url: "${node.url}", family: MI300X, models: [llama3-70b], cost: { usd_per_gpu_hour: 2 } }
policies:
  - { name: llama3-70b-batch, accelerator_preference: [{ family: MI300X, priority: 1 }], cost_priority: cost }
models:
  - { name: llama3-70b, policy: llama3-70b-batch }
`,
  );
  assert.equal(snippets.length, prints.length);
  const files = snippets.map((text, index) => {
    // the one address that a reader has to fill in
    writeFileSync(join(project, `${index}.mts`), text.replace("http://127.0.0.1:8080", gateway.dataUrl));
    return `${index}.mts`;
  });
  const typed = { types: ["node"], typeRoots: [join(modules, "@types")] };
  const compilerOptions = {
    strict: true,
    module: "nodenext",
    target: "es2022",
    lib: ["es2022"],
    noEmit: true,
    ...typed,
  };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  const tsc = spawnSync(join(modules, ".bin", "tsc"), ["-p", "tsconfig.json"], { cwd: project, encoding: "utf8" });
  assert.equal(tsc.stdout, "");
  const env = { ...process.env, ZML_BASE_URL: gateway.dataUrl, ZML_ADMIN_URL: gateway.adminUrl };
  for (const [index, pattern] of prints.entries()) {
    const run = promisify(execFile)(process.execPath, [`${index}.mts`], { cwd: project, env, timeout: 30_000 });
    assert.match((await run).stdout, pattern, snippets[index]);
  }
});

test("the README names every error class and no other", async () => {
  const names = Object.keys(await import("../src/index.ts")).filter((name) => name.endsWith("Error"));
  const named = new Set([...readme.matchAll(/`(\w+Error)`/g)].map(([, name = ""]) => name));
  assert.deepEqual([...named].sort(), names.sort());
});
