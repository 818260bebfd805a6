/** Step 2: on which nodes a beginning of the request's prompt is believed to stand in the prefix cache, and how much of it. */

import type { FleetTable } from "../fleet-table.ts";
import { clockUnits, type PrefixTable, readHolders, tokensBetween, type WarmNodes } from "../prefix-table.ts";
import type { RouteRequest } from "../route-request.ts";

/** Warm nodes of one request that are looked at: more of them are no better than the first ones. */
const WARM_MAX = 64;

interface Look {
  readonly warm: WarmNodes;
  readonly onHolder: (row: number, clock: number) => void;
  /** Tokens up to the mark that is looked at. */
  tokens: number;
}

/** The looks of each table; a thread has one table. */
const looks = new WeakMap<FleetTable, Look>();

/**
 * Looks where the request's prompt was sent before: from its longest mark to the shortest, so that the first one that a
 * node has is what it holds of it. What went into its cache since then has pushed it out once it fills the memory that
 * running requests leave; where nobody tells how large that is, what was seen of it (`cacheHits`) tells.
 *
 * @returns null when no node has any of it. O(marks).
 */
export function findWarmNodes(
  prefixes: PrefixTable,
  table: FleetTable,
  request: RouteRequest,
  { promptTokens, nowTick }: { promptTokens: number; nowTick: number },
): WarmNodes | null {
  const { marks } = request;
  if (marks === null) return null;
  let look = looks.get(table);
  if (look === undefined) {
    look = createLook(table);
    looks.set(table, look);
  }
  const { warm, onHolder } = look;
  for (let index = 0; index < warm.count; index++) warm.tokens[warm.rows[index] as number] = 0;
  warm.count = 0;
  const { hashes, shares } = marks;
  for (let mark = hashes.length - 1; mark >= 0 && warm.count < WARM_MAX; mark--) {
    look.tokens = (shares[mark] as number) * promptTokens;
    readHolders(prefixes, { model: request.model.index, hash: hashes[mark] as number, nowTick }, onHolder);
  }
  return warm.count > 0 ? warm : null;
}

function createLook(table: FleetTable): Look {
  const { cacheTokens, cacheClock, nodeRows } = table;
  const { kvTokens } = table.total;
  const warm: WarmNodes = { tokens: new Float64Array(nodeRows), rows: new Int32Array(WARM_MAX), count: 0 };
  const look: Look = {
    warm,
    tokens: 0,
    onHolder(row, clock) {
      if (row >= nodeRows || warm.count === WARM_MAX || (warm.tokens[row] as number) > 0) return;
      const since = tokensBetween(clock, clockUnits(cacheClock[row] as number));
      // unknown room (NaN) is no bound but that of the clock
      if (since === Number.POSITIVE_INFINITY || since > (cacheTokens[row] as number) - (kvTokens[row] as number))
        return;
      warm.tokens[row] = look.tokens;
      warm.rows[warm.count] = row;
      warm.count += 1;
    },
  };
  return look;
}
