/** Step 4: what a node is sent will stand in its prefix cache. */

import type { FleetTable } from "../fleet-table.ts";
import { clockUnits, noteHolder, type PrefixTable } from "../prefix-table.ts";
import type { RouteRequest } from "../route-request.ts";

/** Notes the beginnings of a prompt for the node that gets it. O(marks). */
export function notePrompt(
  prefixes: PrefixTable,
  table: FleetTable,
  request: RouteRequest,
  { row, nowTick }: { row: number; nowTick: number },
): void {
  if (request.marks === null) return;
  const { hashes } = request.marks;
  const holder = { row, clock: clockUnits(table.cacheClock[row] as number) };
  const beginning = { model: request.model.index, hash: 0, nowTick };
  for (let mark = 0; mark < hashes.length; mark++) {
    beginning.hash = hashes[mark] as number;
    noteHolder(prefixes, beginning, holder);
  }
}
