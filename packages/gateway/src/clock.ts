/** The engine clock: milliseconds on the machine's monotonic clock, the same number in every thread of the process. */

/** Reading of the machine's monotonic clock, ms. */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}

/** A clock that reads 0 at `originMs` of the monotonic clock. */
export interface Clock {
  /** Engine time, ms. */
  nowMs(): number;
}

/** Makes a clock; `performance.now` is cheaper than `hrtime`, so the offset between them is taken once. */
export function createClock(originMs: number): Clock {
  const offsetMs = monotonicMs() - performance.now() - originMs;
  return { nowMs: () => performance.now() + offsetMs };
}
