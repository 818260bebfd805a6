/** Relative error from which on a row pulls no more than one at the edge does. */
const TRUSTED_ERROR = 0.1;
/** Solutions, each with the weights that the one before gives. */
const SOLUTIONS = 6;

/**
 * Least squares of relative errors with coefficients of 0 or more, by descent along one coefficient after the other. What is
 * far off, as the attempts of a moment in which a machine stood still, pulls no more than by its sign.
 */
export class NonNegativeFit {
  readonly #size: number;
  readonly #rows: (readonly number[])[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  /** A row: what `features` times the coefficients should come to. Rows without a positive, finite target are left out. */
  add(features: readonly number[], target: number): void {
    if (!(target > 0) || !features.every(Number.isFinite)) return;
    this.#rows.push(features.map((feature) => feature / target));
  }

  /** The coefficients. O(rows × size²). */
  solve(): number[] {
    let found = new Array<number>(this.#size).fill(0);
    for (let solution = 0; solution < SOLUTIONS; solution++) {
      const before = found;
      found = this.#solveWeighted((row) => {
        if (solution === 0) return 1;
        const off = Math.abs(row.reduce((sum, feature, index) => sum + feature * (before[index] as number), -1));
        return off > TRUSTED_ERROR ? TRUSTED_ERROR / off : 1;
      });
    }
    return found;
  }

  #solveWeighted(weightOf: (row: readonly number[]) => number): number[] {
    const size = this.#size;
    const products = new Float64Array(size * size);
    const targets = new Float64Array(size);
    for (const row of this.#rows) {
      const weight = weightOf(row);
      for (let index = 0; index < size; index++) {
        const scaled = weight * (row[index] as number);
        targets[index] = (targets[index] as number) + scaled;
        for (let column = 0; column < size; column++) {
          const cell = index * size + column;
          products[cell] = (products[cell] as number) + scaled * (row[column] as number);
        }
      }
    }
    const found = new Array<number>(size).fill(0);
    for (let sweep = 0; sweep < 5_000; sweep++) {
      let moved = 0;
      for (let row = 0; row < size; row++) {
        const curvature = products[row * size + row] as number;
        if (!(curvature > 0)) continue;
        let gradient = targets[row] as number;
        for (let column = 0; column < size; column++) {
          if (column !== row) gradient -= (products[row * size + column] as number) * (found[column] as number);
        }
        const before = found[row] as number;
        const after = Math.max(0, gradient / curvature);
        found[row] = after;
        moved = Math.max(moved, Math.abs(after - before) / (after + before || 1));
      }
      if (moved < 1e-7) break;
    }
    return found;
  }
}
