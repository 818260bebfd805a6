/** Prices over days from a file of list prices: one line per day, provider, region and accelerator. */

import { readFileSync } from "node:fs";
import { csvRows } from "./csv-columns.ts";
import { TraceError } from "./trace.ts";

const COLUMNS = ["snapshot_date", "provider", "region", "gpu_type", "is_spot", "price_per_gpu_hour_usd"] as const;

/** Whose prices are wanted. */
export interface PriceQuery {
  readonly provider: string;
  readonly region: string;
  readonly gpu: string;
  readonly isSpot: boolean;
}

/** A price that holds from a day on. */
export interface DayPrice {
  /** Since the first day of the file that has this price, days. */
  readonly day: number;
  readonly usdPerGpuHour: number;
}

const DAY_MS = 86_400_000;

/**
 * Reads the prices of one accelerator at one place, in order of time.
 *
 * @throws TraceError with file and line: a column that is missing, a value that makes no sense, days that go backwards, no
 *   such price.
 */
export function readPrices(path: string, { provider, region, gpu, isSpot }: PriceQuery): DayPrice[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new TraceError(
      path,
      1,
      `the prices can't be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  const prices: DayPrice[] = [];
  let firstMs = Number.NaN;
  for (const row of csvRows(path, text, COLUMNS)) {
    const isMeant =
      row.text("provider") === provider &&
      row.text("region") === region &&
      row.text("gpu_type") === gpu &&
      row.number("is_spot") === (isSpot ? 1 : 0);
    if (!isMeant) continue;
    const atMs = Date.parse(`${row.text("snapshot_date")}T00:00:00Z`);
    if (!Number.isFinite(atMs)) {
      throw new TraceError(path, row.line, `snapshot_date is no day: ${JSON.stringify(row.text("snapshot_date"))}`);
    }
    if (Number.isNaN(firstMs)) firstMs = atMs;
    const day = (atMs - firstMs) / DAY_MS;
    if (day <= (prices.at(-1)?.day ?? -1)) {
      throw new TraceError(path, row.line, "snapshot_date is not after the one before: sort the prices by day");
    }
    prices.push({ day, usdPerGpuHour: row.number("price_per_gpu_hour_usd") });
  }
  if (prices.length === 0) {
    const kind = isSpot ? "spot" : "on demand";
    throw new TraceError(path, 1, `no price of ${gpu} at ${provider} ${region}, ${kind}`);
  }
  return prices;
}
