/** What a run of the whole grid leaves behind: the numbers that the page of the bench is written from. */

import type { FleetName, PolicyName, ReportJson, WorkloadName } from "@zml/simulator/virtual";
import { meanOf, type RoutingCell } from "./cells.ts";
import {
  type HindsightCell,
  predictionErrors,
  regressionsOf,
  regretsOf,
  sustainedOf,
  type Verdict,
  verdictsOf,
} from "./goals.ts";
import type { RoutingCase, Section } from "./grid.ts";
import { meanInterval } from "./intervals.ts";
import type { ResultStore } from "./result-store.ts";

/** One policy under one set of conditions: means over the seeds, the first two with 95 % intervals. */
export interface OutcomeCell {
  readonly section: Section;
  readonly axis: string;
  readonly fleet: FleetName;
  readonly workload: WorkloadName;
  readonly load: number;
  readonly policy: PolicyName;
  readonly seeds: number;
  readonly rps: number;
  readonly attainment: Interval;
  readonly goodput_per_usd: Interval;
  readonly worst_class: number;
  readonly busy_usd_per_million: number;
  readonly powered_usd_per_million: number;
  readonly ttft_p50_ms: number;
  readonly ttft_p99_ms: number;
  readonly token_p99_ms: number;
  readonly response_p95_ms: number;
  readonly herd: number;
  readonly lost: number;
  readonly restarted: number;
}

/** Mean, low and high end. */
type Interval = readonly [number, number, number];

export interface Outcome {
  readonly machine: { readonly cpu: string; readonly cores: number; readonly node: string };
  /** Time that all runs took, one after the other, s. */
  readonly cpu_s: number;
  readonly runs: number;
  readonly left_out: number;
  readonly cells: readonly OutcomeCell[];
  readonly sustained: readonly { readonly policy: PolicyName; readonly rps: number; readonly bound: string }[];
  readonly usd_per_hour: number;
  readonly capacity_rps: number;
  readonly bounds: readonly { readonly load: number; readonly attainment: number; readonly goodput_per_usd: number }[];
  readonly hindsight: readonly HindsightCell[];
  readonly regrets: readonly { readonly load: number; readonly regret: number }[];
  readonly regressions: readonly {
    readonly fleet: string;
    readonly workload: string;
    readonly load: number;
    readonly best: string;
    readonly points: number;
    readonly cost_ratio: number;
  }[];
  readonly predictions: ReturnType<typeof predictionErrors>;
  readonly verdicts: readonly Verdict[];
}

/** Puts together what the store has of the cases. */
export function outcomeOf(
  cases: readonly RoutingCase[],
  store: ResultStore,
  cells: readonly RoutingCell[],
  { machine, leftOut }: { machine: Outcome["machine"]; leftOut: number },
): Outcome {
  const results = cases.flatMap((of) => of.policies.flatMap((policy) => store.get(of, policy) ?? []));
  const headline = cells.filter(({ section }) => section === "headline");
  const hindsight = hindsightOf(cases, store);
  return {
    machine,
    cpu_s: Math.round(results.reduce((sum, { wallMs }) => sum + wallMs, 0) / 1000),
    runs: results.length,
    left_out: leftOut,
    cells: cells.map(outcomeCell),
    sustained: [...new Set(headline.map(({ policy }) => policy))].flatMap((policy) => {
      const known = sustainedOf(headline, policy);
      return known === null ? [] : [{ policy, rps: rounded(known.rps), bound: known.bound }];
    }),
    usd_per_hour: headline[0]?.usdPerHour ?? Number.NaN,
    capacity_rps: rounded(headline[0]?.capacityRps ?? Number.NaN),
    bounds: boundsOf(cases, store),
    hindsight,
    regrets: regretsOf(hindsight),
    regressions: regressionsOf(cells).regressions.map(({ cell, best, points, costRatio }) => ({
      fleet: cell.fleet,
      workload: cell.workload,
      load: cell.load,
      best: best.policy,
      points: rounded(points),
      cost_ratio: rounded(costRatio),
    })),
    predictions: predictionErrors(cells),
    verdicts: verdictsOf(cells, hindsight),
  };
}

function outcomeCell(cell: RoutingCell): OutcomeCell {
  const { section, axis, fleet, workload, load, policy } = cell;
  const mean = (of: (report: ReportJson) => number | null) => rounded(meanOf(cell, of));
  const interval = (of: (report: ReportJson) => number | null): Interval => {
    const { mean: middle, low, high } = meanInterval(cell.reports.map((report) => of(report) ?? Number.NaN));
    return [rounded(middle), rounded(low), rounded(high)];
  };
  return {
    section,
    axis,
    fleet,
    workload,
    load,
    policy,
    seeds: cell.seeds.length,
    rps: rounded(cell.rps),
    attainment: interval((report) => report.attainment),
    goodput_per_usd: interval((report) => report.goodput_per_usd),
    worst_class: mean((report) => report.worst_class_attainment),
    busy_usd_per_million: mean((report) => report.busy_usd_per_million_tokens),
    powered_usd_per_million: mean((report) => report.provisioned_usd_per_million_tokens),
    ttft_p50_ms: mean((report) => report.ttft_ms.p50),
    ttft_p99_ms: mean((report) => report.ttft_ms.p99),
    token_p99_ms: mean((report) => report.token_ms.p99),
    response_p95_ms: mean((report) => report.response_ms.p95),
    herd: mean((report) => report.herd_index),
    lost: mean((report) => report.failed + report.rejected),
    restarted: mean((report) => report.restarted),
  };
}

function boundsOf(cases: readonly RoutingCase[], store: ResultStore): Outcome["bounds"] {
  const known = cases.flatMap((of) => {
    const bound = of.section === "headline" ? store.bound(of) : undefined;
    return bound === undefined ? [] : [{ load: of.load, ...bound }];
  });
  return [...new Set(known.map(({ load }) => load))].map((load) => {
    const some = known.filter((one) => one.load === load);
    const mean = (of: (one: (typeof some)[number]) => number) =>
      rounded(some.reduce((sum, one) => sum + of(one), 0) / some.length);
    return { load, attainment: mean((one) => one.attainment), goodput_per_usd: mean((one) => one.goodputPerUsd) };
  });
}

function hindsightOf(cases: readonly RoutingCase[], store: ResultStore): HindsightCell[] {
  return cases.flatMap((of) =>
    (store.hindsight(of) ?? []).flatMap((window) => {
      const worth = (policy: PolicyName) => {
        const stretch = store.get(of, policy)?.report.series?.find(({ from_s: from }) => from === window.fromS);
        return stretch === undefined ? Number.NaN : stretch.good_tokens / stretch.busy_usd;
      };
      return [
        {
          load: of.load,
          seed: of.seed,
          window,
          judgedGoodputPerUsd: worth("zml-cost"),
          givenGoodputPerUsd: worth(window.policy),
        },
      ];
    }),
  );
}

function rounded(value: number): number {
  return Number(value.toPrecision(5));
}
