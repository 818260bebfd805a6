/**
 * Recorded requests through the production engine onto nodes in virtual time: arrivals as recorded, nodes that go down and
 * come back and prices that change when they did. The same plan and traffic give the same results.
 */

import { type AttemptEnd, isPromptOnly, type RouteRequest } from "@zml/engine";
import { logNormalFactor, type RandomSource, seededRandom } from "../seeded-random.ts";
import { EventHeap } from "../virtual/event-heap.ts";
import { VirtualNode } from "../virtual/virtual-node.ts";
import { type Placed, ReplayGateway } from "./replay-gateway.ts";
import {
  type FittedTiming,
  KV_UNKNOWN_TOKENS,
  type NodeState,
  type OutsideCall,
  type ReplayPlan,
  SEQUENCES_UNKNOWN,
  STEP_TOKENS,
  timingOf,
} from "./replay-plan.ts";
import { END, FLAG, type Results, type Traffic } from "./traffic.ts";

const ARRIVE = 0;
const NODE = 1;
const FIRST = 2;
const ENDED = 3;
const POLL = 4;
const CHANGE = 5;
const LOST = 6;
const EXPIRE = 7;

/** The first request after the window. */
const LATER = -(2 ** 30);
/** Spread of a step's time, as in the simulator. */
const NOISE_SIGMA = 0.05;
/** A poll of every node, more often than which nothing is looked at: a day of ten thousand nodes stays affordable. */
const READINGS_MAX = 20_000_000;
/** A request that is not over by then, after the last arrival, is a fault of the back-test. */
const DRAIN_MAX_MS = 7 * 24 * 3_600_000;
/** Requests between two reports of progress. */
const PROGRESS_EVERY = 4_096;

interface Slot {
  /** Position in the traffic; of a request that is only load, less than 0. */
  request: number;
  route: RouteRequest;
  placed: Placed;
  firstAtMs: number;
  /** When its first token will have come; 0: not known, or it does not stream. */
  firstDueMs: number;
  outputTokens: number;
  promptTokens: number;
  generation: number;
}

/** A request that waits for room. */
interface Waiter {
  request: number;
  route: RouteRequest;
  sinceMs: number;
  isOver: boolean;
}

/** Replays everything. @param results filled. @param onProgress share of the requests that have come, now and then. */
export function replay(
  plan: ReplayPlan,
  traffic: Traffic,
  results: Results,
  onProgress?: (share: number) => void,
): void {
  new Replay(plan, traffic, results, onProgress ?? null).run();
}

class Replay {
  readonly #plan: ReplayPlan;
  readonly #traffic: Traffic;
  readonly #results: Results;
  readonly #onProgress: ((share: number) => void) | null;
  readonly #gateway: ReplayGateway;
  readonly #heap = new EventHeap();
  /** By placement; placements of one kin on one node have one. */
  readonly #nodes: VirtualNode[] = [];
  /** By placement: the first one that has the same. */
  readonly #firstOf: number[] = [];
  readonly #timings: FittedTiming[] = [];
  readonly #lateness: RandomSource;
  /** By row: a placement for each of its virtual nodes. */
  readonly #placementsOf: number[][] = [];
  readonly #version: Int32Array;
  readonly #scheduledMs: Float64Array;
  readonly #isDown: Uint8Array;
  readonly #isSilent: Uint8Array;
  readonly #slots: Slot[] = [];
  readonly #free: number[] = [];
  readonly #queues = new Map<number, Waiter[]>();
  readonly #warmUpMs: number;
  readonly #usd: Float64Array;
  #waiting = 0;
  #nowMs = 0;
  #open = 0;
  #isArriving = true;

  constructor(plan: ReplayPlan, traffic: Traffic, results: Results, onProgress: ((share: number) => void) | null) {
    this.#plan = plan;
    this.#traffic = traffic;
    this.#results = results;
    this.#onProgress = onProgress;
    this.#gateway = new ReplayGateway(plan);
    this.#isDown = new Uint8Array(plan.nodes.length);
    this.#isSilent = new Uint8Array(plan.nodes.length);
    this.#usd = results.usd;
    this.#lateness = seededRandom(plan.seed + 2);
    const { count, atMs } = traffic;
    // what warms up has ended when the window begins, or nearly
    const [earliest] = plan.earlier;
    const warmUp = Math.min(plan.warmUp, count);
    if (earliest !== undefined) this.#warmUpMs = -earliest.atMs;
    else this.#warmUpMs = warmUp === 0 ? 0 : (atMs[warmUp - 1] as number) - (atMs[0] as number) + 1_000;
    plan.nodes.forEach((node) => {
      const firstOfKin = new Map<number, number>();
      for (const { model, kvCapacityTokens, slowness } of node.models) {
        const placement = this.#nodes.length;
        const timing = timingOf(plan, model, node.family);
        this.#timings.push(timing);
        const kin = plan.models[model]?.kin ?? model;
        const first = firstOfKin.get(kin);
        this.#firstOf.push(first ?? placement);
        if (first !== undefined) {
          this.#nodes.push(this.#nodeAt(first));
          continue;
        }
        firstOfKin.set(kin, placement);
        const random = seededRandom(plan.seed + 1_000_003 * (placement + 1));
        const virtual = new VirtualNode({
          constants: {
            ...timing.constants,
            kvCapacityTokens: kvCapacityTokens > 0 ? kvCapacityTokens : KV_UNKNOWN_TOKENS,
          },
          maxSequences: node.concurrencyLimit > 0 ? node.concurrencyLimit : SEQUENCES_UNKNOWN,
          stepTokenBudget: STEP_TOKENS,
          noise: (steps) => logNormalFactor(random, NOISE_SIGMA / Math.sqrt(steps)),
          onFirstToken: (slot, at) => this.#onFirstToken(slot, at),
          onFinished: (slot, at) => this.#onFinished(slot, at),
        });
        if (slowness !== 1) virtual.setSlowness(slowness, 0);
        this.#nodes.push(virtual);
      }
      this.#placementsOf.push([...firstOfKin.values()]);
    });
    this.#version = new Int32Array(this.#nodes.length);
    this.#scheduledMs = new Float64Array(this.#nodes.length).fill(Number.POSITIVE_INFINITY);
  }

  run(): void {
    const { nodes, events } = this.#plan;
    const { count } = this.#traffic;
    this.#learnMeans();
    nodes.forEach(({ state }, row) => {
      this.#setState(row, state);
      this.#poll(row);
      // twice, as a node is taken out by the second failed poll
      if (this.#isDown[row] === 1) this.#poll(row);
    });
    this.#gateway.refresh(0);
    this.#heap.add(this.#pollEveryMs(), POLL, 0);
    events.forEach(({ atMs }, index) => {
      this.#heap.add(this.#warmUpMs + Math.max(0, atMs), CHANGE, index);
    });
    const isWarmedUp = this.#plan.earlier.length > 0 || Math.min(this.#plan.warmUp, count) > 0;
    if (count > 0) this.#heap.add(0, ARRIVE, isWarmedUp ? -1 : 0);
    const lastMs = this.#warmUpMs + (this.#traffic.atMs[count - 1] ?? 0) + DRAIN_MAX_MS;
    const heap = this.#heap;
    while ((this.#isArriving || this.#open > 0) && count > 0 && heap.pop()) {
      this.#nowMs = heap.atMs;
      if (this.#nowMs > lastMs) throw new Error(`${this.#open} requests never ended: a fault of the back-test`);
      this.#handle(heap.kind, heap.a, heap.b);
    }
    this.#onProgress?.(1);
  }

  #handle(kind: number, a: number, b: number): void {
    switch (kind) {
      case ARRIVE:
        this.#arrive(a);
        return;
      case NODE:
        if (this.#version[a] !== b) return;
        this.#nodeAt(a).advance(this.#nowMs);
        this.#schedule(a);
        return;
      case FIRST: {
        const slot = this.#slotOf(a, b);
        if (slot === null) return;
        slot.firstAtMs = this.#nowMs;
        this.#gateway.firstToken(slot.placed, this.#nowMs);
        return;
      }
      case ENDED: {
        const slot = this.#slotOf(a, b);
        if (slot !== null) this.#served(a, slot);
        return;
      }
      case POLL:
        this.#plan.nodes.forEach((_, row) => {
          this.#poll(row);
        });
        this.#gateway.refresh(this.#nowMs);
        this.#heap.add(this.#nowMs + this.#pollEveryMs(), POLL, 0);
        if (this.#waiting > 0) this.#wake();
        return;
      case CHANGE:
        this.#change(a);
        return;
      case LOST: {
        const slot = this.#slotOf(a, b);
        if (slot !== null) this.#lost(a, slot, true);
        return;
      }
      case EXPIRE:
        this.#expire(a, b);
        return;
      default:
        throw new Error(`no event ${kind}`);
    }
  }

  #pollEveryMs(): number {
    const { nodes, pollEveryMs } = this.#plan;
    const { atMs, count } = this.#traffic;
    const windowMs = atMs[count - 1] ?? 0;
    return Math.max(pollEveryMs, (windowMs * nodes.length) / READINGS_MAX, 100);
  }

  /** Requests of the warm-up are -1, -2, …; then come those of the window, then `LATER`, `LATER` - 1, … */
  #arrive(request: number): void {
    const { atMs, count } = this.#traffic;
    const firstMs = atMs[0] as number;
    const { earlier, warmUp } = this.#plan;
    if (request <= LATER) this.#expectLater(LATER - request + 1);
    else if (request < 0) {
      const next = -request;
      const from = this.#warmUpMs;
      if (earlier.length > 0 && next < earlier.length)
        this.#heap.add(from + (earlier[next] as OutsideCall).atMs, ARRIVE, request - 1);
      else if (earlier.length === 0 && next < Math.min(warmUp, count)) {
        this.#heap.add((atMs[next] as number) - firstMs, ARRIVE, request - 1);
      } else this.#heap.add(from + (atMs[0] as number), ARRIVE, 0);
    } else if (request + 1 < count) this.#heap.add(this.#warmUpMs + (atMs[request + 1] as number), ARRIVE, request + 1);
    else {
      this.#isArriving = false;
      this.#expectLater(0);
    }
    if (request > 0 && request % PROGRESS_EVERY === 0) this.#onProgress?.(request / count);
    const route = this.#admit(request);
    if (request >= 0) this.#open += 1;
    const queue = this.#waiting === 0 ? undefined : this.#queues.get(queueKey(route));
    // who came before goes first
    if (queue !== undefined && queue.length > 0 && route.policy.queueOnSaturation) this.#park(request, route);
    else this.#dispatch(request, route, 0);
  }

  #expectLater(index: number): void {
    const next = this.#plan.later[index];
    if (next !== undefined) this.#heap.add(this.#warmUpMs + next.atMs, ARRIVE, LATER - index);
  }

  /** A request that is none of the window's; undefined: it is, or one of them that warms up. */
  #outside(request: number): OutsideCall | undefined {
    if (request >= 0) return undefined;
    return request <= LATER ? this.#plan.later[LATER - request] : this.#plan.earlier[-request - 1];
  }

  #admit(request: number): RouteRequest {
    const outside = this.#outside(request);
    if (outside !== undefined) {
      const { model, policy, endpoint, isStream, promptTokens, maxTokens } = outside;
      return this.#gateway.admit({
        ...{ model, policy, endpoint, isStream, promptTokens, maxTokens, hasImages: false, answers: 1 },
        ...{ hint: -1, promptTokensAtLeast: 0, nowMs: this.#nowMs },
      });
    }
    const index = request < 0 ? -request - 1 : request;
    const traffic = this.#traffic;
    const flags = traffic.flags[index] as number;
    return this.#gateway.admit({
      model: traffic.model[index] as number,
      policy: traffic.policy[index] as number,
      endpoint: traffic.endpoint[index] as number,
      isStream: (flags & FLAG.stream) !== 0,
      hasImages: (flags & FLAG.images) !== 0,
      answers: traffic.answers[index] as number,
      hint: traffic.hint[index] as number,
      promptTokens: traffic.estimatedTokens[index] as number,
      promptTokensAtLeast: traffic.atLeastTokens[index] as number,
      maxTokens: traffic.maxTokens[index] as number,
      nowMs: this.#nowMs,
    });
  }

  #dispatch(request: number, route: RouteRequest, waitedMs: number): void {
    // what came before the window ran where it ran; what comes after it is as free as the window's own
    const earlier = request <= LATER ? undefined : this.#outside(request);
    const known = earlier === undefined ? null : this.#gateway.place(route, earlier.node, this.#nowMs);
    const placed = known ?? this.#gateway.choose(route, this.#nowMs, waitedMs);
    if (placed === "wait") this.#park(request, route);
    else if (placed === null) this.#finish(request, route, route.attempts > 0 ? END.failed : END.refused, -1);
    else this.#send(request, route, placed);
  }

  #send(request: number, route: RouteRequest, placed: Placed): void {
    const index = request < 0 ? -request - 1 : request;
    const { promptTokens, outputTokens } = this.#traffic;
    const outside = this.#outside(request);
    if (request >= 0 && Number.isNaN(this.#results.waitMs[request] as number)) {
      this.#results.waitMs[request] = this.#nowMs - route.admittedAtMs;
    }
    const isPrompt = isPromptOnly(route.endpoint);
    const id = this.#free.pop() ?? this.#slots.length;
    const slot: Slot = {
      request,
      route,
      placed,
      firstAtMs: Number.NaN,
      firstDueMs: 0,
      promptTokens: Math.max(1, Math.round(outside?.promptTokens ?? (promptTokens[index] as number))),
      outputTokens: isPrompt ? 1 : Math.max(1, Math.round(outside?.outputTokens ?? (outputTokens[index] as number))),
      generation: (this.#slots[id]?.generation ?? 0) + 1,
    };
    this.#slots[id] = slot;
    if (this.#isDown[placed.row] === 1) {
      this.#lost(id, slot, false);
      return;
    }
    const { placement } = placed;
    const sequence = { id, promptTokens: slot.promptTokens, outputTokens: slot.outputTokens, blocks: null };
    this.#nodeAt(placement).enqueue(sequence, this.#nowMs);
    this.#schedule(this.#firstOf[placement] as number);
  }

  #onFirstToken(id: number, atMs: number): void {
    const slot = this.#slots[id] as Slot;
    if (!slot.route.isStream) return;
    const { overheadMs, firstLateMs } = this.#timings[slot.placed.placement] as FittedTiming;
    const lateMs = firstLateMs[Math.floor(this.#lateness() * firstLateMs.length)] ?? 0;
    slot.firstDueMs = Math.max(this.#nowMs, atMs + overheadMs + lateMs);
    this.#heap.add(slot.firstDueMs, FIRST, id, slot.generation);
  }

  #onFinished(id: number, atMs: number): void {
    const slot = this.#slots[id] as Slot;
    const { overheadMs } = this.#timings[slot.placed.placement] as FittedTiming;
    // behind its own first token, which came first into the heap
    this.#heap.add(Math.max(atMs + overheadMs, slot.firstDueMs), ENDED, id, slot.generation);
  }

  #served(id: number, slot: Slot): void {
    const { request, route, placed } = slot;
    this.#endAttempt(slot, { kind: "answer", status: 200, verdict: null, retryAfterMs: Number.NaN }, slot.outputTokens);
    this.#release(id);
    if (request >= 0 && route.isStream) this.#results.ttftMs[request] = slot.firstAtMs - route.admittedAtMs;
    this.#finish(request, route, END.served, placed.row);
    if (this.#waiting > 0) this.#wake();
  }

  /** The node went down under it, or was down when it came. */
  #lost(id: number, slot: Slot, hasReached: boolean): void {
    const { request, route, placed } = slot;
    const isCommitted = route.isStream && !Number.isNaN(slot.firstAtMs);
    const end: AttemptEnd = isCommitted
      ? { kind: "interrupted", fault: "reset" }
      : { kind: "fault", fault: hasReached ? "reset" : "connect_refused", isUnsent: !hasReached };
    const { move } = this.#endAttempt(slot, end, Number.NaN);
    this.#release(id);
    if (move.kind === "redispatch") this.#dispatch(request, route, this.#nowMs - route.admittedAtMs);
    else this.#finish(request, route, END.failed, placed.row);
    if (this.#waiting > 0) this.#wake();
  }

  #endAttempt(slot: Slot, end: AttemptEnd, outputTokens: number) {
    const { route, placed, promptTokens, request } = slot;
    const firstTokenMs = slot.firstAtMs - placed.attempt.sentAtMs;
    const seen = { outputTokens, promptTokens, firstTokenMs };
    // what came before the window has taught already what it really taught
    const isLesson = request >= 0 || this.#plan.earlier.length === 0;
    const result = this.#gateway.end(route, placed, end, seen, this.#nowMs, isLesson);
    if (request >= 0) this.#usd[request] = (this.#usd[request] as number) + result.usd;
    return result;
  }

  #finish(request: number, route: RouteRequest, end: number, node: number): void {
    if (request < 0) return;
    this.#open -= 1;
    const results = this.#results;
    results.end[request] = end;
    results.node[request] = node;
    results.responseMs[request] = this.#nowMs - route.admittedAtMs;
  }

  #park(request: number, route: RouteRequest): void {
    const key = queueKey(route);
    let queue = this.#queues.get(key);
    if (queue === undefined) {
      queue = [];
      this.#queues.set(key, queue);
    }
    const waiter: Waiter = { request, route, sinceMs: this.#nowMs, isOver: false };
    queue.push(waiter);
    this.#waiting += 1;
    const id = this.#parked++;
    this.#waiters.set(id, waiter);
    const leftMs = route.policy.maxQueueMs - (this.#nowMs - route.admittedAtMs);
    this.#heap.add(this.#nowMs + Math.max(0, leftMs), EXPIRE, id);
  }

  /** By the number of its deadline. */
  readonly #waiters = new Map<number, Waiter>();
  #parked = 0;

  #expire(id: number, _b: number): void {
    const waiter = this.#waiters.get(id);
    this.#waiters.delete(id);
    if (waiter === undefined || waiter.isOver) return;
    this.#leave(waiter);
    const queue = this.#queues.get(queueKey(waiter.route)) ?? [];
    const at = queue.indexOf(waiter);
    if (at >= 0) queue.splice(at, 1);
    if (waiter.request >= 0) this.#results.waitMs[waiter.request] = this.#nowMs - waiter.route.admittedAtMs;
    this.#finish(waiter.request, waiter.route, END.waited_in_vain, -1);
  }

  #leave(waiter: Waiter): void {
    waiter.isOver = true;
    this.#waiting -= 1;
  }

  /** Whoever waits the longest in each queue tries, until one finds nothing. */
  #wake(): void {
    for (const queue of this.#queues.values()) {
      while (queue.length > 0) {
        const waiter = queue[0] as Waiter;
        const placed = this.#gateway.choose(waiter.route, this.#nowMs, this.#nowMs - waiter.route.admittedAtMs);
        if (placed === "wait") break;
        queue.shift();
        this.#leave(waiter);
        if (placed === null) this.#finish(waiter.request, waiter.route, END.waited_in_vain, -1);
        else this.#send(waiter.request, waiter.route, placed);
      }
    }
  }

  #poll(row: number): void {
    if (this.#isDown[row] === 1 || this.#isSilent[row] === 1) {
      this.#gateway.poll(row, null, this.#nowMs);
      return;
    }
    let running = 0;
    let waiting = 0;
    let used = 0;
    let capacity = 0;
    for (const placement of this.#placementsOf[row] as number[]) {
      const node = this.#nodeAt(placement);
      running += node.runningCount;
      waiting += node.waitingCount;
      used += node.usedTokens;
      capacity += node.capacityTokens;
    }
    this.#gateway.poll(row, { running, waiting, kvUse: capacity > 0 ? used / capacity : 0 }, this.#nowMs);
  }

  #change(index: number): void {
    const event = this.#plan.events[index];
    if (event === undefined) return;
    if (event.kind === "price") this.#gateway.setPrice(event.node, event.usdPerHour);
    else if (event.kind === "speed") this.#gateway.setSpeed(event.node, event.model, event.tokensPerSecond);
    else if (event.kind === "charge") this.#gateway.setCharge(event.node, event.model, event.tokensPerSecond);
    else this.#setState(event.node, event.state);
    if (this.#waiting > 0) this.#wake();
  }

  #setState(row: number, state: NodeState): void {
    this.#gateway.setDraining(row, state === "draining");
    const isDown = state === "down";
    const wasSilent = this.#isSilent[row] === 1;
    this.#isSilent[row] = state === "silent" ? 1 : 0;
    if (state === "silent") {
      // what was recorded is that the gateway had noticed
      this.#poll(row);
      this.#poll(row);
    } else if (wasSilent && !isDown) this.#poll(row);
    if (isDown === (this.#isDown[row] === 1)) return;
    this.#isDown[row] = isDown ? 1 : 0;
    if (!isDown) return;
    for (const placement of this.#placementsOf[row] as number[]) {
      for (const { id } of this.#nodeAt(placement).drop(this.#nowMs)) {
        this.#heap.add(this.#nowMs, LOST, id, (this.#slots[id] as Slot).generation);
      }
      this.#schedule(placement);
    }
  }

  #learnMeans(): void {
    const { model, outputTokens, promptTokens, count } = this.#traffic;
    const sums = this.#plan.models.map(() => ({ output: 0, prompt: 0, count: 0 }));
    for (let index = 0; index < count; index++) {
      const sum = sums[model[index] as number];
      if (sum === undefined) continue;
      sum.output += outputTokens[index] as number;
      sum.prompt += promptTokens[index] as number;
      sum.count += 1;
    }
    // a gateway that began with the window knew nothing
    if (this.#plan.warmUp === 0) return;
    const outputs = sums.map(({ output, count: requests }) => (requests === 0 ? Number.NaN : output / requests));
    const lessons = this.#plan.lessons.map((lesson) => ({
      ...lesson,
      atMs: this.#warmUpMs + Math.min(0, lesson.atMs),
    }));
    this.#gateway.learn(lessons, outputs);
    sums.forEach(({ prompt, count: requests }, index) => {
      if (requests === 0) return;
      const promptRatio = this.#plan.promptRatios[index] ?? Number.NaN;
      this.#gateway.setMeans(index, {
        outputTokens: outputs[index] as number,
        promptTokens: prompt / requests,
        promptRatio,
      });
    });
  }

  #schedule(placement: number): void {
    const { nextEventMs } = this.#nodeAt(placement);
    if (nextEventMs === this.#scheduledMs[placement]) return;
    this.#scheduledMs[placement] = nextEventMs;
    this.#version[placement] = (this.#version[placement] as number) + 1;
    if (nextEventMs < Number.POSITIVE_INFINITY) this.#heap.add(nextEventMs, NODE, placement, this.#version[placement]);
  }

  #slotOf(id: number, generation: number): Slot | null {
    const slot = this.#slots[id] as Slot;
    return slot.generation === generation ? slot : null;
  }

  #release(id: number): void {
    (this.#slots[id] as Slot).generation += 1;
    this.#free.push(id);
  }

  #nodeAt(placement: number): VirtualNode {
    return this.#nodes[placement] as VirtualNode;
  }
}

/** Requests of one queue have the same model and policy. */
function queueKey({ model, policy }: RouteRequest): number {
  return model.index * 65_536 + policy.index;
}
