/** How far a streamed answer has come: what tells a whole answer from half of one. */

interface LooseChoice {
  readonly index?: unknown;
  readonly finish_reason?: unknown;
  readonly text?: unknown;
  readonly delta?: { readonly content?: unknown } | null;
}

export class StreamProgress {
  readonly #wanted: number;
  /** Choices that began and have no finish reason yet. */
  readonly #open = new Set<unknown>();
  readonly #finished = new Set<unknown>();
  #events = 0;
  #text = "";

  /** `choices`: how many were asked for. */
  constructor(choices: number) {
    this.#wanted = choices;
  }

  /** Events with choices that came. */
  get events(): number {
    return this.#events;
  }

  /** The text of the first choice. */
  get text(): string {
    return this.#text;
  }

  /** Whether every choice has its finish reason. */
  get isWhole(): boolean {
    return this.#open.size === 0 && this.#finished.size >= this.#wanted;
  }

  /** Takes the choices of an event. @returns `false` when they are none */
  add(choices: unknown): boolean {
    if (!Array.isArray(choices)) return false;
    for (const choice of choices as (LooseChoice | null)[]) {
      if (typeof choice !== "object" || choice === null) return false;
      const index = choice.index ?? 0;
      if (choice.finish_reason !== undefined && choice.finish_reason !== null) {
        this.#open.delete(index);
        this.#finished.add(index);
      } else if (!this.#finished.has(index)) {
        this.#open.add(index);
      }
      if (index === 0) {
        const text = choice.delta === undefined ? choice.text : choice.delta?.content;
        if (typeof text === "string") this.#text += text;
      }
    }
    this.#events += 1;
    return true;
  }
}
