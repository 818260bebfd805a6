/** A worker thread of the thread tests: it decides and settles on a table that it shares with others. */

import { parentPort, workerData } from "node:worker_threads";
import {
  type Attempt,
  attachEvidenceRing,
  attachFleetTable,
  createDecision,
  createRetryBudget,
  decide,
  noteCommit,
  type RouteRequest,
  settle,
  writeDecision,
  writeOutcome,
} from "../index.ts";
import { attemptOf, buildFleet, type FleetSpec } from "./fleet.ts";

/** What a thread is started with. */
export interface ThreadJob {
  kind: "churn" | "trials" | "evidence";
  buffer: SharedArrayBuffer;
  fleet: FleetSpec;
  worker: number;
  iterations: number;
  /** Records of the ring in `buffer`, for `evidence`. */
  records?: number;
  /** Cell 0 counts the steps of all threads; the cells from 1 on count who really holds a node, by row. */
  control: SharedArrayBuffer;
}

/** What it found. */
export interface ThreadReport {
  decisions: number;
  bookings: number;
  /** Bookings that were over the node's limit; must be 0. */
  overbooked: number;
}

const job = workerData as ThreadJob;
const control = new Int32Array(job.control);
const report: ThreadReport = { decisions: 0, bookings: 0, overbooked: 0 };
switch (job.kind) {
  case "churn":
    churn();
    break;
  case "trials":
    trials();
    break;
  case "evidence":
    evidence();
    break;
}
parentPort?.postMessage(report);

/** Books and ends bookings at random, with every kind of end, and lets all go at the end. */
function churn(): void {
  const table = attachFleetTable(job.buffer);
  const fleet = buildFleet(job.fleet);
  const decider = { ...fleet.decider(), table, worker: job.worker };
  const settler = {
    table,
    worker: job.worker,
    limits: { maxAttempts: 3, windowMs: 30_000 },
    budget: createRetryBudget(0.2, 3),
  };
  const decision = createDecision();
  const random = seeded(job.worker + 1);
  const held: { request: RouteRequest; attempt: Attempt }[] = [];
  const letGo = (nowMs: number): void => {
    const [one] = held.splice(Math.floor(random() * held.length), 1);
    if (one === undefined) return;
    const dice = random();
    Atomics.sub(control, 1 + one.attempt.booking.row, 1);
    if (dice < 0.3) noteCommit(settler, one.attempt, nowMs);
    const status = dice < 0.9 ? 200 : dice < 0.93 ? 500 : dice < 0.96 ? 429 : 404;
    settle(settler, one.request, one.attempt, { kind: "answer", status, verdict: null, retryAfterMs: 16 }, nowMs);
  };
  let nowMs = 0;
  for (let step = 0; step < job.iterations; step++) {
    // one clock for all threads: a millisecond passes with every step of any of them
    nowMs = 1000 + Atomics.add(control, 0, 1);
    Atomics.notify(control, 0);
    if (random() < 0.6) {
      const request = fleet.request();
      const booking = decide(decider, request, nowMs, random(), decision);
      report.decisions += 1;
      if (booking !== null) {
        report.bookings += 1;
        const max = table.maxInFlight[booking.row] ?? 0;
        const holders = Atomics.add(control, 1 + booking.row, 1);
        if (decision.depth >= max || holders >= max) report.overbooked += 1;
        held.push({ request, attempt: attemptOf(booking, decision, { sentAtMs: nowMs }) });
      }
    } else {
      letGo(nowMs);
    }
  }
  while (held.length > 0) letGo(nowMs);
}

/** Decides until no node is left, and keeps what it got. */
function trials(): void {
  const table = attachFleetTable(job.buffer);
  const fleet = buildFleet(job.fleet);
  const decider = { ...fleet.decider(), table, worker: job.worker };
  const decision = createDecision();
  for (let step = 0; step < job.iterations; step++) {
    report.decisions += 1;
    const booking = decide(decider, fleet.request(), 100_000, step / job.iterations, decision);
    if (booking === null) break;
    if (decision.trial.node !== 0) report.bookings += 1;
    else report.overbooked += 1;
  }
}

/** Writes records whose numbers all say which record they are. */
function evidence(): void {
  const fleet = buildFleet(job.fleet);
  const ring = attachEvidenceRing(job.buffer, job.records ?? 0);
  const decision = createDecision();
  decide(fleet.decider(), fleet.request(), 0, 0, decision);
  for (let step = 0; step < job.iterations; step++) {
    decision.depth = step;
    decision.estimateMs = step;
    decision.bookingRaces = step;
    decision.retryAfterMs = step;
    decision.evidence.depth[0] = step;
    const request = { ...fleet.request(), dispatches: step };
    const sequence = writeDecision(ring, fleet.table, request, decision, { nowMs: step, previous: step });
    writeOutcome(ring, sequence, {
      outcome: "success",
      status: step,
      fault: null,
      firstByteMs: step,
      firstTokenMs: step,
      durationMs: step,
      promptTokens: step,
      outputTokens: step,
      costUsd: step,
      cachedTokens: Number.NaN,
    });
    report.decisions += 1;
    Atomics.store(control, 0, step + 1);
    if (step === 0) Atomics.notify(control, 0);
  }
}

function seeded(seed: number): () => number {
  let state = seed * 2_654_435_761;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}
