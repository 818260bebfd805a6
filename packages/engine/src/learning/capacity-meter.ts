/** Capacity of one node out of its token counter: tokens per second while it was busy. */

/** One look at a node. */
export interface CapacityScrape {
  /** When the counter was read, as far as is known: the middle between asking and the answer. */
  readonly atMs: number;
  /** It was read at most this much earlier or later, ms: half of the time that the answer took. */
  readonly uncertainMs: number;
  /** Counter; NaN: the node has none. */
  readonly tokensTotal: number;
  /** Requests; NaN: not told. */
  readonly running: number;
  /** Requests; NaN: not told. */
  readonly waiting: number;
  /** Requests that the node runs at once; NaN: not told. */
  readonly concurrencyLimit: number;
}

/** A measured rate. */
export interface CapacitySample {
  readonly tokensPerSecond: number;
  /** Busy time that it stands for. */
  readonly busyMs: number;
  /** The node had enough to do for the rate to be what it can give; else it is a lower bound. */
  readonly isLoaded: boolean;
}

/**
 * Longest busy stretch of a counter that moves when requests end. What was generated before it and counts in it makes up
 * for what is generated in it and counts later, as long as the load is steady; a node that is never idle, and is taken
 * for faster than it is, must be found out soon.
 */
const COMPLETION_WINDOW_MS = 10_000;

/**
 * What is not known about the ends of a measured stretch may be a twentieth of it. Capacity rises fast, so a stretch
 * that looks shorter than it was would be believed: of a node whose answers come late by turns every second one would.
 */
const UNCERTAIN_SHARE_MAX = 0.05;

/** Shortest stretch measured: a step of a large batch may take some 100 ms, and the counter stands still in between. */
const STEP_WINDOW_MS = 1_000;

/**
 * Tokens/s above which a counter lies: ten times what the largest racks of accelerators are sold with. One believed jump
 * would draw all traffic to the node for hours, since capacity falls slowly.
 */
const TOKENS_PER_SECOND_MAX = 1e7;

/** Requests from which on a node counts as loaded when it tells no limit. */
const LOADED_RUNNING = 4;

/** Turns scrapes into samples. One per node; forget it with the node. */
export class CapacityMeter {
  #last: CapacityScrape | null = null;
  /** Look that the present stretch began with. */
  #first: CapacityScrape | null = null;
  #tokens = 0;
  #busyMs = 0;
  #isLoaded = false;

  /**
   * Takes a scrape.
   *
   * @param countsAt `step`: the counter moves while tokens come, so each interval with requests at both ends is a
   *   sample, joined with the next ones until its length is known well enough. `completion`: it moves when a request
   *   ends, so a whole busy stretch is one, and the intervals in which it began and ended count half.
   * @returns a sample when one is complete, else null. A counter that went down is a restart: everything begins anew.
   */
  take(scrape: CapacityScrape, countsAt: "step" | "completion"): CapacitySample | null {
    const last = this.#last;
    this.#last = scrape;
    if (last === null || !(scrape.tokensTotal >= last.tokensTotal)) {
      this.#clear();
      return null;
    }
    const tokens = scrape.tokensTotal - last.tokensTotal;
    const intervalMs = scrape.atMs - last.atMs;
    const wasBusy = last.running > 0;
    const isBusy = scrape.running > 0;
    const isLoaded = isLoadedAt(last) && isLoadedAt(scrape);
    if (countsAt === "step") return this.#takeStep(last, scrape, wasBusy && isBusy, isLoaded);
    const hadWholeInterval = this.#busyMs > 0 && wasBusy;
    if (wasBusy || isBusy) {
      this.#tokens += tokens;
      this.#busyMs += wasBusy && isBusy ? intervalMs : intervalMs / 2;
      this.#isLoaded ||= isLoaded;
    }
    // a stretch in which nothing ended says nothing yet: what ends later was generated in it
    if (isBusy && (this.#busyMs < COMPLETION_WINDOW_MS || this.#tokens === 0)) return null;
    const sample = hadWholeInterval ? sampleOf(this.#tokens, this.#busyMs, this.#isLoaded) : null;
    this.#clear();
    return sample;
  }

  #takeStep(last: CapacityScrape, scrape: CapacityScrape, isBusy: boolean, isLoaded: boolean): CapacitySample | null {
    if (!isBusy) {
      this.#clear();
      return null;
    }
    const isNew = this.#first === null;
    const first = this.#first ?? last;
    this.#first = first;
    this.#isLoaded = isLoaded && (isNew || this.#isLoaded);
    const lengthMs = scrape.atMs - first.atMs;
    const uncertainMs = first.uncertainMs + scrape.uncertainMs;
    if (lengthMs < STEP_WINDOW_MS || uncertainMs > lengthMs * UNCERTAIN_SHARE_MAX) return null;
    const sample = sampleOf(scrape.tokensTotal - first.tokensTotal, lengthMs, this.#isLoaded);
    this.#clear();
    return sample;
  }

  #clear(): void {
    this.#first = null;
    this.#tokens = 0;
    this.#busyMs = 0;
    this.#isLoaded = false;
  }
}

function sampleOf(tokens: number, busyMs: number, isLoaded: boolean): CapacitySample | null {
  if (!(tokens > 0) || !(busyMs > 0)) return null;
  const tokensPerSecond = (tokens / busyMs) * 1000;
  return tokensPerSecond > TOKENS_PER_SECOND_MAX ? null : { tokensPerSecond, busyMs, isLoaded };
}

function isLoadedAt(scrape: CapacityScrape): boolean {
  if (scrape.waiting > 0) return true;
  const half = scrape.concurrencyLimit / 2;
  return scrape.running >= (half < LOADED_RUNNING ? half : LOADED_RUNNING);
}
