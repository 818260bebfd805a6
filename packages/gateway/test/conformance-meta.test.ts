/** The vectors themselves: what must hold before any of them is played. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { readVectors, SCHEMA_PATH, schemaText, vectorFiles } from "./conformance-vectors.ts";

const vectors = vectorFiles().flatMap((file) => readVectors(file).map((vector) => ({ file, vector })));

test("vectors.schema.json is what the schema here says", () => {
  assert.equal(
    JSON.stringify(JSON.parse(readFileSync(SCHEMA_PATH, "utf8"))),
    JSON.stringify(JSON.parse(schemaText())),
    "run: node packages/gateway/test/conformance-vectors.ts",
  );
});

test("no two vectors have the same name", () => {
  const seen = new Map<string, string>();
  for (const { file, vector } of vectors) {
    assert.equal(seen.get(vector.name), undefined, `${file}: ${vector.name}`);
    seen.set(vector.name, file);
  }
});
