/**
 * Deadlines of one thread: thousands of waits that hardly ever run out, behind one timer. Starting and ending one costs
 * a set operation, a tenth of a timer of its own; they run out up to `TICK_MS` late.
 */

import { type DenseMember, DenseSet } from "./dense-set.ts";

/** How often running deadlines are looked at, ms. */
const TICK_MS = 20;

/** A running deadline. */
export interface Deadline extends DenseMember {
  atMs: number;
  readonly onTime: () => void;
}

export class Deadlines {
  readonly #running = new DenseSet<Deadline>();
  #timer: NodeJS.Timeout | null = null;

  /** Calls back once, `ms` from now, unless stopped before. */
  start(ms: number, onTime: () => void): Deadline {
    const deadline = { atMs: performance.now() + ms, onTime, slot: -1 };
    this.#running.add(deadline);
    this.#timer ??= setInterval(this.#tick, TICK_MS);
    return deadline;
  }

  /** Ends a deadline; one that has run out or was stopped stays so. */
  stop(deadline: Deadline): void {
    this.#running.delete(deadline);
  }

  /** Deadlines that run. */
  get count(): number {
    return this.#running.size;
  }

  #tick = (): void => {
    if (this.#running.size === 0) {
      if (this.#timer !== null) clearInterval(this.#timer);
      this.#timer = null;
      return;
    }
    const nowMs = performance.now();
    this.#running.forEachBackward((deadline) => {
      if (deadline.atMs > nowMs) return;
      this.#running.delete(deadline);
      deadline.onTime();
    });
  };
}
