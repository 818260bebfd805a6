import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { parseJson } from "./json.ts";

describe("JSON of a node", () => {
  it("is read as it is, in any shape that a node has", () => {
    fc.assert(fc.property(fc.json({ maxDepth: 12 }), (text) => assert.deepEqual(parseJson(text), JSON.parse(text))));
    const list = {
      data: Array.from({ length: 1024 }, (_, at) => ({ id: `org/model-${at}`, note: '[{"\\'.repeat(20) })),
    };
    assert.deepEqual(parseJson(JSON.stringify(list)), list);
  });

  it("is nothing when it is none", () => {
    for (const text of ["", "{", "nul", "[1,]", "\u0000"]) assert.equal(parseJson(text), undefined);
  });

  it("is nothing when it is deeper or longer than what a node has to say", () => {
    const nested = (depth: number, filler: string) => `${"[".repeat(depth)}"${filler}"${"]".repeat(depth)}`;
    const filler = "x".repeat(10_000);
    assert.notEqual(parseJson(nested(64, filler)), undefined);
    assert.equal(parseJson(nested(65, filler)), undefined);
    assert.equal(parseJson("[".repeat(2 ** 19)), undefined);
    assert.notEqual(parseJson(`"${"x".repeat(2 ** 19 - 2)}"`), undefined);
    assert.equal(parseJson(`"${"x".repeat(2 ** 19 - 1)}"`), undefined);
  });
});
