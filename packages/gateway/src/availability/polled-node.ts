/** What the poller remembers of one node between polls. */

import { CapacityMeter, FRESH_GATE, FRESH_PROGRESS, type HealthGate, type ProgressWatch } from "@zml/engine";
import type { EngineName } from "@zml/protocol";
import type { NodeReading, ReportedModel } from "./adapters/adapter.ts";
import { GpuMemory } from "./gpu-memory.ts";
import type { KeptPlace } from "./kept-connection.ts";
import { HEARD_NOTHING, type HeardAt, type MetricsAnswer, type TokenRates } from "./node-facts.ts";
import type { NodeSpec } from "./node-spec.ts";
import type { PollFault } from "./poll-fetch.ts";

/**
 * Why a node was taken out. Only `refused` says that nothing listens there any more; `exception`: polls of it ended in
 * a fault of ours; `stalled`: requests run there and no token moves.
 */
export type DownCause = PollFault | "not_ready" | "stalled" | "exception";

const NO_RATES: TokenRates = Object.freeze({ generation: Number.NaN, prompt: Number.NaN });

/** State of one node. */
export interface PolledNode {
  spec: NodeSpec;
  /** Second source of free memory; null: none. */
  gpuMemory: GpuMemory | null;
  /** Known engine; null: not found out yet. */
  engine: EngineName | null;
  /** Engine whose speeds were measured; null: none was known yet. */
  measuredEngine: EngineName | null;
  reading: NodeReading | null;
  /** Rounds since models and limits were asked; Infinity: ask now. */
  roundsSinceFull: number;
  usesFallback: boolean;
  /** Connection between two rounds. */
  readonly kept: KeptPlace;
  /** Rounds in a row, while it is out, in which nothing came. */
  muteRounds: number;
  /** Rounds in a row in which its metrics told nothing of its load. */
  missedScrapes: number;
  /** Whether it is in or out, and on the way to which. */
  gate: HealthGate;
  /** Why it is out, or would be if not too many were; null: it is in. */
  downCause: DownCause | null;
  /** Its counters, as the engine's own progress. */
  progress: ProgressWatch;
  heardAt: HeardAt;
  metricsAnswer: MetricsAnswer;
  rates: TokenRates;
  /** When its counters were last read, engine clock ms. */
  lookedAtMs: number;
  lastError: { words: string; atMs: number } | null;
  /** When another engine was found there, engine clock ms; NaN: never. */
  redetectedAtMs: number;
  /** Models as last told, for telling a change, and the very list that this was made of. */
  modelsTold: string;
  modelsToldOf: readonly ReportedModel[] | null;
  meter: CapacityMeter;
  /** The same of each model, by the node's name for it, where the node splits its numbers. */
  readonly modelMeters: Map<string, CapacityMeter>;
  /** The same out of our own attempts, for engines without a token counter. */
  ownMeter: CapacityMeter;
  /** Output tokens of our own attempts. */
  ownTokens: number;
  releasesSeen: number;
  releasesSeenAtMs: number;
  timer: (() => void) | null;
  abort: AbortController | null;
  /** A poll runs or waits in a lane. */
  isBusy: boolean;
  /** Moves on when settings change what a running poll is about: its result is then dropped. */
  epoch: number;
  isRemoved: boolean;
  /** Resolves when the first poll ended, or the node was removed. */
  readonly first: PromiseWithResolvers<void>;
}

/** State of a node that was never asked. */
export function createPolledNode(spec: NodeSpec, kept: KeptPlace): PolledNode {
  return {
    spec,
    kept,
    gpuMemory: gpuMemoryOf(spec),
    engine: spec.engine,
    measuredEngine: spec.engine,
    reading: null,
    roundsSinceFull: Number.POSITIVE_INFINITY,
    usesFallback: false,
    muteRounds: 0,
    missedScrapes: 0,
    gate: FRESH_GATE,
    downCause: null,
    progress: FRESH_PROGRESS,
    heardAt: HEARD_NOTHING,
    metricsAnswer: "not_asked",
    rates: NO_RATES,
    lookedAtMs: Number.NaN,
    lastError: null,
    redetectedAtMs: Number.NaN,
    modelsTold: "",
    modelsToldOf: null,
    meter: new CapacityMeter(),
    modelMeters: new Map(),
    ownMeter: new CapacityMeter(),
    ownTokens: 0,
    releasesSeen: 0,
    releasesSeenAtMs: Number.NaN,
    timer: null,
    abort: null,
    isBusy: false,
    epoch: 0,
    isRemoved: false,
    first: Promise.withResolvers<void>(),
  };
}

/** The exporter that a node has, asked anew. */
export function gpuMemoryOf({ gpuExporter = null }: NodeSpec): GpuMemory | null {
  return gpuExporter === null ? null : new GpuMemory(gpuExporter);
}

/** Forgets what another process or address said; counts of failures stay. */
export function forgetEngine(node: PolledNode): void {
  node.engine = node.spec.engine;
  node.reading = null;
  node.roundsSinceFull = Number.POSITIVE_INFINITY;
  node.usesFallback = false;
  node.meter = new CapacityMeter();
  node.modelMeters.clear();
  node.progress = FRESH_PROGRESS;
  node.rates = NO_RATES;
  node.metricsAnswer = "not_asked";
}

/** `roundsSinceFull` after a good round. Infinity: what it last told is of another process, or was not told. */
export function nextRoundsSinceFull(
  node: PolledNode,
  reading: NodeReading,
  round: { isFull: boolean; hasRestarted: boolean },
): number {
  if (round.hasRestarted || reading.models === null) return Number.POSITIVE_INFINITY;
  return round.isFull ? 0 : node.roundsSinceFull + 1;
}
