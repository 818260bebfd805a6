import assert from "node:assert/strict";
import { test } from "node:test";
import { FIELD_CASES } from "./field-cases.ts";
import { readme, readmeWithTable, testsOfCases } from "./field-map.ts";

test("the table of the field suite is what the titles of the tests say", () => {
  assert.equal(readme(), readmeWithTable(), "run: node packages/gateway/test/field/field-map.ts");
});

test("every id in a title is a case of the list", () => {
  const strangers = testsOfCases().filter(({ id }) => FIELD_CASES[id] === undefined);
  assert.deepEqual(strangers, []);
});

test("every case has a test, or says who owns it or what is missing", () => {
  const tested = new Set(testsOfCases().map(({ id }) => id));
  const silent = Object.entries(FIELD_CASES)
    .filter(([id, [, note]]) => !tested.has(id) && note?.owner === undefined && note?.open === undefined)
    .map(([id]) => id);
  assert.deepEqual(silent, []);
});

test("the list holds seventy cases", () => {
  assert.equal(Object.keys(FIELD_CASES).length, 70);
});
