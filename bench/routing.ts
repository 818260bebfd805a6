/**
 * Quality of routing: ZML beside the field's rules on fleets in virtual time, with the production engine
 * (docs/benchmarks/routing.md). `--quick` is one fleet and two workloads in under a minute. The whole grid goes on where
 * it was ended, as long as the sources are the same; `--write` puts its outcome into the page.
 */

import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { POLICY_NAMES } from "@zml/simulator/virtual";
import { machineOf, report } from "./report.ts";
import { cellsOf, meanOf, type RoutingCell } from "./routing/cells.ts";
import { figuresOf } from "./routing/figures.ts";
import { casesOf, FLEET_NAMES, type GridFilter, SECTIONS, WORKLOAD_NAMES } from "./routing/grid.ts";
import { outcomeOf } from "./routing/outcome.ts";
import { ResultStore, resultsFile } from "./routing/result-store.ts";
import { nameOf, runCases } from "./routing/run-cases.ts";
import { writeOutcome } from "./routing/write-page.ts";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    fresh: { type: "boolean", default: false },
    sections: { type: "string" },
    fleets: { type: "string" },
    workloads: { type: "string" },
    policies: { type: "string" },
    loads: { type: "string" },
    seeds: { type: "string" },
    "duration-s": { type: "string" },
    processes: { type: "string" },
    "budget-min": { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const startMs = performance.now();
const cases = casesOf(values.quick ? "quick" : "full", filterOf());
const store = new ResultStore(values.quick ? null : resultsFile(values.fresh));
let toldMs = 0;
const left = await runCases(cases, store, {
  processes: values.processes === undefined ? availableParallelism() : numberOf("processes", values.processes),
  budgetMs: values["budget-min"] === undefined ? Infinity : numberOf("budget-min", values["budget-min"]) * 60_000,
  extraOf: ({ section }) => {
    if (values.quick) return null;
    return section === "hindsight" ? "hindsight" : section === "headline" ? "bound" : null;
  },
  onProgress: (done, all, of) => {
    // standard output belongs to the figures
    if (performance.now() - toldMs < 2_000 && done < all) return;
    toldMs = performance.now();
    process.stderr.write(`${done} of ${all} runs, ${seconds()} s: ${nameOf(of)}\n`);
  },
});
const cells = cellsOf(cases, store);
if (left > 0) process.stderr.write(`the budget left out ${left} runs: run the same command again to go on\n`);
if (values.write) writeOutcome(outcomeOf(cases, store, cells, { machine: machineOf(), leftOut: left }));
const figures = figuresOf(cells);
report({
  bench: "routing",
  figures: values.json
    ? figures
    : figures.filter(({ name }) => /^(goodput_per_usd_ratio|attainment_points|sustained_rps)\{/.test(name)),
  json: values.json,
});
if (!values.json) process.stdout.write(`\n${tableOf()}\n`);
process.stderr.write(`${cases.length} cases in ${seconds()} s\n`);

function filterOf(): GridFilter {
  const lists = {
    sections: listOf("sections", SECTIONS),
    fleets: listOf("fleets", FLEET_NAMES),
    workloads: listOf("workloads", WORKLOAD_NAMES),
    policies: listOf("policies", POLICY_NAMES),
    loads: values.loads?.split(",").map((text) => numberOf("loads", text) / 100),
    seeds: values.seeds?.split(",").map((text) => numberOf("seeds", text)),
    durationS: values["duration-s"] === undefined ? undefined : numberOf("duration-s", values["duration-s"]),
  };
  return Object.fromEntries(Object.entries(lists).filter(([, value]) => value !== undefined));
}

function listOf<Name extends string>(
  option: "sections" | "fleets" | "workloads" | "policies",
  known: readonly Name[],
): readonly Name[] | undefined {
  const names = values[option]?.split(",");
  const unknown = names?.find((name) => !known.includes(name as Name));
  if (unknown !== undefined) throw new Error(`--${option} names ${unknown}: known are ${known.join(", ")}`);
  return names as Name[] | undefined;
}

function numberOf(option: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`--${option} is ${text}: it must be a number above 0`);
  return value;
}

function seconds(): string {
  return ((performance.now() - startMs) / 1000).toFixed(0);
}

function rowOf(cell: RoutingCell): string[] {
  const percent = (of: Parameters<typeof meanOf>[1]) => (100 * meanOf(cell, of)).toFixed(1).padStart(6);
  const usd = (of: Parameters<typeof meanOf>[1]) => meanOf(cell, of).toFixed(3).padStart(8);
  return [
    cell.fleet,
    cell.workload,
    `${Math.round(cell.load * 100)} %`.padStart(5),
    cell.policy.padEnd(12),
    percent((one) => one.attainment),
    percent((one) => one.worst_class_attainment),
    usd((one) => one.busy_usd_per_million_tokens),
    usd((one) => one.provisioned_usd_per_million_tokens),
    (meanOf(cell, (one) => one.goodput_per_usd) / 1e6).toFixed(2).padStart(7),
    meanOf(cell, (one) => one.ttft_ms.p99)
      .toFixed(0)
      .padStart(7),
    cell.axis,
  ];
}

function tableOf(): string {
  const head =
    "fleet workload load policy: targets met %, worst class %, busy USD/M tokens, powered USD/M tokens, good M tokens/USD, TTFT P99 ms";
  return [head, ...cells.map((cell) => rowOf(cell).join("  ").trimEnd())].join("\n");
}
