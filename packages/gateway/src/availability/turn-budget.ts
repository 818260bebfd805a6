/**
 * Bounds how long one turn of the event loop is spent on reading answers, so that a fleet whose pages are all as large as
 * may be makes rows old and nothing else late: the largest page takes 10 to 20 ms, and a thousand may come at once.
 */

/** Work of one turn, ms: what beside it is due comes this much later, and what one page may take. */
const TURN_MS = 10;

/** See the head of this file. */
export class TurnBudget {
  readonly #nowMs: () => number;
  readonly #waiting: (() => void)[] = [];
  #spentMs = 0;
  #isTurnSeen = false;

  /** @param nowMs monotonic, ms; for tests. */
  constructor(nowMs: () => number = () => performance.now()) {
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
      if (this.#spentMs < TURN_MS && this.#waiting.length === 0) start();
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
      while (this.#spentMs < TURN_MS) {
        const next = this.#waiting.shift();
        if (next === undefined) return;
        next();
      }
      this.#seeTurn();
    });
  }
}
