import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type FleetPlan,
  parseScenario,
  prepareScenario,
  type RequestClass,
  runPolicy,
  type Workload,
} from "@zml/simulator/virtual";
import { boundOf } from "./bound.ts";
import { optimum } from "./linear-program.ts";

describe("linear programs", () => {
  const maps = (of: Record<string, Record<string, number>>) =>
    new Map(Object.entries(of).map(([name, sums]) => [name, new Map(Object.entries(sums))]));

  it("find a corner worked out by hand, and what it is made of", () => {
    // max 3x + 2y, x + y ≤ 4, x + 3y ≤ 6, x = 3: y = 1
    const { value, variables } = optimum({
      worth: new Map([
        ["x", 3],
        ["y", 2],
      ]),
      rows: new Map([
        ["a", { max: 4 }],
        ["b", { max: 6 }],
        ["c", { equal: 3 }],
      ]),
      variables: maps({ x: { a: 1, b: 1, c: 1 }, y: { a: 1, b: 3 } }),
    });
    assert.ok(Math.abs(value - 11) < 1e-9);
    assert.ok(Math.abs((variables.get("y") ?? 0) - 1) < 1e-9);
  });

  it("say what is wrong with one that has no best point", () => {
    const worth = new Map([["x", 1]]);
    const variables = maps({ x: { a: -1 } });
    assert.throws(() => optimum({ worth, rows: new Map([["a", { max: 0 }]]), variables }), /no best point: .*nbounded/);
    assert.throws(
      () => optimum({ worth, rows: new Map([["a", { equal: 1 }]]), variables }),
      /no best point: .*nfeasible/,
    );
  });
});

describe("BOUND", () => {
  const constants = {
    baseMs: 10,
    usPerSequence: 0,
    nsPerCachedToken: 0,
    usPerPrefillToken: 0,
    nsPerSquaredPrefillToken: 0,
    kvCapacityTokens: 1e9,
  };
  const klass: RequestClass = { name: "a", share: 1, ttftMs: 500, tokenMs: 25, responseMs: Number.NaN };
  const planOf = (baseMs: number): FleetPlan => ({
    families: ["A"],
    nodes: [
      { id: "a", family: 0, constants: { ...constants, baseMs }, believed: constants, usdPerHour: 3.6, networkMs: 0 },
    ],
  });
  const workloadOf = (count: number, outputTokens: number) =>
    ({
      count,
      atMs: new Float64Array(count),
      after: new Int32Array(count).fill(-1),
      promptTokens: new Int32Array(count).fill(100),
      outputTokens: new Int32Array(count).fill(outputTokens),
      classes: new Uint8Array(count),
    }) as unknown as Workload;

  it("is full batches, worked out by hand: 256 tokens for 10 ms of a node", () => {
    const { attainment, goodputPerUsd } = boundOf(planOf(10), [klass], workloadOf(512, 100));
    assert.equal(attainment, 1);
    // 0.001 USD a second, 25,600 tokens a second
    assert.ok(Math.abs(goodputPerUsd / 25.6e6 - 1) < 1e-6, `${goodputPerUsd}`);
  });

  it("leaves late what a minute has no time for, and all of what no step is short enough for", () => {
    // 6,000 steps of 256 a minute are 1,536,000 tokens
    assert.ok(Math.abs(boundOf(planOf(10), [klass], workloadOf(1_536, 1_000)).attainment - 1) < 1e-6);
    assert.ok(Math.abs(boundOf(planOf(10), [klass], workloadOf(3_072, 1_000)).attainment - 0.5) < 1e-6);
    assert.equal(boundOf(planOf(30), [klass], workloadOf(10, 100)).attainment, 0);
  });

  it("is above what any policy comes to", () => {
    for (const preset of ["W1", "W2"]) {
      const parsed = parseScenario({ workload: { preset, load: 0.7, duration_s: 120, warm_up_s: 0 } });
      assert.ok("scenario" in parsed);
      const prepared = prepareScenario(parsed.scenario, ".");
      const { attainment, goodputPerUsd } = boundOf(prepared.plan, prepared.classes, prepared.workload);
      for (const policy of ["WLR", "CHAIN", "MEL-C", "ORA-1", "zml-cost"] as const) {
        const report = runPolicy(prepared, policy);
        assert.ok((report.attainment ?? 1) <= attainment + 1e-9, `${preset} ${policy}`);
        assert.ok((report.goodput_per_usd ?? Infinity) <= goodputPerUsd, `${preset} ${policy}`);
      }
    }
  });
});
