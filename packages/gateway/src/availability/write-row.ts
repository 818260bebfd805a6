/** The columns that a good poll writes. Everything here runs inside one `publish`. */

import { DEFAULT_MAX_IN_FLIGHT, type FleetTable, writeCapacity } from "@zml/engine";
import { type Capabilities, defaultMaxInFlight, type NodeReading } from "./adapters/adapter.ts";
import type { GpuMemory } from "./gpu-memory.ts";
import type { MeasuredCapacity } from "./measure-capacity.ts";
import type { NodeSpec } from "./node-spec.ts";
import { writePlacements } from "./write-capabilities.ts";

/** Writes load, limits and models of a row. */
export function writeReading(table: FleetTable, spec: NodeSpec, reading: NodeReading, ofEngine: Capabilities): void {
  const { row } = spec;
  table.concurrencyLimit[row] = reading.concurrencyLimit;
  table.kvUse[row] = reading.kvUse;
  const kvCapacityTokens = kvCapacityOf(reading);
  if (kvCapacityTokens > 0) {
    table.cacheTokens[row] = kvCapacityTokens;
    for (const { placement } of spec.placements) table.kvCapacityTokens[placement] = kvCapacityTokens;
  }
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

/** Folds capacity samples into the placements of a node. */
export function writeCapacities(table: FleetTable, spec: NodeSpec, measured: readonly MeasuredCapacity[]): void {
  for (const { upstreamId, sample } of measured) {
    for (const { placement, upstreamId: served } of spec.placements) {
      if (upstreamId === null || upstreamId === served) writeCapacity(table, placement, sample);
    }
  }
}

/** Free tokens and their share tell the whole; a cache that is nearly full tells it too roughly. NaN: not told. */
function kvCapacityOf({ kvHeadroomTokens, kvUse }: NodeReading): number {
  return kvUse < KV_USE_TELLING ? kvHeadroomTokens / (1 - kvUse) : Number.NaN;
}

const KV_USE_TELLING = 0.9;

function maxInFlightOf(spec: NodeSpec, reading: NodeReading): number {
  if (spec.maxInFlight !== null) return spec.maxInFlight;
  const told = defaultMaxInFlight(reading);
  return Number.isNaN(told) ? DEFAULT_MAX_IN_FLIGHT : told;
}
