/** What the poller knows of a node beyond its row in the fleet table: for people, and for the reason of an unknown. */

import type { EngineName } from "@zml/protocol";
import { type Adapter, adapterOf, type NodeReading } from "./adapters/index.ts";
import { isOk } from "./adapters/poll-answers.ts";
import type { GpuMemoryFault } from "./gpu-memory.ts";
import type { RoundResult } from "./poll-round.ts";
import type { DownCause, PolledNode } from "./polled-node.ts";

/**
 * What became of the last question for metrics. `refused`: the node answered, and not with metrics; `too_large`,
 * `encoded`, `redirect`: with what is not read, see `PollFault`.
 */
export type MetricsAnswer =
  | "not_asked"
  | "none_there"
  | "ok"
  | "refused"
  | "too_large"
  | "encoded"
  | "redirect"
  | "failed";

/** When each source of a node last told something, engine clock ms; NaN: never. */
export interface HeardAt {
  /** The health page, whatever it said. */
  readonly healthMs: number;
  readonly metricsMs: number;
  /** The list of models. */
  readonly modelsMs: number;
  /** Limits, context length, version: paths asked about every 30 s. */
  readonly limitsMs: number;
  /** An attempt of ours that said something about the node. */
  readonly ownTrafficMs: number;
}

/** Nothing was heard. */
export const HEARD_NOTHING: HeardAt = Object.freeze({
  healthMs: Number.NaN,
  metricsMs: Number.NaN,
  modelsMs: Number.NaN,
  limitsMs: Number.NaN,
  ownTrafficMs: Number.NaN,
});

/** Rates between the last two looks at a node's counters, tokens/s; NaN: unknown. */
export interface TokenRates {
  readonly generation: number;
  readonly prompt: number;
}

/** Facts of one node. */
export interface NodeFacts {
  readonly engine: EngineName | null;
  /** The last one; null: none yet, or it is another process now. */
  readonly reading: NodeReading | null;
  readonly heardAt: HeardAt;
  readonly metricsAnswer: MetricsAnswer;
  readonly rates: TokenRates;
  /** Why health has it out, or would if `max_ejected_share` let it; null: it is in. */
  readonly downCause: DownCause | null;
  /** Health would take it out, and too many nodes of a model of it are out already. */
  readonly isKeptIn: boolean;
  /** The last poll that failed, in words without secrets; null: none did. */
  readonly lastError: { readonly words: string; readonly atMs: number } | null;
  /** When another engine was found behind the same address, engine clock ms; NaN: never. */
  readonly redetectedAtMs: number;
  /** Why its GPU exporter tells nothing; null: it does, was not asked yet, or there is none. */
  readonly gpuMemoryFault: GpuMemoryFault | null;
}

/** Facts as they stand. */
export function factsOf(node: PolledNode, isKeptIn: boolean): NodeFacts {
  const { engine, reading, heardAt, metricsAnswer, rates, downCause, lastError, redetectedAtMs } = node;
  const gpuMemoryFault = node.gpuMemory?.fault ?? null;
  return {
    engine,
    reading,
    heardAt,
    metricsAnswer,
    rates,
    downCause,
    isKeptIn,
    lastError,
    redetectedAtMs,
    gpuMemoryFault,
  };
}

/** Notes which sources told something in a round. */
export function noteAnswers(node: PolledNode, result: RoundResult, nowMs: number): void {
  const { health, metrics, models, facts } = result.responses;
  const { heardAt } = node;
  const isLimits = Object.values(facts).some((answer) => isOk(answer));
  node.heardAt = {
    healthMs: health === null ? heardAt.healthMs : nowMs,
    metricsMs: isOk(metrics) ? nowMs : heardAt.metricsMs,
    modelsMs: isOk(models) ? nowMs : heardAt.modelsMs,
    limitsMs: isLimits ? nowMs : heardAt.limitsMs,
    ownTrafficMs: heardAt.ownTrafficMs,
  };
  node.metricsAnswer = metricsAnswerOf(adapterOf(node), result);
}

function metricsAnswerOf({ probes }: Adapter, { responses, usesFallback, metricsFault }: RoundResult): MetricsAnswer {
  if (probes.metrics === null) return "none_there";
  if (metricsFault === "too_large" || metricsFault === "encoded" || metricsFault === "redirect") return metricsFault;
  if (responses.metrics === null) return "failed";
  return isOk(responses.metrics) && !usesFallback ? "ok" : "refused";
}

/** Rates between two readings; unknown where a counter is missing, went down, or was not read anew. */
export function ratesBetween(
  before: NodeReading | null,
  after: NodeReading,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): TokenRates {
  const rate = (from: number | undefined, to: number): number => {
    const tokens = to - (from ?? Number.NaN);
    return tokens >= 0 && toMs > fromMs ? (tokens / (toMs - fromMs)) * 1000 : Number.NaN;
  };
  return {
    generation: rate(before?.generationTokensTotal, after.generationTokensTotal),
    prompt: rate(before?.promptTokensTotal, after.promptTokensTotal),
  };
}

/** Why a poll failed, for people: no path and no query of the node's URL, which may hold a key. */
export function errorWords(cause: DownCause, round: { timeoutMs: number; healthStatus: number }): string {
  switch (cause) {
    case "refused":
      return "connection refused: nothing listens at the node's address";
    case "unreachable":
      return "no way to the host: its name or its route is not known";
    case "timeout":
      return `no answer within ${round.timeoutMs} ms`;
    case "reset":
      return "the connection ended before an answer";
    case "too_large":
      return "the answer was larger than a poll may be";
    case "not_ready":
      return Number.isNaN(round.healthStatus)
        ? "the node says that it is not ready"
        : `the node is not ready: its health page answered ${round.healthStatus}`;
    case "stalled":
      return "requests run on the node and no token moves";
    case "exception":
      return "a fault inside the gateway: its log has the details";
    case "link_local":
      return "the node's name leads to link-local addresses only, where no node is";
    case "redirect":
      return "the node answered with a redirect, which no poll follows";
    case "encoded":
      return "the answer was compressed, which no poll asks for";
  }
}
