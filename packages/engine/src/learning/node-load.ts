/** What a good poll says about a node's load and speed, folded into the fleet table. Everything here runs inside one `publish`. */

import { healthInputOf, healthScore } from "../availability/health-score.ts";
import { foldCapacity, foldMean } from "../availability/throughput.ts";
import type { FleetTable } from "../fleet-table.ts";
import { foreignLoad } from "../load.ts";
import type { CapacitySample } from "./capacity-meter.ts";

/** Half-life of the drain rate, ms of time with requests: longer than a burst, shorter than a change of load. */
const DRAIN_HALF_LIFE_MS = 30_000;

/** Writes what the node reported of its load and what others have in it. */
export function writeLoad(
  table: FleetTable,
  row: number,
  reading: { readonly running: number; readonly waiting: number },
  scrape: { ownAtScrape: number; elsewhereAtScrape: number },
): void {
  table.running[row] = reading.running;
  table.waiting[row] = reading.waiting;
  table.foreign[row] = foreignLoad({ running: reading.running, waiting: reading.waiting, ...scrape });
}

/** Marks load as unknown: the node has not told it for too long. */
export function forgetLoad(table: FleetTable, row: number): void {
  table.running[row] = Number.NaN;
  table.waiting[row] = Number.NaN;
  table.foreign[row] = Number.NaN;
}

/** Writes the health score of a row out of what stands in it. */
export function writeHealthScore(table: FleetTable, row: number): void {
  table.healthScore[row] = healthScore(healthInputOf(table, row));
}

/**
 * Folds a capacity sample into a placement. What a node gave while it had little to do is a lower bound: it may raise
 * the capacity and never lowers it, nor does it start one below what is assumed. Else the first requests of a quiet node
 * would make it look slow, and a node that looks slow gets no load to show more.
 */
export function writeCapacity(table: FleetTable, placement: number, sample: CapacitySample): void {
  const measured = table.measuredTokensPerSecond[placement] as number;
  const floor = Number.isNaN(measured) ? (table.tokensPerSecond[placement] as number) : measured;
  if (!sample.isLoaded && sample.tokensPerSecond <= floor) return;
  const folded = foldCapacity(measured, sample.tokensPerSecond, sample.busyMs);
  table.measuredTokensPerSecond[placement] = folded;
  table.tokensPerSecond[placement] = folded;
}

/**
 * Folds released bookings into the drain rate. Time in which the node had none of our requests says nothing about how
 * fast it would end them.
 */
export function writeDrain(table: FleetTable, row: number, released: { count: number; intervalMs: number }): void {
  const { count, intervalMs } = released;
  if (!(intervalMs > 0) || (count === 0 && Atomics.load(table.total.inFlight, row) === 0)) return;
  const before = table.drainPerSecond[row] as number;
  if (count === 0 && Number.isNaN(before)) return;
  const weight = 1 - 2 ** (-intervalMs / DRAIN_HALF_LIFE_MS);
  table.drainPerSecond[row] = foldMean(before, (count / intervalMs) * 1000, weight);
}
