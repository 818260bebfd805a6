/** The fleet in four numbers, without the report that a person reads. */

import { CELL, depthOf, type FleetTable } from "@zml/engine";
import type { Fleet } from "./fleet.ts";
import { stateOf } from "./fleet-report.ts";

export interface FleetSample {
  readonly parked: number;
  readonly depth: number;
  readonly healthyNodes: number;
  /** Of the nodes whose price is known; null: of none it is. */
  readonly priceUsdPerHour: number | null;
}

/** O(nodes), some microseconds per hundred. */
export function sampleFleet({ fleet, table, nowMs }: { fleet: Fleet; table: FleetTable; nowMs: number }): FleetSample {
  let depth = 0;
  let healthyNodes = 0;
  let priceUsdPerHour: number | null = null;
  for (const { row } of fleet.nodes) {
    depth += depthOf(table, row);
    if (stateOf(table, row, nowMs) === "healthy") healthyNodes += 1;
    const price = table.priceUsdPerHour[row] ?? Number.NaN;
    if (!Number.isNaN(price)) priceUsdPerHour = (priceUsdPerHour ?? 0) + price;
  }
  return { parked: Atomics.load(table.cells, CELL.parked), depth, healthyNodes, priceUsdPerHour };
}
