/**
 * Tells a node that stands still behind a green page: requests run, and neither its token counters nor our own streams
 * move. Only for counters that move with every step of the engine; one that moves when requests end stands still while a
 * long answer is made.
 */

/** What is known of a node's progress. */
export interface ProgressWatch {
  /** Looks in a row at which requests ran and nothing had moved since the look before. */
  readonly stillLooks: number;
  readonly last: ProgressLook | null;
}

/** One look at a node. Numbers are NaN when it does not tell. */
export interface ProgressLook {
  /** Requests. */
  readonly running: number;
  readonly generationTokensTotal: number;
  readonly promptTokensTotal: number;
  /** Pieces of answers that came to us, a count that wraps. */
  readonly relayed: number;
}

/** Nothing was seen yet. */
export const FRESH_PROGRESS: ProgressWatch = Object.freeze({ stillLooks: 0, last: null });

/**
 * Looks at a standstill before a node counts as stalled, where nothing is configured: with a poll every 5 s some 25 s,
 * longer than a large prompt takes to be read, which moves no counter before its end.
 */
const STALLED_AFTER = 6;

/** Takes the next look. */
export function afterLook({ stillLooks, last }: ProgressWatch, look: ProgressLook): ProgressWatch {
  const isStill =
    last !== null &&
    last.running > 0 &&
    look.running > 0 &&
    look.generationTokensTotal === last.generationTokensTotal &&
    isSame(look.promptTokensTotal, last.promptTokensTotal) &&
    look.relayed === last.relayed;
  return { stillLooks: isStill ? stillLooks + 1 : 0, last: look };
}

/** True when a node counts as stalled. @param after looks in a row at a standstill. */
export function isStalled({ stillLooks }: ProgressWatch, after: number = STALLED_AFTER): boolean {
  return stillLooks >= after;
}

function isSame(a: number, b: number): boolean {
  return a === b || (Number.isNaN(a) && Number.isNaN(b));
}
