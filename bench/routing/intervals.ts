/** Intervals of means over a few seeds. */

/** xorshift32, so that the same values give the same interval. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

const RESAMPLES = 2_000;

/** Mean, and the 95 % bootstrap interval of it. One value is its own interval. */
export function meanInterval(values: readonly number[]): { mean: number; low: number; high: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const random = seeded(97);
  const means = Array.from({ length: RESAMPLES }, () => {
    let sum = 0;
    for (let index = 0; index < values.length; index++) sum += values[Math.floor(random() * values.length)] as number;
    return sum / values.length;
  }).sort((a, b) => a - b);
  return {
    mean,
    low: means[Math.floor(RESAMPLES * 0.025)] as number,
    high: means[Math.floor(RESAMPLES * 0.975)] as number,
  };
}
