/**
 * The health aggregator: asks every node on its own timer and publishes what it says. It runs on the control thread,
 * which is the only writer of the columns it fills.
 *
 * A node that is out is asked on, at the same interval. Failures of polls are counted here; failures of requests are
 * the data plane's (cooldowns), and neither overrules the other.
 */

import { isDeepStrictEqual } from "node:util";
import {
  type AttemptSample,
  applySamples,
  errorShareOf,
  type FleetTable,
  type PlacedModel,
  publish,
  refreshSpeeds,
  TimingLearner,
} from "@zml/engine";
import { adapterOf } from "./adapters/index.ts";
import { KeptConnections } from "./kept-connection.ts";
import { Lane } from "./lanes.ts";
import { isMute, oneFirst } from "./mute-round.ts";
import { factsOf, type NodeFacts } from "./node-facts.ts";
import type { NodeSpec } from "./node-spec.ts";
import { createPollClient, type PollClient, type PollFetch, RoundConnection } from "./poll-fetch.ts";
import { pollRound } from "./poll-round.ts";
import { createPolledNode, type DownCause, forgetEngine, gpuMemoryOf, type PolledNode } from "./polled-node.ts";
import type { FleetHealthSettings, PollerOptions } from "./poller-options.ts";
import { RoundTaker } from "./take-round.ts";
import { TurnBudget } from "./turn-budget.ts";
import { writePlacements } from "./write-capabilities.ts";
import { writeFreeMemory, writeReading } from "./write-row.ts";

/**
 * Start to start of a node's polls, as shares of its interval. A row is stamped when its poll is sent and stays until
 * the next one is answered: 0.88 × 5,000 + 500 ms of answering is below 5,000. The spread keeps nodes from marching in
 * step.
 */
const PERIOD_MIN = 0.8;
const PERIOD_MAX = 0.88;

/** Models and limits are asked every sixth round: they change with a restart or an adapter loaded by hand. */
const ROUNDS_PER_FULL = 6;

/**
 * Polls begin in slots, so that a large fleet wakes this thread for several nodes at a time, which costs a fifth less. A
 * slot is far below the spread, which is what keeps nodes apart, and a two-hundredth of the interval at most.
 */
const SLOT_MS_MAX = 25;
const SLOT_SHARE = 0.005;

/** A refused poll is asked again this soon: one more is proof that nobody listens, and requests hang on it. */
const CONFIRM_MS = 250;

/** Where nothing is configured. Nodes that answered last time and those that did not have as many places each. */
const MAX_POLLS_AT_ONCE = 1024;

/** Reason of an abort, made once: a new one each time costs a stack trace for nobody. */
const TIME_IS_OVER = new Error("the poll's time is over");

/**
 * Ms of one turn for polls that begin: thousands of nodes that come at once connect some at a time, and their answers then
 * come some at a time.
 */
const STARTING_TURN_MS = 4;

/** Ms of one turn for answers that are read: the largest page takes 10 to 20, and a thousand may come at once. */
const READING_TURN_MS = 10;

/** Medians are refreshed at most this often: they cost a pass over all placements. */
const SPEEDS_EVERY_MS = 1_000;

/** See the head of this file. */
export class Poller {
  readonly #options: PollerOptions;
  readonly #table: FleetTable;
  readonly #client: PollClient;
  /** Polls that run. */
  readonly #polls = new Set<Promise<void>>();
  readonly #nodes = new Map<number, PolledNode>();
  readonly #kept = new KeptConnections();
  readonly #living = new Lane(MAX_POLLS_AT_ONCE);
  readonly #silent = new Lane(MAX_POLLS_AT_ONCE);
  readonly #starting = new TurnBudget(STARTING_TURN_MS);
  readonly #reading = new TurnBudget(READING_TURN_MS);
  readonly #taker: RoundTaker;
  readonly #learner: TimingLearner;
  #cancelSpeeds: (() => void) | null = null;
  #isStopped = false;

  constructor(options: PollerOptions) {
    this.#options = options;
    this.#table = options.table;
    this.#learner = new TimingLearner(options.table);
    this.#client = options.client ?? createPollClient();
    this.#taker = new RoundTaker(options, this.#nodes, () => this.#refreshSpeedsSoon());
  }

  /** Begins to poll a node, at once. The row must be taken and not be polled yet. */
  addNode(spec: NodeSpec): void {
    if (this.#isStopped) throw new Error(`node ${spec.id} was added to a poller that has stopped`);
    if (this.#nodes.has(spec.row)) throw new Error(`row ${spec.row} is polled already: update it, or remove it first`);
    const node = createPolledNode(spec, this.#kept.createPlace());
    node.releasesSeen = Atomics.load(this.#table.releases, spec.row);
    node.releasesSeenAtMs = this.#options.clock.nowMs();
    this.#nodes.set(spec.row, node);
    this.#writeSettings(node);
    this.#taker.noteModels(node);
    if (node.engine !== null) this.#options.onEngine?.(spec.row, node.engine);
    this.#schedule(node, 0);
  }

  /** Takes settings of the whole fleet. */
  configure({ maxEjectedShare, maxPollsAtOnce }: FleetHealthSettings): void {
    this.#living.setLimit(maxPollsAtOnce);
    this.#silent.setLimit(maxPollsAtOnce);
    this.#taker.setMaxEjectedShare(maxEjectedShare);
  }

  /** What is known of the node on a row beyond its row; null: it is not polled. */
  factsOf(row: number): NodeFacts | null {
    const node = this.#nodes.get(row);
    return node === undefined ? null : factsOf(node, this.#taker.isKeptIn(node));
  }

  /** Takes new settings of a node on the same row; a change of address, engine or key asks it anew at once. */
  updateNode(spec: NodeSpec): void {
    const node = this.#nodes.get(spec.row);
    if (node === undefined) throw new Error(`row ${spec.row} is not polled: add it first`);
    const before = node.spec;
    node.spec = spec;
    const isOtherServer = before.url !== spec.url;
    const isAskedOtherwise =
      before.engine !== spec.engine ||
      before.healthPath !== spec.healthPath ||
      before.metricsUrl !== spec.metricsUrl ||
      before.allowsLinkLocal !== spec.allowsLinkLocal ||
      !isDeepStrictEqual(before.custom, spec.custom);
    if (!isDeepStrictEqual(before.gpuExporter, spec.gpuExporter)) {
      node.gpuMemory?.stop();
      node.gpuMemory = gpuMemoryOf(spec);
    }
    if (isOtherServer || isAskedOtherwise || before.apiKey !== spec.apiKey) {
      node.epoch += 1;
      node.abort?.abort(TIME_IS_OVER);
      node.kept.close();
      forgetEngine(node);
      this.#taker.noteEngine(node);
      if (node.engine !== null) this.#options.onEngine?.(spec.row, node.engine);
      if (!node.isBusy) this.#schedule(node, 0);
    }
    this.#writeSettings(node);
    this.#taker.noteModels(node);
  }

  /** Ends polling of a row; what it holds stays until the caller frees it. Unknown rows are ignored. */
  removeNode(row: number): void {
    const node = this.#nodes.get(row);
    if (node === undefined) return;
    this.#nodes.delete(row);
    this.#end(node);
    this.#taker.remove(node);
  }

  /** Resolves when every node added so far was asked once, or after `deadlineMs`. */
  async firstRound(deadlineMs: number): Promise<void> {
    const deadline = Promise.withResolvers<void>();
    const cancel = this.#after(deadlineMs, deadline.resolve);
    await Promise.race([Promise.all(Array.from(this.#nodes.values(), (node) => node.first.promise)), deadline.promise]);
    cancel();
    this.#taker.isStarted = true;
  }

  /** What is known of the timing of models on families. */
  get timing(): TimingLearner {
    return this.#learner;
  }

  /** Takes what workers learned from attempts that ended. */
  takeSamples(samples: readonly AttemptSample[]): void {
    applySamples(this.#table, samples, this.#learner);
    for (const { row, outputTokens, outcome, atMs } of samples) {
      const node = this.#nodes.get(row);
      if (node === undefined) continue;
      if (outputTokens > 0) node.ownTokens += outputTokens;
      if (!Number.isNaN(errorShareOf(outcome))) node.heardAt = { ...node.heardAt, ownTrafficMs: atMs };
    }
    if (samples.length > 0) this.#refreshSpeedsSoon();
  }

  #track(poll: Promise<void>): Promise<void> {
    this.#polls.add(poll);
    return poll.finally(() => this.#polls.delete(poll));
  }

  /** Ends all polling: timers are cleared, sockets closed, and no poll runs any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const node of this.#nodes.values()) this.#end(node);
    this.#nodes.clear();
    this.#cancelSpeeds?.();
    await this.#client.close();
    await Promise.allSettled(this.#polls);
  }

  #end(node: PolledNode): void {
    node.isRemoved = true;
    node.timer?.();
    node.abort?.abort(TIME_IS_OVER);
    node.kept.close();
    node.gpuMemory?.stop();
    node.first.resolve();
  }

  #after(delayMs: number, callback: () => void): () => void {
    const { after } = this.#options.clock;
    if (after !== undefined) return after(delayMs, callback);
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  }

  #schedule(node: PolledNode, delayMs: number): void {
    node.timer?.();
    node.timer = this.#after(delayMs, () => {
      node.timer = null;
      node.isBusy = true;
      const lane = node.gate.failedInRow > 0 || node.gate.isOut ? this.#silent : this.#living;
      lane.run(() => this.#track(this.#start(node)));
    });
  }

  async #start(node: PolledNode): Promise<void> {
    await this.#starting.run(() => this.#poll(node));
  }

  /** One poll, and the timer of the next, whatever becomes of this one. */
  async #poll(node: PolledNode): Promise<void> {
    if (node.isRemoved) return;
    const { clock, random = Math.random } = this.#options;
    const { epoch } = node;
    const startMs = clock.nowMs();
    let cause: DownCause | null = "exception";
    try {
      cause = await this.#ask(node, startMs);
    } catch (error) {
      this.#tell(node, error);
      if (!node.isRemoved && node.epoch === epoch) this.#takeException(node, startMs);
    }
    node.abort = null;
    node.isBusy = false;
    if (node.isRemoved) return;
    if (node.epoch !== epoch) {
      this.#schedule(node, 0);
      return;
    }
    node.first.resolve();
    const isRefusedAnew = cause === "refused" && node.downCause !== "refused";
    const { pollIntervalMs } = node.spec.health;
    const periodMs = pollIntervalMs * (PERIOD_MIN + (PERIOD_MAX - PERIOD_MIN) * random());
    // a node that is gone is left alone for an interval: one that came back is seen after that and the time-out at most
    const fromMs = node.muteRounds > 0 ? clock.nowMs() : startMs;
    const dueInMs = fromMs + (isRefusedAnew ? Math.min(CONFIRM_MS, periodMs) : periodMs) - clock.nowMs();
    this.#schedule(node, Math.max(1, this.#untilSlot(dueInMs, pollIntervalMs)));
  }

  /** Time until the slot that `dueInMs` falls into begins: earlier by less than a slot, so that no row gets older. */
  #untilSlot(dueInMs: number, pollIntervalMs: number): number {
    const slotMs = Math.min(SLOT_MS_MAX, pollIntervalMs * SLOT_SHARE);
    return dueInMs - ((this.#options.clock.nowMs() + dueInMs) % slotMs);
  }

  /** Asks, and takes the answers in unless they are of a node as it no longer is. Returns why the poll failed. */
  async #ask(node: PolledNode, startMs: number): Promise<DownCause | null> {
    const { clock } = this.#options;
    const { spec, epoch } = node;
    const abort = new AbortController();
    node.abort = abort;
    const cancelDeadline = this.#after(spec.health.timeoutMs, () => abort.abort(TIME_IS_OVER));
    const round = new RoundConnection(abort.signal, node.kept.take(startMs));
    let isGood = false;
    try {
      // another engine may stand behind the address after a node comes back
      const isSought = node.engine === null || (spec.engine === null && node.gate.isOut);
      const adapter = isSought ? null : adapterOf(node);
      const isFull = this.#needsFull(node);
      const plan = { spec, adapter, isFull, usesFallback: node.usesFallback, reading: node.reading };
      const ask: PollFetch = (request) => this.#client.fetch({ ...request, round });
      const fetch = node.muteRounds === 0 ? ask : oneFirst(ask, node.muteRounds);
      const sources = { table: this.#table, fetch, nowMs: () => clock.nowMs() };
      this.#askGpuMemory(node);
      const result = await pollRound(sources, plan, abort.signal);
      node.muteRounds = node.gate.isOut && isMute(result) ? node.muteRounds + 1 : 0;
      return await this.#reading.run(() => {
        if (node.isRemoved || node.epoch !== epoch) return null;
        const cause = this.#taker.take(node, result, { startMs, isFull: isFull || isSought });
        isGood = cause === null;
        return cause;
      });
    } finally {
      cancelDeadline();
      const isKept =
        isGood && !node.isRemoved && node.kept.mayKeep(node.engine, spec.health.pollIntervalMs * PERIOD_MAX);
      const connection = round.end(isKept);
      if (connection !== null) node.kept.keep(connection, clock.nowMs());
    }
  }

  /** Beside the poll: nothing waits for it. */
  #askGpuMemory({ gpuMemory, spec }: PolledNode): void {
    if (gpuMemory === null) return;
    const { clock } = this.#options;
    void this.#track(
      gpuMemory.ask({
        fetch: this.#client.fetch,
        nowMs: () => clock.nowMs(),
        after: (delayMs, callback) => this.#after(delayMs, callback),
        allowsLinkLocal: spec.allowsLinkLocal ?? false,
      }),
    );
  }

  /** A poll that ended in an exception shows nothing of the node, which is what a failed one is. */
  #takeException(node: PolledNode, startMs: number): void {
    try {
      this.#taker.takeFailed(node, "exception", { startMs, healthStatus: Number.NaN, hasLoad: false });
    } catch (error) {
      this.#tell(node, error);
    }
  }

  #tell(node: PolledNode, error: unknown): void {
    try {
      this.#options.onError?.(node.spec.row, error);
    } catch {
      // nobody is left to tell; the node is polled on
    }
  }

  #needsFull(node: PolledNode): boolean {
    if (node.roundsSinceFull >= ROUNDS_PER_FULL - 1 || node.gate.isOut) return true;
    return node.spec.placements.some(({ placement }) => Atomics.load(this.#table.misconfiguredUntil, placement) !== 0);
  }

  /** Settings that need no answer of the node. */
  #writeSettings(node: PolledNode): void {
    const { spec, reading } = node;
    publish(this.#table, () => {
      if (spec.maxInFlight !== null) this.#table.maxInFlight[spec.row] = spec.maxInFlight;
      const ofEngine = adapterOf(node).capabilities(reading);
      writeFreeMemory(this.#table, node, this.#options.clock.nowMs());
      if (reading !== null) writeReading(this.#table, spec, reading, ofEngine);
      else writePlacements(this.#table, spec, reading, ofEngine);
    });
    // what is known of its family holds from its first request on
    this.#learner.refresh(placedOf(spec), this.#options.clock.nowMs());
    this.#refreshSpeedsSoon();
  }

  #refreshSpeedsSoon(): void {
    if (this.#isStopped) return;
    this.#cancelSpeeds ??= this.#after(SPEEDS_EVERY_MS, () => {
      this.#cancelSpeeds = null;
      const placed = Array.from(this.#nodes.values(), ({ spec }) => placedOf(spec));
      refreshSpeeds(this.#table, placed.flat());
      this.#learner.refresh(placed.flat(), this.#options.clock.nowMs());
    });
  }
}

function placedOf({ row, placements }: NodeSpec): PlacedModel[] {
  return placements.map(({ model, placement }) => ({ row, model, placement }));
}
