import assert from "node:assert/strict";
import { test } from "node:test";
import {
  announceRoom,
  compileModel,
  compilePolicy,
  createFleetTable,
  drawTicket,
  enterQueue,
  type FleetTable,
  type Model,
  type Policy,
  QUEUES_MAX,
  queueOf,
  readWake,
  setHead,
  setHeadTried,
} from "@zml/engine";
import { ParkedWaiters, type WaitRequest } from "./parked-waiters.ts";

const LIMITS = { requests: 100, bytes: 1e9 };
const none = new Int32Array(0);

function modelOf(index: number): Model {
  const lists = { rows: none, placements: none, families: none };
  return compileModel({ account: "default", name: "m", index, policy: null, isRegistered: true, ...lists });
}

function policyOf(index: number): Policy {
  const targets = { latencyTargetMs: Number.NaN, ttftTargetMs: Number.NaN, tokenTargetMs: Number.NaN };
  const rest = {
    chain: [],
    costPriority: "cost" as const,
    estimator: "simple" as const,
    maxQueueMs: 1,
    acceptableWaiting: 4,
  };
  return compilePolicy({ account: "default", name: "p", index, queueOnSaturation: true, ...targets, ...rest });
}

function waitOf(request: Partial<WaitRequest> & Pick<WaitRequest, "tryTake">): WaitRequest {
  const defaults = { model: modelOf(0), policy: policyOf(0), bytes: 1, kind: "0", isPlain: true, ticket: 0 };
  return { ...defaults, waitMs: 5_000, onTicket: () => {}, ...request };
}

/** What waits and promises have in hand is done, twice over. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 8; turn++) await new Promise((resolve) => setImmediate(resolve));
}

function parkedHead(table: FleetTable, worker: number, model: Model, policy: Policy): number {
  const queue = queueOf(table, model, policy);
  enterQueue(table, worker, { queue, bytes: 1, limits: LIMITS });
  setHead(table, worker, queue, drawTicket(table));
  return queue;
}

test("a claim that another worker gives up between a look and the wait for it is not missed", async () => {
  const table = createFleetTable({ nodes: 2, workers: 2 });
  const other = parkedHead(table, 1, modelOf(0), policyOf(1));
  const isFree = () => Atomics.load(table.queueHeadTried, QUEUES_MAX + other) === readWake(table);
  let looks = 0;
  const { ended } = new ParkedWaiters(table, 0, LIMITS).wait(
    waitOf({
      tryTake: () => {
        looks += 1;
        if (isFree()) return true;
        // the other worker's thread gets this far before this one waits
        if (looks === 2) setHeadTried(table, 1, other, readWake(table));
        return false;
      },
    }),
  );
  assert.equal(await ended, null);
  assert.equal(looks, 3);
});

test("with no room and nobody coming or going, nobody looks again", async () => {
  const table = createFleetTable({ nodes: 2, workers: 2 });
  const workers = [new ParkedWaiters(table, 0, LIMITS), new ParkedWaiters(table, 1, LIMITS)];
  let looks = 0;
  const tryTake = () => {
    looks += 1;
    return false;
  };
  for (const parked of workers)
    for (const index of [0, 1, 2]) parked.wait(waitOf({ policy: policyOf(index), tryTake }));
  await settled();
  announceRoom(table);
  await settled();
  const before = looks;
  await settled();
  assert.equal(looks, before);
  for (const parked of workers) parked.stop();
});

test("the oldest of each kind looks, by ticket, and who has no use for the room keeps nobody waiting", async () => {
  const table = createFleetTable({ nodes: 2, workers: 1 });
  const parked = new ParkedWaiters(table, 0, LIMITS);
  const looked: string[] = [];
  let hasRoom = false;
  const wait = (name: string, kind: string, canUse: boolean) =>
    parked.wait(
      waitOf({
        kind,
        isPlain: kind === "0",
        tryTake: () => {
          looked.push(name);
          const takes = canUse && hasRoom;
          if (takes) hasRoom = false;
          return takes;
        },
      }),
    );
  wait("failed", "0 failed on 1", false);
  const first = wait("plain", "0", true);
  const second = wait("plain, later", "0", true);
  wait("other endpoint", "1", false);
  await settled();
  looked.length = 0;
  hasRoom = true;
  announceRoom(table);
  assert.equal(await first.ended, null);
  assert.deepEqual(looked.slice(0, 2), ["failed", "plain"]);
  await settled();
  assert.deepEqual(looked.slice(-3), ["failed", "plain, later", "other endpoint"]);
  hasRoom = true;
  announceRoom(table);
  assert.equal(await second.ended, null);
  parked.stop();
});

test("the published head is the oldest plain request; one with reasons of its own only when it is alone", () => {
  const table = createFleetTable({ nodes: 2, workers: 1 });
  const parked = new ParkedWaiters(table, 0, LIMITS);
  const queue = queueOf(table, modelOf(0), policyOf(0));
  const wait = (isPlain: boolean) => {
    let ticket = 0;
    const onTicket = (drawn: number) => {
      ticket = drawn;
    };
    const { leave } = parked.wait(waitOf({ kind: String(isPlain), isPlain, tryTake: () => false, onTicket }));
    return { ticket, leave };
  };
  const head = () => table.queueHead[queue];
  const failed = wait(false);
  assert.equal(head(), failed.ticket);
  const plain = wait(true);
  assert.equal(head(), plain.ticket);
  wait(true);
  assert.equal(head(), plain.ticket);
  plain.leave();
  assert.equal(head(), plain.ticket + 1);
  parked.stop();
  assert.equal(head(), 0);
});

test("a wait that is refused says which bound was hit", async () => {
  const table = createFleetTable({ nodes: 2, workers: 1 });
  const wait = (parked: ParkedWaiters, bytes: number) => parked.wait(waitOf({ bytes, tryTake: () => false })).ended;
  assert.equal(await wait(new ParkedWaiters(table, 0, { requests: 0, bytes: 1e9 }), 1), "requests_full");
  assert.equal(await wait(new ParkedWaiters(table, 0, { requests: 9, bytes: 4096 }), 8192), "bytes_full");
  table.queueKey.fill(-2);
  table.queueLength.fill(1);
  assert.equal(await wait(new ParkedWaiters(table, 0, LIMITS), 1), "queues_full");
});
