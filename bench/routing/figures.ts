/** Figures of the routing bench: every cell, and ZML beside the best baseline of each kind. */

import type { PolicyName, ReportJson } from "@zml/simulator/virtual";
import type { Figure } from "../report.ts";
import { bestOf, CLASSICAL, meanOf, pairsOf, peersOf, type RoutingCell, SCRIPTED, sustainedRps } from "./cells.ts";
import { meanInterval } from "./intervals.ts";

/** Figures of all cells, and ZML's ratios to the best of each kind of baseline that was run. */
export function figuresOf(cells: readonly RoutingCell[]): Figure[] {
  return [...cells.flatMap(cellFigures), ...ratioFigures(cells), ...sustainedFigures(cells)];
}

function labelsOf({ fleet, workload, load, policy, axis }: RoutingCell): string {
  const conditions = axis === "" ? "" : `,conditions=${axis.replaceAll(/[^A-Za-z0-9]+/g, "_")}`;
  return `fleet=${fleet},workload=${workload},load=${Math.round(load * 100)},policy=${policy}${conditions}`;
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

/** Goodput per dollar and attainment of each ZML policy against the best baseline, seed by seed. */
function ratioFigures(cells: readonly RoutingCell[]): Figure[] {
  return cells.flatMap((cell) => {
    if (!cell.policy.startsWith("zml-")) return [];
    const peers = peersOf(cell, cells);
    const against = (kind: string, names: readonly PolicyName[]): Figure[] => {
      const cheapest = bestOf(peers, names, (report) => report.goodput_per_usd);
      const surest = bestOf(peers, names, (report) => report.attainment);
      if (cheapest === undefined || surest === undefined) return [];
      const ratios = pairsOf(cell, cheapest, (report) => report.goodput_per_usd).map(([own, other]) => own / other);
      const points = pairsOf(cell, surest, (report) => report.attainment).map(([own, other]) => 100 * (own - other));
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

/** The largest rate with 99 % attainment, between two measured loads by a straight line, and what capacity costs by it. */
function sustainedFigures(cells: readonly RoutingCell[]): Figure[] {
  const lines = new Map<string, RoutingCell[]>();
  for (const cell of cells) {
    if (cell.section !== "headline") continue;
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
