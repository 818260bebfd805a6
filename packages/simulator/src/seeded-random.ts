/** A source of numbers in [0, 1). */
export type RandomSource = () => number;

/** A small reproducible random source (mulberry32): the same seed gives the same numbers on every machine. */
export function seededRandom(seed: number): RandomSource {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A factor with median 1 and the given log-normal sigma; always 1 when sigma is 0. */
export function logNormalFactor(random: RandomSource, sigma: number): number {
  if (sigma === 0) return 1;
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  return Math.exp(sigma * radius * Math.cos(2 * Math.PI * random()));
}
