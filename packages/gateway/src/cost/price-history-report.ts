/** What one price was, as JSON for the admin API: from the store where there is one, else what is remembered. */

import type { PriceHistoryJson } from "@zml/protocol/admin";
import type { PriceBook } from "./price-book.ts";

/** Which price, and since when. */
export interface PriceHistoryQuestion {
  readonly key: string;
  /** Unix ms. */
  readonly sinceMs: number;
}

/** Changes of one answer: one each nine minutes for 30 days, some 100 KB of JSON. */
export const PRICE_CHANGES_MAX = 5_000;

interface Change {
  readonly usdPerGpuHour: number;
  readonly observedAtMs: number;
}

export interface PriceHistorySources {
  readonly book: Pick<PriceBook, "changesOf">;
  /** Null: nothing outlives the process. */
  readonly kept: {
    priceHistory(key: string, sinceMs: number, limit: number): Promise<readonly Change[] | null>;
  } | null;
}

/** Reads the changes of a price; a key that nobody knows has none. */
export async function priceHistory(
  { key, sinceMs }: PriceHistoryQuestion,
  { book, kept }: PriceHistorySources,
): Promise<PriceHistoryJson> {
  const remembered = book.changesOf(key);
  // one more than is told says whether there are more
  const stored = (await kept?.priceHistory(key, sinceMs, PRICE_CHANGES_MAX + 1)) ?? null;
  const changes = stored ?? remembered.filter(({ observedAtMs }) => observedAtMs >= sinceMs);
  const told = changes.slice(-PRICE_CHANGES_MAX);
  return {
    key,
    at_ms: told.map(({ observedAtMs }) => observedAtMs),
    usd_per_gpu_hour: told.map(({ usdPerGpuHour }) => usdPerGpuHour),
    is_cut: changes.length > told.length,
    is_kept: stored !== null,
  };
}
