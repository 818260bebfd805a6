import assert from "node:assert/strict";
import { test } from "node:test";
import { FIELD_CASES } from "./field-cases.ts";
import { cellOf, rowsOfReadme, testsOfCases } from "./field-map.ts";

const UPDATE = "run: node packages/gateway/test/field/field-map.ts";

test("the table has each case once, with its claim, and names tests that exist", () => {
  const rows = rowsOfReadme();
  const claims = Object.entries(FIELD_CASES).map(([id, [claim]]) => [id, claim]);
  assert.deepEqual(
    rows.map(({ id, claim }) => [id, claim]),
    claims,
    UPDATE,
  );
  const known = new Set(testsOfCases().map(({ id, file, title }) => `${id} ${cellOf(file, title)}`));
  const lost = rows.flatMap(({ id, tests }) => tests.map((test) => `${id} ${test}`).filter((test) => !known.has(test)));
  assert.deepEqual(lost, [], UPDATE);
});

test("a row that says tested names a test, and a row that names none says why", () => {
  for (const { id, tests, state } of rowsOfReadme()) {
    assert.equal(state.startsWith("tested"), tests.length > 0, `${id}: ${state}. ${UPDATE}`);
    if (tests.length === 0) assert.match(state, /owned by|open: /, id);
  }
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
