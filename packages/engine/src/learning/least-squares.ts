/**
 * Least squares over samples that fade, with coefficients of 0 or more and a prior that does not: little is known of what
 * never varies, and there the prior stands. Small (a handful of coefficients) and exact: no step size, nothing diverges.
 */

import { assert } from "../assert.ts";

/** Sweeps of coordinate descent per solve; it starts from the last solution, which new samples move little. */
const SWEEPS = 24;

/** Beyond this nothing was measured, and squares of it would drown what was. */
const SANE_MAX = 1e9;

/** Weighted sums over samples. */
export interface Evidence {
  /** Of features with each other, row by row. */
  readonly products: readonly number[];
  /** Of features with targets. */
  readonly targets: readonly number[];
}

export class FadingLeastSquares {
  readonly size: number;
  /** Present solution. */
  readonly coefficients: Float64Array;
  readonly #prior: Float64Array;
  readonly #precision: Float64Array;
  readonly #products: Float64Array;
  readonly #targets: Float64Array;
  readonly #keep: number;

  /**
   * @param prior coefficients before any sample, each above or equal to 0. @param precision weight of each, in samples ×
   *   square of what its feature would be. @param memory samples after which one counts for 1/e.
   */
  constructor(prior: readonly number[], precision: readonly number[], memory: number) {
    this.size = prior.length;
    this.coefficients = Float64Array.from(prior);
    this.#prior = Float64Array.from(prior);
    this.#precision = Float64Array.from(precision);
    this.#products = new Float64Array(this.size * this.size);
    this.#targets = new Float64Array(this.size);
    this.#keep = Math.exp(-1 / memory);
  }

  /** What was taken so far, as plain numbers. */
  evidence(): Evidence {
    return { products: Array.from(this.#products), targets: Array.from(this.#targets) };
  }

  /**
   * Takes this share of what another one was taught; the solution stays until the next `solve`.
   *
   * @throws Error when it is of another size.
   */
  takeEvidence({ products, targets }: Evidence, share: number): void {
    assert(products.length === this.size ** 2 && targets.length === this.size, "evidence of so many coefficients");
    products.forEach((value, index) => {
      this.#products[index] = (this.#products[index] as number) + share * value;
    });
    targets.forEach((value, index) => {
      this.#targets[index] = (this.#targets[index] as number) + share * value;
    });
  }

  /** Takes a sample: Σ coefficients × features should be `target`. What no measurement can be is not taken. */
  add(features: Float64Array, target: number, weight: number): void {
    if (!(Math.abs(target) < SANE_MAX) || !(weight > 0 && weight < SANE_MAX)) return;
    for (let row = 0; row < this.size; row++) if (!(Math.abs(features[row] as number) < SANE_MAX)) return;
    const { size } = this;
    for (let row = 0; row < size; row++) {
      const scaled = weight * (features[row] as number);
      for (let column = 0; column < size; column++) {
        const cell = row * size + column;
        this.#products[cell] = (this.#products[cell] as number) * this.#keep + scaled * (features[column] as number);
      }
      this.#targets[row] = (this.#targets[row] as number) * this.#keep + scaled * target;
    }
  }

  /** Moves `coefficients` to the least squares of what was taken and the prior. */
  solve(): void {
    const { size, coefficients } = this;
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
      let moved = 0;
      for (let row = 0; row < size; row++) {
        const precision = this.#precision[row] as number;
        let gradient = (this.#targets[row] as number) + precision * (this.#prior[row] as number);
        for (let column = 0; column < size; column++) {
          if (column !== row)
            gradient -= (this.#products[row * size + column] as number) * (coefficients[column] as number);
        }
        const curvature = (this.#products[row * size + row] as number) + precision;
        if (!(curvature > 0)) continue;
        const before = coefficients[row] as number;
        const after = Math.max(0, gradient / curvature);
        coefficients[row] = after;
        moved = Math.max(moved, Math.abs(after - before) / (after + before || 1));
      }
      if (moved < 1e-6) return;
    }
  }
}
