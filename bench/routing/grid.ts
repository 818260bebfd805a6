/**
 * What the routing bench runs: cases, each a fleet, a workload, a load and a seed under some conditions, with the policies
 * that meet the same requests there. The full product of the axes is not run: every axis is varied around F3 and chat.
 */

import {
  FLEETS,
  type FleetName,
  POLICY_NAMES,
  type PolicyName,
  WORKLOADS,
  type WorkloadName,
} from "@zml/simulator/virtual";

export const SECTIONS = [
  "headline",
  "workloads",
  "fleets",
  "information",
  "prices",
  "failures",
  "targets",
  "hindsight",
] as const;
export type Section = (typeof SECTIONS)[number];

export interface RoutingCase {
  readonly section: Section;
  /** What differs from the usual conditions; empty: nothing. */
  readonly axis: string;
  readonly fleet: FleetName;
  readonly workload: WorkloadName;
  /** Share of the fleet's capacity. */
  readonly load: number;
  readonly seed: number;
  readonly durationS: number;
  readonly warmUpS: number;
  readonly policies: readonly PolicyName[];
  /** Further keys of the scenario. */
  readonly scenario: Readonly<Record<string, unknown>>;
}

/** What of the grid is wanted; absent: all. */
export interface GridFilter {
  readonly sections?: readonly Section[];
  readonly fleets?: readonly FleetName[];
  readonly workloads?: readonly WorkloadName[];
  readonly loads?: readonly number[];
  readonly policies?: readonly PolicyName[];
  readonly seeds?: readonly number[];
  readonly durationS?: number;
}

type Part = Omit<RoutingCase, "load" | "seed" | "fleet" | "workload" | "axis" | "scenario"> & {
  readonly fleets: readonly FleetName[];
  readonly workloads: readonly WorkloadName[];
  readonly loads: readonly number[];
  readonly seeds: readonly number[];
  /** Conditions by name. */
  readonly axes: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
};

const ZML: readonly PolicyName[] = ["zml-cost", "zml-balanced", "zml-latency"];
const CLASSICAL: readonly PolicyName[] = ["LR", "WLR", "SA", "PFX", "LMX"];
const SCRIPTED: readonly PolicyName[] = ["CHAIN", "SPL", "BF", "MEL"];
const USUAL: readonly PolicyName[] = [...CLASSICAL, ...SCRIPTED, "ORA-1", ...ZML];
const MIXED: readonly FleetName[] = ["F1", "F2", "F4", "F5"];
const AS_IS = { "": {} };
const F3_W1 = { fleets: ["F3"], workloads: ["W1"] } as const;
const TEN_MINUTES = { durationS: 600, warmUpS: 120 };
const FIVE_MINUTES = { durationS: 300, warmUpS: 75 };
const OUTAGE_S = 600;

const FULL: readonly Part[] = [
  {
    section: "headline",
    ...F3_W1,
    ...TEN_MINUTES,
    loads: [0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.2],
    policies: POLICY_NAMES,
    seeds: [1, 2],
    axes: AS_IS,
  },
  {
    // the rules that goals name, and those that were best among the others
    section: "headline",
    ...F3_W1,
    ...TEN_MINUTES,
    loads: [0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.2],
    policies: ["RR", "LR", "WLR", "LMX", ...SCRIPTED, "ORA-1", ...ZML],
    seeds: [3, 4, 5],
    axes: AS_IS,
  },
  {
    section: "workloads",
    fleets: ["F3"],
    workloads: ["W2", "W4", "W7", "W9"],
    ...FIVE_MINUTES,
    loads: [0.4, 0.8],
    policies: USUAL,
    seeds: [1, 2],
    axes: AS_IS,
  },
  {
    // a session is 47 turns of seconds each
    section: "workloads",
    fleets: ["F3"],
    workloads: ["W5"],
    durationS: 1_200,
    warmUpS: 400,
    loads: [0.4, 0.8],
    policies: USUAL,
    seeds: [1, 2],
    axes: AS_IS,
  },
  {
    // two days of half an hour each
    section: "workloads",
    fleets: ["F3"],
    workloads: ["W8"],
    durationS: 3_600,
    warmUpS: 0,
    loads: [0.35],
    policies: USUAL,
    seeds: [1, 2],
    axes: { "days of 1800 s": { day_s: 1_800 } },
  },
  {
    section: "fleets",
    fleets: MIXED,
    workloads: ["W1", "W2"],
    ...FIVE_MINUTES,
    loads: [0.4, 0.8],
    policies: USUAL,
    seeds: [1, 2],
    axes: AS_IS,
  },
  {
    section: "fleets",
    fleets: ["F6"],
    workloads: ["W1", "W2"],
    durationS: 150,
    warmUpS: 60,
    loads: [0.4, 0.8],
    policies: ["LR", "WLR", "P2C", "CHAIN", "SPL", ...ZML],
    seeds: [1, 2],
    axes: AS_IS,
  },
  {
    section: "information",
    ...F3_W1,
    ...FIVE_MINUTES,
    loads: [0.4, 0.8],
    policies: ["LR", "WLR", "P2C", ...ZML],
    seeds: [1, 2],
    axes: {
      "usual: metrics 50 ms": { metrics_interval_ms: 50 },
      "metrics 0 ms": { metrics_interval_ms: 0 },
      "metrics 250 ms": { metrics_interval_ms: 250 },
      "metrics 1 s": { metrics_interval_ms: 1_000 },
      "metrics 5 s": { metrics_interval_ms: 5_000 },
      "4 gateways": { gateways: 4 },
      "16 gateways, metrics 250 ms": { gateways: 16, metrics_interval_ms: 250 },
      "constants exact": { constants_error: 0 },
    },
  },
  {
    section: "prices",
    ...F3_W1,
    durationS: 900,
    warmUpS: 120,
    loads: [0.4],
    policies: ["WLR", "CHAIN", "SPL", "ORA-1", ...ZML],
    seeds: [1, 2],
    axes: {
      "cheapest family doubles": {
        series_every_s: 10,
        prices: [{ kind: "step", families: ["MI300X"], at_s: 450, factor: 2 }],
      },
      "cheapest family is twice as dear": {
        series_every_s: 10,
        prices: [{ kind: "step", families: ["MI300X"], at_s: 0, factor: 2 }],
      },
      "one family, 8 times apart": {
        prices: [
          { kind: "step", nodes: ["h100-1"], at_s: 0, factor: 0.37 },
          { kind: "step", nodes: ["h100-2"], at_s: 0, factor: 2.96 },
        ],
      },
      walk: { prices: [{ kind: "mean_reverting", every_s: 60, sigma: 0.05 }] },
    },
  },
  {
    section: "failures",
    ...F3_W1,
    durationS: 1_200,
    warmUpS: 120,
    loads: [0.4, 0.6],
    policies: ["LR", "WLR", "CHAIN", "SPL", "ORA-1", ...ZML],
    seeds: [1, 2],
    axes: {
      "family lost for 600 s": {
        series_every_s: 5,
        failures: [{ kind: "down", families: ["MI300X"], from_s: 300, to_s: 300 + OUTAGE_S }],
      },
      "node 3 times slower": {
        series_every_s: 5,
        failures: [{ kind: "slow", nodes: ["mi300x-1"], from_s: 300, to_s: 1_200, factor: 3 }],
      },
      "no metrics for 30 s": { failures: [{ kind: "blackout", from_s: 300, to_s: 330 }] },
      "spot nodes, an hour in 225 s": {
        failures: ["MI300X", "H100", "A100", "L40S"].map((family) => ({
          kind: "spot",
          families: [family],
          mean_up_s: 900,
          mean_down_s: 340,
          notice_s: 8,
          cold_start_s: 11,
          shock: 0.3,
        })),
      },
    },
  },
  {
    section: "targets",
    ...F3_W1,
    ...FIVE_MINUTES,
    loads: [0.4, 0.8],
    policies: ["LR", "WLR", "CHAIN", "SPL", "BF", "MEL", "ORA-1", ...ZML],
    seeds: [1, 2],
    axes: {
      T2: { targets: "T2" },
      "all interactive": { class_shares: { interactive: 1 } },
      "all batch": { class_shares: { batch: 1 } },
    },
  },
  {
    // ORA-2: the two middle windows of 300 s
    section: "hindsight",
    ...F3_W1,
    durationS: 1_200,
    warmUpS: 0,
    loads: [0.4, 0.6, 0.9],
    policies: ["CHAIN", "SPL", "MEL-C", "ORA-1", ...ZML],
    seeds: [1, 2],
    axes: { "windows of 300 s": { series_every_s: 300 } },
  },
];

const QUICK: readonly Part[] = [
  {
    section: "headline",
    fleets: ["F3"],
    workloads: ["W1", "W2"],
    durationS: 240,
    warmUpS: 60,
    loads: [0.4, 0.8],
    policies: ["LR", "WLR", "CHAIN", "SPL", "BF", ...ZML],
    seeds: [1],
    axes: AS_IS,
  },
];

/**
 * The cases of a grid. First seeds come first, so that a run that ends early has seen most things once. Names that the grid
 * does not vary by itself are run as the filter says: `--fleets F2` of the headline is F2 in place of F3.
 */
export function casesOf(grid: "full" | "quick", filter: GridFilter): RoutingCase[] {
  const parts = (grid === "quick" ? QUICK : FULL).filter(({ section }) => filter.sections?.includes(section) ?? true);
  const cases = parts.flatMap((part) => partCases(part, filter));
  return cases.sort((a, b) => placeOf(a) - placeOf(b));
}

/** After the headline's first seed everything is seen once; then its others, since goals are judged on five of them. */
function placeOf({ section, seed }: RoutingCase): number {
  return section === "headline" ? seed : 1.5 + 5 * (seed - 1);
}

function partCases(part: Part, filter: GridFilter): RoutingCase[] {
  const { section } = part;
  const isHeadline = section === "headline";
  const kept = <Value>(own: readonly Value[], wanted: readonly Value[] | undefined): readonly Value[] => {
    if (wanted === undefined) return own;
    return isHeadline ? wanted : own.filter((value) => wanted.includes(value));
  };
  const policies = part.policies.filter((name) => filter.policies?.includes(name) ?? true);
  if (policies.length === 0) return [];
  const durationS = filter.durationS ?? part.durationS;
  const warmUpS = Math.min(part.warmUpS, durationS / 4);
  return kept(part.fleets, filter.fleets).flatMap((fleet) =>
    kept(part.workloads, filter.workloads).flatMap((workload) =>
      (filter.loads ?? part.loads).flatMap((load) =>
        Object.entries(part.axes).flatMap(([axis, { day_s: dayS, ...scenario }]) =>
          (filter.seeds ?? part.seeds).map((seed) => ({
            section,
            axis,
            fleet,
            workload,
            load,
            seed,
            durationS,
            warmUpS,
            policies,
            scenario: dayS === undefined ? scenario : { ...scenario, workload: { day_s: dayS } },
          })),
        ),
      ),
    ),
  );
}

export const FLEET_NAMES = Object.keys(FLEETS) as FleetName[];
export const WORKLOAD_NAMES = Object.keys(WORKLOADS) as WorkloadName[];
