/**
 * What was promised to the requests that run on a node: how many by class of token time, and the tightest promise of each
 * class. A decision reads one cell, the tightest of all; the classes say whom a slower step would harm.
 *
 * Classes are a factor of two wide, and each keeps the tightest promise that came while it was not empty, so that a fleet
 * whose policies have few targets is read exactly, and none is read as looser than it is.
 */

import { type BookingCounts, type FleetTable, TARGET_CLASSES } from "../fleet-table.ts";

/** Upper bound of class 1, ms per token: no engine is asked for more than 100 tokens/s of one stream. */
const TIGHTEST_CLASS_MS = 10;

/** Names of the class counts, by class. */
export const CLASS_COLUMNS = [
  "class0",
  "class1",
  "class2",
  "class3",
  "class4",
  "class5",
  "class6",
  "class7",
] as const satisfies readonly (keyof BookingCounts)[];

/** Class of a promised time per token: 0 none; then up to 10 ms, 20, 40, …, and all that is looser. */
export function targetClassOf(tokenTargetMs: number): number {
  if (!(tokenTargetMs < Number.POSITIVE_INFINITY)) return 0;
  const doublings = Math.ceil(Math.log2(Math.max(tokenTargetMs, TIGHTEST_CLASS_MS) / TIGHTEST_CLASS_MS));
  return Math.min(TARGET_CLASSES - 1, 1 + doublings);
}

/** After a count of a class changed: keeps its tightest promise and the node's. O(classes); the last writer stands. */
export function notePromise(table: FleetTable, row: number, targetClass: number, tokenTargetMs: number): void {
  if (targetClass > 0) {
    const cell = row * TARGET_CLASSES + targetClass;
    const isFirst = (table.total[CLASS_COLUMNS[targetClass] ?? "class0"][row] as number) <= 1;
    const us = Math.max(1, Math.min(2 ** 30, Math.round(tokenTargetMs * 1000)));
    if (isFirst || us < (table.classTargetUs[cell] as number)) table.classTargetUs[cell] = us;
  }
  noteTightest(table, row);
}

/** Writes the tightest promise of the classes that are not empty. */
export function noteTightest(table: FleetTable, row: number): void {
  const { total, classTargetUs } = table;
  for (let targetClass = 1; targetClass < TARGET_CLASSES; targetClass++) {
    if ((total[CLASS_COLUMNS[targetClass] ?? "class0"][row] as number) <= 0) continue;
    table.tightestUs[row] = classTargetUs[row * TARGET_CLASSES + targetClass] as number;
    return;
  }
  table.tightestUs[row] = 0;
}
