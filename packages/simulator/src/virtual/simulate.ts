/**
 * A fleet in virtual time: arrivals, gateways with the production engine, nodes after §2, polls, failures and prices,
 * one event after the other. The same options give the same records, byte for byte.
 */

import { type AttemptEnd, type CostPriority, type Estimator, simpleEstimator } from "@zml/engine";
import { logNormalFactor, type RandomSource, seededRandom } from "../seeded-random.ts";
import { AttemptSlots, type Slot } from "./attempt-slots.ts";
import { type Disturbance, type FailureSpec, type PriceSpec, planDisturbances } from "./disturbances.ts";
import { EventHeap } from "./event-heap.ts";
import type { FleetPlan } from "./fleet-plan.ts";
import { HerdMeter } from "./herd-meter.ts";
import { Polls } from "./polls.ts";
import { createRecords, FAILED, REJECTED, type Records, SERVED } from "./records.ts";
import type { RequestClass } from "./request-classes.ts";
import { hashOf } from "./routers/classical.ts";
import { REQUEST_OVERHEAD_MS } from "./routers/predict.ts";
import type { Router } from "./routers/router.ts";
import { type AdmittedRequest, MAX_SEQUENCES, type Predicted, VirtualGateway } from "./virtual-gateway.ts";
import { VirtualNode } from "./virtual-node.ts";
import type { Workload } from "./workload.ts";

export interface SimulationOptions {
  readonly plan: FleetPlan;
  readonly classes: readonly RequestClass[];
  readonly workload: Workload;
  /** Null: the engine's own choice by `costPriority`. Called once per gateway; the nodes are for a router that knows all. */
  readonly createRouter: ((nodes: readonly VirtualNode[]) => Router) | null;
  readonly costPriority?: CostPriority;
  readonly estimator?: Estimator;
  readonly gateways?: number;
  /** Time between polls of a node, ms: the age that its numbers reach. 0: every decision sees the load as it is. */
  readonly metricsIntervalMs?: number;
  /** Time from reading to knowing, ms. */
  readonly metricsDelayMs?: number;
  /** Spread of a step's time (§2.1). */
  readonly noiseSigma?: number;
  readonly stepTokenBudget?: number;
  readonly failures?: readonly FailureSpec[];
  readonly prices?: readonly PriceSpec[];
  readonly seed: number;
  /** Told the share of requests that have ended, 0..1, now and then. */
  readonly onProgress?: (share: number) => void;
}

export interface SimulationResult {
  readonly records: Records;
  /** Price of each node over time: pairs of ms and USD per hour, the first at 0. */
  readonly prices: readonly (readonly [number, number][])[];
  /** Busy stretches of each node, ms: start, end, start, … */
  readonly busy: readonly (readonly number[])[];
  readonly nodeTotals: readonly VirtualNode["totals"][];
  readonly herdIndex: number;
  /** When the last request ended, ms. */
  readonly endedAtMs: number;
  readonly dispatches: number;
  readonly events: number;
  readonly gateways: readonly VirtualGateway[];
}

const ARRIVE = 0;
const REACH = 1;
const NODE = 2;
const FIRST = 3;
const END = 4;
const LOST = 5;
const POLL = 6;
const KNOW = 7;
const DISTURB = 8;
const LEARN = 9;
/** A later turn of a session: unlike `ARRIVE` it brings no next arrival. */
const TURN = 10;

/** Time that a streamed token costs on its way, ms (§2.1). */
export const STREAM_TOKEN_MS = 0.05;
/** The poller refreshes medians about as often. */
const LEARN_EVERY_MS = 1_000;
/** A run whose last requests take longer than this after the last arrival is stuck. */
const DRAIN_MAX_MS = 24 * 3_600_000;

/** Runs to the end of the last request. @throws Error when a request is left over: a fault of the simulator. */
export function simulate(options: SimulationOptions): SimulationResult {
  return new Simulation(options).run();
}

class Simulation {
  readonly #plan: FleetPlan;
  readonly #workload: Workload;
  readonly #options: SimulationOptions;
  readonly #heap = new EventHeap();
  readonly #nodes: VirtualNode[];
  readonly #gateways: VirtualGateway[];
  readonly #records: Records;
  readonly #disturbances: readonly Disturbance[];
  readonly #polls: Polls;
  readonly #version: Int32Array;
  readonly #scheduledMs: Float64Array;
  readonly #prices: [number, number][][];
  readonly #slots = new AttemptSlots();
  readonly #admitted: (AdmittedRequest | null)[];
  readonly #delivered: Int32Array;
  readonly #herd: HerdMeter;
  #nowMs = 0;
  #ended = 0;
  #events = 0;
  #dispatches = 0;

  constructor(options: SimulationOptions) {
    const { plan, workload, seed } = options;
    const { costPriority = "balanced", estimator = simpleEstimator, gateways = 1, noiseSigma = 0.05 } = options;
    this.#options = options;
    this.#plan = plan;
    this.#workload = workload;
    const { stepTokenBudget = 2_048 } = options;
    this.#nodes = plan.nodes.map(({ constants }, row) => {
      const random = seededRandom(seed + 1_000_003 * (row + 1));
      return new VirtualNode({
        constants,
        maxSequences: MAX_SEQUENCES,
        stepTokenBudget,
        ...(noiseSigma > 0 ? { noise: noiseOf(random, noiseSigma) } : {}),
        onFirstToken: (slot, atMs) => this.#onFirstToken(slot, atMs),
        onFinished: (slot, atMs) => this.#onFinished(slot, atMs),
      });
    });
    this.#gateways = Array.from({ length: gateways }, (_, index) => {
      const router = options.createRouter?.(this.#nodes) ?? null;
      return new VirtualGateway({
        plan,
        classes: options.classes,
        costPriority,
        estimator,
        router,
        seed: seed + 17 * index,
      });
    });
    const { metricsIntervalMs: intervalMs = 50, metricsDelayMs: delayMs = 0 } = options;
    this.#polls = new Polls(this.#nodes, this.#gateways, { intervalMs, delayMs });
    const { count } = workload;
    this.#records = createRecords(count);
    this.#admitted = new Array<AdmittedRequest | null>(count).fill(null);
    this.#delivered = new Int32Array(count);
    const { failures = [], prices = [] } = options;
    this.#disturbances = planDisturbances(plan, { failures, prices }, { durationS: workload.durationMs / 1000, seed });
    this.#version = new Int32Array(plan.nodes.length);
    this.#scheduledMs = new Float64Array(plan.nodes.length).fill(Number.POSITIVE_INFINITY);
    this.#prices = plan.nodes.map(({ usdPerHour }) => [[0, usdPerHour]]);
    this.#herd = new HerdMeter(plan.nodes.length);
  }

  run(): SimulationResult {
    const { count, atMs, durationMs } = this.#workload;
    const random = seededRandom(this.#options.seed + 3);
    for (const [index, { atMs: whenMs }] of this.#disturbances.entries()) this.#heap.add(whenMs, DISTURB, index);
    this.#gateways.forEach((gateway, index) => {
      // every gateway has asked every node before the first request comes
      this.#polls.begin(index);
      gateway.refreshSpeeds(0);
      this.#heap.add(random() * this.#polls.everyMs, POLL, index);
      this.#heap.add(LEARN_EVERY_MS, LEARN, index);
    });
    // arrivals come in order, so each brings the next one: the heap stays small
    if (count > 0) this.#heap.add(atMs[0] as number, ARRIVE, 0);
    const lastMs = durationMs + DRAIN_MAX_MS;
    while (this.#ended < count && this.#heap.pop()) {
      this.#nowMs = this.#heap.atMs;
      this.#events += 1;
      if (this.#nowMs > lastMs)
        throw new Error(`${count - this.#ended} requests never ended: a fault of the simulator`);
      this.#handle(this.#heap.kind, this.#heap.a, this.#heap.b);
    }
    if (this.#ended !== count) throw new Error(`${count - this.#ended} requests never ended: a fault of the simulator`);
    this.#options.onProgress?.(1);
    return {
      records: this.#records,
      prices: this.#prices,
      busy: this.#nodes.map(({ busy }) => busy),
      nodeTotals: this.#nodes.map(({ totals }) => totals),
      herdIndex: this.#herd.index(),
      endedAtMs: this.#nowMs,
      dispatches: this.#dispatches,
      events: this.#events,
      gateways: this.#gateways,
    };
  }

  #handle(kind: number, a: number, b: number): void {
    switch (kind) {
      case ARRIVE:
        this.#scheduleNextArrival(a);
        this.#arrive(a);
        return;
      case TURN:
        this.#arrive(a);
        return;
      case REACH:
        this.#reach(a, b);
        return;
      case NODE:
        if (this.#version[a] !== b) return;
        this.#node(a).advance(this.#nowMs);
        this.#schedule(a);
        return;
      case FIRST:
        this.#firstToken(a, b);
        return;
      case END:
        this.#served(a, b);
        return;
      case LOST:
        this.#lost(a, b);
        return;
      case POLL:
        this.#poll(a);
        return;
      case KNOW:
        this.#polls.know(a, this.#nowMs);
        return;
      case LEARN:
        this.#gateway(a).refreshSpeeds(this.#nowMs);
        this.#heap.add(this.#nowMs + LEARN_EVERY_MS, LEARN, a);
        return;
      case DISTURB:
        this.#disturb(this.#disturbances[a] as Disturbance);
        return;
      default:
        throw new Error(`no event ${kind}`);
    }
  }

  /** Requests come in order of time, first turns before all later ones: each brings the next. */
  #scheduleNextArrival(request: number): void {
    const { count, atMs } = this.#workload;
    const nextMs = request + 1 < count ? (atMs[request + 1] as number) : Number.NaN;
    if (!Number.isNaN(nextMs)) this.#heap.add(nextMs, ARRIVE, request + 1);
    if ((request & 4095) === 0) this.#options.onProgress?.(this.#ended / count);
  }

  #arrive(request: number): void {
    this.#records.arrivedAtMs[request] = this.#nowMs;
    this.#ask(request);
  }

  /** A caller's request, with what it has of the answer as a part of the prompt. */
  #ask(request: number): void {
    const { promptTokens, session, blocks, classes } = this.#workload;
    this.#admitted[request] = this.#gatewayOf(request).admit(
      {
        index: request,
        promptTokens: (promptTokens[request] as number) + (this.#delivered[request] as number),
        session: session[request] as number,
        blocks: blocks[request] ?? null,
        klass: classes[request] as number,
      },
      this.#nowMs,
    );
    this.#dispatch(request);
  }

  #dispatch(request: number): void {
    const gateway = this.#gatewayOf(request);
    const admitted = this.#admitted[request] as AdmittedRequest;
    this.#polls.freshen(gateway);
    const dispatched = gateway.choose(admitted, this.#nowMs);
    if (dispatched === null) {
      this.#finish(request, (this.#records.restarts[request] as number) > 0 ? FAILED : REJECTED);
      return;
    }
    this.#dispatches += 1;
    this.#notePredicted(request, dispatched.predicted);
    this.#herd.note(dispatched.row, this.#nowMs);
    const { promptTokens, outputTokens } = this.#workload;
    const delivered = this.#delivered[request] as number;
    const id = this.#slots.take({
      request,
      gateway,
      dispatched,
      // what came already is part of the prompt now
      promptTokens: (promptTokens[request] as number) + delivered,
      outputTokens: (outputTokens[request] as number) - delivered,
      hasReached: false,
      firstTokenAtMs: Number.NaN,
      emittedTokens: 0,
    });
    const wayMs = REQUEST_OVERHEAD_MS + this.#halfWayMs(dispatched.row);
    this.#heap.add(this.#nowMs + wayMs, REACH, id, this.#slots.at(id).generation);
  }

  /** Only of first attempts: later ones are measured from a start that the record does not keep. */
  #notePredicted(request: number, predicted: Predicted | null): void {
    const { predictedFirstMs, predictedTokenMs, promisedFirstMs, promisedTokenMs, restarts } = this.#records;
    const isFirst = (restarts[request] as number) === 0;
    predictedFirstMs[request] = isFirst ? (predicted?.firstMs ?? Number.NaN) : Number.NaN;
    predictedTokenMs[request] = isFirst ? (predicted?.tokenMs ?? Number.NaN) : Number.NaN;
    promisedFirstMs[request] = isFirst ? (predicted?.firstPromisedMs ?? Number.NaN) : Number.NaN;
    promisedTokenMs[request] = isFirst ? (predicted?.tokenPromisedMs ?? Number.NaN) : Number.NaN;
  }

  #reach(id: number, generation: number): void {
    const slot = this.#slots.find(id, generation);
    if (slot === null) return;
    const { row } = slot.dispatched;
    if (this.#polls.isDown(row)) {
      this.#heap.add(this.#nowMs + this.#halfWayMs(row), LOST, id, generation);
      return;
    }
    slot.hasReached = true;
    const { promptTokens, outputTokens, request } = slot;
    const blocks = this.#workload.blocks[request] ?? null;
    this.#node(row).enqueue({ id, promptTokens, outputTokens, blocks }, this.#nowMs);
    this.#schedule(row);
  }

  #onFirstToken(id: number, atMs: number): void {
    const slot = this.#slots.at(id);
    const delayMs = this.#halfWayMs(slot.dispatched.row) + STREAM_TOKEN_MS;
    this.#heap.add(atMs + delayMs, FIRST, id, slot.generation);
  }

  #onFinished(id: number, atMs: number): void {
    const slot = this.#slots.at(id);
    const delayMs = this.#halfWayMs(slot.dispatched.row) + STREAM_TOKEN_MS * slot.outputTokens;
    this.#heap.add(atMs + delayMs, END, id, slot.generation);
  }

  #firstToken(id: number, generation: number): void {
    const slot = this.#slots.find(id, generation);
    if (slot === null) return;
    const { request, gateway, dispatched } = slot;
    slot.firstTokenAtMs = this.#nowMs;
    const { ttftMs, arrivedAtMs } = this.#records;
    if (Number.isNaN(ttftMs[request])) ttftMs[request] = this.#nowMs - (arrivedAtMs[request] as number);
    // of an answer that does not stream nothing is seen before its end
    if (this.#isStream(request)) gateway.firstToken(dispatched, this.#nowMs);
  }

  #served(id: number, generation: number): void {
    const slot = this.#slots.find(id, generation);
    if (slot === null) throw new Error("an answer of an attempt that is over: a fault of the simulator");
    const { request } = slot;
    this.#endAttempt(slot, { kind: "answer", status: 200, verdict: null, retryAfterMs: Number.NaN }, slot.outputTokens);
    this.#records.node[request] = slot.dispatched.row;
    this.#delivered[request] = this.#workload.outputTokens[request] as number;
    this.#slots.free(id);
    this.#finish(request, SERVED);
  }

  /** The node went down under it, or was down when it came. */
  #lost(id: number, generation: number): void {
    const slot = this.#slots.find(id, generation);
    if (slot === null) return;
    const { request } = slot;
    this.#slots.free(id);
    const isCommitted = !Number.isNaN(slot.firstTokenAtMs) && this.#isStream(request);
    // before its commit point an attempt leaves nothing with the caller
    if (isCommitted) this.#delivered[request] = (this.#delivered[request] as number) + slot.emittedTokens;
    const { move } = this.#endAttempt(slot, endOfLost(slot, isCommitted), Number.NaN);
    this.#records.restarts[request] = Math.min(255, (this.#records.restarts[request] as number) + 1);
    if (move.kind === "redispatch") {
      this.#dispatch(request);
      return;
    }
    if (!isCommitted) {
      this.#finish(request, FAILED);
      return;
    }
    // the caller sees a broken stream, and asks again with what it has (§2.5)
    if ((this.#delivered[request] as number) >= (this.#workload.outputTokens[request] as number)) {
      // all of it came, and only the end of the stream was lost
      this.#records.node[request] = slot.dispatched.row;
      this.#finish(request, SERVED);
      return;
    }
    this.#ask(request);
  }

  #endAttempt(slot: Slot, end: AttemptEnd, outputTokens: number) {
    const { sentAtMs } = slot.dispatched.attempt;
    const isStream = this.#isStream(slot.request);
    return slot.gateway.end(this.#admitted[slot.request] as AdmittedRequest, slot.dispatched, end, {
      outputTokens,
      promptTokens: slot.promptTokens,
      durationMs: this.#nowMs - sentAtMs,
      firstTokenMs: isStream ? slot.firstTokenAtMs - sentAtMs : Number.NaN,
      atMs: this.#nowMs,
    });
  }

  #finish(request: number, end: number): void {
    const records = this.#records;
    if (records.end[request] !== 0) throw new Error(`request ${request} ended twice: a fault of the simulator`);
    records.end[request] = end;
    records.responseMs[request] = this.#nowMs - (records.arrivedAtMs[request] as number);
    records.outputTokens[request] = this.#delivered[request] as number;
    this.#admitted[request] = null;
    this.#ended += 1;
    const next = this.#workload.next[request] as number;
    // an agent goes on, whatever became of its last call
    if (next >= 0) this.#heap.add(this.#nowMs + (this.#workload.pauseMs[next] as number), TURN, next);
  }

  #poll(index: number): void {
    if (this.#polls.read(index, this.#nowMs)) this.#heap.add(this.#nowMs + this.#polls.delayMs, KNOW, index);
    this.#heap.add(this.#nowMs + this.#polls.everyMs, POLL, index);
  }

  #disturb(event: Disturbance): void {
    const { row } = event;
    switch (event.kind) {
      case "drain":
        for (const gateway of this.#gateways) gateway.setDraining(row, true);
        return;
      case "down":
        this.#polls.downs[row] = (this.#polls.downs[row] as number) + 1;
        for (const { id, emittedTokens } of this.#node(row).drop(this.#nowMs)) {
          const slot = this.#slots.at(id);
          slot.emittedTokens = emittedTokens;
          this.#heap.add(this.#nowMs + this.#halfWayMs(row), LOST, id, slot.generation);
        }
        this.#schedule(row);
        return;
      case "up":
        this.#polls.downs[row] = (this.#polls.downs[row] as number) - 1;
        for (const gateway of this.#gateways) {
          gateway.setDraining(row, false);
          gateway.forgetPrefixes(row);
        }
        return;
      case "slowness":
        this.#node(row).setSlowness(event.factor, this.#nowMs);
        this.#schedule(row);
        return;
      case "blackout":
        this.#polls.blackouts[row] = (this.#polls.blackouts[row] as number) + (event.isOn ? 1 : -1);
        return;
      case "price":
        this.#prices[row]?.push([this.#nowMs, event.usdPerHour]);
        for (const gateway of this.#gateways) gateway.setPrice(row, event.usdPerHour);
    }
  }

  /** The node's next event in the heap; an older one is void. */
  #schedule(row: number): void {
    const { nextEventMs } = this.#node(row);
    if (nextEventMs === this.#scheduledMs[row]) return;
    this.#scheduledMs[row] = nextEventMs;
    this.#version[row] = (this.#version[row] as number) + 1;
    if (nextEventMs < Number.POSITIVE_INFINITY) this.#heap.add(nextEventMs, NODE, row, this.#version[row]);
  }

  #isStream(request: number): boolean {
    return Number.isNaN(this.#options.classes[this.#workload.classes[request] as number]?.responseMs);
  }

  #halfWayMs(row: number): number {
    return (this.#plan.nodes[row]?.networkMs ?? 0) / 2;
  }

  #node(row: number): VirtualNode {
    return this.#nodes[row] as VirtualNode;
  }

  #gateway(index: number): VirtualGateway {
    return this.#gateways[index] as VirtualGateway;
  }

  /** Callers keep to nobody: every request comes to any gateway, the same one for every policy. */
  #gatewayOf(request: number): VirtualGateway {
    return this.#gateway(this.#gateways.length === 1 ? 0 : hashOf(request, this.#options.seed) % this.#gateways.length);
  }
}

function endOfLost({ hasReached }: Slot, isCommitted: boolean): AttemptEnd {
  if (isCommitted) return { kind: "interrupted", fault: "reset" };
  return hasReached
    ? { kind: "fault", fault: "reset", isUnsent: false }
    : { kind: "fault", fault: "connect_refused", isUnsent: true };
}

function noiseOf(random: RandomSource, sigma: number): (steps: number) => number {
  return (steps) => logNormalFactor(random, sigma / Math.sqrt(steps));
}
