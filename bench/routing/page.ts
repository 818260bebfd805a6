/** The parts of docs/benchmarks/routing.md that are numbers, and its plots, from the outcome of a run. */

import type { PolicyName } from "@zml/simulator/virtual";
import type { Verdict } from "./goals.ts";
import type { Outcome, OutcomeCell } from "./outcome.ts";
import { type Line, svgOf } from "./plots.ts";

/** Text between `<!-- from: NAME -->` and `<!-- to: NAME -->`, by name. `more`: verdicts that other benches gave. */
export function partsOf(outcome: Outcome, more: readonly Verdict[]): Readonly<Record<string, string>> {
  return {
    run: runText(outcome),
    verdicts: verdictTable([...outcome.verdicts, ...more].sort((a, b) => a.goal - b.goal)),
    headline: headlineTables(outcome),
    sustained: sustainedTable(outcome),
    bounds: boundTable(outcome),
    workloads: sectionTables(outcome, "workloads"),
    fleets: sectionTables(outcome, "fleets"),
    predictions: predictionTable(outcome),
    regressions: regressionTable(outcome),
    information: axisTable(outcome, "information"),
    prices: axisTable(outcome, "prices"),
    failures: axisTable(outcome, "failures"),
    targets: axisTable(outcome, "targets"),
  };
}

/** The page with its parts renewed. @throws Error when the page lacks the place of a part. */
export function renewed(page: string, parts: Readonly<Record<string, string>>): string {
  return Object.entries(parts).reduce((text, [name, part]) => {
    const place = new RegExp(`(<!-- from: ${name} -->\n)[\\s\\S]*?(<!-- to: ${name} -->)`);
    if (!place.test(text))
      throw new Error(`the page has no place for ${name}: <!-- from: ${name} --> … <!-- to: ${name} -->`);
    return text.replace(place, (_whole, from: string, to: string) => `${from}\n${part}\n\n${to}`);
  }, page);
}

/** Plots by file name. */
export function plotsOf(outcome: Outcome): Readonly<Record<string, string>> {
  const cells = outcome.cells.filter(({ section }) => section === "headline");
  const lines = (
    of: (cell: OutcomeCell) => [number, number],
    names: readonly PolicyName[],
    isMeant = (_: OutcomeCell) => true,
  ): Line[] =>
    names.flatMap((name) => {
      const points = cells.filter((cell) => cell.policy === name && isMeant(cell)).map(of);
      return points.length === 0 ? [] : [{ name, points, isOwn: name.startsWith("zml-") }];
    });
  const shown: PolicyName[] = ["LR", "WLR", "CHAIN", "SPL", "BF", "MEL", "MEL-C", "ORA-1", ...SETTINGS];
  return {
    "routing-attainment.svg": svgOf({
      title: "Targets met against load: F3, chat",
      x: "requests per second",
      y: "targets met, %",
      yFrom: 40,
      yTo: 100,
      xFrom: 0,
      lines: lines((cell) => [cell.rps, 100 * cell.attainment[0]], shown),
    }),
    "routing-cost.svg": svgOf({
      title: "Cost against targets met: F3, chat, 20 to 90 % load",
      x: "targets met, %",
      y: "good tokens per USD of busy time, millions",
      xFrom: 70,
      yFrom: 0,
      lines: lines(
        (cell) => [100 * cell.attainment[0], cell.goodput_per_usd[0] / 1e6],
        shown,
        ({ load, attainment }) => load <= 0.9 && attainment[0] >= 0.7,
      ),
    }),
    "routing-frontier.svg": svgOf({
      title: "The three cost priorities: F3, chat, each load a line",
      x: "P95 of the whole response, s",
      y: "busy USD per million output tokens",
      xFrom: 0,
      yFrom: 0,
      lines: [0.2, 0.4, 0.6, 0.8].flatMap((load): Line[] => {
        const points = SETTINGS.flatMap((policy): [number, number][] => {
          const cell = cells.find((one) => one.policy === policy && Math.abs(one.load - load) < 1e-9);
          return cell === undefined ? [] : [[cell.response_p95_ms / 1000, cell.busy_usd_per_million]];
        });
        return points.length === 0 ? [] : [{ name: `${Math.round(load * 100)} %`, points, isOwn: true }];
      }),
    }),
  };
}

const SETTINGS: readonly PolicyName[] = ["zml-cost", "zml-balanced", "zml-latency"];

function runText({ machine, cpu_s: cpuS, runs, left_out: leftOut }: Outcome): string {
  const left = leftOut === 0 ? "" : ` ${leftOut} runs of the grid were left out.`;
  return (
    `${runs.toLocaleString("en-US")} runs on ${machine.cores} cores (${machine.cpu}, Node ${machine.node}) took ` +
    `${Math.round(cpuS / 60)} minutes of simulation, summed over the processes.${left}`
  );
}

function verdictTable(verdicts: readonly Verdict[]): string {
  const word = (isMet: boolean | null) => (isMet === null ? "not measured" : isMet ? "met" : "**missed**");
  return table(
    ["goal", "asked", "measured", "verdict"],
    verdicts.map(({ goal, asked, measured, isMet }) => [`${goal}`, asked, measured, word(isMet)]),
  );
}

function headlineTables({ cells }: Outcome): string {
  const headline = cells.filter(({ section }) => section === "headline");
  const loads = [...new Set(headline.map(({ load }) => load))];
  return loads
    .map((load) => {
      const some = headline.filter((cell) => cell.load === load);
      const rps = some[0]?.rps ?? Number.NaN;
      return [
        `**${percent(load)} load, ${rps.toFixed(0)} requests/s**`,
        "",
        table(
          [
            "policy",
            "met",
            "95 %",
            "worst class",
            "TTFT P99, ms",
            "token P99, ms",
            "busy USD/M",
            "powered USD/M",
            "good M/USD",
            "herd",
          ],
          some.map((cell) => [
            nameOf(cell.policy),
            share(cell.attainment[0]),
            `${share(cell.attainment[1])}–${share(cell.attainment[2])}`,
            share(cell.worst_class),
            whole(cell.ttft_p99_ms),
            cell.token_p99_ms.toFixed(1),
            cell.busy_usd_per_million.toFixed(3),
            cell.powered_usd_per_million.toFixed(3),
            (cell.goodput_per_usd[0] / 1e6).toFixed(2),
            cell.herd.toFixed(2),
          ]),
        ),
      ].join("\n");
    })
    .join("\n\n");
}

function sustainedTable({ sustained, usd_per_hour: usdPerHour }: Outcome): string {
  const sorted = sustained.toSorted((a, b) => b.rps - a.rps);
  return table(
    ["policy", "requests/s", "USD per million requests"],
    sorted.map(({ policy, rps, bound }) => [
      nameOf(policy),
      `${bound}${rps.toFixed(1)}`,
      bound === "below " ? "" : ((usdPerHour / (rps * 3_600)) * 1e6).toFixed(1),
    ]),
  );
}

function boundTable({ bounds, cells, hindsight, regrets }: Outcome): string {
  const own = (load: number) =>
    cells.find(
      (cell) => cell.section === "headline" && cell.policy === "zml-cost" && Math.abs(cell.load - load) < 1e-9,
    );
  const bound = table(
    ["load", "BOUND: most met", "BOUND: most good M/USD", "zml-cost", "share of the bound"],
    bounds.map(({ load, attainment, goodput_per_usd: most }) => {
      const reached = own(load)?.goodput_per_usd[0] ?? Number.NaN;
      return [
        percent(load),
        share(attainment),
        (most / 1e6).toFixed(2),
        (reached / 1e6).toFixed(2),
        percent(reached / most),
      ];
    }),
  );
  if (hindsight.length === 0) return bound;
  const windows = table(
    [
      "load",
      "seed",
      "window from",
      "search starts from",
      "given, good M/USD",
      "found",
      "gain",
      "moves kept",
      "regret of zml-cost",
    ],
    hindsight.map(({ load, seed, window, judgedGoodputPerUsd: judged, givenGoodputPerUsd: given }) => {
      const gain = window.found.goodputPerUsd / window.given.goodputPerUsd;
      return [
        percent(load),
        `${seed}`,
        `${window.fromS} s`,
        nameOf(window.policy),
        (window.given.goodputPerUsd / 1e6).toFixed(3),
        (window.found.goodputPerUsd / 1e6).toFixed(3),
        `${(100 * (gain - 1)).toFixed(2)} %`,
        `${window.kept}`,
        `${(100 * (1 - judged / (given * gain))).toFixed(1)} %`,
      ];
    }),
  );
  const means = regrets.map(({ load, regret }) => `${percent(load)}: ${(100 * regret).toFixed(1)} %`).join(", ");
  return `${bound}\n\n${windows}\n\nRegret of zml-cost, mean of seeds and windows: ${means}.`;
}

/** One row per cell: ZML beside the best baseline of each kind of merit. */
function sectionTables({ cells }: Outcome, section: OutcomeCell["section"]): string {
  const some = cells.filter((cell) => cell.section === section);
  const groups = new Map<string, OutcomeCell[]>();
  for (const cell of some) {
    const key = `${cell.fleet}|${cell.workload}|${cell.load}`;
    groups.set(key, [...(groups.get(key) ?? []), cell]);
  }
  const isBaseline = ({ policy }: OutcomeCell) =>
    !policy.startsWith("zml-") && policy !== "ORA-1" && policy !== "MEL-C";
  return table(
    [
      "fleet",
      "workload",
      "load",
      "best baseline",
      "its met",
      "its USD/M",
      "zml-cost: met",
      "USD/M",
      "zml-balanced: met",
      "USD/M",
      "zml-latency: met",
      "USD/M",
      "ORA-1: met",
      "USD/M",
    ],
    [...groups.values()].map((group) => {
      const [first] = group as [OutcomeCell];
      const best = group
        .filter(isBaseline)
        .reduce<OutcomeCell | null>(
          (most, one) => (most === null || one.attainment[0] > most.attainment[0] ? one : most),
          null,
        );
      const pair = (name: PolicyName) => {
        const cell = group.find(({ policy }) => policy === name);
        return cell === undefined ? ["", ""] : [share(cell.attainment[0]), cell.busy_usd_per_million.toFixed(3)];
      };
      return [
        first.fleet,
        first.workload,
        percent(first.load),
        best?.policy ?? "",
        best === null ? "" : share(best.attainment[0]),
        best === null ? "" : best.busy_usd_per_million.toFixed(3),
        ...[...SETTINGS, "ORA-1" as const].flatMap(pair),
      ];
    }),
  );
}

function predictionTable({ predictions }: Outcome): string {
  return table(
    ["predicted", "median error", "P90 of the error", "covered by P95"],
    predictions.map(({ kind, median, p90, covered }) => [
      kind.replaceAll("_", " "),
      `${share(median)} %`,
      `${share(p90)} %`,
      `${share(covered)} %`,
    ]),
  );
}

function regressionTable({ regressions }: Outcome): string {
  if (regressions.length === 0) return "None.";
  return table(
    ["fleet", "workload", "load", "best baseline", "points above it", "busy cost ÷ its"],
    regressions.map(({ fleet, workload, load, best, points, cost_ratio: ratio }) => [
      fleet,
      workload,
      percent(load),
      best,
      points.toFixed(1),
      ratio.toFixed(2),
    ]),
  );
}

/** Conditions by policy: targets met, and what is lost. */
function axisTable({ cells }: Outcome, section: OutcomeCell["section"]): string {
  const some = cells.filter((cell) => cell.section === section);
  const policies = [...new Set(some.map(({ policy }) => policy))];
  const rows = [...new Set(some.map(({ axis, load }) => `${axis}|${load}`))];
  return table(
    ["conditions", "load", ...policies.map(nameOf)],
    rows.map((key) => {
      const [axis = "", load = ""] = key.split("|");
      return [
        axis,
        percent(Number(load)),
        ...policies.map((policy) => {
          const cell = some.find((one) => one.policy === policy && `${one.axis}|${one.load}` === key);
          if (cell === undefined) return "";
          const lost = cell.lost > 0 ? `, ${cell.lost.toFixed(0)} lost` : "";
          return `${share(cell.attainment[0])} / ${cell.busy_usd_per_million.toFixed(3)}${lost}`;
        }),
      ];
    }),
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, index) => (index === 0 ? "---" : "---:"));
  const isText = head.includes("asked");
  return [line(head), line(isText ? head.map(() => "---") : rule), ...rows.map(line)].join("\n");
}

function nameOf(policy: PolicyName): string {
  return policy.startsWith("zml-") ? `**${policy}**` : policy;
}

function percent(value: number): string {
  return `${(100 * value).toFixed(0)} %`;
}

function share(value: number): string {
  return (100 * value).toFixed(1);
}

function whole(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}
