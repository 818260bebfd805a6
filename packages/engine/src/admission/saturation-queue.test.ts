import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../decide.ts";
import { createDecision } from "../decision.ts";
import { createRetryBudget } from "../failover/retry-budget.ts";
import { CELL } from "../fleet-table.ts";
import { settle } from "../settle.ts";
import { attemptOf, buildFleet, type Fleet, outstanding } from "../testing/fleet.ts";
import {
  announceRoom,
  drawTicket,
  enterQueue,
  enterQueueOf,
  headsBefore,
  isAnyoneParked,
  leaveQueue,
  parkedFor,
  queueOf,
  readTurn,
  readWake,
  setHead,
  setHeadTried,
} from "./saturation-queue.ts";

const WORKERS = 3;
const fleet = () =>
  buildFleet({
    nodes: [{ family: "A" }, { family: "B" }],
    policies: [{ name: "ab" }, { name: "a", chain: [["A"]] }, { name: "b", chain: [["B"]] }],
    models: [{ name: "m" }, { name: "only-b", nodes: [1] }],
    workers: WORKERS,
  });

function rowFor(on: Fleet, policy: string, ticket = 0, worker = 0): number {
  const request = on.request({ policy });
  request.ticket = ticket;
  return decide(on.decider(worker), request, 0, 0, createDecision())?.row ?? -1;
}

test("tickets count up across workers and are never 0", () => {
  const { table } = fleet();
  assert.deepEqual([drawTicket(table), drawTicket(table), drawTicket(table)], [1, 2, 3]);
});

test("of heads in several workers only the oldest may take the room", () => {
  const on = fleet();
  const tickets = [2, 0, 1].map((worker) => on.park({ policy: "a", worker }));
  assert.deepEqual(
    tickets.map((ticket, index) => rowFor(on, "a", ticket, index)),
    [0, -1, -1],
  );
});

test("a head reserves only what it may use: its chain's families", () => {
  const on = fleet();
  on.park({ policy: "a" });
  assert.equal(rowFor(on, "ab"), 1);
  assert.equal(rowFor(on, "a"), -1);
});

test("a head reserves only what it may use: the nodes of its model", () => {
  const on = fleet();
  on.park({ policy: "ab", model: "only-b" });
  assert.equal(rowFor(on, "ab"), 0);
  assert.equal(rowFor(on, "b"), -1);
});

test("a head of another queue that came earlier goes first, a later one does not", () => {
  const on = fleet();
  const first = on.park({ policy: "a", worker: 1 });
  const second = on.park({ policy: "ab", worker: 0 });
  assert.equal(rowFor(on, "ab", second), 1);
  assert.equal(rowFor(on, "a", first), 0);
});

test("a head that found nothing in the present room lets others have it, until room may have appeared again", () => {
  const on = fleet();
  on.park({ policy: "a", hasTried: true });
  assert.equal(rowFor(on, "a"), 0);
  announceRoom(on.table);
  assert.equal(rowFor(on, "a"), -1);
});

test("a head that looked before the last announcement keeps its claim", () => {
  const on = fleet();
  const wake = readWake(on.table);
  on.park({ policy: "a" });
  const { model, policy } = on.request({ policy: "a" });
  announceRoom(on.table);
  setHeadTried(on.table, 0, queueOf(on.table, model, policy), wake);
  assert.equal(headsBefore(on.table, on.directory, 0).length, 1);
});

test("the next waiter of a worker claims anew, though the head before it had tried", () => {
  const on = fleet();
  on.park({ policy: "a", hasTried: true });
  const { model, policy } = on.request({ policy: "a" });
  setHead(on.table, 0, queueOf(on.table, model, policy), drawTicket(on.table));
  assert.equal(rowFor(on, "a"), -1);
});

test("a release moves wake on while somebody is parked, and costs nothing while nobody is", () => {
  const on = fleet();
  const settler = {
    table: on.table,
    worker: 0,
    limits: { maxAttempts: 3, windowMs: 1000 },
    budget: createRetryBudget(0.2, 1),
  };
  const run = (whileRunning: () => void) => {
    const [request, decision] = [on.request(), createDecision()];
    const booking = decide(on.decider(), request, 0, 0, decision);
    assert.ok(booking !== null);
    whileRunning();
    const before = readWake(on.table);
    const attempt = attemptOf(booking, decision, { sentAtMs: 0 });
    settle(settler, request, attempt, { kind: "cancelled" }, 1);
    return readWake(on.table) - before;
  };
  assert.equal(
    run(() => undefined),
    0,
  );
  assert.equal(
    run(() => on.park({})),
    1,
  );
});

test("queues are bounded in requests", () => {
  const { table } = fleet();
  const limits = { requests: 2, bytes: 1e9 };
  const enter = () => enterQueue(table, 0, { queue: 3, bytes: 10, limits });
  assert.deepEqual([enter(), enter(), enter()], [null, null, "requests"]);
  assert.equal(table.queueLength[3], 2);
  leaveQueue(table, 0, { queue: 3, bytes: 10 });
  assert.equal(enter(), null);
});

test("queues are bounded in bytes, and what was refused counts nowhere", () => {
  const { table } = fleet();
  const limits = { requests: 100, bytes: 10_240 };
  assert.equal(enterQueue(table, 1, { queue: 3, bytes: 8_192, limits }), null);
  assert.equal(enterQueue(table, 2, { queue: 3, bytes: 4_096, limits }), "bytes");
  assert.equal(enterQueue(table, 2, { queue: 3, bytes: 2_048, limits }), null);
  assert.equal(table.cells[CELL.parked], 2);
  leaveQueue(table, 1, { queue: 3, bytes: 8_192 });
  leaveQueue(table, 2, { queue: 3, bytes: 2_048 });
  assert.equal(isAnyoneParked(table), false);
  assert.deepEqual(outstanding(table), {});
});

test("what waits for another model is not counted as waiting for this one", () => {
  const on = fleet();
  on.park({ model: "m", policy: "a" });
  on.park({ model: "m", policy: "b" });
  on.park({ model: "only-b", policy: "b" });
  assert.equal(parkedFor(on.table, on.request({ model: "m" }).model), 2);
  assert.equal(parkedFor(on.table, on.request({ model: "only-b" }).model), 1);
});

test("the turn moves with each announcement and each claim that is given up, and comes to rest after that", () => {
  const on = fleet();
  on.park({ policy: "a" });
  const { model, policy } = on.request({ policy: "a" });
  const queue = queueOf(on.table, model, policy);
  const moved = (step: () => unknown): number => {
    const before = readTurn(on.table);
    step();
    return readTurn(on.table) - before;
  };
  const tried = () => setHeadTried(on.table, 0, queue, readWake(on.table));
  assert.deepEqual([moved(tried), moved(tried), moved(tried)], [1, 0, 0]);
  assert.equal(
    moved(() => announceRoom(on.table)),
    1,
  );
  assert.deepEqual([moved(tried), moved(tried)], [1, 0]);
});

test("when every queue has a model, one in which nobody waits is given to another", () => {
  const on = fleet();
  const { model, policy } = on.request({ policy: "a" });
  const entry = { model, policy, bytes: 1, limits: { requests: 9, bytes: 1e9 } };
  on.table.queueKey.fill(2 ** 30);
  on.table.queueLength.fill(1);
  assert.equal(enterQueueOf(on.table, 0, entry), "queues");
  assert.equal(on.table.cells[CELL.parked], 0);
  on.table.queueLength[700] = 0;
  assert.equal(enterQueueOf(on.table, 0, entry), 700);
  assert.equal(on.table.queueLength[700], 1);
  assert.equal(enterQueueOf(on.table, 1, entry), 700, "who comes next finds it by its key");
  assert.equal(enterQueueOf(on.table, 2, { ...entry, policy: on.request({ policy: "b" }).policy }), "queues");
});

test("a queue that is given away between its being found and entered is left again, and another one found", () => {
  for (const held of [0, 2 ** 30]) {
    const on = fleet();
    const { model, policy } = on.request({ policy: "a" });
    const first = queueOf(on.table, model, policy);
    const { add } = Atomics;
    let isDone = false;
    const patched = Atomics as { add: unknown };
    // another worker takes the queue, in full or half way, just before this one counts itself in
    patched.add = (cells: Int32Array, index: number, amount: number) => {
      if (cells === on.table.queueLength && !isDone) {
        isDone = true;
        cells[index] = -held;
        if (held === 0) on.table.queueKey[index] = 2 ** 30;
      } else if (cells === on.table.queueLength && held > 0 && amount < 0) {
        // it finishes meanwhile
        on.table.queueKey[index] = 2 ** 30;
        add(cells, index, held);
      }
      return add(cells, index, amount);
    };
    try {
      const entry = { model, policy, bytes: 1, limits: { requests: 9, bytes: 1e9 } };
      const queue = enterQueueOf(on.table, 0, entry);
      assert.ok(typeof queue === "number" && queue !== first);
      assert.deepEqual([on.table.queueLength[first], on.table.queueLength[queue]], [0, 1]);
      assert.equal(on.table.cells[CELL.parked], 1);
    } finally {
      patched.add = add;
    }
  }
});

test("each model and policy has a queue of its own, the same in every thread", () => {
  const on = fleet();
  const queues = ["ab", "a", "b"].flatMap((policy) =>
    ["m", "only-b"].map((model) => {
      const request = on.request({ policy, model });
      return queueOf(on.table, request.model, request.policy);
    }),
  );
  assert.equal(new Set(queues).size, 6);
  const again = on.request({ policy: "a", model: "m" });
  assert.equal(queueOf(on.table, again.model, again.policy), queues[2]);
});
