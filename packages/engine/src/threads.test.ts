import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { createEvidenceRing, nextSequence, readRecord } from "./evidence-ring.ts";
import { removeWorkerShare } from "./fleet-table.ts";
import { buildFleet, type FleetSpec, outstanding } from "./testing/fleet.ts";
import type { ThreadJob, ThreadReport } from "./testing/thread.ts";

const WORKERS = 3;
const EVIDENCE_RECORDS = 256;

function start(job: ThreadJob): { thread: Worker; report: Promise<ThreadReport> } {
  const thread = new Worker(new URL("./testing/thread.ts", import.meta.url), { workerData: job });
  const report = once(thread, "message").then(([message]) => message as ThreadReport);
  return { thread, report };
}

/** Waits until a cell that a thread counts up has reached a number. */
async function reach(cells: Int32Array, index: number, atLeast: number): Promise<void> {
  for (;;) {
    const seen = Atomics.load(cells, index);
    if (seen >= atLeast) return;
    await Atomics.waitAsync(cells, index, seen, 1000).value;
  }
}

const churnFleet: FleetSpec = {
  // two of one speed, so that threads want the same node; short cooldowns, so that trials are contended
  nodes: [
    { family: "A", maxInFlight: 3, cooldownMs: 16 },
    { family: "A", maxInFlight: 3, cooldownMs: 16 },
    { family: "B", maxInFlight: 2, cooldownMs: 16 },
  ],
  workers: WORKERS,
};

test("three threads book and release at once: no node is ever over its limit, and every count ends at 0", async () => {
  const { table } = buildFleet(churnFleet);
  const control = new SharedArrayBuffer(64);
  const threads = Array.from({ length: WORKERS }, (_, worker) =>
    start({ kind: "churn", buffer: table.buffer, fleet: churnFleet, worker, iterations: 20_000, control }),
  );
  const reports = await Promise.all(threads.map(({ report }) => report));
  for (const report of reports) {
    assert.equal(report.overbooked, 0);
    assert.ok(report.bookings > 100, `${report.bookings} bookings are too few to say anything`);
  }
  assert.deepEqual(outstanding(table), {});
});

test("a thread that is killed among others leaves exact counts once its share is taken out", async () => {
  // several times, since where the kill strikes is chance
  for (let round = 0; round < 8; round++) {
    const { table } = buildFleet(churnFleet);
    const control = new SharedArrayBuffer(64);
    const job = { kind: "churn", buffer: table.buffer, fleet: churnFleet, control } as const;
    const doomed = start({ ...job, worker: 2, iterations: 50_000_000 });
    const others = [0, 1].map((worker) => start({ ...job, worker, iterations: 5_000 }));
    await reach(new Int32Array(control), 0, 3000);
    await doomed.thread.terminate();
    removeWorkerShare(table, 2);
    await Promise.all(others.map(({ report }) => report));
    assert.deepEqual(outstanding(table), {});
  }
});

test("of three threads exactly one gets the trial of each node whose cooldown is over", async () => {
  const count = 200;
  const spec: FleetSpec = {
    nodes: Array.from({ length: count }, () => ({ family: "A", cooldownUntilMs: 50_000 })),
    workers: WORKERS,
  };
  const { table } = buildFleet(spec);
  const job = { kind: "trials", buffer: table.buffer, fleet: spec, control: new SharedArrayBuffer(64) } as const;
  const threads = Array.from({ length: WORKERS }, (_, worker) => start({ ...job, worker, iterations: count + 1 }));
  const reports = await Promise.all(threads.map(({ report }) => report));
  assert.equal(
    reports.reduce((sum, report) => sum + report.bookings, 0),
    count,
  );
  assert.equal(
    reports.reduce((sum, report) => sum + report.overbooked, 0),
    0,
  );
  assert.ok(table.total.inFlight.every((inFlight) => inFlight === 1));
});

test("a record read while another thread overwrites the ring is whole or absent, never a mix of two", async () => {
  const ring = createEvidenceRing(EVIDENCE_RECORDS);
  const iterations = 30_000;
  const control = new SharedArrayBuffer(64);
  const fleet: FleetSpec = { nodes: [{ family: "A" }] };
  const { report } = start({
    kind: "evidence",
    buffer: ring.buffer,
    fleet,
    worker: 0,
    iterations,
    records: EVIDENCE_RECORDS,
    control,
  });
  const done = new Int32Array(control);
  await reach(done, 0, 1);
  let whole = 0;
  let looks = 0;
  while (Atomics.load(done, 0) < iterations) {
    // from the newest, whose outcome is being added, to the oldest, which is being overwritten
    looks += 1;
    const sequence = nextSequence(ring) - 1 - (looks % EVIDENCE_RECORDS);
    const record = readRecord(ring, sequence);
    if (record === null) continue;
    whole += 1;
    const { depth, estimateMs, retryAfterMs, decidedAtMs, bookingRaces, attempt, previous } = record;
    const stamps = [depth, estimateMs, retryAfterMs, decidedAtMs, bookingRaces, attempt, previous];
    assert.deepEqual(
      [...stamps, record.families[0]?.depth],
      Array.from({ length: 8 }, () => sequence),
    );
    // the outcome is not there yet, or all there
    if (record.outcome === "running") assert.ok(record.status === -1 && Number.isNaN(record.durationMs));
    else
      assert.deepEqual([record.status, record.durationMs, record.reportedOutputTokens], [sequence, sequence, sequence]);
  }
  await report;
  assert.ok(whole > 0);
});
