/** The state of the fleet as JSON, for the admin API, the demo and tests. Unknown numbers are null. */

import { depthOf, type FleetTable, msOfTick, scoreOfParts } from "@zml/engine";
import type { NodeConfig } from "@zml/protocol";
import type { FleetReportJson, ModelReportJson, NodeReportJson, NodeStateName } from "@zml/protocol/admin";
import type { NodeFacts } from "../availability/index.ts";
import type { Fleet, FleetNode } from "./fleet.ts";
import type { LoopDelay } from "./loop-delay.ts";
import { known, nodeTruth } from "./node-truth.ts";

export type { FleetReportJson, ModelReportJson, NodeReportJson, NodeStateName } from "@zml/protocol/admin";

/** Everything that a report reads. */
export interface ReportSources {
  readonly fleet: Fleet;
  readonly table: FleetTable;
  /** Age of a price by its key, ms; NaN: unknown. */
  readonly priceAgeMs: (key: string) => number;
  /** What the poller knows of the node on a row; null: it is polled no more. */
  readonly factsOf: (row: number) => NodeFacts | null;
  /** Engine clock, ms. */
  readonly nowMs: number;
  /** Wall clock at engine time 0, Unix ms. */
  readonly unixOriginMs: number;
  readonly parked: number;
  readonly listeningWorkers: number;
  readonly workerCrashes: number;
  readonly controlDelay: LoopDelay;
}

/** Reads the whole fleet. Sorted by id; a node that leaves is in it until its last request has ended. */
export function fleetReport(sources: ReportSources): FleetReportJson {
  const { fleet, table } = sources;
  const nodes = [...fleet.nodes].map((node) => nodeReport(sources, node)).sort((a, b) => compare(a.id, b.id));
  const models = [...fleet.directory.models.values()].map(
    ({ account, name, isRegistered, policy, rows, index }): ModelReportJson => ({
      account,
      name,
      is_registered: isRegistered,
      policy,
      nodes: rows.length,
      mean_output_tokens: known(table.meanOutputTokens[index]),
    }),
  );
  models.sort((a, b) => compare(a.account, b.account) || compare(a.name, b.name));
  const sum = (of: (node: NodeReportJson) => number | null): number =>
    nodes.reduce((total, node) => total + (of(node) ?? 0), 0);
  const hasPrice = nodes.some((node) => node.price_usd_per_hour !== null);
  return {
    version: fleet.version,
    totals: {
      nodes: nodes.length,
      healthy_nodes: nodes.filter((node) => node.state === "healthy").length,
      depth: sum((node) => node.depth),
      in_flight: sum((node) => node.in_flight),
      parked: sources.parked,
      tokens_per_second: sum((node) => node.tokens_per_second),
      price_usd_per_hour: hasPrice ? sum((node) => node.price_usd_per_hour) : null,
      workers: table.workers,
      listening_workers: sources.listeningWorkers,
      worker_crashes: sources.workerCrashes,
      control_delay_p99_ms: known(sources.controlDelay.p99Ms),
      control_delay_max_ms: known(sources.controlDelay.maxMs),
    },
    nodes,
    models,
  };
}

function nodeReport(sources: ReportSources, node: FleetNode): NodeReportJson {
  const { table, nowMs, priceAgeMs, unixOriginMs } = sources;
  const { row, config } = node;
  const priceMs = config.priceKey === null ? Number.NaN : priceAgeMs(config.priceKey);
  const facts = sources.factsOf(row);
  const truth = nodeTruth({ table, node, facts, nowMs, unixOriginMs, priceAgeMs: priceMs });
  const parts = truth.health_parts;
  const placements = [...node.placements.values()];
  const fastest = (column: Float64Array) =>
    placements.reduce((best, placement) => Math.max(best, column[placement] ?? Number.NaN), Number.NEGATIVE_INFINITY);
  const state = stateOf(table, row, nowMs);
  const remainingMs = msOfTick(table.cooldownUntil[row] ?? 0) - nowMs;
  return {
    id: config.id,
    url: config.url,
    account: config.account,
    origin: config.origin,
    tls: tlsOf(config),
    family: config.family,
    engine: node.engine,
    models: [...node.placements.keys()],
    state,
    cooldown_remaining_ms: state === "cooling_down" ? Math.round(remainingMs) : null,
    depth: depthOf(table, row),
    in_flight: table.total.inFlight[row] ?? 0,
    foreign: known(table.foreign[row]),
    running: known(table.running[row]),
    waiting: known(table.waiting[row]),
    max_in_flight: table.maxInFlight[row] ?? 0,
    tokens_per_second: known(fastest(table.tokensPerSecond)),
    stream_tokens_per_second: known(fastest(table.streamTokensPerSecond)),
    price_usd_per_hour: known(table.priceUsdPerHour[row]),
    price_key: config.priceKey,
    price_age_ms: known(priceMs),
    health_score: parts === null ? null : scoreOfParts(parts),
    error_rate: known(table.errorRate[row]),
    kv_use: known(table.kvUse[row]),
    free_memory_gib: known(table.freeMemoryGib[row]),
    last_success_age_ms: known(nowMs - (table.lastSuccessAtMs[row] ?? Number.NaN)),
    data_age_ms: known(nowMs - (table.polledAtMs[row] ?? Number.NaN)),
    ...truth,
  };
}

/** What availability would say about the node itself. */
export function stateOf(table: FleetTable, row: number, nowMs: number): NodeStateName {
  if (table.isLive[row] !== 1 || table.isDraining[row] === 1) return "draining";
  if (table.isUnhealthy[row] === 1) return "unhealthy";
  if (table.goodPolls[row] === 0) return "not_polled";
  const cooldownUntil = table.cooldownUntil[row] ?? 0;
  if (cooldownUntil === 0) return "healthy";
  // past and not cleared: the next request there is its trial
  return msOfTick(cooldownUntil) > nowMs ? "cooling_down" : "trial";
}

/** By code unit: the same order on every machine. */
function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

function tlsOf({ url, tls }: NodeConfig): NodeReportJson["tls"] {
  if (!url.startsWith("https:")) return "none";
  return tls?.insecureSkipVerify === true ? "insecure_skip_verify" : "verified";
}
