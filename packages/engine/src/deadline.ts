/**
 * Deadlines that several threads move: Int32 cells of ticks (`TICK_MS`) on the engine clock, 0 for none. A deadline
 * only moves later, by compare-and-exchange, so that two threads that extend it at once never shorten it.
 */

import { TICK_MS } from "./bounds.ts";

/** Tick of a time, rounded up: a deadline never ends early. Never 0, which means none. */
export function tickAfter(timeMs: number): number {
  return Math.max(1, Math.ceil(timeMs / TICK_MS));
}

/** Tick that contains a time. */
export function tickOf(timeMs: number): number {
  return Math.max(1, Math.floor(timeMs / TICK_MS));
}

/** Time of a tick, ms. */
export function msOfTick(tick: number): number {
  return tick * TICK_MS;
}

/** Moves a deadline to `tick` unless it is already later. Returns true when it moved. */
export function extend(cells: Int32Array, index: number, tick: number): boolean {
  let seen = Atomics.load(cells, index);
  while (seen < tick) {
    const old = Atomics.compareExchange(cells, index, seen, tick);
    if (old === seen) return true;
    seen = old;
  }
  return false;
}

/** Takes a lease until `tick` if none runs at `nowTick`. Returns true for the one thread that got it. */
export function takeLease(cells: Int32Array, index: number, options: { nowTick: number; untilTick: number }): boolean {
  const seen = Atomics.load(cells, index);
  if (seen > options.nowTick) return false;
  return Atomics.compareExchange(cells, index, seen, options.untilTick) === seen;
}
