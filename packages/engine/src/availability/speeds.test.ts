import assert from "node:assert/strict";
import { test } from "node:test";
import { effectiveSpeeds, type PlacementSpeed } from "./speeds.ts";

const FALLBACK = 7;
const [A, B, C] = [0, 1, 2];
const [M, N] = [0, 1];
const placed = (family: number, model: number, measured = Number.NaN): PlacementSpeed => ({ family, model, measured });

/** Speed of a placement that was not measured itself, beside others. */
function speedOf(unmeasured: PlacementSpeed, ...others: PlacementSpeed[]): number {
  return effectiveSpeeds([unmeasured, ...others], FALLBACK)[0] as number;
}

test("a measured speed is taken as it is", () => {
  const speeds = effectiveSpeeds([placed(A, M, 50), placed(A, M, 10), placed(A, M, 20)], FALLBACK);
  assert.deepEqual([...speeds], [50, 10, 20]);
});

test("an unmeasured placement has the median of its family for its model", () => {
  const others = [placed(A, M, 10), placed(A, M, 20), placed(A, M, 90), placed(A, N, 1), placed(B, M, 1)];
  assert.equal(speedOf(placed(A, M), ...others), 20);
});

test("without that it has the median of its family, then that of its model on other families", () => {
  assert.equal(speedOf(placed(A, M), placed(A, N, 30), placed(B, M, 1)), 30);
  assert.equal(speedOf(placed(C, M), placed(A, M, 10), placed(B, M, 20), placed(B, N, 99)), 15);
});

test("where nobody has shown anything it is the default", () => {
  assert.equal(speedOf(placed(A, M)), FALLBACK);
  assert.equal(speedOf(placed(A, M), placed(B, N, 5)), FALLBACK);
});
