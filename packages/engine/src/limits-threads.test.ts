import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { countInWindow, windowTick } from "./admission/sliding-window.ts";
import { createLimitsTable, type RowLimits, removeWorkerLimits, writeLimits } from "./limits-table.ts";
import type { LimitsJob } from "./testing/limits-thread.ts";

const WORKERS = 3;
const NONE: RowLimits = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  concurrentRequests: null,
  budgetUsdPerDay: null,
  budgetUsdPerMonth: null,
};

function start(job: LimitsJob): Worker {
  return new Worker(new URL("./testing/limits-thread.ts", import.meta.url), { workerData: job });
}

for (const [name, limits, tokens, perMinute] of [
  ["requests", { requestsPerMinute: 3_000 }, 1, 3_000],
  ["tokens", { tokensPerMinute: 300_000 }, 100, 3_000],
] as const) {
  test(`three threads that ask without end get the limit of ${name} to within 1 %, of the key and of the account`, async () => {
    for (const row of [0, 1]) {
      const table = createLimitsTable({ rows: 2, workers: WORKERS });
      writeLimits(table, row, { ...NONE, ...limits });
      const control = new SharedArrayBuffer(64);
      // 90,000 steps of 4 ms are six minutes, with five times as many requests as the limit lets pass
      const job = { buffer: table.buffer, stepMs: 4, steps: 30_000, tokens, holds: 20, control };
      const threads = Array.from({ length: WORKERS }, (_, worker) => start({ ...job, worker }));
      const admitted = await Promise.all(
        threads.map((thread) => once(thread, "message").then(([count]) => Number(count))),
      );
      const sum = admitted.reduce((total, count) => total + count, 0);
      const share = sum / (perMinute * 6);
      // a thread that loses its core for 10 ms comes back with a time that is seconds old on this clock
      assert.ok(share >= 0.99 && share <= 1.01, `${sum} admitted, ${share} of the limit`);
      const endMs = 3 * 30_000 * 4;
      for (const each of [0, 1]) {
        assert.equal(table.running[each], 0);
        assert.equal(countInWindow(table[name], each, windowTick(endMs + 60_500)), 0, "all of it leaves the window");
      }
    }
  });
}

test("three threads never run more than the limit at once", async () => {
  const table = createLimitsTable({ rows: 2, workers: WORKERS });
  writeLimits(table, 0, { ...NONE, concurrentRequests: 16 });
  writeLimits(table, 1, { ...NONE, concurrentRequests: 12 });
  const control = new SharedArrayBuffer(64);
  const job = { buffer: table.buffer, stepMs: 1, steps: 50_000, tokens: 10, holds: 8, control };
  await Promise.all([0, 1, 2].map((worker) => once(start({ ...job, worker }), "message")));
  const [, running = -1, most = 0] = new Int32Array(control);
  assert.equal(running, 0);
  assert.ok(most > 8 && most <= 12, `${most} ran at once`);
});

test("a thread that is killed leaves exact counts", async () => {
  for (let round = 0; round < 4; round++) {
    const table = createLimitsTable({ rows: 2, workers: WORKERS });
    const limits = { ...NONE, concurrentRequests: 16, requestsPerMinute: 100_000, tokensPerMinute: 10_000_000 };
    writeLimits(table, 0, limits);
    writeLimits(table, 1, { ...limits, concurrentRequests: 12 });
    const control = new SharedArrayBuffer(64);
    const cells = new Int32Array(control);
    const job = { buffer: table.buffer, stepMs: 1, tokens: 10, holds: 8, control };
    const doomed = start({ ...job, worker: 2, steps: 50_000_000 });
    // listened to from the start: they may end before the doomed one does
    const others = [0, 1].map((worker) => once(start({ ...job, worker, steps: 20_000 }), "message"));
    while (Atomics.load(cells, 0) < 3_000) await Atomics.waitAsync(cells, 15, 0, 1).value;
    await doomed.terminate();
    removeWorkerLimits(table, 2, 2);
    await Promise.all(others);
    const nowMs = Atomics.load(cells, 0);
    for (const row of [0, 1]) {
      assert.equal(table.running[row], 0);
      assert.equal(countInWindow(table.requests, row, windowTick(nowMs + 61_000)), 0);
      assert.equal(countInWindow(table.tokens, row, windowTick(nowMs + 61_000)), 0);
    }
  }
});
