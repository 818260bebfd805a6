/** Capacities of nodes as decisions were made on them, over a window. */

import type { RecordedSpeed } from "./recorded-window.ts";

/** Parts of the window that have a capacity each, a node and model. */
const SPEED_PARTS = 60;
/** A capacity that differs by less is the one before. */
const SPEED_CHANGE_MIN = 0.01;

/**
 * Capacities over time. What a request costs goes with the inverse of the capacity, so that of each part the harmonic mean
 * is taken: it gives the dollars that were recorded.
 */
export class RecordedSpeeds {
  readonly #parts = new Map<string, { atMs: number; inverse: number; count: number }[]>();

  add(key: string, atMs: number, share: number, tokensPerSecond: number): void {
    let parts = this.#parts.get(key);
    if (parts === undefined) {
      parts = Array.from({ length: SPEED_PARTS }, () => ({ atMs: Number.POSITIVE_INFINITY, inverse: 0, count: 0 }));
      this.#parts.set(key, parts);
    }
    const part = parts[Math.max(0, Math.min(SPEED_PARTS - 1, Math.floor(share * SPEED_PARTS)))];
    if (part === undefined) return;
    part.atMs = Math.min(part.atMs, atMs);
    part.inverse += 1 / tokensPerSecond;
    part.count += 1;
  }

  all(): Map<string, RecordedSpeed[]> {
    return new Map(
      Array.from(this.#parts, ([key, parts]) => {
        const speeds: RecordedSpeed[] = [];
        for (const { atMs, inverse, count } of parts) {
          if (count === 0) continue;
          const tokensPerSecond = count / inverse;
          const before = speeds.at(-1)?.tokensPerSecond ?? 0;
          if (Math.abs(tokensPerSecond - before) >= before * SPEED_CHANGE_MIN) speeds.push({ atMs, tokensPerSecond });
        }
        return [key, speeds];
      }),
    );
  }
}
