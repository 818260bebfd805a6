/** Bounds how many polls run at once, without letting dead nodes keep the places of living ones. */

/** A place for a bounded number of tasks; the others wait in order. */
export class Lane {
  #limit: number;
  readonly #waiting: (() => Promise<void>)[] = [];
  #running = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Takes another bound; what runs goes on. */
  setLimit(limit: number): void {
    this.#limit = limit;
    while (this.#running < this.#limit) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.run(next);
    }
  }

  /** Runs a task now or when a place is free. The task must not reject. */
  run(task: () => Promise<void>): void {
    if (this.#running >= this.#limit) {
      this.#waiting.push(task);
      return;
    }
    this.#running += 1;
    task().finally(() => {
      this.#running -= 1;
      if (this.#running >= this.#limit) return;
      const next = this.#waiting.shift();
      if (next !== undefined) this.run(next);
    });
  }
}
