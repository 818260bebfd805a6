import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import { type InstalledGateway, installGateway, runIn } from "../../../scripts/install-package.ts";

const gateway = join(import.meta.dirname, "..");
const root = join(gateway, "..", "..");
/** A gateway that has not said that it is ready by then never will be, ms. */
const READY_DEADLINE_MS = 20_000;

let project = "";
let installed: InstalledGateway;

before(() => {
  project = mkdtempSync(join(tmpdir(), "zml-pack-"));
  installed = installGateway(project);
});
after(() => rmSync(project, { recursive: true, force: true }));

/** What `npx zml` does in the project. */
function zml(...args: readonly string[]): string {
  return runIn(project, "npx", ["--no-install", "zml", ...args]);
}

function write(name: string, text: string): void {
  writeFileSync(join(project, name), text);
}

/** A node that reports no load and answers every chat request with `hello`. */
async function startNode(t: TestContext): Promise<{ url: string; posts: string[] }> {
  const posts: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    if (request.method === "POST") posts.push(body);
    response.setHeader("content-type", "application/json");
    const message = { role: "assistant", content: "hello" };
    response.end(
      JSON.stringify({ object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop" }] }),
    );
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, posts };
}

/** Starts the installed command as a supervisor would, without npx in between, and waits for its line. */
async function serve(t: TestContext, config: string): Promise<{ child: ChildProcess; data: string; admin: string }> {
  write("zml.yaml", config);
  const child = spawn(process.execPath, [join(project, "node_modules", ".bin", "zml"), "serve", "-c", "zml.yaml"], {
    cwd: project,
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const signal = AbortSignal.timeout(READY_DEADLINE_MS);
  const ended = once(child, "exit", { signal }).then(() => [""]);
  const [line] = (await Promise.race([once(child.stdout.setEncoding("utf8"), "data", { signal }), ended])) as [string];
  const [, data = "", admin = ""] = /^zml ready data=(\S+) admin=(\S+)\n$/.exec(line) ?? [];
  assert.notEqual(data, "", `${line}${stderr}`);
  return { child, data, admin };
}

test("the installed command says the version of the package", () => {
  assert.equal(zml("--version").trim(), installed.manifest.version);
});

test("the installed command simulates, with the data that it brings", () => {
  write("scenario.yaml", "workload: { rps: 5, duration_s: 5 }\npolicies: [zml-cost]\n");
  assert.match(zml("simulate", "-f", "scenario.yaml"), /^11 nodes .*\n.*\n\n.*\nzml-cost +\d/);
});

test("the installed command checks a good file and a bad one", () => {
  write("good.yaml", "nodes:\n  - { id: a, url: http://a, family: H100, models: [m] }\n");
  assert.match(zml("check-config", "-c", "good.yaml"), /good\.yaml: ok, 1 node, 0 policies, 0 models, 0 warnings\n$/);
  write("bad.yaml", "nodes:\n  - { id: a, url: ftp://a, family: H100 }\npolcies: []\n");
  const bad = spawnSync(process.execPath, [installed.launcher, "check-config", "-c", "bad.yaml"], {
    cwd: project,
    encoding: "utf8",
  });
  assert.equal(bad.status, 1);
  assert.equal(bad.stdout, "");
  assert.match(bad.stderr, /bad\.yaml:2:\d+ nodes\[0\]\.url: /);
  assert.match(bad.stderr, /bad\.yaml:3:\d+ polcies: .*policies/);
});

test("the installed gateway answers, explains its decision, and ends with 0 on SIGTERM", async (t) => {
  const node = await startNode(t);
  const { child, data, admin } = await serve(
    t,
    `data: { listen: 127.0.0.1:0 }
admin: { listen: 127.0.0.1:0 }
workers: 2
nodes:
  - { id: mi300x-a, url: "${node.url}", family: MI300X, engine: custom, models: [m], cost: { usd_per_gpu_hour: 1.99 } }
policies:
  - { name: cheap, accelerator_preference: [{ family: MI300X, priority: 1 }], cost_priority: cost }
models:
  - { name: m, policy: cheap }
`,
  );
  const body = '{"model":"m", "messages":[{"role":"user","content":"hi"}]}';
  const response = await fetch(`http://${data}/v1/chat/completions`, { method: "POST", body });
  assert.equal(response.status, 200);
  const answer = (await response.json()) as { choices: { message: { content: string } }[] };
  assert.equal(answer.choices[0]?.message.content, "hello");
  assert.deepEqual(node.posts, [body], "the payload arrives untouched");
  const routing = response.headers.get("x-zml-routing") ?? "";
  assert.match(routing, /node="mi300x-a"/);
  assert.match(routing, /policy="cheap"/);
  const [, id = ""] = /decision="([^"]+)"/.exec(routing) ?? [];
  const told = zml("explain", id, "--admin", admin);
  assert.match(told, new RegExp(`^decision {2}${id} at `));
  assert.match(told, /result {4}mi300x-a \(MI300X\)/);
  for (const page of ["/", "/assets/app.js", "/assets/app.css"]) {
    assert.equal((await fetch(`http://${admin}${page}`)).status, 200, page);
  }
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

/** What `zml simulate` reads, with where it comes from and its licences. */
const DATA = ["data/README.md", "data/azure2023-conv.csv", "data/node-params.csv"];
/** The dashboard. */
const PAGES = ["pages/assets/app.css", "pages/assets/app.js", "pages/index.html"];

test("the tarball holds the built command, its data and pages, its licence and a README, and nothing else", () => {
  const built = readdirSync(join(installed.folder, "dist")).map((name) => `dist/${name}`);
  assert.deepEqual(
    [...installed.files].sort(),
    ["LICENSE", "README.md", "bin/zml.mjs", "package.json", ...DATA, ...PAGES, ...built].sort(),
  );
  assert.ok(built.includes("dist/main.js") && built.includes("dist/worker.js"), built.join());
  // Node strips no types below node_modules
  for (const name of built) assert.match(name, /\.js$/);
  assert.equal(readFileSync(join(installed.folder, "LICENSE"), "utf8"), readFileSync(join(root, "LICENSE"), "utf8"));
});

test("the package depends on exactly what its code loads", () => {
  const { dependencies = {}, optionalDependencies = {} } = installed.manifest;
  const loaded = new Set(readdirSync(join(installed.folder, "dist")).flatMap(loadedBy).map(packageName));
  const needed = [...loaded].filter((name) => !Object.hasOwn(optionalDependencies, name));
  assert.deepEqual(needed.sort(), Object.keys(dependencies).sort());
});

test("a package that may be missing is loaded on use only", () => {
  const optional = Object.keys(installed.manifest.optionalDependencies ?? {});
  const files = readdirSync(join(installed.folder, "dist"));
  assert.ok(files.flatMap(loadedBy).some((name) => optional.includes(name)));
  for (const file of files) {
    const atStart = [...sourceOf(file).matchAll(/(?:\bfrom|^import)\s*"([^".\n][^"\n]*)"/gm)].map(
      ([, name = ""]) => name,
    );
    assert.deepEqual(
      atStart.filter((name) => optional.includes(packageName(name))),
      [],
      file,
    );
  }
});

test("a worker loads no package at all", () => {
  const seen = new Set<string>();
  const packages = new Set<string>();
  const follow = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const chunk of chunksOf(file)) follow(chunk);
    for (const specifier of loadedBy(file)) packages.add(packageName(specifier));
  };
  follow("worker.js");
  // everything else would stand in memory once per worker
  assert.deepEqual([...packages], []);
});

function sourceOf(file: string): string {
  return readFileSync(join(installed.folder, "dist", file), "utf8");
}

/** Packages that a built file imports or requires, with their paths. */
function loadedBy(file: string): string[] {
  const pattern = /(?:\bfrom|\bimport|\bimport\(|\bload\(|\brequire\()\s*"([^".\n][^"\n]*)"/g;
  return [...sourceOf(file).matchAll(pattern)]
    .map(([, specifier = ""]) => specifier)
    .filter((specifier) => !specifier.startsWith("node:"));
}

/** Built files that a built file imports as it starts. */
function chunksOf(file: string): string[] {
  return [...sourceOf(file).matchAll(/(?:\bfrom|^import)\s*"\.\/([^"]+)"/gm)].map(([, chunk = ""]) => chunk);
}

function packageName(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}
