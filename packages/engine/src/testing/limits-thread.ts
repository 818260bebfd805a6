/** A worker thread of the limit tests: it takes and closes allowances on a table that it shares with others. */

import { parentPort, workerData } from "node:worker_threads";
import { type Allowance, closeAllowance, isRefusedAllowance, takeAllowance } from "../admission/allowance.ts";
import { attachLimitsTable } from "../limits-table.ts";

/** What a thread is started with. */
export interface LimitsJob {
  buffer: SharedArrayBuffer;
  worker: number;
  /** Milliseconds of the shared clock that a step of any thread takes, and how many it makes. */
  stepMs: number;
  steps: number;
  tokens: number;
  /** Requests that a thread holds before it closes the oldest. */
  holds: number;
  /** Cell 0: steps of all threads, which is the clock. Cell 1: requests that run. Cell 2: the most that ever ran. */
  control: SharedArrayBuffer;
}

const { buffer, worker, stepMs, steps, tokens, holds, control } = workerData as LimitsJob;
const cells = new Int32Array(control);
const table = attachLimitsTable(buffer);
const held: Allowance[] = [];
let admitted = 0;
for (let step = 0; step < steps; step++) {
  const nowMs = Atomics.add(cells, 0, 1) * stepMs;
  const taken = takeAllowance(table, worker, { key: 0, account: 1 }, { tokens, nowMs });
  if (isRefusedAllowance(taken)) {
    close(nowMs);
    continue;
  }
  admitted += 1;
  const running = Atomics.add(cells, 1, 1) + 1;
  if (running > Atomics.load(cells, 2)) Atomics.store(cells, 2, running);
  held.push(taken);
  if (held.length > holds) close(nowMs);
}
while (held.length > 0) close(Atomics.load(cells, 0) * stepMs);
parentPort?.postMessage(admitted);

function close(nowMs: number): void {
  const oldest = held.shift();
  if (oldest === undefined) return;
  Atomics.sub(cells, 1, 1);
  closeAllowance(table, worker, oldest, { usedTokens: tokens, nowMs });
}
