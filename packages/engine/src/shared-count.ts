/** Counts that threads share, each made of a share by thread. A thread may die between the two. */

/**
 * Adds to a count and to the share of it that only this thread writes. The count is ahead of the shares at any moment: what
 * is added comes into it first, and what is taken out leaves it last.
 *
 * @returns the count before.
 */
export function addToCount(
  counts: Int32Array,
  cell: number,
  shares: Int32Array,
  index: number,
  amount: number,
): number {
  if (amount < 0) {
    shares[index] = (shares[index] as number) + amount;
    return Atomics.add(counts, cell, amount);
  }
  const before = Atomics.add(counts, cell, amount);
  shares[index] = (shares[index] as number) + amount;
  return before;
}

/**
 * Looks at a count that is off, and the pause between them, ms. What a living worker is in the middle of is over in
 * nanoseconds, but its thread may lose its core there, for tens of ms on a busy machine: what stays for all looks is the
 * dead one's.
 */
const LOOKS = 32;
const LOOK_PAUSE_MS = 4;
const PAUSE = new Int32Array(new SharedArrayBuffer(4));

/** Looks at a count that never stays the same, some hundred thousand changes a second: it is left as it is. */
const LOOKS_MAX = 256;

/** Readings in a row that have to agree: a count read before a change and its parts behind it would hide what is off. */
const READINGS = 3;
const READINGS_MAX = 1_000;

/**
 * Takes out of `counts[cell]` what a thread that died left there beyond its parts, `made()`. Who changes both keeps the count
 * ahead, as `addToCount` does: so one that agrees with its parts is right, whatever threads are in the middle of.
 */
export function settleCount(counts: Int32Array, cell: number, made: () => number): void {
  let excess = Number.NaN;
  let same = 0;
  for (let look = 0; same < LOOKS; look++) {
    if (look === LOOKS_MAX) return;
    if (look > 0) Atomics.wait(PAUSE, 0, 0, LOOK_PAUSE_MS);
    const seen = excessOf(counts, cell, made);
    if (seen === 0) return;
    same = seen === excess ? same + 1 : 1;
    excess = seen;
  }
  Atomics.sub(counts, cell, excess);
}

/** Of one moment: of a count and parts that did not change while they were read; NaN: they change without end. */
function excessOf(counts: Int32Array, cell: number, made: () => number): number {
  let count = Atomics.load(counts, cell);
  let parts = made();
  let alike = 1;
  for (let readings = 1; alike < READINGS; readings++) {
    if (readings === READINGS_MAX) return Number.NaN;
    const countNow = Atomics.load(counts, cell);
    const partsNow = made();
    alike = countNow === count && partsNow === parts ? alike + 1 : 1;
    count = countNow;
    parts = partsNow;
  }
  return count - parts;
}
