/** A scenario, from its words to reports. Everything that can be wrong is found before the first run. */

import { resolve } from "node:path";
import { nodeConstantsTable } from "../node-constants.ts";
import type { FailureSpec, PriceSpec } from "./disturbances.ts";
import { FLEETS, type FleetPlan, planFleet } from "./fleet-plan.ts";
import { fluidCapacityRps } from "./fluid-capacity.ts";
import { type PolicyName, policyOptions } from "./policies.ts";
import { type ReportJson, reportOf, seriesOf } from "./report.ts";
import { type RequestClass, requestClasses } from "./request-classes.ts";
import { type Scenario, ScenarioError, type ScenarioTargets } from "./scenario.ts";
import { type SimulationResult, simulate } from "./simulate.ts";
import { readPrices } from "./traces/read-prices.ts";
import { readTrace } from "./traces/read-trace.ts";
import { createWorkload, type Workload, WorkloadError, type WorkloadOptions, type WorkloadSource } from "./workload.ts";
import { presetSources } from "./workload-presets.ts";

/** A scenario that is ready to run. */
export interface PreparedScenario {
  readonly scenario: Scenario;
  readonly plan: FleetPlan;
  readonly classes: readonly RequestClass[];
  readonly workload: Workload;
  /** Requests per second that count as 100 % load (see `fluid-capacity.ts`). */
  readonly capacityRps: number;
  readonly rps: number;
  readonly failures: readonly FailureSpec[];
  readonly prices: readonly PriceSpec[];
}

/** Load of a scenario that states none, share of the capacity. */
const DEFAULT_LOAD = 0.6;

/**
 * Reads traces and lays out the fleet.
 *
 * @param folder where relative paths of traces begin.
 * @throws TraceError a trace that can't be used, with its line. ScenarioError with the path of what is wrong: a hardware
 *   key, a node's name, a fleet that cannot serve the model or hold the prompts, too many requests.
 */
export function prepareScenario(scenario: Scenario, folder: string): PreparedScenario {
  const { fleet, workload: asked, seed } = scenario;
  const sources = sourcesOf(scenario, folder);
  const groups =
    typeof fleet === "string"
      ? FLEETS[fleet]
      : fleet.map((group) => ({
          family: group.family,
          hardware: group.hardware,
          count: group.count,
          usdPerHour: group.usd_per_hour,
          networkMs: group.network_ms,
        }));
  const models = [...new Set(groups.map(({ hardware }) => hardware.split("/")[1]))];
  const known = nodeConstantsTable();
  for (const [index, { hardware }] of groups.entries()) {
    if (known.has(hardware)) continue;
    throw new ScenarioError(
      ["fleet", index, "hardware"],
      `unknown hardware key ${hardware}: use one of ${[...known.keys()].join(", ")}`,
    );
  }
  const plan = planFleet(groups, { constantsError: scenario.constants_error, seed });
  if (models.length > 1)
    throw new ScenarioError(
      ["fleet"],
      `the fleet serves more than one model (${models.join(", ")}): name nodes of one`,
    );
  checkContext(plan, sources);
  const classes = requestClasses(scenario.targets, scenario.class_shares);
  const classShares = classes.map(({ share }) => share);
  // the mix of lengths and classes decides the capacity, and does not depend on the rate
  const sample = workloadOf({ sources, rps: SAMPLE_RPS, durationS: SAMPLE_S, classShares, seed });
  const capacityRps = fluidCapacityRps(plan, classes, sample);
  const rps = asked.rps ?? capacityRps * (asked.load ?? DEFAULT_LOAD);
  const workload = workloadOf({ sources, rps, durationS: asked.duration_s, classShares, seed });
  if (workload.count === 0) {
    throw new ScenarioError(
      ["workload"],
      `no request arrives in ${asked.duration_s} s at ${rps.toPrecision(3)} requests/s: raise one of them`,
    );
  }
  const failures = scenario.failures.map((spec, index) => failureOf(spec, rowsOf(plan, spec, ["failures", index])));
  const prices = scenario.prices.map((spec, index) => priceOf(spec, rowsOf(plan, spec, ["prices", index]), folder));
  return { scenario, plan, classes, workload, capacityRps, rps, failures, prices };
}

/** Enough requests for means that hold: some thousands at a rate below which no trace is laid over itself. */
const SAMPLE_RPS = 2;
const SAMPLE_S = 3_600;

/** What became of every request under one policy. */
export function simulatePolicy(
  prepared: PreparedScenario,
  name: PolicyName,
  onProgress?: (share: number) => void,
): SimulationResult {
  const { scenario, plan, classes, workload, failures, prices } = prepared;
  return simulate({
    plan,
    classes,
    workload,
    failures,
    prices,
    ...policyOptions(name, { plan, classes, workload }),
    gateways: scenario.gateways,
    metricsIntervalMs: scenario.metrics_interval_ms,
    metricsDelayMs: scenario.metrics_delay_ms,
    noiseSigma: scenario.noise_sigma,
    stepTokenBudget: scenario.step_token_budget,
    seed: scenario.seed,
    ...(onProgress === undefined ? {} : { onProgress }),
  });
}

/** Runs one policy. The same scenario and policy give the same report, byte for byte. */
export function runPolicy(
  prepared: PreparedScenario,
  name: PolicyName,
  onProgress?: (share: number) => void,
): ReportJson {
  const { scenario, plan, classes, workload } = prepared;
  const result = simulatePolicy(prepared, name, onProgress);
  const everyS = scenario.series_every_s;
  return {
    ...reportOf(result, { plan, workload, classes, warmUpMs: scenario.workload.warm_up_s * 1000 }),
    ...(everyS === null ? {} : { series: seriesOf(result, { plan, workload, classes, everyMs: everyS * 1000 }) }),
  };
}

function workloadOf(options: WorkloadOptions): Workload {
  try {
    return createWorkload(options);
  } catch (error) {
    throw error instanceof WorkloadError ? new ScenarioError(["workload"], error.message) : error;
  }
}

function sourcesOf({ workload }: Scenario, folder: string): WorkloadSource[] {
  if (workload.sources === undefined) {
    const { day_s: dayS } = workload;
    return presetSources(workload.preset ?? "W1").map((source) =>
      source.arrivals.kind === "diurnal" && dayS !== undefined
        ? { ...source, arrivals: { ...source.arrivals, dayS } }
        : source,
    );
  }
  return workload.sources.map(({ trace, share, arrivals }) => ({
    trace: readTrace(resolve(folder, trace)),
    share,
    arrivals:
      arrivals.kind === "diurnal"
        ? { kind: "diurnal", cv: arrivals.cv, peakToMean: arrivals.peak_to_mean, dayS: arrivals.day_s }
        : arrivals,
  }));
}

/** A prompt that no node holds would be refused by every one of them. */
function checkContext({ nodes }: FleetPlan, sources: readonly WorkloadSource[]): void {
  const most = Math.max(...nodes.map(({ constants }) => constants.kvCapacityTokens));
  for (const { trace } of sources) {
    const index = trace.rows.findIndex(({ promptTokens, outputTokens }) => promptTokens + outputTokens > most);
    const row = trace.rows[index];
    if (row === undefined) continue;
    const tokens = row.promptTokens + row.outputTokens;
    throw new ScenarioError(
      ["fleet"],
      `request ${index + 1} of the trace takes ${tokens} tokens of context, and the largest node holds ${most}: ` +
        "take it out, or add a node that holds it",
    );
  }
}

function rowsOf(
  { nodes, families }: FleetPlan,
  { families: wanted, nodes: ids }: ScenarioTargets,
  path: ScenarioError["path"],
): number[] {
  for (const family of wanted ?? []) {
    if (!families.includes(family))
      throw new ScenarioError(path, `no family ${family}: the fleet has ${families.join(", ")}`);
  }
  for (const id of ids ?? []) {
    if (!nodes.some((node) => node.id === id)) {
      throw new ScenarioError(path, `no node ${id}: the fleet has ${nodes.map((node) => node.id).join(", ")}`);
    }
  }
  const isAll = wanted === undefined && ids === undefined;
  return nodes.flatMap(({ id, family }, row) => {
    const isMeant = isAll || ids?.includes(id) === true || wanted?.includes(families[family] ?? "") === true;
    return isMeant ? [row] : [];
  });
}

function failureOf(spec: Scenario["failures"][number], rows: readonly number[]): FailureSpec {
  switch (spec.kind) {
    case "down":
      return { kind: "down", rows, fromS: spec.from_s, toS: spec.to_s, noticeS: spec.notice_s };
    case "slow":
      return { kind: "slow", rows, fromS: spec.from_s, toS: spec.to_s, factor: spec.factor };
    case "blackout":
      return { kind: "blackout", rows, fromS: spec.from_s, toS: spec.to_s };
    case "spot":
      return {
        kind: "spot",
        rows,
        meanUpS: spec.mean_up_s,
        meanDownS: spec.mean_down_s,
        noticeS: spec.notice_s,
        coldStartS: spec.cold_start_s,
        shock: spec.shock,
      };
  }
}

function priceOf(spec: Scenario["prices"][number], rows: readonly number[], folder: string): PriceSpec {
  switch (spec.kind) {
    case "step":
      return { kind: "step", rows, atS: spec.at_s, factor: spec.factor };
    case "mean_reverting":
      return { kind: "mean_reverting", rows, everyS: spec.every_s, sigma: spec.sigma, pull: spec.pull };
    case "replay": {
      const { provider, region, gpu, is_spot: isSpot } = spec;
      const points = readPrices(resolve(folder, spec.file), { provider, region, gpu, isSpot }).map((price) => ({
        atS: price.day * spec.day_s,
        usdPerHour: price.usdPerGpuHour * spec.gpus,
      }));
      return { kind: "replay", rows, points };
    }
  }
}
