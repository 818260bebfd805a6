// Every Python snippet of the quickstart, with the wheel in a virtual environment that a newcomer made.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { main, setUp, succeed } from "../python/test/python-run.ts";
import { type PageGateway, startDemo, startPageGateway } from "./page-gateway.ts";
import { assertPrinted, onlySnippet, type Snippet, snippetsOf } from "./page-snippets.ts";
import { runPython } from "./python-snippets.ts";

const setting = await setUp();
const quickstart = "docs/quickstart.md";
let folder = "";
let openaiPath = "";

before(async () => {
  const { python, wheels } = setting.environment;
  folder = mkdtempSync(join(setting.scratch, "newcomer-"));
  await succeed(python, ["-m", "hatchling", "build", "-t", "wheel", "-d", folder]);
  const wheel = readdirSync(folder).find((file) => file.endsWith(".whl"));
  assert.ok(wheel !== undefined, "hatchling built it");
  // the lines of the page, but that what pip would build and download is there already
  const lines = onlySnippet(quickstart, "sh", "-m venv").code;
  const local = lines.replace("python3", main.path).replace("./python", `./${wheel}`);
  const offline = { PIP_NO_INDEX: "1", PIP_FIND_LINKS: wheels, PIP_DISABLE_PIP_VERSION_CHECK: "1" };
  await succeed("sh", ["-ec", local], offline, folder);
});

async function run(snippet: Snippet, gateway: PageGateway): Promise<string> {
  // where the tests' own environment has the openai client
  const print = "import openai, pathlib; print(pathlib.Path(openai.__file__).parent.parent)";
  openaiPath ||= (await succeed(setting.environment.python, ["-c", print])).trim();
  return runPython(snippet, gateway, { python: join(folder, ".venv", "bin", "python"), openaiPath, folder });
}

test("every Python snippet of the quickstart does what the page says", async (t) => {
  const gateway = await startPageGateway(t);
  const snippets = snippetsOf(quickstart, "python");
  assert.ok(snippets.length >= 8, `${snippets.length} were found`);
  for (const snippet of snippets) assertPrinted(snippet, await run(snippet, gateway));
});

test("the first Python snippet works against the demo, at the addresses that it prints", async (t) => {
  const gateway = await startDemo(t);
  const [first] = snippetsOf(quickstart, "python");
  assert.ok(first !== undefined);
  assert.match(await run(first, gateway), /^\S.*\n\S+ \S+ \w+\n$/);
});
