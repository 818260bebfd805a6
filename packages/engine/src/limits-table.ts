/**
 * The limits table: what keys and accounts may use and have used, as columns over one `SharedArrayBuffer`. A row is a key
 * or an account; the control thread gives rows out and writes the limits, workers count without a lock. Who may write a
 * cell is part of its column, as in the fleet table:
 *
 * - *limits* are the control thread's. Negative: none. They may change at any time; the counts stay.
 * - *windows* change by compare-and-exchange, by any worker (see `admission/sliding-window.ts`).
 * - *running* is shared, with each worker's own share beside it, so that a dead worker's can be taken out.
 * - *spent* and *pending* are each worker's own and only added up: no Float64 cell has two writers. What a dead worker
 *   has spent stays; what it held back is let go.
 */

import { assert } from "./assert.ts";
import { LIMIT_ROWS_MAX } from "./bounds.ts";
import { settleCount } from "./shared-count.ts";

/** Slots of a window: 121 are in it, the others keep a slot from being used again while somebody still looks at it. */
export const WINDOW_SLOTS = 128;

/** Counts of one thing over the last minute. */
export interface WindowColumns {
  /** The most in 60 s; -1: no limit. */
  readonly limit: Int32Array;
  /** Sum of the slots that have not been taken out. */
  readonly sum: Int32Array;
  /** Tick up to which slots have been taken out. A hint: taking out is done by the slots themselves. */
  readonly expired: Int32Array;
  /** row × `WINDOW_SLOTS` + slot. */
  readonly slots: Int32Array;
}

/** Views of one limits table. */
export interface LimitsTable {
  readonly buffer: SharedArrayBuffer;
  readonly rows: number;
  readonly workers: number;
  /** 1: the row has a limit of any kind; else its limits are not looked at. */
  readonly isLimited: Int32Array;
  readonly requests: WindowColumns;
  readonly tokens: WindowColumns;
  /** The most requests at one time; -1: no limit. */
  readonly runningLimit: Int32Array;
  readonly running: Int32Array;
  /** Each worker's own share of `running`. */
  readonly ownRunning: readonly Int32Array[];
  /** Budgets, USD; NaN: none. */
  readonly dayBudgetUsd: Float64Array;
  readonly monthBudgetUsd: Float64Array;
  /** What `spent` was when the day, and the month, began, USD. */
  readonly dayBaseUsd: Float64Array;
  readonly monthBaseUsd: Float64Array;
  /** Spent since the row was taken, USD, each worker's own. */
  readonly ownSpentUsd: readonly Float64Array[];
  /** What requests that run are expected to cost, USD, each worker's own. */
  readonly ownPendingUsd: readonly Float64Array[];
}

function layOut(buffer: SharedArrayBuffer, rows: number, workers: number): { table: LimitsTable; bytes: number } {
  let offset = HEAD_BYTES;
  const isDry = buffer.byteLength === 0;
  const float64 = (length: number): Float64Array => {
    const start = offset;
    offset += length * 8;
    return isDry ? new Float64Array(0) : new Float64Array(buffer, start, length);
  };
  const int32 = (length: number): Int32Array => {
    const start = offset;
    offset += Math.ceil(length / 2) * 8;
    return isDry ? new Int32Array(0) : new Int32Array(buffer, start, length);
  };
  const window = (): WindowColumns => ({
    limit: int32(rows),
    sum: int32(rows),
    expired: int32(rows),
    slots: int32(rows * WINDOW_SLOTS),
  });
  const table: LimitsTable = {
    buffer,
    rows,
    workers,
    isLimited: int32(rows),
    requests: window(),
    tokens: window(),
    runningLimit: int32(rows),
    running: int32(rows),
    ownRunning: Array.from({ length: workers }, () => int32(rows)),
    dayBudgetUsd: float64(rows),
    monthBudgetUsd: float64(rows),
    dayBaseUsd: float64(rows),
    monthBaseUsd: float64(rows),
    ownSpentUsd: Array.from({ length: workers }, () => float64(rows)),
    ownPendingUsd: Array.from({ length: workers }, () => float64(rows)),
  };
  return { table, bytes: offset };
}

/** Rows and workers, in front of the columns. */
const HEAD_BYTES = 8;

/** Makes an empty table. All zeros, so that memory is touched only for rows that are used. */
export function createLimitsTable({ rows = LIMIT_ROWS_MAX, workers }: { rows?: number; workers: number }): LimitsTable {
  assert(Number.isInteger(rows) && rows > 0, "a limits table has at least one row");
  assert(Number.isInteger(workers) && workers > 0, "a limits table has at least one worker");
  const { bytes } = layOut(new SharedArrayBuffer(0), rows, workers);
  const { table } = layOut(new SharedArrayBuffer(bytes), rows, workers);
  new Int32Array(table.buffer, 0, 2).set([rows, workers]);
  return table;
}

/** Attaches to a table that another thread made. */
export function attachLimitsTable(buffer: SharedArrayBuffer): LimitsTable {
  const [rows = 0, workers = 0] = new Int32Array(buffer, 0, 2);
  const { table, bytes } = layOut(buffer, rows, workers);
  assert(bytes === buffer.byteLength, "the buffer has the size of the table that it states");
  return table;
}

/** Limits of a row, with nothing left out. */
export interface RowLimits {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
  readonly concurrentRequests: number | null;
  readonly budgetUsdPerDay: number | null;
  readonly budgetUsdPerMonth: number | null;
}

/** Writes the limits of a row; what was counted stays. Control thread only. */
export function writeLimits(table: LimitsTable, row: number, limits: RowLimits): void {
  table.requests.limit[row] = limits.requestsPerMinute ?? -1;
  table.tokens.limit[row] = limits.tokensPerMinute ?? -1;
  table.runningLimit[row] = limits.concurrentRequests ?? -1;
  table.dayBudgetUsd[row] = limits.budgetUsdPerDay ?? Number.NaN;
  table.monthBudgetUsd[row] = limits.budgetUsdPerMonth ?? Number.NaN;
  table.isLimited[row] = Object.values(limits).some((limit) => limit !== null) ? 1 : 0;
}

/** Spent since the row was taken, USD, over all workers. O(workers). */
export function spentUsd(table: LimitsTable, row: number): number {
  let sum = 0;
  for (let worker = 0; worker < table.workers; worker++) sum += table.ownSpentUsd[worker]?.[row] as number;
  return sum;
}

/** What requests that run are expected to cost, USD, over all workers. O(workers). */
export function pendingUsd(table: LimitsTable, row: number): number {
  let sum = 0;
  for (let worker = 0; worker < table.workers; worker++) sum += table.ownPendingUsd[worker]?.[row] as number;
  return sum;
}

/** A new day, or a new month, begins for a row: what follows counts for it. Control thread only. */
export function beginPeriod(table: LimitsTable, row: number, period: "day" | "month", alreadySpentUsd = 0): void {
  const base = period === "day" ? table.dayBaseUsd : table.monthBaseUsd;
  base[row] = spentUsd(table, row) - alreadySpentUsd;
}

/**
 * Takes what a worker that died held out of the counts. It may have died between its own share and the shared count, or
 * between a slot and the sum, so that both are held to what they are made of. O(rows in use).
 *
 * @param rows rows that were ever given out
 */
export function removeWorkerLimits(table: LimitsTable, worker: number, rows: number): void {
  const own = table.ownRunning[worker];
  const pending = table.ownPendingUsd[worker];
  assert(own !== undefined && pending !== undefined, "the worker exists");
  for (let row = 0; row < rows; row++) {
    Atomics.sub(table.running, row, own[row] as number);
    own[row] = 0;
    pending[row] = 0;
    settleCount(table.running, row, () => {
      let sum = 0;
      for (const share of table.ownRunning) sum += share[row] as number;
      return sum;
    });
    for (const { sum, slots } of [table.requests, table.tokens]) {
      settleCount(sum, row, () => {
        let total = 0;
        for (let slot = row * WINDOW_SLOTS; slot < (row + 1) * WINDOW_SLOTS; slot++) {
          total += Atomics.load(slots, slot) & COUNT_MASK;
        }
        return total;
      });
    }
  }
}

/** A slot: the lap that it counts in above, the count below (see `admission/sliding-window.ts`). */
export const COUNT_BITS = 27;
export const COUNT_MASK = 2 ** COUNT_BITS - 1;
