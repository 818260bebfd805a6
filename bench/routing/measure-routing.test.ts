import assert from "node:assert/strict";
import { it } from "node:test";
import { meanInterval } from "./intervals.ts";
import { figuresOf, measureRouting, sustainedRps } from "./measure-routing.ts";

it("an interval holds its mean, is one point for one value, and narrows with more of them", () => {
  assert.deepEqual(meanInterval([3]), { mean: 3, low: 3, high: 3 });
  const few = meanInterval([1, 2, 3]);
  const many = meanInterval(Array.from({ length: 60 }, (_, index) => 1 + (index % 3)));
  assert.ok(few.low < 2 && few.high > 2);
  assert.ok(many.high - many.low < (few.high - few.low) / 2);
});

it("the sustained rate is where the line falls through 99 %, and unknown where it does not", () => {
  const point = (rps: number, attainment: number) => ({ rps, attainment });
  assert.ok(Math.abs(sustainedRps([point(40, 0.98), point(20, 1)]) - 30) < 1e-9);
  assert.equal(sustainedRps([point(20, 0.98)]), Number.NaN);
  assert.equal(sustainedRps([point(20, 1), point(40, 0.995)]), Number.NaN);
});

it("a grid gives each policy the same requests, and the same figures twice", () => {
  const grid = {
    fleets: ["F2"],
    workloads: ["W1"],
    loads: [0.2],
    policies: ["WLR", "CHAIN", "zml-cost"],
    seeds: [1, 2],
    durationS: 15,
    warmUpS: 5,
  } as const;
  const cells = measureRouting(grid, () => undefined);
  assert.deepEqual(
    cells.map(({ policy, reports }) => [policy, reports.length]),
    [
      ["WLR", 2],
      ["CHAIN", 2],
      ["zml-cost", 2],
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
  assert.deepEqual(figuresOf(measureRouting(grid, () => undefined)), figures);
});
