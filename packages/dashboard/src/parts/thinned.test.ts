import assert from "node:assert/strict";
import { test } from "node:test";
import { thinned } from "./thinned.ts";

test("a month of prices becomes what a screen can show, and no spike is lost", () => {
  const atMs = Array.from({ length: 43_200 }, (_, minute) => minute * 60_000);
  const values = atMs.map((_, minute) => (minute === 12_345 ? 9 : minute === 30_001 ? 0.1 : 2));
  const gaps = atMs.map((_, minute) => (minute % 2 === 0 ? null : 1));
  const shown = thinned(atMs, [{ values }, { values: gaps }], 1_500);
  assert.ok(shown.atMs.length <= 1_500, `${shown.atMs.length} points`);
  assert.deepEqual([shown.atMs[0], shown.atMs.at(-1)], [0, atMs.at(-1)]);
  assert.ok(shown.columns[0]?.includes(9) && shown.columns[0].includes(0.1));
  assert.deepEqual(
    shown.atMs.toSorted((a, b) => a - b),
    shown.atMs,
  );
  for (const column of shown.columns) assert.equal(column.length, shown.atMs.length);
});

test("what fits stays as it is", () => {
  const atMs = [1, 2, 3];
  const values = [null, 1, 2];
  assert.deepEqual(thinned(atMs, [{ values }], 3), { atMs, columns: [values] });
  assert.deepEqual(thinned([], [{ values: [] }], 3), { atMs: [], columns: [[]] });
});
