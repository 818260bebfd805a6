import assert from "node:assert/strict";
import { test } from "node:test";
import { healthScore } from "./health-score.ts";

test("the health score is 100 for an idle node without errors, and stays within 0 and 100", () => {
  assert.equal(healthScore({ errorRate: 0, depth: 0, concurrency: 8 }), 100);
  for (const errorRate of [Number.NaN, -1, 0, 0.5, 1, 2]) {
    for (const depth of [0, 8, 1e6]) {
      const score = healthScore({ errorRate, depth, concurrency: 8 });
      assert.ok(score >= 0 && score <= 100, `${score} of ${errorRate}, ${depth}`);
    }
  }
});

test("the health score sinks with the queue and with recent errors", () => {
  assert.equal(healthScore({ errorRate: 0, depth: 8, concurrency: 8 }), 100, "a full batch is no queue");
  assert.equal(healthScore({ errorRate: 0, depth: 16, concurrency: 8 }), 50, "a queue as long as the batch");
  assert.equal(healthScore({ errorRate: 0.25, depth: 0, concurrency: 8 }), 75);
  assert.equal(healthScore({ errorRate: 1, depth: 0, concurrency: 8 }), 0);
});

test("a node without traffic has no errors that count", () => {
  assert.equal(healthScore({ errorRate: Number.NaN, depth: 0, concurrency: 8 }), 100);
});
