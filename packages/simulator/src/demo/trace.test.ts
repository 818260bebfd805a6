import assert from "node:assert/strict";
import { test } from "node:test";
import { parseTrace, readTraceExcerpt } from "./trace.ts";

const header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

test("rows are read with times from the first one, fractions of a second included", () => {
  const text = `${header}2023-11-16 18:59:59.9000000,374,44\n2023-11-16 19:00:01.0500000,396,109\n`;
  const [first, second, ...others] = parseTrace(text);
  assert.deepEqual(first, { atMs: 0, promptTokens: 374, outputTokens: 44 });
  assert.ok(Math.abs((second?.atMs ?? 0) - 1150) < 0.01);
  assert.deepEqual(others, []);
});

test("lines that end as on Windows are read the same", () => {
  const text = `${header}2023-11-16 18:59:59,1,2\n`;
  assert.deepEqual(parseTrace(text.replaceAll("\n", "\r\n")), parseTrace(text));
});

test("what is no trace is refused with its line", () => {
  const cases: [string, RegExp][] = [
    ["a,b\n", /line 1 of the trace: expected TIMESTAMP/],
    [`${header}2023-11-16 18:59:59,1\n`, /line 2 of the trace: no row/],
    [`${header}2023-99-16 18:59:59,1,2\n`, /line 2 of the trace: no row/],
    [`${header}2023-11-16 18:59:59,1,2\n2023-11-16 18:59:58,1,2\n`, /line 3 of the trace: earlier/],
  ];
  for (const [text, expected] of cases) assert.throws(() => parseTrace(text), expected);
});

test("the excerpt in the repository is 600 calls in 86 seconds, small enough for the fake nodes' context", () => {
  const rows = readTraceExcerpt();
  assert.equal(rows.length, 600);
  assert.equal(Math.round((rows.at(-1)?.atMs ?? 0) / 1000), 86);
  assert.ok(Math.max(...rows.map((row) => row.promptTokens + row.outputTokens)) < 16_384);
});
