const KEPT = 50;

/** What happened, with the time in front. Keeps the newest. */
export class EventLog {
  readonly #lines: string[] = [];
  #count = 0;

  add(elapsedMs: number, text: string): void {
    this.#lines.push(`${(elapsedMs / 1000).toFixed(1).padStart(6)} s  ${text}`);
    if (this.#lines.length > KEPT) this.#lines.shift();
    this.#count += 1;
  }

  /** The newest last. */
  get lines(): readonly string[] {
    return [...this.#lines];
  }

  /** All, those that are not kept included. */
  get count(): number {
    return this.#count;
  }
}
