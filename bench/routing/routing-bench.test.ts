import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { cellsOf, sustainedRps } from "./cells.ts";
import { figuresOf } from "./figures.ts";
import { casesOf } from "./grid.ts";
import { meanInterval } from "./intervals.ts";
import { ResultStore } from "./result-store.ts";
import { runCases } from "./run-cases.ts";

const folder = mkdtempSync(join(tmpdir(), "zml-bench-routing-"));
after(() => rmSync(folder, { recursive: true }));

it("an interval holds its mean, is one point for one value, and narrows with more of them", () => {
  assert.deepEqual(meanInterval([3]), { mean: 3, low: 3, high: 3 });
  const few = meanInterval([1, 2, 3]);
  const many = meanInterval(Array.from({ length: 60 }, (_, index) => 1 + (index % 3)));
  assert.ok(few.low < 2 && few.high > 2);
  assert.ok(many.high - many.low < (few.high - few.low) / 2);
});

it("the sustained rate is where the line falls through 99 % for the last time, and unknown where it does not", () => {
  const point = (rps: number, attainment: number) => ({ rps, attainment });
  assert.ok(Math.abs(sustainedRps([point(40, 0.98), point(20, 1)]) - 30) < 1e-9);
  assert.ok(Math.abs(sustainedRps([point(10, 0.985), point(20, 1), point(40, 0.98)]) - 30) < 1e-9);
  assert.equal(sustainedRps([point(20, 0.98)]), Number.NaN);
  assert.equal(sustainedRps([point(20, 1), point(40, 0.995)]), Number.NaN);
});

const small = { loads: [0.2], policies: ["WLR", "CHAIN", "zml-cost"], seeds: [1, 2], durationS: 15 } as const;
const cases = casesOf("quick", { ...small, fleets: ["F2"], workloads: ["W1"] });
const options = { processes: 2, budgetMs: 60_000, extraOf: () => null, onProgress: () => undefined };

it("a grid gives each policy the same requests, and the same bytes from any process, twice", async () => {
  const run = async (processes: number) => {
    const store = new ResultStore(null);
    assert.equal(await runCases(cases, store, { ...options, processes }), 0);
    return cellsOf(cases, store);
  };
  const cells = await run(2);
  assert.deepEqual(
    cells.map(({ policy, seeds, reports }) => [policy, seeds, reports.length]),
    [
      ["WLR", [1, 2], 2],
      ["CHAIN", [1, 2], 2],
      ["zml-cost", [1, 2], 2],
    ],
  );
  assert.equal(new Set(cells.map(({ reports }) => reports.map(({ requests }) => requests).join())).size, 1);
  const figures = figuresOf(cells);
  assert.ok(figures.every(({ value }) => Number.isFinite(value)));
  const named = (start: string) => figures.filter(({ name }) => name.startsWith(start)).map(({ name }) => name);
  assert.deepEqual(named("goodput_per_usd_ratio{"), [
    "goodput_per_usd_ratio{fleet=F2,workload=W1,load=20,policy=zml-cost,to=best_classical}",
    "goodput_per_usd_ratio{fleet=F2,workload=W1,load=20,policy=zml-cost,to=best_scripted}",
  ]);
  assert.equal(JSON.stringify(await run(1)), JSON.stringify(cells));
});

it("a run that was ended goes on with what is missing, even after a line that was cut", async () => {
  const file = join(folder, "results.jsonl");
  const first = new ResultStore(file);
  assert.equal(await runCases(cases, first, { ...options, budgetMs: 0 }), 6, "no time: nothing is begun");
  await runCases(cases.slice(0, 1), first, options);
  writeFileSync(file, readFileSync(file, "utf8").slice(0, -20));
  const told: number[] = [];
  const second = new ResultStore(file);
  await runCases(cases, second, { ...options, onProgress: (done) => told.push(done) });
  assert.deepEqual(told, [3, 4, 5, 6], "two of three lines of the first case were whole");
  assert.equal(cellsOf(cases, new ResultStore(file)).length, 3);
});

it("a case that cannot run ends the bench with its name", async () => {
  const [first] = cases;
  assert.ok(first !== undefined);
  const wrong = { ...first, scenario: { gateway: 2 } };
  await assert.rejects(
    runCases([wrong], new ResultStore(null), options),
    /^Error: F2 W1 20 % seed 1: gateway: unknown key "gateway"/,
  );
});

it("first seeds come first, and every axis is there", () => {
  const all = casesOf("full", {});
  const lastOfFirst = all.findLastIndex(({ seed }) => seed === 1);
  assert.ok(all.slice(0, lastOfFirst).every(({ seed }) => seed === 1));
  assert.deepEqual([...new Set(all.map(({ fleet }) => fleet))].sort(), ["F1", "F2", "F3", "F4", "F5", "F6"]);
  assert.deepEqual([...new Set(all.map(({ workload }) => workload))].sort(), [
    "W1",
    "W2",
    "W4",
    "W5",
    "W7",
    "W8",
    "W9",
  ]);
  assert.equal(new Set(all.map(({ section }) => section)).size, 8);
});
