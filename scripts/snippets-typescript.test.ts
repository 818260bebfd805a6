// Every TypeScript snippet of the pages, compiled in a strict project and run, with the client installed from its tarball.
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { fakeNode, PORTS, startOn } from "../packages/gateway/test/control-fixture.ts";
import { installClient } from "./install-package.ts";
import { type PageGateway, startDemo, startPageGateway } from "./page-gateway.ts";
import { assertPrinted, onlySnippet, type Snippet, snippetsOf } from "./page-snippets.ts";

const modules = join(import.meta.dirname, "..", "node_modules");
const quickstart = "docs/quickstart.md";
const readme = "packages/client/README.md";
const run = promisify(execFile);
let project = "";

before(() => {
  project = realpathSync(mkdtempSync(join(tmpdir(), "zml-snippets-")));
  const { manifest } = installClient(project);
  const install = onlySnippet(quickstart, "sh", "npm pack").code;
  assert.ok(
    install.includes(`npm install ./zml-client-${manifest.version}.tgz`),
    "the page names this version's tarball",
  );
  // one of the snippets is about it
  symlinkSync(join(modules, "openai"), join(project, "node_modules", "openai"));
});
after(() => rmSync(project, { recursive: true, force: true }));

/** Writes each snippet as a file of the project, and compiles them all. @returns the files */
function compile(snippets: readonly Snippet[], gateway: PageGateway): string[] {
  const files = snippets.map(({ code, place }) => {
    const file = `${place.replaceAll(/\W/g, "-")}.mts`;
    writeFileSync(join(project, file), code.replaceAll("http://127.0.0.1:8080", gateway.dataUrl));
    return file;
  });
  const node = { types: ["node"], typeRoots: [join(modules, "@types")] };
  const module = { module: "nodenext", target: "es2022", lib: ["es2022"], skipLibCheck: true };
  writeFileSync(
    join(project, "tsconfig.json"),
    JSON.stringify({ compilerOptions: { strict: true, noEmit: true, ...module, ...node }, files }),
  );
  const tsc = spawnSync(join(modules, ".bin", "tsc"), ["-p", "tsconfig.json"], { cwd: project, encoding: "utf8" });
  assert.equal(tsc.stdout, "");
  return files;
}

async function printedBy(file: string, { dataUrl, adminUrl }: PageGateway): Promise<string> {
  const env = { ...process.env, ZML_BASE_URL: dataUrl, ZML_ADMIN_URL: adminUrl };
  const { stdout } = await run(process.execPath, [file], { cwd: project, env, timeout: 30_000 });
  return stdout;
}

test(`every TypeScript snippet of ${quickstart} does what the page says`, async (t) => {
  const gateway = await startPageGateway(t);
  const snippets = snippetsOf(quickstart, "ts");
  assert.ok(snippets.length >= 8, `${snippets.length} were found`);
  const files = compile(snippets, gateway);
  for (const [index, snippet] of snippets.entries()) {
    assertPrinted(snippet, await printedBy(files[index] ?? "", gateway));
  }
});

/** What each snippet of the client's README prints, in order. */
const README_PRINTS = [
  /^\S.*\nmi300x-a MI300X cheapest\n$/s,
  /^\S.* 16 used\n$/s,
  /^from mi300x-a\n\S.*\n$/s,
  /^\S*\nstopped\n$/,
  /^404 model_not_found .*the models are "llama3-70b"/,
  /^\[ 'llama3-70b' \]\n2\n$/,
  /^MI300X \d+(\.\d+)? true\n$/,
];

test(`every snippet of ${readme} does what the page says`, async (t) => {
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
  const snippets = snippetsOf(readme, "ts");
  assert.equal(snippets.length, README_PRINTS.length);
  const files = compile(snippets, gateway);
  for (const [index, pattern] of README_PRINTS.entries()) {
    assert.match(await printedBy(files[index] ?? "", gateway), pattern, snippets[index]?.place);
  }
});

test("the first TypeScript snippet works against the demo, at the addresses that it prints", async (t) => {
  const gateway = await startDemo(t);
  const [file = ""] = compile(snippetsOf(quickstart, "ts").slice(0, 1), gateway);
  assert.match(await printedBy(file, gateway), /^\S.*\n\S+ \S+ \w+\n$/);
});
