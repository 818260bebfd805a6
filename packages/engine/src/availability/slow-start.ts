/**
 * Slow start: a node that comes back, or joins, is loaded gradually. It has cold caches, compiles on its first requests,
 * and everybody would find it the least loaded at once. For `slowStartMs` its rank counts as if it had the share of its
 * speed that `slowStartShare` says, so that its depth follows that of its neighbours in this proportion.
 *
 * Only the order of nodes changes: none is left out, so that a lone node, or one beside full ones, takes what comes, and
 * nodes that start together share as ever.
 */

import { TICK_MS } from "../bounds.ts";
import { extend, tickAfter } from "../deadline.ts";
import type { FleetTable } from "../fleet-table.ts";

/**
 * The share grows in steps, so that nodes that came back almost together rank alike. The first one is a tenth, as in
 * Envoy: enough to warm up.
 */
const STEPS = 10;

/** A node is back or new: its slow start begins. One that runs already begins anew. */
export function beginSlowStart(table: FleetTable, row: number, nowMs: number): void {
  const lengthMs = table.slowStartMs[row] as number;
  if (lengthMs > 0) extend(table.warmUntil, row, tickAfter(nowMs + lengthMs));
}

/** Share of its speed with which a node counts now, 0.1 to 1. */
export function slowStartShare(table: FleetTable, row: number, nowTick: number): number {
  const lengthMs = table.slowStartMs[row] as number;
  const leftMs = ((table.warmUntil[row] as number) - nowTick) * TICK_MS;
  if (leftMs <= 0 || lengthMs === 0) return 1;
  const gone = 1 - leftMs / lengthMs;
  // a length that was shortened meanwhile leaves more than there is: the first step
  return Math.min(STEPS, Math.max(1, Math.floor(gone * STEPS) + 1)) / STEPS;
}
