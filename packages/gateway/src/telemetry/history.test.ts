import assert from "node:assert/strict";
import { test } from "node:test";
import { History, type HistorySample } from "./history.ts";

const sample = (change: Partial<HistorySample> = {}): HistorySample => ({
  requests: 0,
  judged: 0,
  withinTarget: 0,
  outputTokens: 0,
  redispatches: 0,
  failed: 0,
  parked: 0,
  depth: 0,
  healthyNodes: 1,
  priceUsdPerHour: null,
  costUsd: 0,
  failedUsd: 0,
  comparedUsd: 0,
  baselineUsd: 0,
  ...change,
});

test("counts become rates of the time that really passed, and numbers stay as they are", () => {
  const history = new History();
  history.add(sample(), { unixMs: 1_000, clockMs: 0 });
  history.add(sample({ requests: 50, judged: 40, withinTarget: 30, parked: 3 }), { unixMs: 6_000, clockMs: 10_000 });
  const told = history.toJson();
  assert.deepEqual(told.at_ms, [6_000]);
  assert.deepEqual(told.requests_per_second, [5]);
  assert.deepEqual(told.attainment, [0.75]);
  assert.deepEqual(told.parked, [3]);
});

test("a step without a request that had a target has no attainment", () => {
  const history = new History();
  history.add(sample({ judged: 1, withinTarget: 1 }), { unixMs: 0, clockMs: 0 });
  history.add(sample({ judged: 1, withinTarget: 1 }), { unixMs: 5_000, clockMs: 5_000 });
  assert.deepEqual(history.toJson().attainment, [null]);
});

test("a wall clock that is set back turns no rate around", () => {
  const history = new History();
  history.add(sample(), { unixMs: 100_000, clockMs: 0 });
  history.add(sample({ requests: 5 }), { unixMs: 10_000, clockMs: 5_000 });
  assert.deepEqual(history.toJson().requests_per_second, [1]);
});

test("an hour is kept, and no more", () => {
  const history = new History();
  for (let step = 0; step < 2_000; step++)
    history.add(sample({ requests: step }), { unixMs: step, clockMs: step * 5_000 });
  const { at_ms } = history.toJson();
  assert.equal(at_ms.length, 720);
  assert.equal(at_ms.at(-1), 1_999);
});

test("nothing was sampled yet: empty columns", () => {
  assert.deepEqual(new History().toJson().at_ms, []);
});

test("dollars become dollars per hour, and savings may be negative", () => {
  const history = new History();
  history.add(sample({ costUsd: 1 }), { unixMs: 0, clockMs: 0 });
  const next = sample({ costUsd: 1.5, failedUsd: 0.25, comparedUsd: 0.5, baselineUsd: 0.4 });
  history.add(next, { unixMs: 5_000, clockMs: 5_000 });
  const { cost_usd_per_hour, failed_cost_usd_per_hour, savings_usd_per_hour } = history.toJson();
  assert.deepEqual([cost_usd_per_hour, failed_cost_usd_per_hour, savings_usd_per_hour], [[360], [180], [-72]]);
});
