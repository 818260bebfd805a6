import assert from "node:assert/strict";
import { test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { type Column, tableLines } from "./table.ts";
import { wrapped } from "./table-text.ts";

interface Row {
  name: string;
  count: string;
  note: string;
}

const COLUMNS: readonly Column<Row>[] = [
  { title: "NAME", rank: 0, least: 6, cell: ({ name }) => name, colour: () => "red" },
  { title: "COUNT", rank: 1, isRight: true, cell: ({ count }) => count },
  { title: "NOTE", rank: 2, least: 5, cell: ({ note }) => note },
];

const row = (name: string, count = "1", note = "a long note"): Row => ({ name, count, note });
const lines = (rows: readonly Row[], width = Number.POSITIVE_INFINITY, isColoured = false) =>
  tableLines(COLUMNS, rows, { width, isColoured });

test("line breaks and terminal escapes in a cell stay in their line and move nothing", () => {
  const { lines: drawn } = lines([row("a\nb", "1", "\u001b[2J\u001b]0;title\u0007x\u009by\u202ez")]);
  assert.equal(drawn.length, 2);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  assert.doesNotMatch(drawn.join(""), /[\u0000-\u001f\u007f-\u009f\u202e]/);
  assert.match(drawn[1] ?? "", /^a b/);
});

test("columns are as wide as their widest cell, and numbers stand right", () => {
  assert.deepEqual(lines([row("a", "7"), row("bbbbbb", "12345678", "x")]).lines, [
    "NAME       COUNT  NOTE",
    "a              7  a long note",
    "bbbbbb  12345678  x",
  ]);
});

test("on a narrow window the least important column is cut, then left out, and the most important one is cut last", () => {
  const rows = [row("a-long-name")];
  assert.deepEqual(lines(rows, 26), { lines: ["NAME         COUNT  NOTE", "a-long-name      1  a lon…"], left: [] });
  assert.deepEqual(lines(rows, 20), { lines: ["NAME         COUNT", "a-long-name      1"], left: ["note"] });
  assert.deepEqual(lines(rows, 8), { lines: ["NAME", "a-long-…"], left: ["count", "note"] });
  assert.deepEqual(lines(rows, 1).lines, ["NAME", "a-lon…"], "narrower than it can be");
});

test("wide characters count as the two columns that they take", () => {
  const { lines: drawn } = lines([row("模型"), row("abcd")]);
  assert.equal(drawn[1]?.indexOf("1"), 2 + 2 + 4, "two wide ones are as four");
  assert.equal(drawn[2]?.indexOf("1"), 4 + 2 + 4);
  assert.deepEqual(lines([row("模型模型模型")], 6).lines[1], "模型…", "and are cut as such");
});

test("colours are in no width", () => {
  const [plain, coloured] = [lines([row("a")]), lines([row("a")], Number.POSITIVE_INFINITY, true)];
  assert.ok(coloured.lines[1]?.startsWith("\u001b[31ma   \u001b[0m"), JSON.stringify(coloured.lines[1]));
  const bare = coloured.lines.map((line) => stripVTControlCharacters(line).trimEnd());
  assert.deepEqual(bare, plain.lines);
});

test("ten thousand rows are drawn within a second", () => {
  const startedAtMs = performance.now();
  assert.equal(
    lines(
      Array.from({ length: 10_000 }, (_, index) => row(`node-${index}`)),
      80,
    ).lines.length,
    10_001,
  );
  assert.ok(performance.now() - startedAtMs < 1000, `${performance.now() - startedAtMs} ms`);
});

test("text is broken at spaces only, and what goes on is set in", () => {
  assert.deepEqual(wrapped("one two three", 8), ["one two", "  three"]);
  assert.deepEqual(wrapped("a-word-too-long x", 5), ["a-word-too-long", "  x"]);
  assert.deepEqual(wrapped("one two", Number.POSITIVE_INFINITY), ["one two"]);
});
