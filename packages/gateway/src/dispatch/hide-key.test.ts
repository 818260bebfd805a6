import assert from "node:assert/strict";
import { test } from "node:test";
import { hideKey } from "./hide-key.ts";

test("a key is unreadable wherever an error repeats it, and the length stays", () => {
  const text = Buffer.from("é sk-12345678 and sk-12345678");
  assert.equal(hideKey(text, "sk-12345678").toString(), "é *********** and ***********");
  assert.equal(hideKey(text, "sk-12345678").length, text.length);
});

test("a text without the key is passed on as it is, and so is one of a node without a key or with a short one", () => {
  const text = Buffer.from("no such model");
  for (const key of ["sk-12345678", null, "model"]) assert.equal(hideKey(text, key), text);
});
