/**
 * Sums of the last minute, hour and day: what is now, less a picture of what was. Pictures are copies of the ledger's
 * table, and one of a ledger that has not changed is the one before: an idle gateway keeps one.
 */

import type { MoneyWindow } from "@zml/protocol/admin";

interface WindowShape {
  readonly lengthMs: number;
  /** Distance of two pictures: how much longer than its name a window may be. */
  readonly stepMs: number;
}

/** 45 pictures in all: with 10,000 lines of 80 bytes, 36 MB of a day in which all of them changed all the time. */
const SHAPES: Readonly<Record<Exclude<MoneyWindow, "start">, WindowShape>> = {
  minute: { lengthMs: 60_000, stepMs: 10_000 },
  hour: { lengthMs: 3_600_000, stepMs: 300_000 },
  day: { lengthMs: 86_400_000, stepMs: 3_600_000 },
};

interface Picture {
  readonly atMs: number;
  readonly values: Float64Array;
}

/** What was counted before a window began. */
export interface MoneyBefore {
  /** Lines that are not in it had nothing. */
  readonly values: Float64Array;
  readonly atMs: number;
}

export class MoneyWindows {
  readonly #startMs: number;
  readonly #rings = new Map<WindowShape, Picture[]>(Object.values(SHAPES).map((shape) => [shape, []]));
  #last: { readonly revision: number; readonly values: Float64Array } = { revision: -1, values: new Float64Array(0) };

  /** @param startMs when counting began. Times are of a monotonic clock. */
  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  /** Takes the pictures that are due. Called every few seconds. */
  note(ledger: { readonly revision: number; readonly values: Float64Array }, nowMs: number): void {
    for (const [{ lengthMs, stepMs }, pictures] of this.#rings) {
      const last = pictures.at(-1)?.atMs ?? this.#startMs;
      if (nowMs - last < stepMs) continue;
      if (this.#last.revision !== ledger.revision) {
        this.#last = { revision: ledger.revision, values: ledger.values.slice() };
      }
      pictures.push({ atMs: nowMs, values: this.#last.values });
      // the first one from before the window has to stay
      while (pictures.length > 1 && nowMs - (pictures[1] as Picture).atMs >= lengthMs) pictures.shift();
    }
  }

  /** The latest picture from before the window; the start, where there is none. */
  before(window: MoneyWindow, nowMs: number): MoneyBefore {
    const start = { values: NOTHING, atMs: this.#startMs };
    if (window === "start") return start;
    const shape = SHAPES[window];
    const pictures = this.#rings.get(shape) ?? [];
    return pictures.findLast(({ atMs }) => nowMs - atMs >= shape.lengthMs) ?? start;
  }
}

const NOTHING = new Float64Array(0);
