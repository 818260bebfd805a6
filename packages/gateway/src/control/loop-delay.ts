/**
 * How late the control thread is for its timers: a thread that is held polls late and answers the admin port late. Node's
 * own histogram measures it; two halves take turns, so that what is told is of the last minute or two.
 */

import { monitorEventLoopDelay } from "node:perf_hooks";

type Histogram = ReturnType<typeof monitorEventLoopDelay>;

/** Delay of the thread, ms; NaN: nothing was measured yet. */
export interface LoopDelay {
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** Distance of two looks, ms: 50 wake-ups a second cost a thousandth of a core. */
const RESOLUTION_MS = 20;

/** A half is dropped after so long, ms. */
const HALF_MS = 60_000;

const NS_PER_MS = 1e6;

/** Watches the thread that makes it. */
export class LoopDelayWatch {
  #old: Histogram | null = null;
  #young = startHistogram();
  readonly #timer = setInterval(() => this.#turn(), HALF_MS).unref();

  /** What was measured lately. */
  read(): LoopDelay {
    const told = (this.#old ?? this.#young).count > 0 ? (this.#old ?? this.#young) : this.#young;
    if (told.count === 0) return { p99Ms: Number.NaN, maxMs: Number.NaN };
    // a look that comes in time is a resolution apart from the last one
    const late = (ns: number): number => Math.max(0, ns / NS_PER_MS - RESOLUTION_MS);
    return { p99Ms: late(told.percentile(99)), maxMs: late(Math.max(told.max, this.#young.max)) };
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#old?.disable();
    this.#young.disable();
  }

  /** The older half goes on until the younger one is as long as a half. */
  #turn(): void {
    this.#old?.disable();
    this.#old = this.#young;
    this.#young = startHistogram();
  }
}

function startHistogram(): Histogram {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  return histogram;
}
