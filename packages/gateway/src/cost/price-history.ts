/** Where price changes are recorded, and where prices come from after a restart. */

import type { PricePoint } from "./quote.ts";

/** A record of price changes. The store implements it; without one they are kept in memory. */
export interface PriceHistory {
  /** Takes changes; must not block and must not throw. A point is there once per change of a key's price. */
  append(points: readonly PricePoint[]): void;
  /** The latest point of each key, from before this start. Bounded by its maker in time; a rejection means none. */
  loadLatest(): Promise<readonly PricePoint[]>;
}

/** Changes that are remembered per key: two weeks of a spot market that moves a few times a day. */
export const CHANGES_PER_KEY = 64;

/** The last changes of each key, in memory. */
export class RecentPrices {
  readonly #changes = new Map<string, PricePoint[]>();

  add(point: PricePoint): void {
    const changes = this.#changes.get(point.key);
    if (changes === undefined) this.#changes.set(point.key, [point]);
    else {
      changes.push(point);
      if (changes.length > CHANGES_PER_KEY) changes.shift();
    }
  }

  /** Oldest first, at most {@link CHANGES_PER_KEY}. */
  of(key: string): readonly PricePoint[] {
    return this.#changes.get(key) ?? [];
  }

  /** Forgets a key that no feed has any more. */
  delete(key: string): void {
    this.#changes.delete(key);
  }
}
