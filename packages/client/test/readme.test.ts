/** What README.md says beside its snippets, which scripts/snippets-typescript.test.ts runs. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const readme = readFileSync(join(import.meta.dirname, "..", "README.md"), "utf8");

test("the README names every error class and no other", async () => {
  const names = Object.keys(await import("../src/index.ts")).filter((name) => name.endsWith("Error"));
  const named = new Set([...readme.matchAll(/`(\w+Error)`/g)].map(([, name = ""]) => name));
  assert.deepEqual([...named].sort(), names.sort());
});
