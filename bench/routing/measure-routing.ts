/** The routing bench: policies over fleets, workloads and loads in virtual time, and the figures that come out. */

import {
  type FleetName,
  type PolicyName,
  parseScenario,
  prepareScenario,
  type ReportJson,
  runPolicy,
  type WorkloadName,
} from "@zml/simulator/virtual";
import type { Figure } from "../report.ts";
import { meanInterval } from "./intervals.ts";

export interface RoutingGrid {
  readonly fleets: readonly FleetName[];
  readonly workloads: readonly WorkloadName[];
  /** Shares of the fleet's capacity. */
  readonly loads: readonly number[];
  readonly policies: readonly PolicyName[];
  readonly seeds: readonly number[];
  readonly durationS: number;
  readonly warmUpS: number;
  /** Further keys of the scenario: axes of information, prices and failures. */
  readonly axes?: Readonly<Record<string, unknown>>;
}

/** One policy on one fleet, workload and load: a report for each seed, in their order. */
export interface RoutingCell {
  readonly fleet: FleetName;
  readonly workload: WorkloadName;
  readonly load: number;
  readonly policy: PolicyName;
  /** Mean over the seeds, requests per second. */
  readonly rps: number;
  readonly usdPerHour: number;
  readonly reports: readonly ReportJson[];
}

/**
 * Runs the grid. All policies of a cell meet the same requests, classes and failures, seed by seed.
 *
 * @param onCell told of each cell that is done, with the wall time that it took.
 */
export function measureRouting(grid: RoutingGrid, onCell: (cell: RoutingCell, wallMs: number) => void): RoutingCell[] {
  const cells: RoutingCell[] = [];
  for (const fleet of grid.fleets) {
    for (const workload of grid.workloads) {
      for (const load of grid.loads) {
        const prepared = grid.seeds.map((seed) => prepare(grid, { fleet, workload, load, seed }));
        const rps = meanInterval(prepared.map((one) => one.rps)).mean;
        const usdPerHour = (prepared[0]?.plan.nodes ?? []).reduce((sum, node) => sum + node.usdPerHour, 0);
        for (const policy of grid.policies) {
          const startMs = performance.now();
          const reports = prepared.map((one) => runPolicy(one, policy));
          const cell = { fleet, workload, load, policy, rps, usdPerHour, reports };
          cells.push(cell);
          onCell(cell, performance.now() - startMs);
        }
      }
    }
  }
  return cells;
}

function prepare(
  { durationS, warmUpS, axes }: RoutingGrid,
  { fleet, workload, load, seed }: { fleet: FleetName; workload: WorkloadName; load: number; seed: number },
) {
  const scenario = {
    ...axes,
    fleet,
    seed,
    workload: { preset: workload, load, duration_s: durationS, warm_up_s: warmUpS },
  };
  const parsed = parseScenario(scenario);
  if ("issues" in parsed)
    throw new Error(parsed.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "));
  return prepareScenario(parsed.scenario, ".");
}

const CLASSICAL: readonly PolicyName[] = ["RR", "RND", "WRR", "LR", "WLR", "P2C", "WP2C", "SA", "PFX", "LMX"];
/** MEL-C, which is no rule of the benchmark, is shown and not counted. */
const SCRIPTED: readonly PolicyName[] = ["CHAIN", "SPL", "BF", "MEL"];

/** Figures of all cells, and ZML's ratios to the best of each kind of baseline that was run. */
export function figuresOf(cells: readonly RoutingCell[]): Figure[] {
  return [...cells.flatMap(cellFigures), ...ratioFigures(cells), ...sustainedFigures(cells)];
}

function labelsOf({
  fleet,
  workload,
  load,
  policy,
}: Pick<RoutingCell, "fleet" | "workload" | "load" | "policy">): string {
  return `fleet=${fleet},workload=${workload},load=${Math.round(load * 100)},policy=${policy}`;
}

function cellFigures(cell: RoutingCell): Figure[] {
  const labels = labelsOf(cell);
  const mean = (of: (report: ReportJson) => number | null) => meanOf(cell, of);
  const figures: Figure[] = [
    { name: `attainment_percent{${labels}}`, value: 100 * mean((report) => report.attainment), unit: "%" },
    { name: `worst_class_percent{${labels}}`, value: 100 * mean((report) => report.worst_class_attainment), unit: "%" },
    { name: `ttft_p99_ms{${labels}}`, value: mean((report) => report.ttft_ms.p99), unit: "ms" },
    { name: `token_p99_ms{${labels}}`, value: mean((report) => report.token_ms.p99), unit: "ms" },
    {
      name: `busy_usd_per_million_tokens{${labels}}`,
      value: mean((report) => report.busy_usd_per_million_tokens),
      unit: "USD",
    },
    {
      name: `provisioned_usd_per_million_tokens{${labels}}`,
      value: mean((report) => report.provisioned_usd_per_million_tokens),
      unit: "USD",
    },
    { name: `goodput_tokens_per_usd{${labels}}`, value: mean((report) => report.goodput_per_usd), unit: "tokens" },
    { name: `herd_index{${labels}}`, value: mean((report) => report.herd_index), unit: "" },
    { name: `lost_requests{${labels}}`, value: mean((report) => report.failed), unit: "requests" },
    { name: `rejected_requests{${labels}}`, value: mean((report) => report.rejected), unit: "requests" },
  ];
  // a number that nothing was measured for is none
  return figures.filter(({ value }) => Number.isFinite(value));
}

/** Mean over the seeds; NaN when some seed has no such number. */
export function meanOf({ reports }: RoutingCell, of: (report: ReportJson) => number | null): number {
  return meanInterval(reports.map((report) => of(report) ?? Number.NaN)).mean;
}

/** Goodput per dollar and attainment of each ZML policy against the best baseline, seed by seed. */
function ratioFigures(cells: readonly RoutingCell[]): Figure[] {
  return cells.flatMap((cell) => {
    if (!cell.policy.startsWith("zml-")) return [];
    const peers = cells.filter(
      (other) => other.fleet === cell.fleet && other.workload === cell.workload && other.load === cell.load,
    );
    const against = (kind: string, names: readonly PolicyName[]): Figure[] => {
      const baselines = peers.filter(({ policy }) => names.includes(policy));
      if (baselines.length === 0) return [];
      const goodput = (one: RoutingCell) => meanOf(one, (report) => report.goodput_per_usd);
      const met = (one: RoutingCell) => meanOf(one, (report) => report.attainment);
      const cheapest = baselines.reduce((best, one) => (goodput(one) > goodput(best) ? one : best));
      const surest = baselines.reduce((best, one) => (met(one) > met(best) ? one : best));
      const ratios = cell.reports.map(
        (report, seed) => (report.goodput_per_usd ?? 0) / (cheapest.reports[seed]?.goodput_per_usd ?? Number.NaN),
      );
      const points = cell.reports.map(
        (report, seed) => 100 * ((report.attainment ?? 0) - (surest.reports[seed]?.attainment ?? Number.NaN)),
      );
      const labels = `${labelsOf(cell)},to=best_${kind}`;
      const ratio = meanInterval(ratios);
      const point = meanInterval(points);
      return [
        { name: `goodput_per_usd_ratio{${labels}}`, value: ratio.mean, unit: "x" },
        { name: `goodput_per_usd_ratio_low{${labels}}`, value: ratio.low, unit: "x" },
        { name: `goodput_per_usd_ratio_high{${labels}}`, value: ratio.high, unit: "x" },
        { name: `attainment_points{${labels}}`, value: point.mean, unit: "points" },
        { name: `attainment_points_low{${labels}}`, value: point.low, unit: "points" },
        { name: `attainment_points_high{${labels}}`, value: point.high, unit: "points" },
      ];
    };
    return [...against("classical", CLASSICAL), ...against("scripted", SCRIPTED)];
  });
}

/** Attainment that counts as sustained. */
const SUSTAINED = 0.99;

/** The largest rate with 99 % attainment, between two measured loads by a straight line, and what capacity costs by it. */
function sustainedFigures(cells: readonly RoutingCell[]): Figure[] {
  const lines = new Map<string, RoutingCell[]>();
  for (const cell of cells) {
    const key = `fleet=${cell.fleet},workload=${cell.workload},policy=${cell.policy}`;
    lines.set(key, [...(lines.get(key) ?? []), cell]);
  }
  return [...lines].flatMap(([labels, line]) => {
    const rps = sustainedRps(
      line.map((cell) => ({ rps: cell.rps, attainment: meanOf(cell, (report) => report.attainment) })),
    );
    if (Number.isNaN(rps)) return [];
    const usdPerHour = line[0]?.usdPerHour ?? Number.NaN;
    return [
      { name: `sustained_rps{${labels}}`, value: rps, unit: "requests/s" },
      { name: `capacity_usd_per_million_requests{${labels}}`, value: (usdPerHour / (rps * 3_600)) * 1e6, unit: "USD" },
    ];
  });
}

/** NaN: the line never crosses 99 % between two of its points. */
export function sustainedRps(points: readonly { rps: number; attainment: number }[]): number {
  const line = points.toSorted((a, b) => a.rps - b.rps);
  for (const [index, point] of line.entries()) {
    if (point.attainment >= SUSTAINED) continue;
    const before = line[index - 1];
    if (before === undefined) return Number.NaN;
    return (
      before.rps + ((point.rps - before.rps) * (before.attainment - SUSTAINED)) / (before.attainment - point.attainment)
    );
  }
  return Number.NaN;
}
