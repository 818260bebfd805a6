/**
 * Requests of this worker that wait for room (`queue_on_saturation`). The order across workers is the engine's
 * (tickets, heads, claims); here are the waiters themselves. Nobody polls: `Atomics.waitAsync` wakes the worker when
 * room may have appeared anywhere.
 */

import {
  announceRoom,
  CELL,
  drawTicket,
  enterQueue,
  type FleetTable,
  leaveQueue,
  type Model,
  type Policy,
  type QueueLimits,
  queueOf,
  readWake,
  setHead,
  setHeadTried,
} from "@zml/engine";
import type { WaitRefusal } from "../wait-refusal.ts";

/** One request that waits. */
export interface WaitRequest {
  model: Model;
  policy: Policy;
  /** Bytes of its body, which stay held while it waits. */
  bytes: number;
  /** Ticket of an earlier wait of the same request, 0: none. */
  ticket: number;
  waitMs: number;
  /** Told its ticket before the first try. */
  onTicket(ticket: number): void;
  /** Looks for room; true: it took it (and holds a booking). */
  tryTake(): boolean;
}

/** A wait that can be left from outside. */
export interface Wait {
  /** Resolves with null when room was taken. */
  readonly ended: Promise<WaitRefusal | null>;
  /** The caller left. `ended` then stays open. */
  leave(): void;
}

interface Waiter extends WaitRequest {
  queue: number;
  isWaiting: boolean;
  timer: NodeJS.Timeout;
  resolve(refusal: WaitRefusal | null): void;
}

export class ParkedWaiters {
  readonly #table: FleetTable;
  readonly #worker: number;
  #limits: QueueLimits;
  /** Waiters per queue, by ticket. */
  readonly #queues = new Map<number, Waiter[]>();
  #count = 0;
  #isListening = false;
  #isStopped = false;

  constructor(table: FleetTable, worker: number, limits: QueueLimits) {
    this.#table = table;
    this.#worker = worker;
    this.#limits = limits;
  }

  setLimits(limits: QueueLimits): void {
    this.#limits = limits;
  }

  /** Requests that wait in this worker. */
  get count(): number {
    return this.#count;
  }

  /** Parks a request until it took room, its time is over, or it leaves. */
  wait(request: WaitRequest): Wait {
    const queue = queueOf(this.#table, request.model, request.policy);
    const entry = { queue, bytes: request.bytes, limits: this.#limits };
    if (this.#isStopped) return { ended: Promise.resolve("stopped"), leave: () => {} };
    if (queue < 0 || !enterQueue(this.#table, this.#worker, entry)) {
      return { ended: Promise.resolve("queue_full"), leave: () => {} };
    }
    const { promise, resolve } = Promise.withResolvers<WaitRefusal | null>();
    const waiter: Waiter = {
      ...request,
      tryTake: request.tryTake,
      ticket: request.ticket === 0 ? drawTicket(this.#table) : request.ticket,
      queue,
      isWaiting: true,
      resolve,
      timer: setTimeout(() => this.#end(waiter, "queue_timeout"), request.waitMs),
    };
    request.onTicket(waiter.ticket);
    this.#insert(waiter);
    this.#listen();
    // room that appeared between the decision and now has nobody else to wake us
    this.#serve(queue);
    return { ended: promise, leave: () => this.#remove(waiter) };
  }

  /** Ends every wait: the worker drains. */
  stop(): void {
    this.#isStopped = true;
    for (const waiters of [...this.#queues.values()]) {
      for (const waiter of [...waiters]) this.#end(waiter, "stopped");
    }
  }

  #insert(waiter: Waiter): void {
    let waiters = this.#queues.get(waiter.queue);
    if (waiters === undefined) {
      waiters = [];
      this.#queues.set(waiter.queue, waiters);
    }
    // a request that parks again keeps its place; new ones have the highest ticket, so this looks at the end only
    let at = waiters.length;
    while (at > 0 && (waiters[at - 1] as Waiter).ticket > waiter.ticket) at -= 1;
    waiters.splice(at, 0, waiter);
    this.#count += 1;
    if (at === 0) setHead(this.#table, this.#worker, waiter.queue, waiter.ticket);
  }

  #end(waiter: Waiter, refusal: WaitRefusal | null): void {
    if (this.#remove(waiter)) waiter.resolve(refusal);
  }

  #remove(waiter: Waiter): boolean {
    if (!waiter.isWaiting) return false;
    waiter.isWaiting = false;
    clearTimeout(waiter.timer);
    const waiters = this.#queues.get(waiter.queue) as Waiter[];
    const at = waiters.indexOf(waiter);
    waiters.splice(at, 1);
    this.#count -= 1;
    if (at === 0) setHead(this.#table, this.#worker, waiter.queue, waiters[0]?.ticket ?? 0);
    if (waiters.length === 0) this.#queues.delete(waiter.queue);
    leaveQueue(this.#table, this.#worker, waiter);
    // its claim is gone: others may take what it held back
    announceRoom(this.#table);
    return true;
  }

  /** Lets the oldest waiter of a queue look for room, and the next one as long as they find some. */
  #serve(queue: number): void {
    for (;;) {
      const head = this.#queues.get(queue)?.[0];
      if (head === undefined) return;
      const wake = readWake(this.#table);
      if (!head.tryTake()) {
        setHeadTried(this.#table, this.#worker, queue, wake);
        return;
      }
      this.#end(head, null);
    }
  }

  #serveAll(): void {
    const byTicket = [...this.#queues.values()]
      .map((waiters) => waiters[0] as Waiter)
      .sort((a, b) => a.ticket - b.ticket);
    for (const { queue } of byTicket) this.#serve(queue);
  }

  /** Waits for `wake` to move for as long as anybody is parked here. */
  #listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    const next = (): void => {
      if (this.#count === 0) {
        this.#isListening = false;
        return;
      }
      // read before looking for room: what changes in between makes the wait return at once
      const seen = readWake(this.#table);
      this.#serveAll();
      const wait = Atomics.waitAsync(this.#table.cells, CELL.wake, seen);
      if (wait.async) wait.value.then(next, next);
      else setImmediate(next);
    };
    setImmediate(next);
  }
}
