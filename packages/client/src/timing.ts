/** Clock, timers and chance: what tests replace, so that none of them sleeps. */

/** Where time and chance come from. */
export interface Timing {
  /** Monotonic, ms. */
  nowMs(): number;
  /** Wall clock since 1970, ms: only for a `Retry-After` that is a date. */
  dateMs(): number;
  /**
   * Calls back once, after so many ms; the function that it returns cancels that. One that `isIdle` doesn't keep the
   * process alive, where the platform knows such a thing.
   */
  startTimer(delayMs: number, onEnd: () => void, isIdle?: boolean): () => void;
  /** Waits between two attempts. Rejects with the signal's reason when that comes first. */
  sleep(delayMs: number, signal: AbortSignal): Promise<void>;
  /** From 0 up to 1. */
  random(): number;
}

/** The longest time that a timer of the platform can run, ms. */
export const MAX_TIMER_MS = 2_147_483_647;

export const SYSTEM_TIMING: Timing = {
  nowMs: () => performance.now(),
  dateMs: () => Date.now(),
  startTimer(delayMs, onEnd, isIdle = false) {
    const timer: unknown = setTimeout(onEnd, delayMs);
    if (isIdle) (timer as { unref?: () => void }).unref?.();
    return () => clearTimeout(timer as number);
  },
  sleep: (delayMs, signal) =>
    new Promise((resolve, reject) => {
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      }, delayMs);
      if (signal.aborted) onAbort();
      else signal.addEventListener("abort", onAbort, { once: true });
    }),
  random: Math.random,
};
