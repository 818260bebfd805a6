/** What a run came to: attainment, times, money, fairness. Numbers only, so that two runs can be told apart by bytes. */

import type { FleetPlan } from "./fleet-plan.ts";
import { busyUsd, provisionedUsd } from "./money.ts";
import { type PredictionJson, predictionsOf } from "./prediction-report.ts";
import { FAILED, REJECTED, SERVED } from "./records.ts";
import { isWithinTargets, type RequestClass } from "./request-classes.ts";
import type { SimulationResult } from "./simulate.ts";
import type { Workload } from "./workload.ts";

/** Nearest-rank quantiles, ms. Null: nothing was served. */
export interface TimesJson {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

export interface ClassJson {
  readonly requests: number;
  /** Share that was served within its targets, 0..1; rejected and failed ones missed them. Null: there were none. */
  readonly attainment: number | null;
  readonly ttft_ms: TimesJson;
  readonly token_ms: TimesJson;
  readonly response_ms: TimesJson;
}

export interface ReportJson extends ClassJson {
  readonly worst_class_attainment: number | null;
  readonly served: number;
  readonly rejected: number;
  readonly failed: number;
  /** Requests that were sent more than once. */
  readonly restarted: number;
  /** Requests per second over the judged time. */
  readonly rps: number;
  readonly output_tokens: number;
  /** Output tokens of requests that met their targets. */
  readonly good_tokens: number;
  readonly busy_usd: number;
  readonly provisioned_usd: number;
  readonly busy_usd_per_million_tokens: number | null;
  readonly provisioned_usd_per_million_tokens: number | null;
  /** Good tokens per USD of busy cost. */
  readonly goodput_per_usd: number | null;
  readonly goodput_per_provisioned_usd: number | null;
  readonly herd_index: number | null;
  readonly preemptions: number;
  readonly prefix_share: number;
  readonly classes: Readonly<Record<string, ClassJson>>;
  readonly nodes: readonly NodeJson[];
  /** Null: the policy predicts nothing that is told. */
  readonly prediction: PredictionJson | null;
  /** Where the scenario asks for it. */
  readonly series?: readonly StretchJson[];
}

/** What arrived in one stretch of time, and what the stretch cost. */
export interface StretchJson {
  readonly from_s: number;
  readonly requests: number;
  readonly attainment: number | null;
  /** Rejected and failed. */
  readonly lost: number;
  readonly good_tokens: number;
  readonly busy_usd: number;
  /** Requests by the node that answered, in the order of `nodes`. */
  readonly node_requests: readonly number[];
}

export interface NodeJson {
  readonly id: string;
  readonly family: string;
  readonly requests: number;
  /** Share of the time in which it had work. */
  readonly busy_share: number;
}

/**
 * Judges a run. Requests that arrived before `warmUpMs` count neither for attainment nor tokens, and money counts from
 * then to the end of the last request.
 */
export function reportOf(
  result: SimulationResult,
  {
    plan,
    workload,
    classes,
    warmUpMs = 0,
  }: { plan: FleetPlan; workload: Workload; classes: readonly RequestClass[]; warmUpMs?: number },
): ReportJson {
  const { records } = result;
  const judged: number[] = [];
  for (let request = 0; request < workload.count; request++) {
    if ((records.arrivedAtMs[request] as number) >= warmUpMs) judged.push(request);
  }
  const isGood = (request: number): boolean => isMet(result, workload, classes, request);
  const byClass = Object.fromEntries(
    classes.map(({ name }, index) => [
      name,
      classOf(
        result,
        judged.filter((request) => workload.classes[request] === index),
        workload,
        isGood,
      ),
    ]),
  );
  const tokensOf = (requests: readonly number[]) =>
    requests.reduce((sum, request) => sum + (records.outputTokens[request] as number), 0);
  const outputTokens = tokensOf(judged.filter((request) => records.end[request] === SERVED));
  const goodTokens = tokensOf(judged.filter(isGood));
  const toMs = result.endedAtMs;
  const busy = busyUsd(result.busy, result.prices, warmUpMs, toMs);
  const provisioned = provisionedUsd(
    result.busy,
    result.prices,
    plan.nodes.map(({ family }) => family),
    warmUpMs,
    toMs,
  );
  const attainments = Object.values(byClass).flatMap(({ attainment }) => (attainment === null ? [] : [attainment]));
  const count = (end: number) => judged.reduce((sum, request) => sum + (records.end[request] === end ? 1 : 0), 0);
  const prefixTokens = result.nodeTotals.reduce((sum, totals) => sum + totals.prefixTokens, 0);
  const promptTokens = result.nodeTotals.reduce((sum, totals) => sum + totals.promptTokens, 0);
  return {
    ...classOf(result, judged, workload, isGood),
    worst_class_attainment: attainments.length === 0 ? null : Math.min(...attainments),
    served: count(SERVED),
    rejected: count(REJECTED),
    failed: count(FAILED),
    restarted: judged.reduce((sum, request) => sum + ((records.restarts[request] as number) > 0 ? 1 : 0), 0),
    rps: (judged.length / (workload.durationMs - warmUpMs)) * 1000,
    output_tokens: outputTokens,
    good_tokens: goodTokens,
    busy_usd: busy,
    provisioned_usd: provisioned,
    busy_usd_per_million_tokens: ratio(busy * 1e6, outputTokens),
    provisioned_usd_per_million_tokens: ratio(provisioned * 1e6, outputTokens),
    goodput_per_usd: ratio(goodTokens, busy),
    goodput_per_provisioned_usd: ratio(goodTokens, provisioned),
    herd_index: Number.isNaN(result.herdIndex) ? null : result.herdIndex,
    preemptions: result.nodeTotals.reduce((sum, totals) => sum + totals.preemptions, 0),
    prefix_share: promptTokens + prefixTokens === 0 ? 0 : prefixTokens / (promptTokens + prefixTokens),
    classes: byClass,
    prediction: predictionsOf(records, { plan, workload, warmUpMs }),
    nodes: plan.nodes.map(({ id, family }, row) => ({
      id,
      family: plan.families[family] ?? "",
      requests: judged.reduce((sum, request) => sum + (records.node[request] === row ? 1 : 0), 0),
      busy_share: busyMs(result.busy[row] ?? [], warmUpMs, toMs) / (toMs - warmUpMs),
    })),
  };
}

/** The whole run in stretches of equal length; the last one goes to the end of the last request. */
export function seriesOf(
  result: SimulationResult,
  {
    plan,
    workload,
    classes,
    everyMs,
  }: { plan: FleetPlan; workload: Workload; classes: readonly RequestClass[]; everyMs: number },
): StretchJson[] {
  const { records } = result;
  const count = Math.max(1, Math.ceil(workload.durationMs / everyMs));
  const stretches = Array.from({ length: count }, () => ({
    requests: 0,
    met: 0,
    lost: 0,
    goodTokens: 0,
    nodeRequests: new Array<number>(plan.nodes.length).fill(0),
  }));
  for (let request = 0; request < workload.count; request++) {
    const place = Math.floor((records.arrivedAtMs[request] as number) / everyMs);
    const stretch = stretches[Math.min(count - 1, place)];
    if (stretch === undefined) continue;
    stretch.requests += 1;
    if (records.end[request] !== SERVED) stretch.lost += 1;
    const node = records.node[request] as number;
    if (node >= 0) stretch.nodeRequests[node] = (stretch.nodeRequests[node] as number) + 1;
    if (!isMet(result, workload, classes, request)) continue;
    stretch.met += 1;
    stretch.goodTokens += records.outputTokens[request] as number;
  }
  return stretches.map(({ requests, met, lost, goodTokens, nodeRequests }, index) => {
    const toMs = index === count - 1 ? Math.max(result.endedAtMs, count * everyMs) : (index + 1) * everyMs;
    return {
      from_s: (index * everyMs) / 1000,
      requests,
      attainment: ratio(met, requests),
      lost,
      good_tokens: goodTokens,
      busy_usd: busyUsd(result.busy, result.prices, index * everyMs, toMs),
      node_requests: nodeRequests,
    };
  });
}

function isMet(
  { records }: SimulationResult,
  workload: Workload,
  classes: readonly RequestClass[],
  request: number,
): boolean {
  const target = classes[workload.classes[request] as number];
  if (records.end[request] !== SERVED || target === undefined) return false;
  return isWithinTargets(target, {
    ttftMs: records.ttftMs[request] as number,
    endMs: records.responseMs[request] as number,
    outputTokens: workload.outputTokens[request] as number,
  });
}

/** Regret of a policy: what part of a reference's goodput per USD it left lying, 0..1; below 0 it did better. */
export function regretOf(
  policy: { goodput_per_usd: number | null },
  reference: { goodput_per_usd: number | null },
): number {
  return 1 - (policy.goodput_per_usd ?? Number.NaN) / (reference.goodput_per_usd ?? Number.NaN);
}

function classOf(
  { records }: SimulationResult,
  requests: readonly number[],
  { outputTokens }: Workload,
  isGood: (request: number) => boolean,
): ClassJson {
  const served = requests.filter((request) => records.end[request] === SERVED);
  const ttft = served.map((request) => records.ttftMs[request] as number);
  const response = served.map((request) => records.responseMs[request] as number);
  const token = served.flatMap((request) => {
    const tokens = outputTokens[request] as number;
    return tokens < 2
      ? []
      : [((records.responseMs[request] as number) - (records.ttftMs[request] as number)) / (tokens - 1)];
  });
  return {
    requests: requests.length,
    attainment: requests.length === 0 ? null : requests.filter(isGood).length / requests.length,
    ttft_ms: timesOf(ttft),
    token_ms: timesOf(token),
    response_ms: timesOf(response),
  };
}

function timesOf(values: readonly number[]): TimesJson {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? null;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

function ratio(part: number, whole: number): number | null {
  return whole > 0 ? part / whole : null;
}

function busyMs(stretches: readonly number[], fromMs: number, toMs: number): number {
  let sum = 0;
  for (let index = 0; index < stretches.length; index += 2) {
    const start = Math.max(fromMs, stretches[index] as number);
    sum += Math.max(0, Math.min(toMs, stretches[index + 1] ?? toMs) - start);
  }
  return sum;
}
