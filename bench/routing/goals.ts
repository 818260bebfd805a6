/** What is asked of routing, and what was measured: a verdict for each goal. */

import type { PolicyName, ReportJson } from "@zml/simulator/virtual";
import { bestOf, CLASSICAL, meanOf, pairsOf, peersOf, type RoutingCell, SCRIPTED, sustainedRps } from "./cells.ts";
import type { HindsightResult } from "./run-case.ts";

/** The setting that saves money is the one that is judged. */
const JUDGED: PolicyName = "zml-cost";
const BASELINES: readonly PolicyName[] = [...CLASSICAL, ...SCRIPTED];

/** One sentence of a goal. */
export interface Verdict {
  /** Number of the goal in the benchmark's list. */
  readonly goal: number;
  readonly asked: string;
  readonly measured: string;
  /** Null: not measured here. */
  readonly isMet: boolean | null;
}

export interface HindsightCell {
  readonly load: number;
  readonly seed: number;
  readonly window: HindsightResult;
  /** Good tokens per USD that the judged policy had in the window. */
  readonly judgedGoodputPerUsd: number;
  /** The same of the policy from which the search started. */
  readonly givenGoodputPerUsd: number;
}

export function verdictsOf(cells: readonly RoutingCell[], hindsight: readonly HindsightCell[]): Verdict[] {
  return [
    ...sustained(cells),
    ...atFortyPercent(cells),
    ...goodput(cells),
    ...regret(hindsight),
    ...overload(cells),
    ...noRegression(cells),
    ...information(cells),
    ...outages(cells),
    ...priceStep(cells),
    ...predictions(cells),
    ...frontier(cells),
  ];
}

const attainment = (report: ReportJson) => report.attainment;
const perUsd = (report: ReportJson) => report.goodput_per_usd;
const busy = (report: ReportJson) => report.busy_usd_per_million_tokens;

function headlineOf(cells: readonly RoutingCell[]): RoutingCell[] {
  return cells.filter(({ section, fleet, workload }) => section === "headline" && fleet === "F3" && workload === "W1");
}

function find(cells: readonly RoutingCell[], policy: PolicyName, load: number): RoutingCell | undefined {
  return cells.find((cell) => cell.policy === policy && Math.abs(cell.load - load) < 1e-9);
}

const percent = (share: number, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const times = (ratio: number) => `${ratio.toFixed(2)} ×`;

/** Requests per second with 99 % on time, and how it is known: between two loads, or only on which side it lies. */
export function sustainedOf(
  cells: readonly RoutingCell[],
  policy: PolicyName,
): { rps: number; bound: "" | "below " | "above " } | null {
  const points = cells
    .filter((cell) => cell.policy === policy)
    .map((cell) => ({ rps: cell.rps, attainment: meanOf(cell, attainment) }));
  if (points.length === 0) return null;
  const rps = sustainedRps(points);
  if (!Number.isNaN(rps)) return { rps, bound: "" };
  const rates = points.map((point) => point.rps);
  const isAlways = points.every((point) => point.attainment >= 0.99);
  return isAlways ? { rps: Math.max(...rates), bound: "above " } : { rps: Math.min(...rates), bound: "below " };
}

function sustained(cells: readonly RoutingCell[]): Verdict[] {
  const headline = headlineOf(cells);
  const own = sustainedOf(headline, JUDGED);
  if (own === null) return [];
  const against = (names: readonly PolicyName[], factor: number): Verdict[] => {
    const others = names.flatMap((policy) => {
      const known = sustainedOf(headline, policy);
      return known === null ? [] : [{ policy, ...known }];
    });
    if (others.length === 0) return [];
    const best = others.reduce((most, one) => (one.rps > most.rps ? one : most));
    const ratio = own.rps / best.rps;
    return [
      {
        goal: 1,
        asked: `load sustained at 99 % ≥ ${factor} × ${names.length > 1 ? `the best of ${names.join(", ")}` : names[0]}`,
        measured: `${own.bound}${own.rps.toFixed(1)}/s against ${best.bound}${best.rps.toFixed(1)}/s of ${best.policy}: ${times(ratio)}`,
        isMet: own.bound !== "below " && ratio >= factor,
      },
    ];
  };
  return [...against(["WLR"], 2), ...against(["LR"], 3), ...against(["SPL", "BF", "CHAIN"], 1.25)];
}

function atFortyPercent(cells: readonly RoutingCell[]): Verdict[] {
  const headline = headlineOf(cells);
  const own = find(headline, JUDGED, 0.4);
  if (own === undefined) return [];
  const met = meanOf(own, attainment);
  const against = (
    policy: PolicyName,
    most: number,
    of: (report: ReportJson) => number | null,
    what: string,
  ): Verdict[] => {
    const other = find(headline, policy, 0.4);
    if (other === undefined) return [];
    const ratio = meanOf(own, of) / meanOf(other, of);
    return [
      { goal: 2, asked: `40 % load: ${what} ≤ ${most} × ${policy}`, measured: times(ratio), isMet: ratio <= most },
    ];
  };
  const powered = (report: ReportJson) => report.provisioned_usd_per_million_tokens;
  return [
    { goal: 2, asked: "40 % load: attainment ≥ 99 %", measured: percent(met, 2), isMet: met >= 0.99 },
    ...against("WLR", 0.55, busy, "busy cost"),
    ...against("RR", 0.5, busy, "busy cost"),
    ...against("CHAIN", 0.85, busy, "busy cost"),
    ...against("WLR", 0.75, powered, "powered cost"),
  ];
}

function goodput(cells: readonly RoutingCell[]): Verdict[] {
  const headline = headlineOf(cells);
  const against = (kind: string, names: readonly PolicyName[], from: number, to: number, least: number): Verdict[] => {
    const ratios = headline
      .filter(({ policy, load }) => policy === JUDGED && load > from && load <= to + 1e-9)
      .flatMap((own) => {
        const best = bestOf(peersOf(own, headline), names, perUsd);
        if (best === undefined) return [];
        return [{ load: own.load, policy: best.policy, ratio: meanOf(own, perUsd) / meanOf(best, perUsd) }];
      });
    if (ratios.length === 0) return [];
    return [
      {
        goal: 3,
        asked: `goodput per USD ≥ ${least} × the best ${kind} rule ${from === 0 ? "up to 60 % load" : "to 100 % load"}`,
        measured: ratios
          .map(({ load, policy, ratio }) => `${percent(load, 0)}: ${times(ratio)} (${policy})`)
          .join(", "),
        isMet: ratios.every(({ ratio }) => ratio >= least),
      },
    ];
  };
  return [
    ...against("classical", CLASSICAL, 0, 0.6, 2),
    ...against("classical", CLASSICAL, 0.6, 1, 1.4),
    ...against("scripted", SCRIPTED, 0, 0.6, 1.2),
    ...against("scripted", SCRIPTED, 0.6, 1, 1.1),
  ];
}

/** What the judged policy left lying of what hindsight found, by load: mean over seeds and windows. */
export function regretsOf(hindsight: readonly HindsightCell[]): { load: number; regret: number }[] {
  const loads = [...new Set(hindsight.map(({ load }) => load))];
  return loads.map((load) => {
    const regrets = hindsight
      .filter((cell) => cell.load === load)
      .map(({ window, judgedGoodputPerUsd, givenGoodputPerUsd }) => {
        // the search's own scale: steps without noise, drained after the window
        const gain = window.found.goodputPerUsd / window.given.goodputPerUsd;
        return 1 - judgedGoodputPerUsd / (givenGoodputPerUsd * gain);
      });
    return { load, regret: regrets.reduce((sum, regret) => sum + regret, 0) / regrets.length };
  });
}

function regret(hindsight: readonly HindsightCell[]): Verdict[] {
  const regrets = regretsOf(hindsight);
  if (regrets.length === 0) return [];
  return [
    {
      goal: 4,
      asked: "regret against ORA-2 ≤ 7.5 % up to 90 % load",
      measured: regrets.map((one) => `${percent(one.load, 0)}: ${percent(one.regret)}`).join(", "),
      isMet: regrets.every((one) => one.regret <= 0.075),
    },
  ];
}

function overload(cells: readonly RoutingCell[]): Verdict[] {
  const headline = headlineOf(cells);
  const own = find(headline, JUDGED, 1.2);
  const oracle = find(headline, "ORA-1", 1.2);
  if (own === undefined || oracle === undefined) return [];
  const [met, best] = [meanOf(own, attainment), meanOf(oracle, attainment)];
  const worst = meanOf(own, (report) => report.worst_class_attainment);
  return [
    {
      goal: 5,
      asked: "120 % load: attainment ≥ 80 % of ORA-1's",
      measured: `${percent(met)} against ${percent(best)}: ${percent(met / best, 0)}`,
      isMet: met >= 0.8 * best,
    },
    { goal: 5, asked: "120 % load: worst class ≥ 70 %", measured: percent(worst), isMet: worst >= 0.7 },
  ];
}

/** Money may differ by what seeds do. */
const DEARER = 1.01;

export interface Regression {
  readonly cell: RoutingCell;
  /** The baseline that meets most targets there. */
  readonly best: RoutingCell;
  readonly points: number;
  readonly costRatio: number;
}

/** Where the judged policy is more than a point below the best baseline, or dearer than it. */
export function regressionsOf(cells: readonly RoutingCell[]): { compared: number; regressions: Regression[] } {
  const own = cells.filter(
    ({ policy, section }) => policy === JUDGED && ["headline", "workloads", "fleets"].includes(section),
  );
  const compared = own.flatMap((cell): Regression[] => {
    const best = bestOf(peersOf(cell, cells), BASELINES, attainment);
    if (best === undefined) return [];
    const points = pairsOf(cell, best, attainment).map(([a, b]) => 100 * (a - b));
    return [
      {
        cell,
        best,
        points: points.reduce((sum, one) => sum + one, 0) / points.length,
        costRatio: meanOf(cell, busy) / meanOf(best, busy),
      },
    ];
  });
  return {
    compared: compared.length,
    regressions: compared.filter(({ points, costRatio }) => points < -1 || costRatio > DEARER),
  };
}

function noRegression(cells: readonly RoutingCell[]): Verdict[] {
  const { compared, regressions } = regressionsOf(cells);
  if (compared === 0) return [];
  const of = (isMeant: (cell: RoutingCell) => boolean) => regressions.filter(({ cell }) => isMeant(cell));
  const named = (some: readonly Regression[]) =>
    some
      .map(({ cell, best, points, costRatio }) => {
        const cost = costRatio > DEARER ? `, cost ${times(costRatio)}` : "";
        return `${cell.fleet} ${cell.workload} ${percent(cell.load, 0)}: ${points.toFixed(1)} points to ${best.policy}${cost}`;
      })
      .join("; ");
  const hard = of(({ fleet, workload }) => fleet === "F1" || workload === "W2");
  return [
    {
      goal: 6,
      asked: "F1 and W2: at most 1 point below the best baseline and no dearer",
      measured: hard.length === 0 ? "everywhere" : named(hard),
      isMet: hard.length === 0,
    },
    {
      goal: 6,
      asked: "the same on every workload and fleet",
      measured: `${compared - regressions.length} of ${compared} cells`,
      isMet: regressions.length === 0,
    },
  ];
}

function information(cells: readonly RoutingCell[]): Verdict[] {
  const own = cells.filter(({ section, policy }) => section === "information" && policy === JUDGED);
  const lost = (axis: string, most: number, asked: string): Verdict[] => {
    const some = own
      .filter((cell) => cell.axis === axis)
      .flatMap((cell) => {
        const usual = own.find((one) => one.axis.startsWith("usual") && one.load === cell.load);
        if (usual === undefined) return [];
        const points = pairsOf(cell, usual, attainment).map(([a, b]) => 100 * (b - a));
        return [{ load: cell.load, points: points.reduce((sum, one) => sum + one, 0) / points.length }];
      });
    if (some.length === 0) return [];
    return [
      {
        goal: 7,
        asked: `${asked}: at most ${most} points lost`,
        measured: some.map(({ load, points }) => `${percent(load, 0)}: ${points.toFixed(1)}`).join(", "),
        isMet: some.every(({ points }) => points <= most),
      },
    ];
  };
  return [
    ...lost("metrics 1 s", 2, "metrics 1 s old"),
    ...lost("4 gateways", 2, "4 gateways"),
    ...lost("16 gateways, metrics 250 ms", 3, "16 gateways, metrics 250 ms old"),
  ];
}

/** Stretches of a run in a window of time, as one. */
function stretchOf({ series = [] }: ReportJson, fromS: number, toS: number) {
  const some = series.filter((stretch) => stretch.from_s >= fromS && stretch.from_s < toS);
  const sum = (of: (stretch: (typeof some)[number]) => number) => some.reduce((total, one) => total + of(one), 0);
  const requests = sum((one) => one.requests);
  return {
    requests,
    attainment: sum((one) => (one.attainment ?? 0) * one.requests) / requests,
    perUsd: sum((one) => one.good_tokens) / sum((one) => one.busy_usd),
    nodeShare: (row: number) => sum((one) => one.node_requests[row] ?? 0) / requests,
  };
}

function meanStretch(cell: RoutingCell, fromS: number, toS: number, of: (at: ReturnType<typeof stretchOf>) => number) {
  return cell.reports.reduce((sum, report) => sum + of(stretchOf(report, fromS, toS)), 0) / cell.reports.length;
}

/** Where outages of the grid begin and end, s. */
const OUTAGE = { fromS: 300, toS: 900 };

function outages(cells: readonly RoutingCell[]): Verdict[] {
  const failures = cells.filter(({ section }) => section === "failures");
  const own = failures.filter(({ policy }) => policy === JUDGED);
  if (own.length === 0) return [];
  const count = (some: readonly RoutingCell[], of: (report: ReportJson) => number) =>
    some.reduce((sum, { reports }) => sum + reports.reduce((total, report) => total + of(report), 0), 0);
  // with spot nodes there may be none for a while: who is turned away then is not lost
  const fixed = own.filter(({ axis }) => !axis.startsWith("spot"));
  const lost = count(own, ({ failed }) => failed);
  const rejected = count(fixed, (report) => report.rejected);
  const verdicts: Verdict[] = [
    {
      goal: 8,
      asked: "family lost for 600 s, no metrics, a slow node, spot nodes: zero requests lost",
      measured: `${lost} failed, ${rejected} turned away`,
      isMet: lost === 0 && rejected === 0,
    },
  ];
  for (const cell of own.filter(({ axis }) => axis === "family lost for 600 s")) {
    const { fromS, toS } = OUTAGE;
    const inside = (one: RoutingCell) => meanStretch(one, fromS, toS, (at) => at.attainment);
    const before = meanStretch(cell, 120, fromS, (at) => at.attainment);
    const after = meanStretch(cell, toS + 60, Number.POSITIVE_INFINITY, (at) => at.attainment);
    const best = Math.max(...peersOf(cell, failures).map(inside));
    const load = percent(cell.load, 0);
    verdicts.push(
      {
        goal: 8,
        asked: `${load} load: attainment outside the outage ≥ 99 %`,
        measured: `${percent(before)} before, ${percent(after)} from 60 s after its end`,
        isMet: before >= 0.99 && after >= 0.99,
      },
      {
        goal: 8,
        asked: `${load} load: inside it ≥ 90 % of what is feasible (the best policy there, ORA-1 included)`,
        measured: `${percent(inside(cell))} of ${percent(best)}`,
        isMet: inside(cell) >= 0.9 * best,
      },
    );
  }
  for (const cell of own.filter(({ axis }) => axis === "node 3 times slower")) {
    const row = cell.reports[0]?.nodes.findIndex(({ id }) => id === "mi300x-1") ?? -1;
    const before = meanStretch(cell, 120, 300, (at) => at.nodeShare(row));
    const after = meanStretch(cell, 320, 380, (at) => at.nodeShare(row));
    verdicts.push({
      goal: 8,
      asked: `${percent(cell.load, 0)} load: a node 3 times slower is down to a third of its traffic within 20 s`,
      measured: `${percent(before)} of the traffic before, ${percent(after)} from 20 to 80 s after`,
      isMet: after <= before / 3,
    });
  }
  return verdicts;
}

function priceStep(cells: readonly RoutingCell[]): Verdict[] {
  const prices = cells.filter(({ section, policy }) => section === "prices" && policy === JUDGED);
  const step = prices.find(({ axis }) => axis === "cheapest family doubles");
  const always = prices.find(({ axis }) => axis === "cheapest family is twice as dear");
  if (step === undefined || always === undefined) return [];
  const rows = step.reports[0]?.nodes.flatMap(({ family }, row) => (family === "MI300X" ? [row] : [])) ?? [];
  const share = (cell: RoutingCell, fromS: number, toS: number) =>
    meanStretch(cell, fromS, toS, (at) => rows.reduce((sum, row) => sum + at.nodeShare(row), 0));
  const [before, at, goal] = [share(step, 300, 450), share(step, 450, 460), share(always, 450, 460)];
  const left =
    1 - meanStretch(step, 450, 750, (one) => one.perUsd) / meanStretch(always, 450, 750, (one) => one.perUsd);
  return [
    {
      goal: 9,
      asked: "the cheapest family per token (MI300X) doubles in price: traffic moved with the next requests",
      measured: `its share ${percent(before)} before, ${percent(at)} in the 10 s after, ${percent(goal)} where it was dear from the start`,
      isMet: Math.abs(at - goal) <= Math.max(0.05, 0.25 * Math.abs(before - goal)),
    },
    {
      goal: 9,
      asked: "regret of the 300 s after it ≤ 10 %, against a run where it was dear from the start",
      measured: percent(left),
      isMet: left <= 0.1,
    },
  ];
}

/** Means over the headline's loads up to 100 %, each a mean over its seeds. */
export function predictionErrors(cells: readonly RoutingCell[]) {
  const own = headlineOf(cells).filter(({ policy, load }) => policy === JUDGED && load <= 1 + 1e-9);
  const reports = own.flatMap((cell) => cell.reports.flatMap(({ prediction }) => prediction ?? []));
  return (["first_token", "token_time", "response"] as const).flatMap((kind) => {
    const errors = reports.flatMap((prediction) => prediction[kind] ?? []);
    if (errors.length === 0) return [];
    const mean = (of: (error: (typeof errors)[number]) => number) =>
      errors.reduce((sum, error) => sum + of(error), 0) / errors.length;
    return [
      {
        kind,
        median: mean((error) => error.median_error),
        p90: mean((error) => error.p90_error),
        covered: mean((error) => error.covered),
      },
    ];
  });
}

function predictions(cells: readonly RoutingCell[]): Verdict[] {
  const errors = predictionErrors(cells);
  if (errors.length === 0) return [];
  const own = headlineOf(cells).filter(({ policy, load }) => policy === JUDGED && load >= 0.6 && load <= 1 + 1e-9);
  const learned = own.flatMap((cell) =>
    cell.reports.flatMap(({ prediction }) => Object.entries(prediction?.learned ?? {})),
  );
  const slow = learned.filter(([, at]) => at === null || (at.requests > 500 && at.seconds > 300));
  const names = { first_token: "first token", token_time: "token time", response: "response of the length that came" };
  const list = (of: (error: (typeof errors)[number]) => number) =>
    errors.map((error) => `${names[error.kind]} ${percent(of(error))}`).join(", ");
  return [
    {
      goal: 10,
      asked: "prediction: median error ≤ 8 %",
      measured: list(({ median }) => median),
      isMet: errors.every(({ median }) => median <= 0.08),
    },
    {
      goal: 10,
      asked: "P95 covers 93 to 97 %",
      measured: list(({ covered }) => covered),
      isMet: errors
        .filter(({ kind }) => kind !== "response")
        .every(({ covered }) => covered >= 0.93 && covered <= 0.97),
    },
    {
      goal: 10,
      asked: "a new family is known (100 predictions in a row with a median error ≤ 8 %) within 300 s or 500 requests",
      measured: `${learned.length - slow.length} of ${learned.length} families of runs at 60 to 100 % load`,
      isMet: slow.length === 0,
    },
  ];
}

function frontier(cells: readonly RoutingCell[]): Verdict[] {
  const settings: readonly PolicyName[] = ["zml-cost", "zml-balanced", "zml-latency"];
  const lines = cells
    .filter(({ policy, section }) => policy === JUDGED && ["headline", "workloads", "fleets"].includes(section))
    .map((cell) => settings.map((policy) => peersOf(cell, cells).find((peer) => peer.policy === policy)))
    .filter((line): line is RoutingCell[] => line.every((cell) => cell !== undefined));
  if (lines.length === 0) return [];
  const isMonotone = (line: readonly RoutingCell[]) => {
    const usd = line.map((cell) => meanOf(cell, busy));
    const p95 = line.map((cell) => meanOf(cell, (report) => report.response_ms.p95));
    // a tie within a per cent is no step back
    const rises = usd.every((value, index) => index === 0 || value >= (usd[index - 1] as number) * 0.99);
    return rises && p95.every((value, index) => index === 0 || value <= (p95[index - 1] as number) * 1.01);
  };
  const monotone = lines.filter(isMonotone).length;
  return [
    {
      goal: 12,
      asked: "hardware outside the chain is never used",
      measured: "by a property of the engine: `decide.prop.test.ts`",
      isMet: null,
    },
    {
      goal: 12,
      asked: "cost, balanced, latency: money rises and the P95 of the response falls, on every workload and fleet",
      measured: `${monotone} of ${lines.length} cells`,
      isMet: monotone === lines.length,
    },
  ];
}
