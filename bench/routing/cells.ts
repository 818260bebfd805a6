/** Results by cell: one policy under one set of conditions, a report for each seed. */

import type { FleetName, PolicyName, ReportJson, WorkloadName } from "@zml/simulator/virtual";
import type { RoutingCase, Section } from "./grid.ts";
import { meanInterval } from "./intervals.ts";
import type { ResultStore } from "./result-store.ts";

export interface RoutingCell {
  readonly section: Section;
  readonly axis: string;
  readonly fleet: FleetName;
  readonly workload: WorkloadName;
  /** Share of the capacity. */
  readonly load: number;
  readonly policy: PolicyName;
  /** Mean over the seeds, requests per second. */
  readonly rps: number;
  /** Requests per second that are 100 % load, mean over the seeds. */
  readonly capacityRps: number;
  readonly usdPerHour: number;
  readonly seeds: readonly number[];
  /** By seed, in the order of `seeds`. */
  readonly reports: readonly ReportJson[];
}

/** Cells of all cases that have a result, in the order of the cases. */
export function cellsOf(cases: readonly RoutingCase[], store: ResultStore): RoutingCell[] {
  const cells = new Map<string, RoutingCell & { rpsBySeed: number[]; capacityBySeed: number[] }>();
  for (const of of cases) {
    for (const policy of of.policies) {
      const result = store.get(of, policy);
      if (result === undefined) continue;
      const { section, axis, fleet, workload, load } = of;
      const key = [section, axis, fleet, workload, load, policy].join("|");
      const before = cells.get(key);
      const rpsBySeed = [...(before?.rpsBySeed ?? []), result.rps];
      const capacityBySeed = [...(before?.capacityBySeed ?? []), result.capacityRps];
      cells.set(key, {
        section,
        axis,
        fleet,
        workload,
        load,
        policy,
        rps: meanInterval(rpsBySeed).mean,
        capacityRps: meanInterval(capacityBySeed).mean,
        usdPerHour: result.usdPerHour,
        seeds: [...(before?.seeds ?? []), of.seed],
        reports: [...(before?.reports ?? []), result.report],
        rpsBySeed,
        capacityBySeed,
      });
    }
  }
  return [...cells.values()].map(({ rpsBySeed: _rps, capacityBySeed: _capacity, ...cell }) => cell);
}

/** Cells under the same conditions, whatever the policy. */
export function peersOf(cell: RoutingCell, cells: readonly RoutingCell[]): RoutingCell[] {
  return cells.filter(
    ({ section, axis, fleet, workload, load }) =>
      section === cell.section &&
      axis === cell.axis &&
      fleet === cell.fleet &&
      workload === cell.workload &&
      load === cell.load,
  );
}

type NumberOf = (report: ReportJson) => number | null;

/** Mean over the seeds; NaN when some seed has no such number. */
export function meanOf({ reports }: Pick<RoutingCell, "reports">, of: NumberOf): number {
  return reports.reduce((sum, report) => sum + (of(report) ?? Number.NaN), 0) / reports.length;
}

/** Values of two cells at the seeds that both have. */
export function pairsOf(a: RoutingCell, b: RoutingCell, of: NumberOf): [number, number][] {
  return a.seeds.flatMap((seed, index): [number, number][] => {
    const other = b.reports[b.seeds.indexOf(seed)];
    const own = a.reports[index];
    if (other === undefined || own === undefined) return [];
    return [[of(own) ?? Number.NaN, of(other) ?? Number.NaN]];
  });
}

export const CLASSICAL: readonly PolicyName[] = ["RR", "RND", "WRR", "LR", "WLR", "P2C", "WP2C", "SA", "PFX", "LMX"];
/** MEL-C, which is no rule of the benchmark, is shown and not counted. */
export const SCRIPTED: readonly PolicyName[] = ["CHAIN", "SPL", "BF", "MEL"];

/** The cell of some policies with the largest mean; undefined: none of them was run. */
export function bestOf(
  cells: readonly RoutingCell[],
  names: readonly PolicyName[],
  of: NumberOf,
): RoutingCell | undefined {
  const known = cells.filter(({ policy }) => names.includes(policy));
  return known.reduce<RoutingCell | undefined>(
    (best, one) => (best === undefined || meanOf(one, of) > meanOf(best, of) ? one : best),
    undefined,
  );
}

/** Attainment that counts as sustained. */
const SUSTAINED = 0.99;

/** The largest rate with 99 % attainment, by straight lines between measured loads. NaN: no two of them enclose it. */
export function sustainedRps(points: readonly { rps: number; attainment: number }[]): number {
  const line = points.toSorted((a, b) => a.rps - b.rps);
  // a policy that saves may miss 99 % at a low load and reach it at a higher one: the last fall counts
  for (let index = line.length - 1; index > 0; index--) {
    const [before, point] = [line[index - 1], line[index]];
    if (before === undefined || point === undefined) continue;
    if (before.attainment < SUSTAINED || point.attainment >= SUSTAINED) continue;
    const share = (before.attainment - SUSTAINED) / (before.attainment - point.attainment);
    return before.rps + (point.rps - before.rps) * share;
  }
  return Number.NaN;
}
