/**
 * Tells when this thread last looked at its sockets. What a socket has to say is heard late while the thread is held
 * (a long turn, a collection, a busy machine), so that the clock alone does not tell when it was said.
 */

/** How often a mark is made, ms: how coarse the answer is. */
const MARK_EVERY_MS = 20;

/** Marks end after so many without a new use, so that an idle thread sleeps. */
const MARKS_PER_USE = 100;

class LoopWatch {
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #marksLeft = 0;
  #timer: NodeJS.Timeout | null = null;

  /** Watches for the next two seconds at least. */
  use(): void {
    this.#marksLeft = MARKS_PER_USE;
    this.#timer ??= setInterval(this.#mark, MARK_EVERY_MS).unref();
  }

  /**
   * Asked while a socket's event is handled: a time, `performance.now()`, at or before the one at which the thread last
   * looked at its sockets without seeing that event. It stands still once the marks end.
   */
  get lookedAtMs(): number {
    return this.#lookedAtMs;
  }

  #mark = (): void => {
    this.#marksLeft -= 1;
    if (this.#marksLeft <= 0 && this.#timer !== null) {
      clearInterval(this.#timer);
      this.#timer = null;
    }
    // timers come before the sockets in a turn of the loop, immediates behind them: only then have they been looked at
    const beforeMs = performance.now();
    setImmediate(() => {
      this.#lookedAtMs = beforeMs;
    });
  };
}

/** Of this thread. */
export const loopWatch = new LoopWatch();

/** Beside two round trips, what both ends need to notice a closed connection, ms. */
const NOTICE_MARGIN_MS = 20;

/** A connect that took longer (a lost packet, a slow accept) says nothing more about the round trip. */
const NOTICE_MS_MAX = 1000;

/**
 * Asked while the loss of a connection is handled: whether it may have come as soon after the request as the network
 * allows, so that the node had closed before. Times are `performance.now()`; `use` must have been called at `sentAtMs`.
 */
export function isLostAtOnce(sentAtMs: number, roundTripMs: number): boolean {
  return loopWatch.lookedAtMs - sentAtMs <= Math.min(2 * roundTripMs + NOTICE_MARGIN_MS, NOTICE_MS_MAX);
}
