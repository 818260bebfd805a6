/**
 * What the report says of a node beside its row: what each number rests on, how old each source is, and why a cell is
 * unknown. Pure.
 */

import { type FleetTable, type HealthParts, healthInputOf, healthParts } from "@zml/engine";
import { UNKNOWN_CELLS, type UnknownCell, type UnknownWhy } from "@zml/protocol";
import type { NodeTruthJson, StateDetail } from "@zml/protocol/admin";
import type { NodeFacts } from "../availability/index.ts";
import type { FleetNode } from "./fleet.ts";

/** What a report of one node reads. */
export interface TruthSources {
  readonly table: FleetTable;
  readonly node: FleetNode;
  /** Null: the node is polled no more. */
  readonly facts: NodeFacts | null;
  /** Engine clock, ms. */
  readonly nowMs: number;
  /** Wall clock at engine time 0, Unix ms. */
  readonly unixOriginMs: number;
  /** Since the price was confirmed, ms; NaN: unknown, or a stated one. */
  readonly priceAgeMs: number;
}

/** Reads what is known of a node. */
export function nodeTruth(sources: TruthSources): NodeTruthJson {
  const { table, node, facts, nowMs, unixOriginMs, priceAgeMs } = sources;
  const { row } = node;
  const reading = facts?.reading ?? null;
  const age = (atMs: number | undefined): number | null => known(nowMs - (atMs ?? Number.NaN));
  const placements = [...node.placements.values()];
  const truth = {
    version: reading?.version ?? null,
    platform: reading?.platform ?? null,
    context_tokens: Object.fromEntries(
      Array.from(node.placements, ([name, placement]) => [name, known(table.contextTokens[placement])]),
    ),
    concurrency_limit: known(table.concurrencyLimit[row]),
    kv_headroom_tokens: known(reading?.kvHeadroomTokens),
    generation_tokens_per_second: known(facts?.rates.generation),
    prompt_tokens_per_second: known(facts?.rates.prompt),
    measured_tokens_per_second: largest(placements, table.measuredTokensPerSecond),
    measured_stream_tokens_per_second: largest(placements, table.measuredStreamTokensPerSecond),
    own_samples: placements.reduce((sum, placement) => sum + (known(table.ownSamples[placement]) ?? 0), 0),
    predictions: predictionsOf(table, node),
    health_parts: partsOf(table, row),
    state_detail: detailOf(facts),
    down_cause: facts?.downCause ?? null,
    last_poll_error: facts?.lastError?.words ?? null,
    last_poll_error_age_ms: age(facts?.lastError?.atMs),
    redetected_at: dateOf(unixOriginMs + (facts?.redetectedAtMs ?? Number.NaN)),
    sources: {
      health_page: age(facts?.heardAt.healthMs),
      metrics: age(facts?.heardAt.metricsMs),
      models: age(facts?.heardAt.modelsMs),
      limits: age(facts?.heardAt.limitsMs),
      own_traffic: age(facts?.heardAt.ownTrafficMs),
      price: known(priceAgeMs),
    },
  };
  return { ...truth, unknown: unknownsOf(sources, truth) };
}

function unknownsOf(
  { table, node, facts }: TruthSources,
  truth: Omit<NodeTruthJson, "unknown">,
): Partial<Record<UnknownCell, UnknownWhy>> {
  const { row, config, engine } = node;
  const value = (column: Float64Array): number | null => known(column[row]);
  const whyOfPoll = whyNotPolled(table, node, facts);
  const whyOfMetrics = whyOfPoll ?? whyNoMetrics(facts);
  const whyOfRate = whyOfPoll ?? (facts !== null && hasCounters(facts) ? "one_look_only" : whyNoMetrics(facts));
  const whyOfEngine = whyOfPoll ?? "engine_does_not_tell";
  const contexts = Object.values(truth.context_tokens);
  const cells: Readonly<Record<UnknownCell, readonly [unknown, UnknownWhy]>> = {
    engine: [engine, table.goodPolls[row] === 0 ? "not_polled" : "engine_not_detected"],
    version: [truth.version, whyOfEngine],
    platform: [truth.platform, whyOfEngine],
    running: [value(table.running), whyOfMetrics],
    waiting: [value(table.waiting), whyOfMetrics],
    foreign: [value(table.foreign), whyOfMetrics],
    concurrency_limit: [truth.concurrency_limit, whyOfEngine],
    kv_use: [value(table.kvUse), whyOfMetrics],
    kv_headroom_tokens: [truth.kv_headroom_tokens, whyOfMetrics],
    free_memory_gib: [value(table.freeMemoryGib), whyOfPoll ?? whyNoFreeMemory(facts)],
    generation_tokens_per_second: [truth.generation_tokens_per_second, whyOfRate],
    prompt_tokens_per_second: [truth.prompt_tokens_per_second, whyOfRate],
    measured_tokens_per_second: [truth.measured_tokens_per_second, "not_measured_yet"],
    measured_stream_tokens_per_second: [truth.measured_stream_tokens_per_second, "no_traffic_yet"],
    context_tokens: [contexts.length > 0 && contexts.includes(null) ? null : contexts, whyOfEngine],
    price_usd_per_hour: [value(table.priceUsdPerHour), config.priceKey === null ? "no_price" : "price_not_fetched"],
    health_score: [value(table.healthScore), whyOfPoll ?? "node_down"],
    error_rate: [value(table.errorRate), "no_traffic_yet"],
    last_success_age_ms: [value(table.lastSuccessAtMs), "no_traffic_yet"],
    data_age_ms: [value(table.polledAtMs), "not_polled"],
  };
  const unknown: Partial<Record<UnknownCell, UnknownWhy>> = {};
  for (const cell of UNKNOWN_CELLS) {
    const [told, why] = cells[cell];
    if (told === null) unknown[cell] = why;
  }
  return unknown;
}

/** Null: it has answered a poll, and is there. */
function whyNotPolled(table: FleetTable, { row, engine }: FleetNode, facts: NodeFacts | null): UnknownWhy | null {
  if (facts === null || table.goodPolls[row] === 0) return "not_polled";
  if (table.isUnhealthy[row] === 1 && facts.reading === null) return "node_down";
  return engine === null ? "engine_not_detected" : null;
}

function whyNoMetrics(facts: NodeFacts | null): UnknownWhy {
  switch (facts?.metricsAnswer) {
    case undefined:
    case "not_asked":
      return "not_polled";
    case "refused":
      return "metrics_refused";
    case "too_large":
      return "metrics_too_large";
    case "encoded":
      return "metrics_compressed";
    case "redirect":
      return "metrics_redirected";
    case "failed":
      return "metrics_failed";
    case "none_there":
    case "ok":
      return "engine_does_not_tell";
  }
}

/** An exporter that was configured says more than that the engine has no such number. */
function whyNoFreeMemory(facts: NodeFacts | null): UnknownWhy {
  const fault = facts?.gpuMemoryFault ?? null;
  if (fault === null) return whyNoMetrics(facts);
  return fault === "no_match" ? "gpu_exporter_no_match" : "gpu_exporter_failed";
}

function hasCounters({ reading }: NodeFacts): boolean {
  return reading !== null && !Number.isNaN(reading.generationTokensTotal);
}

/** Factors of the health score; null: it has none. */
export function partsOf(table: FleetTable, row: number): HealthParts | null {
  return known(table.healthScore[row]) === null ? null : healthParts(healthInputOf(table, row));
}

function detailOf(facts: NodeFacts | null): StateDetail | null {
  if (facts === null || facts.downCause === null) return null;
  return facts.isKeptIn ? "kept_in_by_max_ejected_share" : facts.downCause;
}

function largest(placements: readonly number[], column: Float64Array): number | null {
  const values = placements.map((placement) => column[placement] ?? Number.NaN).filter((value) => !Number.isNaN(value));
  return values.length === 0 ? null : Math.max(...values);
}

function dateOf(unixMs: number): string | null {
  return Number.isNaN(unixMs) ? null : new Date(unixMs).toISOString();
}

/** A number as it is reported: null where it is unknown. */
export function known(value: number | undefined): number | null {
  return value === undefined || !Number.isFinite(value) ? null : value;
}

/** What decisions predict with, of each model that the predictor has learned anything of. */
function predictionsOf(table: FleetTable, node: FleetNode): NodeTruthJson["predictions"] {
  const entries = Array.from(node.placements, ([model, placement]) => {
    const of = (column: Float64Array) => column[placement] ?? Number.NaN;
    const prediction = {
      step_ms: of(table.stepBaseMs) + of(table.stepPerRequestMs),
      prefill_ms_per_1000_tokens: 1_000 * of(table.firstPerTokenMs) + 1e6 * of(table.firstPerSquareMs),
      slowness: known(of(table.slowness)),
      error: known(of(table.predictionError)),
      samples: of(table.predictorSamples),
      cache_hits: known(of(table.cacheHits)),
    };
    return [model, prediction] as const;
  });
  return Object.fromEntries(entries.filter(([, { samples }]) => samples > 0));
}
