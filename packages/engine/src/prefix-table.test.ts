import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { TICK_MS } from "./bounds.ts";
import {
  attachPrefixTable,
  CACHE_LOST_TOKENS,
  clockUnits,
  createPrefixTable,
  nextMark,
  noteHolder,
  PROMPT_MARKS_MAX,
  type PrefixTable,
  readHolders,
  tokensBetween,
} from "./prefix-table.ts";

interface Beginning {
  model: number;
  hash: number;
  nowTick: number;
}

const HOUR_TICKS = 3_600_000 / TICK_MS;

function holdersOf(table: PrefixTable, of: Beginning): Map<number, number> {
  const found = new Map<number, number>();
  readHolders(table, of, (row, clock) => found.set(row, clock));
  return found;
}

test("a beginning is known by the nodes that were sent it, of its own model only, and no other beginning is", () => {
  const table = createPrefixTable({ entries: 64, key: 7 });
  noteHolder(table, { model: 1, hash: 42, nowTick: 5 }, { row: 0, clock: 9 });
  noteHolder(table, { model: 1, hash: 42, nowTick: 6 }, { row: 3, clock: 11 });
  noteHolder(table, { model: 1, hash: 42, nowTick: 7 }, { row: 0, clock: 10 });
  assert.deepEqual([...holdersOf(table, { model: 1, hash: 42, nowTick: 8 })].sort(), [
    [0, 10],
    [3, 11],
  ]);
  assert.equal(holdersOf(table, { model: 2, hash: 42, nowTick: 8 }).size, 0);
  assert.equal(holdersOf(table, { model: 1, hash: 43, nowTick: 8 }).size, 0);
});

test("all threads see one table, and its words are none of the hashes", () => {
  const table = createPrefixTable({ entries: 16, key: 99 });
  noteHolder(attachPrefixTable(table.buffer), { model: 0, hash: 123_456, nowTick: 1 }, { row: 2, clock: 0 });
  assert.deepEqual([...holdersOf(table, { model: 0, hash: 123_456, nowTick: 1 }).keys()], [2]);
  assert.ok(!table.words.includes(123_456));
  const other = createPrefixTable({ entries: 16, key: 100 });
  noteHolder(other, { model: 0, hash: 123_456, nowTick: 1 }, { row: 2, clock: 0 });
  assert.notDeepEqual([...other.words.slice(16)], [...table.words.slice(16)], "keys tell tables apart");
});

test("of a beginning that stands on more nodes than are kept, the last one is always known", () => {
  const table = createPrefixTable({ entries: 4, key: 1 });
  for (let row = 0; row < 100; row++) {
    noteHolder(table, { model: 0, hash: 1, nowTick: row }, { row, clock: 0 });
    assert.ok(holdersOf(table, { model: 0, hash: 1, nowTick: row }).has(row), `row ${row}`);
  }
  assert.equal(holdersOf(table, { model: 0, hash: 1, nowTick: 100 }).size, 6);
});

test("its size is what was asked for, however much comes: who was used longest ago gives way", () => {
  const table = createPrefixTable({ entries: 100, key: 3 });
  assert.equal(table.entries, 128);
  const { byteLength } = table.buffer;
  for (let hash = 0; hash < 5_000; hash++) {
    // one of them is used all the time
    noteHolder(table, { model: 0, hash: -1, nowTick: hash }, { row: 1, clock: 0 });
    noteHolder(table, { model: 0, hash, nowTick: hash }, { row: 0, clock: 0 });
  }
  const known = Array.from({ length: 5_000 }, (_, hash) => holdersOf(table, { model: 0, hash, nowTick: 5_000 }).size);
  const kept = known.reduce((sum, size) => sum + size, 0);
  assert.ok(kept > 64 && kept < 128, `${kept} of the others`);
  assert.equal(known[4_999], 1, "the last one is there");
  assert.equal(holdersOf(table, { model: 0, hash: -1, nowTick: 5_000 }).size, 1, "and the one in use");
  assert.equal(table.buffer.byteLength, byteLength);
});

test("what nobody used for an hour is void, and its nodes do not come back with it", () => {
  const table = createPrefixTable({ entries: 16, key: 5 });
  noteHolder(table, { model: 0, hash: 8, nowTick: 100 }, { row: 4, clock: 1 });
  assert.equal(holdersOf(table, { model: 0, hash: 8, nowTick: 100 + HOUR_TICKS }).size, 1);
  assert.equal(holdersOf(table, { model: 0, hash: 8, nowTick: 101 + HOUR_TICKS }).size, 0);
  noteHolder(table, { model: 0, hash: 8, nowTick: 102 + HOUR_TICKS }, { row: 5, clock: 1 });
  assert.deepEqual([...holdersOf(table, { model: 0, hash: 8, nowTick: 102 + HOUR_TICKS }).keys()], [5]);
});

test("clocks tell tokens between them, over the end of the count too, and a lost cache is older than all", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
      fc.nat(8_000_000),
      fc.nat(14),
      (at, tokens, again) => {
        const since = tokensBetween(clockUnits(at), clockUnits((at + tokens) | 0));
        assert.ok(Math.abs(since - tokens) <= 2_048, `${since} of ${tokens}`);
        const lost = tokensBetween(clockUnits(at), clockUnits((at + (1 + again) * CACHE_LOST_TOKENS + tokens) | 0));
        assert.equal(lost, Number.POSITIVE_INFINITY);
      },
    ),
  );
});

test("marks are dense at first and a sixteenth apart later, and a prompt of four million bytes has few enough", () => {
  const marks: number[] = [];
  for (let block = 1; block <= 4_096; block = nextMark(block)) marks.push(block);
  assert.deepEqual(
    marks.slice(0, 18),
    Array.from({ length: 18 }, (_, index) => index + 1),
  );
  for (const [index, mark] of marks.entries()) {
    const next = marks[index + 1];
    if (next !== undefined && mark >= 16) assert.ok(next / mark <= 1.0626, `${mark} to ${next}`);
  }
  assert.ok(marks.length <= PROMPT_MARKS_MAX, `${marks.length} marks`);
});

test("rows and keys of any size do no harm", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(70_000), fc.integer(), fc.nat(20_000)), { maxLength: 200 }), (notes) => {
      const table = createPrefixTable({ entries: 8, key: -1 });
      for (const [row, hash, model] of notes) {
        noteHolder(table, { model, hash, nowTick: 1 }, { row, clock: 0xffff });
        for (const [known, clock] of holdersOf(table, { model, hash, nowTick: 1 })) {
          assert.ok(known >= 0 && known < 0xffff && clock <= 0xffff);
        }
      }
    }),
  );
});
