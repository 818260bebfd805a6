/**
 * Bounds how long one turn of the event loop is spent on one kind of work, so that much of it at once makes that work late
 * and nothing else: the admin API, prices and a reload wait for the turn.
 */

/** See the head of this file. */
export class TurnBudget {
  readonly #turnMs: number;
  readonly #nowMs: () => number;
  readonly #waiting: (() => void)[] = [];
  #spentMs = 0;
  #isTurnSeen = false;

  /**
   * @param turnMs work of one turn: what beside it is due comes this much later, and what the last piece takes
   * @param nowMs monotonic, ms; for tests
   */
  constructor(turnMs: number, nowMs: () => number = () => performance.now()) {
    this.#turnMs = turnMs;
    this.#nowMs = nowMs;
  }

  /** Runs work now, or in one of the next turns, in order, where this one has been spent. Rejects as the work throws. */
  run<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const start = (): void => {
        const startMs = this.#nowMs();
        try {
          resolve(work());
        } catch (error) {
          reject(error);
        }
        this.#spentMs += this.#nowMs() - startMs;
      };
      if (this.#spentMs < this.#turnMs && this.#waiting.length === 0) start();
      else this.#waiting.push(start);
      this.#seeTurn();
    });
  }

  /** Begins anew with the next turn. */
  #seeTurn(): void {
    if (this.#isTurnSeen) return;
    this.#isTurnSeen = true;
    setImmediate(() => {
      this.#isTurnSeen = false;
      this.#spentMs = 0;
      while (this.#spentMs < this.#turnMs) {
        const next = this.#waiting.shift();
        if (next === undefined) return;
        next();
      }
      this.#seeTurn();
    });
  }
}
