import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { FadingLeastSquares } from "./least-squares.ts";

const PRIOR = [10, 1, 0.1];
const PRECISION = PRIOR.map((value) => (0.3 / value) ** 2);

function taught(truth: readonly number[], rows: readonly (readonly number[])[]): Float64Array {
  const fit = new FadingLeastSquares(PRIOR, PRECISION, 1_000);
  for (const row of rows) {
    const target = row.reduce((sum, value, index) => sum + value * (truth[index] as number), 0);
    fit.add(
      Float64Array.from(row, (value) => value / target),
      1,
      1,
    );
  }
  for (let solve = 0; solve < 50; solve++) fit.solve();
  return fit.coefficients;
}

test("coefficients converge on the ones that made the samples", () => {
  const rows = Array.from({ length: 400 }, (_, index) => [1, index % 17, (index * index) % 101]);
  const [a, b, c] = taught([7, 0.4, 0.05], rows);
  assert.ok(Math.abs((a ?? 0) / 7 - 1) < 0.02, `${a}`);
  assert.ok(Math.abs((b ?? 0) / 0.4 - 1) < 0.02, `${b}`);
  assert.ok(Math.abs((c ?? 0) / 0.05 - 1) < 0.02, `${c}`);
});

test("what never varies stays at its prior, and the rest makes up for it", () => {
  const rows = Array.from({ length: 200 }, () => [1, 0, 0]);
  const [a, b, c] = taught([5, 3, 3], rows);
  assert.ok(Math.abs((a ?? 0) - 5) < 0.05);
  assert.deepEqual([b, c], [1, 0.1]);
});

test("no coefficient is ever below 0 or no number, whatever comes", () => {
  const value = fc.oneof(fc.double(), fc.constantFrom(0, 1e308, -1e308, 1e-308, Number.NaN, Number.POSITIVE_INFINITY));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(value, value, value, value, fc.constantFrom(1, 0, -1, Number.NaN)), { maxLength: 40 }),
      (samples) => {
        const fit = new FadingLeastSquares(PRIOR, PRECISION, 100);
        for (const [a, b, c, target, weight] of samples) {
          fit.add(Float64Array.of(a, b, c), target, weight);
          fit.solve();
          for (const coefficient of fit.coefficients)
            assert.ok(coefficient >= 0 && coefficient < Number.POSITIVE_INFINITY);
        }
      },
    ),
  );
});

test("old samples fade: hardware that changed is learned anew", () => {
  const fit = new FadingLeastSquares([1], [0.01], 100);
  for (let sample = 0; sample < 500; sample++) fit.add(Float64Array.of(1), 10, 1);
  for (let sample = 0; sample < 500; sample++) fit.add(Float64Array.of(1), 30, 1);
  fit.solve();
  assert.ok(Math.abs((fit.coefficients[0] ?? 0) - 30) < 0.5);
});
