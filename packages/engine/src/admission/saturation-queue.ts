/**
 * The order of the saturation queues, shared by all workers. One queue for each (account, model, policy); inside it
 * and across queues a ticket from one shared counter says who came first. A worker keeps its own waiters (bodies,
 * sockets) to itself and publishes only the ticket of its oldest one per queue.
 *
 * Nobody polls: whatever can make room calls `announceRoom`, which moves `wake` on. A head that finds nothing at one
 * value of `wake` publishes that, so that it holds room back only for as long as it may still use it.
 */

import { POLICIES_MAX, QUEUES_MAX } from "../bounds.ts";
import type { WaitingHead } from "../claims.ts";
import type { Directory, Model, Policy } from "../directory.ts";
import { addToCell, CELL, type FleetTable } from "../fleet-table.ts";

/** Bounds of the queues of one process. */
export interface QueueLimits {
  requests: number;
  bytes: number;
}

/** Index of the queue for a model under a policy, claimed on first use; -1 when all `QUEUES_MAX` are taken. */
export function queueOf(table: FleetTable, model: Model, policy: Policy): number {
  // both indexes are bounded so that the key fits an Int32
  const key = model.index * (POLICIES_MAX + 1) + policy.index + 1;
  for (let probe = 0; probe < QUEUES_MAX; probe++) {
    const queue = (key + probe) % QUEUES_MAX;
    const seen = Atomics.load(table.queueKey, queue);
    if (seen === key) return queue;
    if (seen === 0) {
      const old = Atomics.compareExchange(table.queueKey, queue, 0, key);
      if (old === 0 || old === key) return queue;
    }
  }
  return -1;
}

/** Counts a request into a queue. Returns false, with nothing counted, when a bound is reached. */
export function enterQueue(
  table: FleetTable,
  worker: number,
  entry: { queue: number; bytes: number; limits: QueueLimits },
): boolean {
  const kib = kibOf(entry.bytes);
  if (addToCell(table, worker, CELL.parked, 1) >= entry.limits.requests) {
    addToCell(table, worker, CELL.parked, -1);
    return false;
  }
  if ((addToCell(table, worker, CELL.parkedKib, kib) + kib) * 1024 > entry.limits.bytes + 1023) {
    addToCell(table, worker, CELL.parkedKib, -kib);
    addToCell(table, worker, CELL.parked, -1);
    return false;
  }
  countInQueue(table, worker, entry.queue, 1);
  return true;
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
  const own = worker * QUEUES_MAX + queue;
  table.queueOwnLength[own] = (table.queueOwnLength[own] ?? 0) + amount;
  Atomics.add(table.queueLength, queue, amount);
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
 * Publishes that a worker's head found nothing at this value of `wake`: it holds nothing back any more. Heads that came
 * later may have been held back by it, so they look again; only the first time, or heads would wake each other forever.
 */
export function setHeadTried(table: FleetTable, worker: number, queue: number, wake: number): void {
  const index = worker * QUEUES_MAX + queue;
  if (Atomics.exchange(table.queueHeadTried, index, wake) !== wake) Atomics.notify(table.cells, CELL.wake);
}

/** Value of `wake` now. Read it before looking for room, then wait for it to change. */
export function readWake(table: FleetTable): number {
  return Atomics.load(table.cells, CELL.wake);
}

/** True while any worker has a parked request. */
export function isAnyoneParked(table: FleetTable): boolean {
  return Atomics.load(table.cells, CELL.parked) > 0;
}

/** Requests parked in a queue by all workers. */
export function queueLengthOf(table: FleetTable, queue: number): number {
  return queue < 0 ? 0 : Atomics.load(table.queueLength, queue);
}

/**
 * Says that room may have appeared: a release, an undone booking, a poll, the end of a cooldown, a reload. Costs one
 * load while nobody is parked.
 */
export function announceRoom(table: FleetTable): void {
  if (Atomics.load(table.cells, CELL.parked) === 0) return;
  Atomics.add(table.cells, CELL.wake, 1);
  Atomics.notify(table.cells, CELL.wake);
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
    const model = directory.modelsByIndex.get(Math.floor((key - 1) / (POLICIES_MAX + 1)));
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
