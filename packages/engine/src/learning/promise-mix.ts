/**
 * What others promised to the requests that they have on a node: nobody tells, so it is taken to be what we promised to those
 * that we sent there. Gateways that follow the same policies send the same kinds of requests to a node: tight ones where
 * steps are short, loose ones where they are cheap. Control thread only.
 */

import { targetClassOf } from "../dispatch/residents.ts";
import { type FleetTable, TARGET_CLASSES } from "../fleet-table.ts";

/** Weight of the newest request in a node's mix: a minute's worth of a sixteenth of a busy node's traffic. */
const MIX_WEIGHT = 1 / 32;

/** Share of a node's requests that a promise must have to stand for the tightest of others. */
const TIGHT_SHARE_MIN = 0.05;

/**
 * Takes in what a request on a row was promised. Inside a `publish`. O(classes).
 *
 * @param promisedMs time per token, ms. NaN: none.
 */
export function learnPromise(table: FleetTable, row: number, promisedMs: number): void {
  const { othersMix, othersUs } = table;
  const first = row * TARGET_CLASSES;
  const targetClass = targetClassOf(promisedMs);
  let sum = 0;
  for (let cell = first; cell < first + TARGET_CLASSES; cell++) sum += othersMix[cell] as number;
  const weight = sum > 0 ? MIX_WEIGHT : 1;
  for (let cell = first; cell < first + TARGET_CLASSES; cell++) {
    othersMix[cell] = (othersMix[cell] as number) * (1 - weight) + (cell === first + targetClass ? weight : 0);
  }
  if (targetClass > 0) othersUs[first + targetClass] = Math.round(Math.min(2 ** 30, Math.max(1, promisedMs * 1000)));
  table.othersTightestUs[row] = Number.NaN;
  table.othersTightShare[row] = 0;
  for (let cell = first + 1; cell < first + TARGET_CLASSES; cell++) {
    const share = othersMix[cell] as number;
    if (share < TIGHT_SHARE_MIN) continue;
    table.othersTightestUs[row] = othersUs[cell] as number;
    table.othersTightShare[row] = share;
    return;
  }
}
