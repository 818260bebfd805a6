/** Work that goes on only while the page is looked at: a tab in the background has no timer and asks nothing. */

export interface SeenWork {
  /** At once, whenever the next turn would be. */
  now(): void;
  end(): void;
}

/**
 * Runs work now, and again after the time that it tells.
 *
 * @param work gives the wait until its next turn, ms; null: there is none. It must not throw.
 */
export function whileSeen(work: (signal: AbortSignal) => Promise<number | null>): SeenWork {
  const ended = new AbortController();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let isRunning = false;
  /** When the next turn is due, ms of `performance.now()`; null: never. */
  let dueMs: number | null = 0;
  const stop = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
  };
  const plan = (): void => {
    stop();
    if (dueMs === null || isRunning || ended.signal.aborted || document.visibilityState === "hidden") return;
    timer = setTimeout(turn, Math.max(0, dueMs - performance.now()));
  };
  const turn = async (): Promise<void> => {
    timer = null;
    isRunning = true;
    const waitMs = await work(ended.signal);
    isRunning = false;
    dueMs = waitMs === null ? null : performance.now() + waitMs;
    plan();
  };
  const now = (): void => {
    dueMs = 0;
    plan();
  };
  document.addEventListener("visibilitychange", plan);
  plan();
  return {
    now,
    end: () => {
      ended.abort();
      stop();
      document.removeEventListener("visibilitychange", plan);
    },
  };
}
