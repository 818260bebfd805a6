import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { drawTicket, enterQueue, headsBefore, leaveQueue, queueOf, setHead } from "./admission/saturation-queue.ts";
import { PLACEMENTS_PER_NODE } from "./bounds.ts";
import { decide } from "./decide.ts";
import { createDecision } from "./decision.ts";
import { applyUpdate, type Model } from "./directory.ts";
import { noteFirstToken } from "./dispatch/booking.ts";
import type { AttemptEnd } from "./failover/outcome.ts";
import { createRetryBudget } from "./failover/retry-budget.ts";
import {
  addToCell,
  BOOKING_COUNT_NAMES,
  CELL,
  isRowIdle,
  publish,
  removeWorkerShare,
  takeNodeRow,
} from "./fleet-table.ts";
import { foreignLoad } from "./load.ts";
import type { RouteRequest } from "./route-request.ts";
import { type Attempt, noteCommit, settle } from "./settle.ts";
import { attemptOf, buildFleet, type Fleet, outstanding } from "./testing/fleet.ts";

const WORKERS = 3;
const NODES = 4;
const MAX_IN_FLIGHT = 3;

const ENDS: readonly AttemptEnd[] = [
  { kind: "answer", status: 200, verdict: null, retryAfterMs: Number.NaN },
  { kind: "answer", status: 400, verdict: null, retryAfterMs: Number.NaN },
  { kind: "answer", status: 413, verdict: null, retryAfterMs: Number.NaN },
  { kind: "answer", status: 429, verdict: null, retryAfterMs: 1000 },
  { kind: "answer", status: 404, verdict: null, retryAfterMs: Number.NaN },
  { kind: "answer", status: 501, verdict: null, retryAfterMs: Number.NaN },
  { kind: "answer", status: 500, verdict: null, retryAfterMs: Number.NaN },
  { kind: "fault", fault: "reset", isUnsent: false },
  { kind: "fault", fault: "reset", isUnsent: true },
  { kind: "fault", fault: "connect_refused", isUnsent: false },
  { kind: "interrupted", fault: "idle_timeout" },
  { kind: "cancelled" },
];

type Step =
  | { do: "decide" | "park" | "unpark" | "die"; worker: number; pick: number }
  | { do: "commit" | "first_token"; worker: number; pick: number }
  | { do: "settle"; worker: number; pick: number; end: number }
  | { do: "poll"; row: number; running: number; isGood: boolean }
  | { do: "leave" | "return"; row: number }
  | { do: "wait"; ms: number };

const worker = fc.nat(WORKERS - 1);
const pick = fc.nat(20);
const row = fc.nat(NODES - 1);
const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("decide" as const), worker, pick }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("settle" as const), worker, pick, end: fc.nat(ENDS.length - 1) }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom("commit" as const, "first_token" as const), worker, pick }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("park" as const, "unpark" as const), worker, pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("die" as const), worker, pick }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("poll" as const), row, running: fc.nat(6), isGood: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("leave" as const, "return" as const), row }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(1, 16, 1000, 31_000) }) },
);

interface Live {
  request: RouteRequest;
  attempt: Attempt;
}

/** The gateway's part in a few lines: who holds what, and what the control thread does with rows. */
class World {
  readonly fleet: Fleet = buildFleet({
    nodes: Array.from({ length: NODES }, (_, index) => ({
      family: index % 2 === 0 ? "A" : "B",
      maxInFlight: MAX_IN_FLIGHT,
      contextTokens: 1000 * (index + 1),
    })),
    policies: [
      { name: "p", costPriority: "cost", queueOnSaturation: true },
      { name: "q", costPriority: "latency", latencyTargetMs: 6_000 },
    ],
    workers: WORKERS,
  });
  readonly live: Live[][] = Array.from({ length: WORKERS }, () => []);
  readonly parked: { queue: number; bytes: number }[][] = Array.from({ length: WORKERS }, () => []);
  readonly listed = new Set(Array.from({ length: NODES }, (_, index) => index));
  private readonly decision = createDecision();
  private readonly budget = createRetryBudget(0.2, WORKERS);
  private version = 1;
  nowMs = 1000;

  step(step: Step): void {
    switch (step.do) {
      case "decide":
        return this.decide(step.worker, step.pick);
      case "settle":
        return this.settle(step.worker, step.pick, ENDS[step.end]);
      case "commit":
      case "first_token": {
        const live = picked(this.live[step.worker], step.pick);
        if (live === undefined) return;
        noteFirstToken(this.fleet.table, step.worker, live.attempt.booking, this.nowMs);
        if (step.do === "commit") noteCommit(this.settler(step.worker), live.attempt, live.attempt.sentAtMs);
        return;
      }
      case "park":
        return this.park(step.worker, step.pick);
      case "unpark": {
        const entry = this.parked[step.worker]?.shift();
        if (entry === undefined) return;
        leaveQueue(this.fleet.table, step.worker, entry);
        setHead(this.fleet.table, step.worker, entry.queue, 0);
        return;
      }
      case "die":
        this.live[step.worker] = [];
        this.parked[step.worker] = [];
        removeWorkerShare(this.fleet.table, step.worker);
        return;
      case "poll":
        return this.poll(step);
      case "leave":
        return this.leave(step.row);
      case "return":
        return this.comeBack(step.row);
      case "wait":
        this.nowMs += step.ms;
    }
  }

  private decide(by: number, choice: number): void {
    const { fleet } = this;
    const request = fleet.request({ policy: choice % 2 === 0 ? "p" : "q", promptTokens: 10 + choice });
    const booking = decide(fleet.decider(by), request, this.nowMs, choice / 21, this.decision);
    if (booking === null) return;
    assert.ok(this.decision.depth < MAX_IN_FLIGHT, "the place was under the limit");
    assert.ok(this.listed.has(booking.row), "a node that left is not chosen");
    assert.equal(fleet.table.isLive[booking.row], 1);
    const attempt = attemptOf(booking, this.decision, { sentAtMs: this.nowMs, isFreshConnection: choice % 3 === 0 });
    this.live[by]?.push({ request, attempt });
  }

  private settler(by: number) {
    return { table: this.fleet.table, worker: by, limits: { maxAttempts: 3, windowMs: 30_000 }, budget: this.budget };
  }

  settle(by: number, choice: number, end: AttemptEnd | undefined): void {
    const mine = this.live[by] ?? [];
    const live = picked(mine, choice);
    if (live === undefined || end === undefined) return;
    mine.splice(mine.indexOf(live), 1);
    settle(this.settler(by), live.request, live.attempt, end, this.nowMs);
  }

  private park(by: number, bytes: number): void {
    const { table } = this.fleet;
    const { model, policy } = this.fleet.request();
    const entry = { queue: queueOf(table, model, policy), bytes: bytes * 700 };
    if (enterQueue(table, by, { ...entry, limits: { requests: 4, bytes: 40_000 } }) !== null) return;
    this.parked[by]?.push(entry);
    setHead(table, by, entry.queue, drawTicket(table));
  }

  private poll({ row, running, isGood }: { row: number; running: number; isGood: boolean }): void {
    const { table } = this.fleet;
    publish(table, () => {
      const ownAtScrape = table.total.inFlight[row] ?? 0;
      table.foreign[row] = foreignLoad({ running, waiting: Number.NaN, ownAtScrape, elsewhereAtScrape: 0 });
      table.isUnhealthy[row] = isGood ? 0 : 1;
      if (isGood) table.goodPolls[row] = (table.goodPolls[row] ?? 0) + 1;
    });
  }

  private leave(row: number): void {
    this.listed.delete(row);
    this.relist();
    publish(this.fleet.table, () => {
      this.fleet.table.isDraining[row] = 1;
    });
  }

  private comeBack(row: number): void {
    const { table } = this.fleet;
    if (this.listed.has(row)) return;
    publish(table, () => {
      table.isDraining[row] = 0;
      if (isRowIdle(table, row)) {
        // nobody holds anything there: the row was freed, and this may be another node
        table.isLive[row] = 0;
        takeNodeRow(table, row, {
          family: row % 2,
          identity: this.version,
          maxInFlight: MAX_IN_FLIGHT,
          cooldownMs: 30_000,
          priceUsdPerHour: 1,
        });
        table.goodPolls[row] = 1;
      }
    });
    this.listed.add(row);
    this.relist();
  }

  private relist(): void {
    const rows = [...this.listed];
    const model: Model = this.fleet.request().model;
    this.version += 1;
    applyUpdate(this.fleet.directory, {
      version: this.version,
      models: [
        {
          ...model,
          rows: Int32Array.from(rows),
          placements: Int32Array.from(rows, (row) => row * PLACEMENTS_PER_NODE),
          families: Int32Array.from(rows, (row) => row % 2),
        },
      ],
    });
  }

  /** Every count is exactly what the attempts that run add up to, in total and for each worker. */
  check(): void {
    const { table } = this.fleet;
    for (let row = 0; row < NODES; row++) {
      for (const name of BOOKING_COUNT_NAMES) {
        let sum = 0;
        for (let by = 0; by < WORKERS; by++) {
          const own = table.own[by]?.[name][row] ?? Number.NaN;
          const expected = (this.live[by] ?? [])
            .filter(({ attempt }) => attempt.booking.row === row)
            .reduce((count, { attempt }) => count + shareOf(attempt, name), 0);
          assert.equal(own, expected, `${name} of worker ${by} on row ${row}`);
          sum += own;
        }
        assert.equal(table.total[name][row], sum, `${name} on row ${row}`);
      }
      assert.ok((table.total.inFlight[row] ?? 0) <= MAX_IN_FLIGHT);
    }
    assert.equal(table.cells[CELL.parked], this.parked.flat().length);
  }
}

function shareOf({ booking }: Attempt, name: (typeof BOOKING_COUNT_NAMES)[number]): number {
  switch (name) {
    case "inFlight":
      return 1;
    case "prefilling":
      return booking.isStream && booking.phase === "prefill" ? 1 : 0;
    case "promptTokens":
      return booking.isStream && booking.phase === "prefill" ? booking.promptTokens : 0;
    case "plainPromptTokens":
      return booking.isStream ? 0 : booking.promptTokens;
    case "kvTokens":
      return booking.kvTokens;
    default:
      return name === `class${booking.targetClass}` ? 1 : 0;
  }
}

function picked<T>(list: readonly T[] | undefined, choice: number): T | undefined {
  return list?.[choice % Math.max(1, list.length)];
}

test("bookings are exact under any interleaving of three workers, polls, leaving nodes and dying workers", () => {
  fc.assert(
    fc.property(fc.array(stepArbitrary, { maxLength: 120 }), (steps) => {
      const world = new World();
      for (const step of steps) {
        world.step(step);
        world.check();
      }
      for (let by = 0; by < WORKERS; by++) {
        while ((world.live[by]?.length ?? 0) > 0) world.settle(by, 0, ENDS[0]);
        while ((world.parked[by]?.length ?? 0) > 0) world.step({ do: "unpark", worker: by, pick: 0 });
      }
      assert.deepEqual(outstanding(world.fleet.table), {});
    }),
    { numRuns: 300 },
  );
});

test("a row with a booking on it is not idle, and cannot be taken by another node", () => {
  const { table, decider, request } = buildFleet({ nodes: [{ family: "A" }] });
  const booking = decide(decider(), request(), 0, 0, createDecision());
  assert.notEqual(booking, null);
  assert.equal(isRowIdle(table, 0), false);
  table.isLive[0] = 0;
  const start = { family: 0, identity: 1, maxInFlight: 1, cooldownMs: 1, priceUsdPerHour: 1 };
  assert.throws(() => takeNodeRow(table, 0, start), /no bookings/);
});

test("a dead worker's share leaves the shared counts: bookings, parked requests, bytes and heads", () => {
  const fleet = buildFleet({ nodes: [{ family: "A" }], workers: WORKERS });
  const { table } = fleet;
  const decision = createDecision();
  // booked before anybody parks, since a head has the first claim on room
  for (let by = 0; by < WORKERS; by++) decide(fleet.decider(by), fleet.request(), 0, 0, decision);
  for (let by = 0; by < WORKERS; by++) {
    fleet.park({ worker: by });
    addToCell(table, by, CELL.bodyKib, 7);
  }
  removeWorkerShare(table, 1);
  assert.equal(table.total.inFlight[0], 2);
  assert.equal(table.cells[CELL.parked], 2);
  assert.equal(table.cells[CELL.bodyKib], 14);
  assert.equal(headsBefore(table, fleet.directory, 2).length, 1);
  removeWorkerShare(table, 1);
  assert.equal(table.total.inFlight[0], 2);
  removeWorkerShare(table, 0);
  removeWorkerShare(table, 2);
  assert.deepEqual(outstanding(table), {});
});

test("a worker that died between its own share and the shared count leaves nothing in either", () => {
  const { table } = buildFleet({ nodes: [{ family: "A" }, { family: "A" }], workers: WORKERS });
  const own = table.own[0];
  assert.ok(own !== undefined);
  own.inFlight[0] = 2;
  table.total.inFlight[0] = 2;
  // worker 1 died in a release (own first) on row 0 and in a booking on row 1
  Atomics.add(table.total.inFlight, 0, 1);
  Atomics.add(table.total.kvTokens, 0, 300);
  const dead = table.own[1];
  assert.ok(dead !== undefined);
  dead.inFlight[1] = 1;
  Atomics.add(table.cells, CELL.parked, 1);
  Atomics.add(table.queueLength, 5, 1);
  removeWorkerShare(table, 1);
  assert.deepEqual([table.total.inFlight[0], table.total.inFlight[1], table.total.kvTokens[0]], [2, 0, 0]);
  assert.deepEqual([table.cells[CELL.parked], table.queueLength[5]], [0, 0]);
});
