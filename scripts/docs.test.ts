import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { readConfig } from "../packages/gateway/src/config/read-config.ts";
import { fakeNode } from "../packages/gateway/test/control-fixture.ts";
import { ERRORS, isErrorCode } from "../packages/protocol/src/errors.ts";
import { serve, startPageGateway } from "./page-gateway.ts";
import { assertPrinted, onlySnippet, snippetsOf } from "./page-snippets.ts";
import { GENERATED, GENERATED_FILES, withGenerated } from "./reference.ts";

const root = join(import.meta.dirname, "..");
const launcher = join(root, "packages", "gateway", "bin", "zml.mjs");
const pages = [
  "README.md",
  "ARCHITECTURE.md",
  "packages/gateway/README.md",
  "packages/client/README.md",
  "python/README.md",
  "conformance/README.md",
  ...globSync("docs/**/*.md", { cwd: root }),
];

const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** What a heading is called in links. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .trim()
    .replaceAll(" ", "-");
}

function anchors(path: string): Set<string> {
  return new Set([...read(path).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading ?? "")));
}

test("docs: every link inside the repository leads somewhere", () => {
  const broken: string[] = [];
  for (const page of pages) {
    for (const [, link = ""] of read(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? page : join(dirname(page), path);
      const isThere = existsSync(join(root, target));
      if (!isThere || (anchor !== undefined && !anchors(target).has(anchor))) broken.push(`${page}: ${link}`);
    }
  }
  assert.deepEqual(broken, []);
});

test("docs: every source file that is named exists", () => {
  const missing: string[] = [];
  const isThere = (path: string) => existsSync(join(root, path)) || existsSync(join(root, "packages", path));
  for (const page of pages) {
    const named = read(page).matchAll(
      /(?<![\w./-])((?:packages|engine|gateway|protocol|simulator|scripts|bench)\/[\w./-]*\w\.(?:ts|mjs|json))/g,
    );
    for (const [, path = ""] of named) {
      // a decision keeps the names of its day, and NAME.ts is a file that is to be written
      if (!isThere(path) && !path.includes("NAME")) missing.push(`${page}: ${path}`);
    }
  }
  assert.deepEqual(missing, []);
});

test("docs: every npm script that is named exists", () => {
  const scriptsOf = (folder: string) =>
    (JSON.parse(read(join(folder, "package.json"))) as { scripts: Record<string, string> }).scripts;
  const unknown: string[] = [];
  for (const page of pages) {
    const named = read(page).matchAll(/npm run (?:-s )?([a-z][\w:-]*)(?: -w @zml\/(\w+))?/g);
    for (const [, name = "", workspace] of named) {
      const scripts = scriptsOf(workspace === undefined ? "" : join("packages", workspace));
      if (!Object.hasOwn(scripts, name)) unknown.push(`${page}: ${name}`);
    }
  }
  assert.deepEqual(unknown, []);
});

test("docs: every configuration that is shown is one", () => {
  let count = 0;
  for (const page of pages) {
    for (const { code: text } of snippetsOf(page, "yaml")) {
      const names = [...text.matchAll(/_env: (\w+)/g)].map(([, name = ""]) => name);
      const env = Object.fromEntries(names.map((name) => [name, `value of ${name}`.replaceAll(" ", "-")]));
      const { errors } = readConfig(text, { fileName: page, env, cores: 2 });
      // certificates that a page names are the reader's
      const wrong = errors.filter(
        ({ path, message }) => !(path.endsWith("_file") && /^there is no such/.test(message)),
      );
      assert.deepEqual(wrong, [], page);
      count += 1;
    }
  }
  assert.ok(count >= 3, `${count} configurations were found`);
});

test("docs: every decision is listed in ARCHITECTURE.md under its own title", () => {
  const listed = read("ARCHITECTURE.md");
  const missing: string[] = [];
  for (const page of globSync("docs/decisions/*.md", { cwd: root })) {
    const [, number = "", title = ""] = /^# (\d{4}): (.+)$/m.exec(read(page)) ?? [];
    const line = `- [${number}](${page}): ${title}`;
    if (!page.includes("0000-") && !listed.includes(`${line}\n`)) missing.push(line);
  }
  assert.deepEqual(missing, []);
});

for (const { page, make } of GENERATED) {
  test(`docs: what is generated in ${page} is fresh`, () => {
    const fresh = withGenerated(read(page), make());
    assert.ok(read(page) === fresh, "it is not: run npx node scripts/write-reference.ts");
  });
}

for (const { file, make } of GENERATED_FILES) {
  test(`docs: ${file} is fresh`, () => {
    assert.ok(read(file) === make(), "it is not: run npx node scripts/write-reference.ts");
  });
}

test("docs: every status of an error code is that of the table", () => {
  for (const page of pages) {
    for (const [text, status, code = ""] of read(page).matchAll(/(?<!\d)(\d{3}) `([a-z_]+)`/g)) {
      assert.ok(isErrorCode(code), `${page}: ${text}: there is no such code`);
      assert.equal(Number(status), ERRORS[code].status, `${page}: ${text}`);
    }
  }
});

test("docs: the life of a request names every error code", () => {
  const page = read("docs/life-of-a-request.md");
  const missing = Object.keys(ERRORS).filter((code) => !page.includes(`\`${code}\``));
  assert.deepEqual(missing, []);
});

test("docs: every goal has a row among the benchmarks, with its bound", () => {
  const page = read("docs/benchmarks.md");
  const goals = JSON.parse(read("bench/goals.json")) as Record<string, string>;
  const missing = Object.entries(goals).filter(([name, goal]) => !page.includes(`| \`${name}\` | ${goal} |`));
  assert.deepEqual(missing, []);
});

test("docs: every promise of the walkthrough names a test that exists", () => {
  const wrong: string[] = [];
  let named = 0;
  const promises = read("docs/walkthrough.md");
  for (const line of promises.split("\n")) {
    if (!line.startsWith("| ") || line.startsWith("| promise")) continue;
    const cells = line.split(/(?<!\\)\|/);
    const last = cells.at(-2) ?? "";
    const [, file = "", title = ""] = /`([^`]+\.test\.\w+)`: "(.+)"/.exec(last) ?? [];
    if (file === "") {
      if (!last.includes("benchmark `")) wrong.push(`no test: ${line}`);
      continue;
    }
    named += 1;
    const source = existsSync(join(root, file)) ? read(file) : "";
    // as the title of a test, or as the claim of a row that becomes one
    const isThere = [`"${title}"`, `\`${title}\``].some((literal) => source.includes(literal));
    if (!isThere) wrong.push(`${file} has no test "${title}"`);
  }
  assert.deepEqual(wrong, []);
  assert.ok(named >= 40, `${named} tests are named`);
});

test("docs: the README's file is checked, served, called and explained as the README says", async (t) => {
  const fakes = [await fakeNode(t, { model: "llama-3-8b" }), await fakeNode(t, { model: "llama-3-8b" })];
  const folder = mkdtempSync(join(tmpdir(), "zml-docs-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const shown = onlySnippet("README.md", "yaml", "nodes:").code;
  writeFileSync(join(folder, "zml.yaml"), shown);
  const [check = "", serveLine = ""] = onlySnippet("README.md", "sh", "zml serve").code.trim().split("\n");
  const checked = zml(check, folder);
  assert.equal(checked.status, 0, checked.stderr);
  assert.match(checked.stdout, /^zml\.yaml: ok, 2 nodes, 1 policy, 1 model, 0 warnings\n$/);

  let next = 0;
  const local = shown.replaceAll(/http:\/\/10\.[\d.]+:\d+/g, () => fakes[next++]?.url ?? "");
  assert.equal(next, fakes.length);
  writeFileSync(
    join(folder, "zml.yaml"),
    `data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\nworkers: 1\n${local}`,
  );
  const { dataUrl, adminUrl } = await serve(t, serveLine, folder);
  const admin = adminUrl.replace("http://", "");

  const curl = onlySnippet("README.md", "sh", "curl -si").code.replaceAll("http://127.0.0.1:8080", dataUrl);
  const called = await answerOf(curl, dataUrl);
  assert.equal(called.status, 200);
  const [, id = ""] = /decision="([^"]+)"/.exec(called.routing) ?? [];
  assert.match(called.routing, /policy="chat", family="(MI300X|H100)"/);
  const told = zml(
    `${onlySnippet("README.md", "sh", "zml explain").code.trim().replace("DECISION", id)} --admin ${admin}`,
    folder,
  );
  assert.equal(told.status, 0, told.stderr);
  assert.match(told.stdout, /policy {4}chat, the model's: cost, target 8/);

  const snippet = onlySnippet("README.md", "js", "openai").code.replaceAll("http://127.0.0.1:8080", dataUrl);
  const script = spawn(process.execPath, ["--input-type=module", "-e", snippet], { cwd: root });
  let [output, trouble] = ["", ""];
  script.stdout.on("data", (text) => {
    output += String(text);
  });
  script.stderr.on("data", (text) => {
    trouble += String(text);
  });
  assert.deepEqual(await once(script, "close"), [0, null], trouble);
  assert.match(output, /policy="chat"/);
});

test("docs: the quickstart's curl line prints what the page shows", async (t) => {
  if (spawnSync("curl", ["--version"]).status !== 0) return t.skip("there is no curl here");
  const { dataUrl } = await startPageGateway(t);
  const shown = onlySnippet("docs/quickstart.md", "sh", "curl -si");
  const curl = spawn("sh", ["-ec", shown.code.replaceAll("http://127.0.0.1:8080", dataUrl)]);
  let output = "";
  curl.stdout.on("data", (text) => {
    output += String(text);
  });
  assert.deepEqual(await once(curl, "close"), [0, null]);
  assertPrinted(shown, output);
});

/** Runs a line `npx zml …` of a page. */
function zml(line: string, cwd: string) {
  const [npx, name, ...args] = line.trim().split(" ");
  assert.deepEqual([npx, name], ["npx", "zml"], line);
  return spawnSync(process.execPath, [launcher, ...args], { cwd, encoding: "utf8" });
}

/** Sends what a curl line says, without curl: not every system has it. */
async function answerOf(line: string, dataUrl: string): Promise<{ status: number; routing: string }> {
  const [, url = "", body = ""] = /^curl -si (\S+) -H 'content-type: application\/json' -d '(.+)'\n$/.exec(line) ?? [];
  assert.ok(url.startsWith(`${dataUrl}/`), line);
  const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  await response.text();
  return { status: response.status, routing: response.headers.get("x-zml-routing") ?? "" };
}

test("docs: no page is empty or speaks of a machine's own paths", () => {
  for (const page of pages) {
    assert.ok(statSync(join(root, page)).size > 200, page);
    assert.doesNotMatch(read(page), /\/(?:work|home|root|Users)\//, page);
  }
});
