import assert from "node:assert/strict";
import { test } from "node:test";
import { createRetryBudget, noteRequest, takeRetry } from "./retry-budget.ts";

function taken(budget: ReturnType<typeof createRetryBudget>, nowMs: number, tries: number): number {
  let count = 0;
  for (let index = 0; index < tries; index++) if (takeRetry(budget, nowMs)) count += 1;
  return count;
}

test("ten re-dispatches a second are allowed without any traffic", () => {
  const budget = createRetryBudget(0.2, 1);
  for (let second = 0; second < 60; second++) assert.equal(taken(budget, second * 1000, 10), 10, `second ${second}`);
});

test("above that, re-dispatches stay under their share of traffic", () => {
  const budget = createRetryBudget(0.2, 1);
  for (let request = 0; request < 10_000; request++) noteRequest(budget, 100);
  assert.equal(taken(budget, 100, 10_000), 2_000);
});

test("what was used up comes back when its window is over", () => {
  const budget = createRetryBudget(0, 1);
  assert.equal(taken(budget, 0, 1000), 100);
  assert.equal(taken(budget, 4_999, 10), 0);
  assert.equal(taken(budget, 10_001, 10), 10);
});

test("workers share the allowance", () => {
  assert.equal(taken(createRetryBudget(0, 4), 0, 1000), 25);
});
