/**
 * The order of the saturation queues, shared by all workers. One queue for each (account, model, policy); inside it
 * and across queues a ticket from one shared counter says who came first. A worker keeps its own waiters (bodies,
 * sockets) to itself and publishes only the ticket of its oldest one per queue.
 *
 * Nobody polls: whatever can make room calls `announceRoom`, which moves `wake` on. A head that finds nothing at one
 * value of `wake` publishes that, so that it holds room back only for as long as it may still use it. Both move `turn`,
 * on which those who wait sleep.
 */

import { POLICIES_MAX, QUEUES_MAX } from "../bounds.ts";
import type { WaitingHead } from "../claims.ts";
import type { Directory, Model, Policy } from "../directory.ts";
import { addToCell, CELL, type FleetTable } from "../fleet-table.ts";
import { addToCount } from "../shared-count.ts";

/** Bounds of the queues of one process. */
export interface QueueLimits {
  requests: number;
  bytes: number;
}

/** Both indexes are bounded so that the key fits an Int32. */
function keyOf(model: Model, policy: Policy): number {
  return model.index * (POLICIES_MAX + 1) + policy.index + 1;
}

/**
 * Index of the queue for a model under a policy, claimed on first use; -1 when somebody waits in each of `QUEUES_MAX`
 * others. A queue in which nobody waits may be given to another model at any time: `enterQueueOf` minds that.
 */
export function queueOf(table: FleetTable, model: Model, policy: Policy): number {
  const key = keyOf(model, policy);
  for (let probe = 0; probe < QUEUES_MAX; probe++) {
    const queue = (key + probe) % QUEUES_MAX;
    const seen = Atomics.load(table.queueKey, queue);
    if (seen === key) return queue;
    if (seen === 0) {
      const old = Atomics.compareExchange(table.queueKey, queue, 0, key);
      if (old === 0 || old === key) return queue;
    }
  }
  return takeEmptyQueue(table, key);
}

/**
 * Gives a queue in which nobody waits to another key. Its length is the lock: it is held far below 0 meanwhile, which
 * it can only be brought to from 0, and whoever counts himself in then sees that. Two workers that look for one key at
 * once may take a queue each; tickets are compared across queues, so that this changes no order.
 */
function takeEmptyQueue(table: FleetTable, key: number): number {
  for (let probe = 0; probe < QUEUES_MAX; probe++) {
    const queue = (key + probe) % QUEUES_MAX;
    if (Atomics.compareExchange(table.queueLength, queue, 0, -HELD) !== 0) continue;
    Atomics.store(table.queueKey, queue, key);
    Atomics.add(table.queueLength, queue, HELD);
    return queue;
  }
  return -1;
}

/** More than can ever wait in a queue. */
const HELD = 2 ** 30;

/** Times that an empty queue may be given away between its being found and entered, before no queue counts as free. */
const ENTER_TRIES_MAX = 8;

/**
 * Counts a request into the queue of its model and policy.
 *
 * @returns the queue, or with nothing counted the bound that is reached (`queues`: others wait in every one).
 */
export function enterQueueOf(
  table: FleetTable,
  worker: number,
  entry: { model: Model; policy: Policy; bytes: number; limits: QueueLimits },
): number | keyof QueueLimits | "queues" {
  const { model, policy, bytes, limits } = entry;
  for (let tries = 0; tries < ENTER_TRIES_MAX; tries++) {
    const queue = queueOf(table, model, policy);
    if (queue < 0) break;
    const bound = enterQueue(table, worker, { queue, bytes, limits });
    if (bound !== null) return bound;
    // from here on its length is not 0, so that its key stays; this order, since a taker changes the key first
    const isHeld = Atomics.load(table.queueLength, queue) < 0;
    if (!isHeld && Atomics.load(table.queueKey, queue) === keyOf(model, policy)) return queue;
    leaveQueue(table, worker, { queue, bytes });
  }
  return "queues";
}

/** Counts a request into a queue. Returns the bound that is reached, with nothing counted, or null: it is in. */
export function enterQueue(
  table: FleetTable,
  worker: number,
  entry: { queue: number; bytes: number; limits: QueueLimits },
): keyof QueueLimits | null {
  const kib = kibOf(entry.bytes);
  if (addToCell(table, worker, CELL.parked, 1) >= entry.limits.requests) {
    addToCell(table, worker, CELL.parked, -1);
    return "requests";
  }
  if ((addToCell(table, worker, CELL.parkedKib, kib) + kib) * 1024 > entry.limits.bytes + 1023) {
    addToCell(table, worker, CELL.parkedKib, -kib);
    addToCell(table, worker, CELL.parked, -1);
    return "bytes";
  }
  countInQueue(table, worker, entry.queue, 1);
  return null;
}

/** Counts a request out of a queue again. */
export function leaveQueue(table: FleetTable, worker: number, entry: { queue: number; bytes: number }): void {
  countInQueue(table, worker, entry.queue, -1);
  addToCell(table, worker, CELL.parkedKib, -kibOf(entry.bytes));
  addToCell(table, worker, CELL.parked, -1);
}

function kibOf(bytes: number): number {
  return Math.ceil(bytes / 1024);
}

function countInQueue(table: FleetTable, worker: number, queue: number, amount: number): void {
  addToCount(table.queueLength, queue, table.queueOwnLength, worker * QUEUES_MAX + queue, amount);
}

/** Draws the next ticket; lower is earlier, and 0 is never drawn. */
export function drawTicket(table: FleetTable): number {
  return Atomics.add(table.cells, CELL.ticket, 1) + 1;
}

/** Publishes the ticket of a worker's oldest waiter of a queue; 0: it has none. */
export function setHead(table: FleetTable, worker: number, queue: number, ticket: number): void {
  const index = worker * QUEUES_MAX + queue;
  Atomics.store(table.queueHeadTried, index, -1);
  Atomics.store(table.queueHead, index, ticket);
}

/**
 * Publishes that a worker's head found nothing at this value of `wake`: it holds nothing back any more. Requests that
 * came later may have been held back by it, so they look again.
 *
 * @returns true when that gave up a claim, and so moved `turn` on.
 */
export function setHeadTried(table: FleetTable, worker: number, queue: number, wake: number): boolean {
  const index = worker * QUEUES_MAX + queue;
  if (Atomics.exchange(table.queueHeadTried, index, wake) === wake) return false;
  nextTurn(table);
  return true;
}

/** Value of `wake` now: which room this is. Read it before looking for room, and publish it with `setHeadTried`. */
export function readWake(table: FleetTable): number {
  return Atomics.load(table.cells, CELL.wake);
}

/**
 * Value of `turn` now. Read it before looking for room, then wait for it to change: it does so whenever a look may have
 * another result than before, after what made the difference has been written. So nothing is lost between look and
 * wait: a look that did not see the difference began with a value that is no longer there.
 *
 * Nor can those who wait wake each other for ever. Besides new room only a claim that is given up moves `turn`, and a
 * head gives its claim up once for each value of `wake` (and once more when the head changes, so for each request that
 * parks or leaves). With no room and nobody coming or going `turn` comes to rest after one look of every head.
 */
export function readTurn(table: FleetTable): number {
  return Atomics.load(table.cells, CELL.turn);
}

function nextTurn(table: FleetTable): void {
  Atomics.add(table.cells, CELL.turn, 1);
  Atomics.notify(table.cells, CELL.turn);
}

/** True while any worker has a parked request. */
export function isAnyoneParked(table: FleetTable): boolean {
  return Atomics.load(table.cells, CELL.parked) > 0;
}

/** Requests that all workers have parked for a model, under any policy: they compete for the same nodes. */
export function parkedFor(table: FleetTable, model: Model): number {
  if (!isAnyoneParked(table)) return 0;
  let parked = 0;
  for (let queue = 0; queue < QUEUES_MAX; queue++) {
    const length = Atomics.load(table.queueLength, queue);
    if (length > 0 && modelIndexOf(Atomics.load(table.queueKey, queue)) === model.index) parked += length;
  }
  return parked;
}

/** Model of a queue's key; -1 of a queue that nobody has claimed. */
function modelIndexOf(key: number): number {
  return Math.floor((key - 1) / (POLICIES_MAX + 1));
}

/**
 * Says that room may have appeared: a release, an undone booking, a poll, the end of a cooldown, a reload. Costs one
 * load while nobody is parked.
 */
export function announceRoom(table: FleetTable): void {
  if (Atomics.load(table.cells, CELL.parked) === 0) return;
  Atomics.add(table.cells, CELL.wake, 1);
  nextTurn(table);
}

/**
 * Heads with a claim before `ticket` (0: no ticket, everybody who is parked comes first) that have not yet tried the
 * present room. Empty without a look at the queues while nobody is parked.
 */
export function headsBefore(table: FleetTable, directory: Directory, ticket: number): readonly WaitingHead[] {
  if (!isAnyoneParked(table)) return NO_HEADS;
  const wake = readWake(table);
  const heads: WaitingHead[] = [];
  for (let queue = 0; queue < QUEUES_MAX; queue++) {
    const key = Atomics.load(table.queueKey, queue);
    if (key === 0 || Atomics.load(table.queueLength, queue) === 0) continue;
    const model = directory.modelsByIndex.get(modelIndexOf(key));
    const policy = directory.policiesByIndex.get((key - 1) % (POLICIES_MAX + 1));
    if (model === undefined || policy === undefined) continue;
    for (let worker = 0; worker < table.workers; worker++) {
      const index = worker * QUEUES_MAX + queue;
      const head = Atomics.load(table.queueHead, index);
      if (head === 0 || (ticket !== 0 && head >= ticket)) continue;
      if (Atomics.load(table.queueHeadTried, index) === wake) continue;
      heads.push({ model, policy });
      break;
    }
  }
  return heads;
}

const NO_HEADS: readonly WaitingHead[] = [];
