/**
 * Requests of this worker that wait for room (`queue_on_saturation`). The order across workers is the engine's
 * (tickets, heads, claims); here are the waiters themselves. Nobody polls: `Atomics.waitAsync` wakes the worker when
 * room may have appeared anywhere.
 *
 * Requests of one queue do not all have the same use for room: some have failed on a node, or need a larger context or
 * another endpoint. So a queue is kept by kind, and every kind's oldest looks: one that has no use for the free room
 * keeps nobody behind it waiting. Within a kind the oldest stands for all, which can use exactly what it can.
 */

import {
  announceRoom,
  CELL,
  drawTicket,
  enterQueueOf,
  type FleetTable,
  leaveQueue,
  type Model,
  type Policy,
  type QueueLimits,
  readTurn,
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
  /** What beside model and policy says which nodes it can use: requests of a kind have the same ones to choose from. */
  kind: string;
  /** False when it has reasons of its own to leave out nodes, as those where it failed. */
  isPlain: boolean;
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

interface Queue {
  index: number;
  /** Waiters by kind, each by ticket; no kind is empty. */
  kinds: Map<string, Waiter[]>;
  /**
   * Ticket that is published as this worker's head; 0: none. The oldest plain waiter, since it claims whatever the
   * queue may use; those with reasons of their own look before it when they are older, and claim when they are alone.
   */
  head: number;
}

interface Waiter extends WaitRequest {
  queue: Queue;
  isWaiting: boolean;
  timer: NodeJS.Timeout;
  resolve(refusal: WaitRefusal | null): void;
}

export class ParkedWaiters {
  readonly #table: FleetTable;
  readonly #worker: number;
  #limits: QueueLimits;
  readonly #queues = new Map<number, Queue>();
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
    if (this.#isStopped) return refused("stopped");
    const { model, policy, bytes } = request;
    const index = enterQueueOf(this.#table, this.#worker, { model, policy, bytes, limits: this.#limits });
    if (typeof index === "string") return refused(`${index}_full`);
    let queue = this.#queues.get(index);
    if (queue === undefined) {
      queue = { index, kinds: new Map(), head: 0 };
      this.#queues.set(index, queue);
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
    const isOldest = this.#insert(waiter);
    this.#listen();
    // room that appeared between the decision and now has nobody else to wake us; behind another one of its kind it has
    if (isOldest) this.#look(waiter);
    return { ended: promise, leave: () => this.#remove(waiter) };
  }

  /** Ends every wait: the worker drains. */
  stop(): void {
    this.#isStopped = true;
    for (const waiters of this.#kinds()) {
      for (const waiter of [...waiters]) this.#end(waiter, "stopped");
    }
  }

  /** Every kind of every queue, the one with the oldest waiter first. */
  #kinds(): Waiter[][] {
    return [...this.#queues.values()].flatMap(({ kinds }) => [...kinds.values()]).sort(byOldest);
  }

  /** Returns true when the waiter is the oldest of its kind. */
  #insert(waiter: Waiter): boolean {
    const { kinds } = waiter.queue;
    let waiters = kinds.get(waiter.kind);
    if (waiters === undefined) {
      waiters = [];
      kinds.set(waiter.kind, waiters);
    }
    // a request that parks again keeps its place; new ones have the highest ticket, so this looks at the end only
    let at = waiters.length;
    while (at > 0 && (waiters[at - 1] as Waiter).ticket > waiter.ticket) at -= 1;
    waiters.splice(at, 0, waiter);
    this.#count += 1;
    if (at === 0) this.#publishHead(waiter.queue);
    return at === 0;
  }

  #end(waiter: Waiter, refusal: WaitRefusal | null): void {
    if (this.#remove(waiter)) waiter.resolve(refusal);
  }

  #remove(waiter: Waiter): boolean {
    if (!waiter.isWaiting) return false;
    waiter.isWaiting = false;
    clearTimeout(waiter.timer);
    const { queue, kind, bytes } = waiter;
    const waiters = queue.kinds.get(kind) as Waiter[];
    const at = waiters.indexOf(waiter);
    waiters.splice(at, 1);
    this.#count -= 1;
    if (waiters.length === 0) queue.kinds.delete(kind);
    if (at === 0) this.#publishHead(queue);
    if (queue.kinds.size === 0) this.#queues.delete(queue.index);
    leaveQueue(this.#table, this.#worker, { queue: queue.index, bytes });
    // its claim is gone: others may take what it held back
    announceRoom(this.#table);
    return true;
  }

  #publishHead(queue: Queue): void {
    let head: Waiter | undefined;
    for (const [waiter] of queue.kinds.values()) {
      if (waiter === undefined) continue;
      const isBefore =
        head === undefined || (waiter.isPlain === head.isPlain ? waiter.ticket < head.ticket : waiter.isPlain);
      if (isBefore) head = waiter;
    }
    const ticket = head?.ticket ?? 0;
    if (ticket === queue.head) return;
    queue.head = ticket;
    setHead(this.#table, this.#worker, queue.index, ticket);
  }

  /** Lets a waiter look for room. `gaveUp`: it found none, and its claim was given up with that. */
  #look(waiter: Waiter): "took" | "gaveUp" | "nothing" {
    const wake = readWake(this.#table);
    if (waiter.tryTake()) {
      this.#end(waiter, null);
      return "took";
    }
    const { index, head } = waiter.queue;
    const isHead = waiter.ticket === head;
    return isHead && setHeadTried(this.#table, this.#worker, index, wake) ? "gaveUp" : "nothing";
  }

  /**
   * Lets the oldest of every kind look for room, by ticket, and the next one as long as they find some. By ticket, since
   * a claim holds back later tickets only: each one looks when those of this worker before it have given theirs up.
   *
   * @returns how many claims were given up.
   */
  #serve(): number {
    let claims = 0;
    const due = this.#kinds();
    for (let waiters = due.shift(); waiters !== undefined; waiters = due.shift()) {
      const look = this.#look(waiters[0] as Waiter);
      if (look === "gaveUp") claims += 1;
      if (look !== "took" || waiters.length === 0) continue;
      const at = due.findIndex((other) => byOldest(other, waiters as Waiter[]) > 0);
      due.splice(at < 0 ? due.length : at, 0, waiters);
    }
    return claims;
  }

  /** Waits for `turn` to move for as long as anybody is parked here. */
  #listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    const next = (): void => {
      if (this.#count === 0) {
        this.#isListening = false;
        return;
      }
      // read before looking for room: what changes in between makes the wait return at once, but for the claims that
      // were given up here, which everybody who looked later has taken into account
      const seen = readTurn(this.#table);
      const claims = this.#serve();
      const wait = Atomics.waitAsync(this.#table.cells, CELL.turn, (seen + claims) | 0);
      if (wait.async) wait.value.then(next, next);
      else setImmediate(next);
    };
    setImmediate(next);
  }
}

function byOldest([a]: Waiter[], [b]: Waiter[]): number {
  return (a as Waiter).ticket - (b as Waiter).ticket;
}

function refused(refusal: WaitRefusal): Wait {
  return { ended: Promise.resolve(refusal), leave: () => {} };
}
