/** Every snippet of the README, from the sources. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startPageGateway } from "../../scripts/page-gateway.ts";
import { assertPrinted, snippetsOf } from "../../scripts/page-snippets.ts";
import { runPython } from "../../scripts/python-snippets.ts";
import { SOURCE, setUp } from "./python-run.ts";

const { environment, scratch } = await setUp();

test("every snippet of the README does what it says", async (t) => {
  const gateway = await startPageGateway(t);
  const snippets = snippetsOf("python/README.md", "python");
  assert.ok(snippets.length >= 6, `${snippets.length} were found`);
  const place = { python: environment.python, openaiPath: SOURCE, path: SOURCE, folder: scratch };
  for (const snippet of snippets) assertPrinted(snippet, await runPython(snippet, gateway, place));
});
