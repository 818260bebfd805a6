/**
 * Takes the result of a round in: into the row of the node, and into what decides whether the node is in or out. Control
 * thread only.
 */

import {
  afterFailedPoll,
  afterGoodPoll,
  afterLook,
  announceRoom,
  beginSlowStart,
  EjectionLimit,
  type FleetTable,
  FRESH_PROGRESS,
  foldEngineErrors,
  forgetCache,
  forgetLoad,
  forgetSpeeds,
  isStalled,
  publish,
  type Suspicion,
  standingOf,
  unblockPlacement,
  writeDrain,
  writeHealthScore,
  writeLoad,
} from "@zml/engine";
import { isOtherEngine } from "./adapters/detect.ts";
import { type Adapter, adapterOf, type NodeReading } from "./adapters/index.ts";
import { isOk } from "./adapters/poll-answers.ts";
import { measureCapacity } from "./measure-capacity.ts";
import { errorWords, noteAnswers, ratesBetween } from "./node-facts.ts";
import type { RoundResult } from "./poll-round.ts";
import { type DownCause, forgetEngine, nextRoundsSinceFull, type PolledNode } from "./polled-node.ts";
import type { PollerOptions } from "./poller-options.ts";
import { writeCapacities, writeFreeMemory, writeReading } from "./write-row.ts";

/** Rounds without an answer of the metrics path after which its last numbers no longer count. */
const MISSED_SCRAPES_MAX = 3;

/** Where nothing is configured: half of a model's nodes. */
const MAX_EJECTED_SHARE = 0.5;

/** What a round was. */
export interface RoundInfo {
  readonly startMs: number;
  readonly isFull: boolean;
}

/** See the head of this file. */
export class RoundTaker {
  readonly #options: PollerOptions;
  readonly #table: FleetTable;
  /** Nodes by row, as the poller has them. */
  readonly #nodes: ReadonlyMap<number, PolledNode>;
  readonly #onCapacity: () => void;
  /** The first round is over: a node that answers for the first time is new to the fleet. */
  isStarted = false;
  readonly #ejections = new EjectionLimit(MAX_EJECTED_SHARE);

  constructor(options: PollerOptions, nodes: ReadonlyMap<number, PolledNode>, onCapacity: () => void) {
    this.#options = options;
    this.#table = options.table;
    this.#nodes = nodes;
    this.#onCapacity = onCapacity;
  }

  /** Takes the share of a model's nodes that health alone may take out, 0..1. */
  setMaxEjectedShare(share: number): void {
    this.#applyEjections(this.#ejections.setShare(share));
  }

  /** True when health would take the node out and too many others are out already. */
  isKeptIn(node: PolledNode): boolean {
    return standingOf(suspicionOf(node, this.#table)) === "suspect" && !this.#ejections.isEjected(node.spec.row);
  }

  /** The node's models may have changed. */
  noteModels(node: PolledNode): void {
    this.#settle(node);
  }

  /** The node's engine may be another: what the one before it could do says nothing about this one. */
  noteEngine(node: PolledNode): void {
    const { engine, measuredEngine } = node;
    if (engine === null || engine === measuredEngine) return;
    node.measuredEngine = engine;
    if (measuredEngine === null) return;
    publish(this.#table, () => {
      for (const { placement } of node.spec.placements) forgetSpeeds(this.#table, placement);
    });
    this.#onCapacity();
  }

  /** A node is polled no more. */
  remove(node: PolledNode): void {
    this.#applyEjections(this.#ejections.remove(node.spec.row));
  }

  /** Takes the result of a round. Returns why the poll failed, null: it is good. */
  take(node: PolledNode, result: RoundResult, round: RoundInfo): DownCause | null {
    const nowMs = this.#options.clock.nowMs();
    if (result.detected !== null && result.detected !== node.engine) this.#takeEngine(node, result.detected, nowMs);
    node.usesFallback = result.usesFallback;
    noteAnswers(node, result, nowMs);
    const adapter = adapterOf(node);
    const reading = adapter.read(result.responses, node.reading);
    if (this.#isOther(node, result, reading, round)) {
      // what came is of another engine: it is asked anew, and says then who it is
      forgetEngine(node);
      node.redetectedAtMs = nowMs;
      return null;
    }
    if (reading.isReady) {
      this.#takeGood(node, adapter, reading, result, round);
      return null;
    }
    // requests may go there for some time yet, so that its load counts beside a page that takes it out
    const hasLoad = isOk(result.responses.metrics);
    if (hasLoad) publish(this.#table, () => writeLoad(this.#table, node.spec.row, reading, result));
    const cause = result.healthFault ?? "not_ready";
    this.takeFailed(node, cause, {
      startMs: round.startMs,
      healthStatus: result.responses.health?.status ?? Number.NaN,
      hasLoad,
    });
    return cause;
  }

  #takeEngine(node: PolledNode, engine: NonNullable<PolledNode["engine"]>, nowMs: number): void {
    if (node.engine !== null) node.redetectedAtMs = nowMs;
    forgetEngine(node);
    node.engine = engine;
    this.noteEngine(node);
    this.#options.onEngine?.(node.spec.row, engine);
  }

  /** Looked at where it costs little: in full rounds, and when the engine's own numbers are gone. */
  #isOther(node: PolledNode, result: RoundResult, after: NodeReading, { isFull }: RoundInfo): boolean {
    const { engine, reading: before, spec } = node;
    if (spec.engine !== null || engine === null || result.detected !== null) return false;
    const isGone = before !== null && !Number.isNaN(before.running) && Number.isNaN(after.running);
    return (isFull || isGone) && isOtherEngine(engine, result.responses, { before, after });
  }

  #takeGood(node: PolledNode, adapter: Adapter, reading: NodeReading, result: RoundResult, round: RoundInfo): void {
    const table = this.#table;
    const { spec } = node;
    const { row } = spec;
    const nowMs = this.#options.clock.nowMs();
    const before = node.reading;
    const hasRestarted = reading.generationTokensTotal < (before?.generationTokensTotal ?? Number.NaN);
    const isScraped = result.responses.metrics !== null;
    const hasLoad = isScraped || adapter.probes.metrics === null;
    node.missedScrapes = hasLoad ? 0 : node.missedScrapes + 1;
    // a round that found out which engine it is did not ask for what only that engine knows (vLLM's version)
    const isFull = round.isFull && adapter.probes.facts.every(({ path }) => path in result.responses.facts);
    node.roundsSinceFull = nextRoundsSinceFull(node, reading, { isFull, hasRestarted });
    node.reading = reading;
    const gate = afterGoodPoll(node.gate, spec.health.healthyAfter);
    if (isScraped) this.#look(node, adapter, before, reading, result);
    const capacities = hasLoad ? measureCapacity(node, adapter, reading, { table, result, nowMs }) : [];
    publish(table, () => {
      writeReading(table, spec, reading, adapter.capabilities(reading));
      writeFreeMemory(table, node, nowMs);
      if (hasLoad) writeLoad(table, row, reading, result);
      else if (node.missedScrapes >= MISSED_SCRAPES_MAX) forgetLoad(table, row);
      writeCapacities(table, spec, capacities);
      if (isScraped && before !== null && !hasRestarted) {
        const { ownTrafficMs } = node.heardAt;
        foldEngineErrors(table, row, { before, after: reading, nowMs, ownTrafficMs });
      }
      this.#writeDrain(node, nowMs);
      writeHealthScore(table, row);
      table.polledAtMs[row] = round.startMs;
      // at the gateway's own start all nodes are new, and none is cold
      if (table.goodPolls[row] === 0 && this.isStarted) beginSlowStart(table, row, nowMs);
      table.goodPolls[row] = (table.goodPolls[row] as number) + 1;
    });
    // only now, so that an exception before it leaves no gate that the row does not show
    node.gate = gate;
    if (!gate.isOut) node.downCause = isStalled(node.progress, spec.health.stalledAfter) ? "stalled" : null;
    this.#settle(node);
    if (capacities.length > 0) this.#onCapacity();
    if (isOk(result.responses.models) && adapter.provesModels) this.#unblockServed(node, reading);
    announceRoom(table);
    this.#options.onReading?.(row, reading);
    this.#tellModels(node, reading);
  }

  /** Progress and rates out of counters that were read anew. */
  #look(node: PolledNode, adapter: Adapter, before: NodeReading | null, after: NodeReading, result: RoundResult): void {
    const { running, generationTokensTotal, promptTokensTotal } = after;
    const relayed = Atomics.load(this.#table.relayed, node.spec.row);
    const look = { running, generationTokensTotal, promptTokensTotal, relayed };
    node.progress = adapter.countsTokensAt === "step" ? afterLook(node.progress, look) : FRESH_PROGRESS;
    node.rates = ratesBetween(before, after, { fromMs: node.lookedAtMs, toMs: result.scrapedAtMs });
    node.lookedAtMs = result.scrapedAtMs;
  }

  /** A refusal by 404 is over when the node lists the model. */
  #unblockServed(node: PolledNode, reading: NodeReading): void {
    const served = new Set(reading.models?.map((model) => model.id));
    for (const { placement, upstreamId } of node.spec.placements) {
      const isBlocked = Atomics.load(this.#table.misconfiguredUntil, placement) !== 0;
      if (isBlocked && served.has(upstreamId)) unblockPlacement(this.#table, placement);
    }
  }

  #tellModels(node: PolledNode, reading: NodeReading): void {
    if (reading.models === null || reading.models === node.modelsToldOf) return;
    node.modelsToldOf = reading.models;
    const told = JSON.stringify(reading.models);
    if (told === node.modelsTold) return;
    node.modelsTold = told;
    this.#options.onModels?.(node.spec.row, reading.models);
  }

  /** Takes a poll that failed. */
  takeFailed(
    node: PolledNode,
    cause: DownCause,
    poll: { startMs: number; healthStatus: number; hasLoad: boolean },
  ): void {
    const { row, health } = node.spec;
    const nowMs = this.#options.clock.nowMs();
    const isRefused = cause === "refused";
    node.missedScrapes = poll.hasLoad ? 0 : node.missedScrapes + 1;
    const lastTrafficAtMs = this.#lastTrafficAtMs(row);
    node.lastError = {
      words: errorWords(cause, { timeoutMs: health.timeoutMs, healthStatus: poll.healthStatus }),
      atMs: nowMs,
    };
    const gate = afterFailedPoll(
      node.gate,
      { startMs: poll.startMs, isRefused, lastTrafficAtMs },
      health.unhealthyAfter,
    );
    publish(this.#table, () => {
      if (gate.failedInRow > 0) this.#writeDrain(node, nowMs);
      if (node.missedScrapes >= MISSED_SCRAPES_MAX) forgetLoad(this.#table, row);
    });
    const isNewlyOut = !node.gate.isOut && gate.isOut;
    // a silent node that begins to refuse has ended: what waits there is lost; one that says so itself is proven out
    const isNewlyRefused = node.gate.isOut && isRefused && node.downCause !== "refused";
    const isNewlyProven = node.gate.isOut && isProof(cause) && !isProof(node.downCause);
    node.gate = gate;
    if (!isNewlyOut && !isNewlyRefused && !isNewlyProven) return;
    node.downCause = cause;
    node.progress = FRESH_PROGRESS;
    node.roundsSinceFull = Number.POSITIVE_INFINITY;
    const wasOut = this.#table.isUnhealthy[row] === 1;
    this.#settle(node);
    // who was out already for another cause hears of this one too
    if (wasOut) this.#options.onDown?.(row, cause);
    else if (this.isKeptIn(node)) this.#options.onKeptIn?.(row, cause);
  }

  #lastTrafficAtMs(row: number): number {
    return this.#options.lastTrafficAtMs?.(row) ?? (this.#table.lastSuccessAtMs[row] as number);
  }

  #writeDrain(node: PolledNode, nowMs: number): void {
    const released = Atomics.load(this.#table.releases, node.spec.row);
    // Int32 difference, so that a count that wrapped around is still right
    const count = (released - node.releasesSeen) | 0;
    writeDrain(this.#table, node.spec.row, { count, intervalMs: nowMs - node.releasesSeenAtMs });
    node.releasesSeen = released;
    node.releasesSeenAtMs = nowMs;
  }

  /** Puts what is known of a node into its row, and into those of nodes that share a model with it. */
  #settle(node: PolledNode): void {
    const { row, placements } = node.spec;
    const standing = standingOf(suspicionOf(node, this.#table));
    const models = [...new Set(placements.map(({ model }) => model))].sort((a, b) => a - b);
    const changed = this.#ejections.set(row, models, standing);
    this.#writeOut(node);
    this.#applyEjections(changed.filter((other) => other !== row));
  }

  #applyEjections(rows: readonly number[]): void {
    for (const row of rows) {
      const node = this.#nodes.get(row);
      if (node !== undefined) this.#writeOut(node);
    }
  }

  #writeOut(node: PolledNode): void {
    const table = this.#table;
    const { row } = node.spec;
    const isOut = node.downCause !== null && !this.isKeptIn(node);
    if ((table.isUnhealthy[row] === 1) === isOut) return;
    publish(table, () => {
      table.isUnhealthy[row] = isOut ? 1 : 0;
      if (node.downCause === null) beginSlowStart(table, row, this.#options.clock.nowMs());
      if (isOut) table.healthScore[row] = Number.NaN;
      // what comes back is mostly a process that was started anew
      if (isOut) forgetCache(table, row);
    });
    if (node.downCause !== null && isOut) this.#options.onDown?.(row, node.downCause);
    else if (node.downCause !== null) this.#options.onKeptIn?.(row, node.downCause);
    else this.#options.onUp?.(row);
    if (!isOut) announceRoom(table);
  }
}

function suspicionOf({ downCause, spec }: PolledNode, table: FleetTable): Suspicion | null {
  if (downCause === null) return null;
  return { isProof: isProof(downCause), hasAnswered: table.goodPolls[spec.row] !== 0 };
}

/** A refused connection and the node's own word. */
function isProof(cause: DownCause | null): boolean {
  return cause === "refused" || cause === "not_ready";
}
