import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "../seeded-random.ts";
import { NonNegativeFit } from "./non-negative-fit.ts";

/** Steps of 6 ms and 0.4 ms for each sequence, times a factor. */
function fitted(factorOf: (index: number) => number): number[] {
  const random = seededRandom(5);
  const fit = new NonNegativeFit(2);
  for (let index = 0; index < 400; index++) {
    const sequences = 1 + Math.floor(random() * 20);
    fit.add([1, sequences], (6 + 0.4 * sequences) * factorOf(index));
  }
  return fit.solve();
}

test("moments in which a machine stood still do not change what a step takes", () => {
  const [base = 0, perSequence = 0] = fitted((index) => (index % 10 < 2 ? 3 + (index % 7) : 1));
  assert.ok(Math.abs(base - 6) < 0.1, `${base} ms`);
  assert.ok(Math.abs(perSequence - 0.4) < 0.01, `${perSequence} ms a sequence`);
});

test("no coefficient is below 0, and rows that say nothing are left out", () => {
  const fit = new NonNegativeFit(2);
  for (let index = 1; index <= 50; index++) fit.add([1, index], 100 - index);
  const [level = 0, slope = Number.NaN] = fit.solve();
  assert.equal(slope, 0);
  assert.ok(level > 50 && level < 100, `${level}`);
  fit.add([1, Number.NaN], 5);
  fit.add([1, 3], Number.NaN);
  fit.add([1, 3], 0);
  assert.deepEqual(fit.solve(), [level, 0]);
  assert.deepEqual(new NonNegativeFit(2).solve(), [0, 0]);
});
