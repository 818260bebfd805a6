/** The columns that a good poll writes. Everything here runs inside one `publish`. */

import {
  DEFAULT_MAX_IN_FLIGHT,
  depthOf,
  type FleetTable,
  foldCapacity,
  foldMean,
  foreignLoad,
  healthScore,
} from "@zml/engine";
import { type Capabilities, defaultMaxInFlight, type NodeReading } from "./adapters/adapter.ts";
import type { CapacitySample } from "./capacity-meter.ts";
import type { GpuMemory } from "./gpu-memory.ts";
import type { MeasuredCapacity } from "./measure-capacity.ts";
import type { NodeSpec } from "./node-spec.ts";
import { writePlacements } from "./write-capabilities.ts";

/** Half-life of the drain rate, ms of time with requests: longer than a burst, shorter than a change of load. */
const DRAIN_HALF_LIFE_MS = 30_000;

/** Writes load, limits and models of a row. */
export function writeReading(table: FleetTable, spec: NodeSpec, reading: NodeReading, ofEngine: Capabilities): void {
  const { row } = spec;
  table.concurrencyLimit[row] = reading.concurrencyLimit;
  table.kvUse[row] = reading.kvUse;
  table.maxInFlight[row] = maxInFlightOf(spec, reading);
  writePlacements(table, spec, reading, ofEngine);
}

/** Writes free memory: by the exporter beside the node, else by the node itself. */
export function writeFreeMemory(
  table: FleetTable,
  { spec, reading, gpuMemory }: { spec: NodeSpec; reading: NodeReading | null; gpuMemory: GpuMemory | null },
  nowMs: number,
): void {
  const exported = gpuMemory?.freeGib(nowMs) ?? Number.NaN;
  table.freeMemoryGib[spec.row] = Number.isNaN(exported) ? (reading?.freeMemoryGib ?? Number.NaN) : exported;
}

/** Writes what the node reported of its load and what others have in it. */
export function writeLoad(
  table: FleetTable,
  row: number,
  reading: NodeReading,
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
  const limit = table.concurrencyLimit[row] as number;
  table.healthScore[row] = healthScore({
    errorRate: table.errorRate[row] as number,
    depth: depthOf(table, row),
    concurrency: Number.isNaN(limit) ? (table.maxInFlight[row] as number) : limit,
  });
}

/**
 * Folds capacity samples into the placements of a node. What a node gave while it had little to do is a lower bound:
 * it may raise the capacity and never lowers it, nor does it start one below what is assumed. Else the first requests
 * of a quiet node would make it look slow, and a node that looks slow gets no load to show more.
 */
export function writeCapacities(table: FleetTable, spec: NodeSpec, measured: readonly MeasuredCapacity[]): void {
  for (const { upstreamId, sample } of measured) {
    for (const { placement, upstreamId: served } of spec.placements) {
      if (upstreamId === null || upstreamId === served) writeCapacity(table, placement, sample);
    }
  }
}

function writeCapacity(table: FleetTable, placement: number, sample: CapacitySample): void {
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

function maxInFlightOf(spec: NodeSpec, reading: NodeReading): number {
  if (spec.maxInFlight !== null) return spec.maxInFlight;
  const told = defaultMaxInFlight(reading);
  return Number.isNaN(told) ? DEFAULT_MAX_IN_FLIGHT : told;
}
