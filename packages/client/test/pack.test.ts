/** The package as its users get it: installed from the tarball, compiled against, bundled and run. */
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { createContext, runInContext } from "node:vm";
import { rolldown } from "rolldown";
import { type InstalledPackage, installClient } from "../../../scripts/install-package.ts";
import { startFakeGateway, USED } from "./fake-gateway.ts";

const client = join(import.meta.dirname, "..");
const modules = join(client, "..", "..", "node_modules");
const run = promisify(execFile);

let project = "";
let installed: InstalledPackage;

before(() => {
  project = realpathSync(mkdtempSync(join(tmpdir(), "zml-client-")));
  installed = installClient(project);
  copyFileSync(join(client, "test", "consumer.ts"), join(project, "consumer.mts"));
  write("main.mts", 'import { use } from "./consumer.mjs";\nconsole.log(await use(process.argv[2] ?? ""));\n');
});
after(() => rmSync(project, { recursive: true, force: true }));

function write(name: string, text: string): void {
  writeFileSync(join(project, name), text);
}

/** Compiles the consumer; what tsc says is the error. */
function compile(
  name: string,
  options: Readonly<Record<string, unknown>>,
  files: readonly string[] = ["consumer.mts"],
): void {
  const compilerOptions = { strict: true, skipLibCheck: false, types: [], target: "es2022", ...options };
  write(`${name}.json`, JSON.stringify({ compilerOptions, files }));
  const tsc = spawnSync(join(modules, ".bin", "tsc"), ["-p", `${name}.json`], { cwd: project, encoding: "utf8" });
  assert.equal(tsc.stdout, "", `${name}: ${tsc.stdout}`);
  assert.equal(tsc.status, 0, tsc.stderr);
}

const node = { types: ["node"], typeRoots: [join(modules, "@types")] };
const strictest = {
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  noImplicitOverride: true,
};

test("a strict project compiles against it with the resolution of bundlers, for browsers", () => {
  const browser = { module: "esnext", moduleResolution: "bundler", lib: ["es2022", "dom"], noEmit: true };
  compile("bundler", browser);
  compile("bundler-strictest", { ...browser, ...strictest });
});

test("a strict project compiles against it with Node's resolution, without the types of browsers", () => {
  const nodenext = { module: "nodenext", moduleResolution: "nodenext", lib: ["es2022"], noEmit: true, ...node };
  compile("nodenext", nodenext);
  compile("nodenext-strictest", { ...nodenext, ...strictest });
});

test("a CommonJS project compiles against it and may load it", async (t) => {
  write("common.cts", 'import { ZML } from "@zml/client";\nexport const client: ZML = new ZML();\n');
  const options = { module: "nodenext", moduleResolution: "nodenext", lib: ["es2022"], noEmit: true, ...node };
  compile("common", options, ["common.cts"]);
  write("load.cjs", 'import("@zml/client").then(({ VERSION }) => console.log(VERSION));\n');
  for (const { path } of await nodes(t)) {
    assert.equal((await run(path, ["load.cjs"], { cwd: project })).stdout.trim(), installed.manifest.version);
  }
});

test("the compiled project runs on every Node here, from 20 on", async (t) => {
  const gateway = await startFakeGateway();
  t.after(() => gateway.stop());
  const options = { module: "nodenext", moduleResolution: "nodenext", lib: ["es2022"], ...node };
  compile("emit", { ...options, outDir: project }, ["main.mts", "consumer.mts"]);
  for (const { path, version } of await nodes(t)) {
    const { stdout, stderr } = await run(path, ["main.mjs", gateway.url], { cwd: project, timeout: 30_000 });
    assert.equal(stdout.trim(), USED, version);
    assert.equal(stderr, "", version);
    const agent = gateway.calls.at(-1)?.headers["user-agent"];
    assert.equal(agent, `zml-js/${installed.manifest.version}`, version);
  }
});

test("the tarball holds one file of code, its declarations, its licence and a README, and nothing else", () => {
  const others = installed.files.filter((file) => !file.endsWith(".d.ts"));
  assert.deepEqual([...others].sort(), ["LICENSE", "README.md", "index.js", "package.json"]);
  assert.ok(installed.files.includes("index.d.ts"));
  const { manifest } = installed;
  assert.equal(manifest.name, "@zml/client");
  assert.equal(manifest.license, "Apache-2.0");
  assert.deepEqual([manifest.dependencies, manifest.devDependencies], [undefined, undefined]);
  assert.equal("private" in manifest, false, "npm publishes it");
  assert.match(readFileSync(join(installed.folder, "index.js"), "utf8"), new RegExp(`"${manifest.version}"`));
});

test("neither code nor declarations name what an installation doesn't have", () => {
  for (const file of readdirSync(installed.folder, { recursive: true, encoding: "utf8" })) {
    if (!/\.(js|ts)$/.test(file)) continue;
    const text = readFileSync(join(installed.folder, file), "utf8");
    const specifiers = [...text.matchAll(/(?:\bfrom|\bimport\(?|\brequire\()\s*"([^"]+)"/g)].map(
      ([, name = ""]) => name,
    );
    for (const name of specifiers) assert.match(name, /^\.{1,2}\//, `${file} names ${name}`);
    if (file.endsWith(".js")) assert.deepEqual(specifiers, []);
    assert.doesNotMatch(text, /["']node:|\bBuffer\b|\.ts"/, file);
  }
});

test("what is not used is shaken off", async () => {
  const nothing = await bundle('import "@zml/client";', "esm");
  assert.equal(nothing.trim(), "");
  const one = await bundle('import { VERSION } from "@zml/client"; console.log(VERSION);', "esm");
  assert.doesNotMatch(one, /\bZML = class|AbortController|TextDecoder/);
  const error = await bundle('import { TLSError } from "@zml/client"; console.log(TLSError);', "esm");
  assert.match(error, /\bTLSError = class/);
  assert.doesNotMatch(error, /\bZML = class|SseParser|RateLimitError = class/);
});

test("it runs where there are only the globals of the web, and leaves the user agent to the browser", async (t) => {
  const gateway = await startFakeGateway();
  t.after(() => gateway.stop());
  const code = await bundle('import { use } from "./consumer.mts"; globalThis.result = use(globalThis.url);', "iife");
  const { fetch, Headers, ReadableStream, TextDecoder, TextEncoder, AbortController, AbortSignal, URL } = globalThis;
  const web = { fetch, Headers, ReadableStream, TextDecoder, TextEncoder, AbortController, AbortSignal, URL };
  const context = createContext({
    ...web,
    ...{ setTimeout, clearTimeout, queueMicrotask, performance },
    navigator: { userAgent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0" },
    url: gateway.url,
  });
  runInContext(code, context);
  assert.equal(await (context["result"] as Promise<string>), USED);
  for (const call of gateway.calls) assert.doesNotMatch(call.headers["user-agent"] ?? "", /zml/);
});

/** What a bundler makes of a module of the project. */
async function bundle(source: string, format: "esm" | "iife"): Promise<string> {
  write("entry.mjs", source);
  const build = await rolldown({ input: join(project, "entry.mjs"), platform: "browser", cwd: project });
  try {
    const { output } = await build.generate({ format });
    return output.map((chunk) => (chunk.type === "chunk" ? chunk.code.replace(/^\/\/.*$/gm, "") : "")).join("");
  } finally {
    await build.close();
  }
}

/** This Node, and each other one of version 20 or newer in the path. */
async function nodes(t: TestContext): Promise<{ path: string; version: string }[]> {
  const candidates = (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, "node"));
  const found = new Map([[process.version, process.execPath]]);
  for (const path of candidates) {
    const { stdout } = spawnSync(path, ["--version"], { encoding: "utf8" });
    const version = stdout?.trim() ?? "";
    if (Number(/^v(\d+)\./.exec(version)?.[1]) >= 20 && !found.has(version)) found.set(version, path);
  }
  t.diagnostic(`Node ${[...found.keys()].join(", ")}`);
  return [...found].map(([version, path]) => ({ path, version }));
}
