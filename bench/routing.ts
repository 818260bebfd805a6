/**
 * Quality of routing: ZML beside the field's rules on fleets in virtual time, with the production engine
 * (docs/benchmarks/routing.md). `--quick` is one fleet and two workloads in under a minute.
 */

import { parseArgs } from "node:util";
import {
  FLEETS,
  type FleetName,
  POLICY_NAMES,
  type PolicyName,
  WORKLOADS,
  type WorkloadName,
} from "@zml/simulator/virtual";
import { report } from "./report.ts";
import { figuresOf, meanOf, measureRouting, type RoutingCell, type RoutingGrid } from "./routing/measure-routing.ts";

const QUICK: RoutingGrid = {
  fleets: ["F3"],
  workloads: ["W1", "W2"],
  loads: [0.4, 0.8],
  policies: ["LR", "WLR", "CHAIN", "SPL", "BF", "zml-cost", "zml-balanced", "zml-latency"],
  seeds: [1],
  durationS: 240,
  warmUpS: 60,
};

const FULL: RoutingGrid = {
  fleets: Object.keys(FLEETS) as FleetName[],
  workloads: Object.keys(WORKLOADS) as WorkloadName[],
  loads: [0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.2],
  policies: POLICY_NAMES,
  seeds: [1, 2, 3, 4, 5],
  durationS: 3_600,
  warmUpS: 300,
};

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    fleets: { type: "string" },
    workloads: { type: "string" },
    policies: { type: "string" },
    loads: { type: "string" },
    seeds: { type: "string" },
    "duration-s": { type: "string" },
  },
});
const cells = measureRouting(gridOf(), (cell, wallMs) => {
  // what takes minutes says where it is; standard output belongs to the figures
  process.stderr.write(`${rowOf(cell).join("  ")}  ${(wallMs / 1000).toFixed(1)} s\n`);
});
const figures = figuresOf(cells);
report({
  bench: "routing",
  figures: values.json
    ? figures
    : figures.filter(({ name }) => /^(goodput_per_usd_ratio|attainment_points|sustained_rps)\{/.test(name)),
  json: values.json,
});
if (!values.json) process.stdout.write(`\n${tableOf()}\n`);

function gridOf(): RoutingGrid {
  const base = values.quick ? QUICK : FULL;
  const durationS = values["duration-s"] === undefined ? base.durationS : numberOf("duration-s", values["duration-s"]);
  return {
    fleets: listOf("fleets", base.fleets, Object.keys(FLEETS) as FleetName[]),
    workloads: listOf("workloads", base.workloads, Object.keys(WORKLOADS) as WorkloadName[]),
    policies: listOf<PolicyName>("policies", base.policies, POLICY_NAMES),
    loads:
      values.loads === undefined ? base.loads : values.loads.split(",").map((text) => numberOf("loads", text) / 100),
    seeds: values.seeds === undefined ? base.seeds : values.seeds.split(",").map((text) => numberOf("seeds", text)),
    durationS,
    warmUpS: Math.min(base.warmUpS, durationS / 4),
  };
}

function listOf<Name extends string>(
  option: "fleets" | "workloads" | "policies",
  fallback: readonly Name[],
  known: readonly Name[],
): readonly Name[] {
  const names = values[option]?.split(",");
  const unknown = names?.find((name) => !known.includes(name as Name));
  if (unknown !== undefined) throw new Error(`--${option} names ${unknown}: known are ${known.join(", ")}`);
  return (names as Name[] | undefined) ?? fallback;
}

function numberOf(option: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`--${option} is ${text}: it must be a number above 0`);
  return value;
}

function rowOf(cell: RoutingCell): string[] {
  const percent = (of: Parameters<typeof meanOf>[1]) => (100 * meanOf(cell, of)).toFixed(1).padStart(6);
  return [
    cell.fleet,
    cell.workload,
    `${Math.round(cell.load * 100)} %`.padStart(5),
    cell.policy.padEnd(12),
    percent((one) => one.attainment),
    percent((one) => one.worst_class_attainment),
    meanOf(cell, (one) => one.busy_usd_per_million_tokens)
      .toFixed(3)
      .padStart(8),
    meanOf(cell, (one) => one.provisioned_usd_per_million_tokens)
      .toFixed(3)
      .padStart(8),
    (meanOf(cell, (one) => one.goodput_per_usd) / 1e6).toFixed(2).padStart(7),
    meanOf(cell, (one) => one.ttft_ms.p99)
      .toFixed(0)
      .padStart(7),
  ];
}

function tableOf(): string {
  const head =
    "fleet workload load policy: targets met %, worst class %, busy USD/M tokens, powered USD/M tokens, good M tokens/USD, TTFT P99 ms";
  return [head, ...cells.map((cell) => rowOf(cell).join("  "))].join("\n");
}
