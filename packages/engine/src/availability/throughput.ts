/**
 * Throughput of a placement. Capacity is what a node gives when it is busy, so a sample taken at low load must not
 * pull it down fast, and idleness gives no sample at all.
 */

/** Weight of a sample above the present value: a node that shows more is believed at once. */
const RISE = 0.5;

/** Half-life of the present value while lower samples come in, ms of busy time. */
const FALL_HALF_LIFE_MS = 300_000;

/**
 * Folds one busy sample into a capacity.
 *
 * @param capacity present value, tokens/s; NaN: none yet.
 * @param sample tokens/s over an interval in which the node was busy.
 * @param intervalMs length of that interval.
 */
export function foldCapacity(capacity: number, sample: number, intervalMs: number): number {
  if (!(sample > 0) || !(intervalMs > 0)) return capacity;
  if (Number.isNaN(capacity)) return sample;
  if (sample >= capacity) return capacity + (sample - capacity) * RISE;
  return sample + (capacity - sample) * 2 ** (-intervalMs / FALL_HALF_LIFE_MS);
}

/** Decaying mean with a fixed weight for the newest sample; NaN starts at the sample. */
export function foldMean(mean: number, sample: number, weight: number): number {
  if (Number.isNaN(sample)) return mean;
  return Number.isNaN(mean) ? sample : mean + (sample - mean) * weight;
}

/** Median of the known values, NaN when none is known. Sorts a copy. */
export function medianOfKnown(values: Iterable<number>): number {
  const known = [...values].filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  if (known.length === 0) return Number.NaN;
  const middle = known.length >> 1;
  const upper = known[middle] ?? Number.NaN;
  return known.length % 2 === 1 ? upper : ((known[middle - 1] ?? Number.NaN) + upper) / 2;
}
