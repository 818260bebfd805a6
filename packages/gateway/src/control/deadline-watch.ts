/**
 * Wakes parked requests when a deadline passes that kept a node out. Everything else that makes room announces it at the
 * moment it happens; the end of a cooldown happens nowhere, so somebody has to look at the clock.
 */

import { announceRoom, CELL, ENDPOINTS, type FleetTable, tickOf } from "@zml/engine";
import type { FleetNode } from "./fleet.ts";

/**
 * How often the clock is looked at, ms. With nobody parked, which is nearly always, a look is one load of one cell, so
 * it is cheaper than an alarm that every worker would have to set.
 */
const LOOK_EVERY_MS = 250;

/** Starts to look. Returns what ends it. */
export function watchDeadlines(
  table: FleetTable,
  nodes: () => Iterable<Pick<FleetNode, "row" | "placements">>,
  clock: { nowMs(): number },
): () => void {
  let lastTick = tickOf(clock.nowMs());
  const timer = setInterval(() => {
    const nowTick = tickOf(clock.nowMs());
    const fromTick = lastTick;
    lastTick = nowTick;
    if (Atomics.load(table.cells, CELL.parked) === 0) return;
    if (hasDeadlinePassed(table, nodes(), { fromTick, nowTick })) announceRoom(table);
  }, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** True when a deadline of any of the nodes lies after `fromTick` and not after `nowTick`. */
function hasDeadlinePassed(
  table: FleetTable,
  nodes: Iterable<Pick<FleetNode, "row" | "placements">>,
  { fromTick, nowTick }: { fromTick: number; nowTick: number },
): boolean {
  const isBetween = (cells: Int32Array, index: number): boolean => {
    const tick = cells[index] as number;
    return tick > fromTick && tick <= nowTick;
  };
  for (const { row, placements } of nodes) {
    if (isBetween(table.cooldownUntil, row) || isBetween(table.backoffUntil, row)) return true;
    if (isBetween(table.trialUntil, row)) return true;
    for (let endpoint = 0; endpoint < ENDPOINTS.length; endpoint++) {
      if (isBetween(table.endpointUntil, row * ENDPOINTS.length + endpoint)) return true;
    }
    for (const placement of placements.values()) {
      if (isBetween(table.misconfiguredUntil, placement)) return true;
    }
  }
  return false;
}
