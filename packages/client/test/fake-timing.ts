/** A clock that tests move: sleeping takes no time and moves it, timers ring when it has come so far. */
import type { Timing } from "../src/timing.ts";

export interface FakeTiming extends Timing {
  /** What was slept, ms. */
  readonly waits: number[];
  /** Timers that are set. */
  readonly timers: number;
  /** Moves the clock on; timers that are due ring, in order. */
  advance(ms: number): void;
}

/** Makes one that stands at 0, on 30 November 2026, with this for chance. */
export function fakeTiming(random = 0): FakeTiming {
  const startMs = Date.UTC(2026, 10, 30);
  const timers = new Set<{ readonly atMs: number; readonly onEnd: () => void }>();
  const waits: number[] = [];
  let nowMs = 0;
  const timing: FakeTiming = {
    waits,
    get timers() {
      return timers.size;
    },
    nowMs: () => nowMs,
    dateMs: () => startMs + nowMs,
    random: () => random,
    startTimer(delayMs, onEnd) {
      const timer = { atMs: nowMs + delayMs, onEnd };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async sleep(delayMs, signal) {
      signal.throwIfAborted();
      waits.push(delayMs);
      timing.advance(delayMs);
      signal.throwIfAborted();
    },
    advance(ms) {
      nowMs += ms;
      for (;;) {
        const [due] = [...timers].filter(({ atMs }) => atMs <= nowMs).sort((a, b) => a.atMs - b.atMs);
        if (due === undefined) return;
        timers.delete(due);
        due.onEnd();
      }
    },
  };
  return timing;
}
