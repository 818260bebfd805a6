/** Load of a node as decisions read it: how many requests stand on it, whoever sent them. */

import type { FleetTable } from "./fleet-table.ts";

/**
 * Load that others put on a node, requests, from one scrape:
 * max(0, running + waiting − own at the scrape − other gateways' at the scrape).
 *
 * @param scrape `running` and `waiting` as reported (NaN: not reported), `ownAtScrape` the mean of our in-flight count
 *   at sending and at receipt of the poll, `elsewhereAtScrape` the same of other gateways.
 * @returns requests; NaN when the node reports neither number.
 */
export function foreignLoad(scrape: {
  running: number;
  waiting: number;
  ownAtScrape: number;
  elsewhereAtScrape: number;
}): number {
  if (Number.isNaN(scrape.running) && Number.isNaN(scrape.waiting)) return Number.NaN;
  const reported = orZero(scrape.running) + orZero(scrape.waiting);
  return Math.max(0, reported - scrape.ownAtScrape - scrape.elsewhereAtScrape);
}

/** Depth now, requests: foreign + own + other gateways'. An unknown foreign load counts as 0. */
export function depthOf(table: FleetTable, row: number): number {
  return depthWith(table, row, table.total.inFlight[row] ?? 0);
}

/** Depth with a count of our own that was read before. While a dead worker's share is taken out, it may be below 0. */
export function depthWith(table: FleetTable, row: number, inFlight: number): number {
  return Math.max(0, othersOn(table, row) + inFlight);
}

/** The part of the depth that is not ours, requests. */
function othersOn(table: FleetTable, row: number): number {
  return orZero(table.foreign[row]) + (table.elsewhere[row] ?? 0);
}

/** True when the node said that it is overloaded, without saying for how long, and no poll came since. */
export function isRankedLast(table: FleetTable, row: number): boolean {
  const overloadedAt = table.overloadedAtPoll[row] as number;
  return overloadedAt !== 0 && overloadedAt === (table.goodPolls[row] as number) + 1;
}

function orZero(value: number | undefined): number {
  return value === undefined || Number.isNaN(value) ? 0 : value;
}
