/** A scenario: what `zml simulate -f` reads. The schema is the only home of the defaults. */

import { type ConfigIssue, formatPath, MAX_GPU_HOUR_USD, nearestName } from "@zml/protocol";
import { z } from "zod";
import { FLEETS, type FleetName } from "./fleet-plan.ts";
import { POLICY_NAMES } from "./policies.ts";
import { WORKLOADS, type WorkloadName } from "./workload-presets.ts";

const seconds = z.number().min(0);
const share = z.number().min(0).max(1);

const targets = {
  /** Families and nodes that it is about; none named: all. Nodes are `family-1`, `family-2`, … in lower case. */
  families: z.array(z.string()).optional(),
  nodes: z.array(z.string()).optional(),
};

const failure = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("down"), ...targets, from_s: seconds, to_s: seconds, notice_s: seconds.default(0) }),
  z.strictObject({
    kind: z.literal("slow"),
    ...targets,
    from_s: seconds,
    to_s: seconds,
    factor: z.number().min(0.01).max(1000),
  }),
  z.strictObject({ kind: z.literal("blackout"), ...targets, from_s: seconds, to_s: seconds }),
  z.strictObject({
    kind: z.literal("spot"),
    ...targets,
    mean_up_s: z.number().positive().default(14_400),
    mean_down_s: z.number().positive().default(5_400),
    notice_s: seconds.default(120),
    cold_start_s: seconds.default(180),
    shock: share.default(0.3),
  }),
]);

const price = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("step"), ...targets, at_s: seconds, factor: z.number().min(0).max(1000) }),
  z.strictObject({
    kind: z.literal("mean_reverting"),
    ...targets,
    every_s: z.number().min(1).default(3_600),
    sigma: z.number().min(0).max(2).default(0.05),
    pull: share.default(0.2),
  }),
  z.strictObject({
    kind: z.literal("replay"),
    ...targets,
    /** Path of list prices; relative ones are beside the scenario. */
    file: z.string().min(1),
    provider: z.string().min(1),
    region: z.string().min(1),
    gpu: z.string().min(1),
    is_spot: z.boolean().default(false),
    /** GPUs of a node. */
    gpus: z.number().int().min(1).max(1_024).default(1),
    /** Length of a day, s. */
    day_s: z.number().positive().default(86_400),
  }),
]);

const arrivals = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("trace") }),
  z.strictObject({ kind: z.literal("poisson") }),
  z.strictObject({
    kind: z.literal("diurnal"),
    cv: z.number().min(0.1).max(10).default(1.3),
    peak_to_mean: z.number().min(1).max(10).default(2.5),
    day_s: z.number().positive().default(86_400),
  }),
]);

const source = z.strictObject({
  /** Path of a trace; relative ones are beside the scenario. */
  trace: z.string().min(1),
  share: z.number().positive().default(1),
  arrivals: arrivals.default({ kind: "trace" }),
});

const group = z.strictObject({
  family: z.string().min(1),
  hardware: z.string().min(1),
  count: z.number().int().min(1).max(10_000).default(1),
  usd_per_hour: z.number().min(0).max(MAX_GPU_HOUR_USD),
  network_ms: z.number().min(0).max(10_000).default(1),
});

export const scenarioSchema = z.strictObject({
  fleet: z.union([z.enum(Object.keys(FLEETS) as [FleetName, ...FleetName[]]), z.array(group).min(1)]).default("F3"),
  workload: z
    .strictObject({
      preset: z.enum(Object.keys(WORKLOADS) as [WorkloadName, ...WorkloadName[]]).optional(),
      sources: z.array(source).min(1).optional(),
      /** Share of the fleet's capacity; or `rps`. */
      load: z.number().positive().max(10).optional(),
      rps: z.number().positive().max(1e6).optional(),
      duration_s: z
        .number()
        .positive()
        .max(10 * 86_400)
        .default(3_600),
      /** Length of a day of a diurnal preset, s. */
      day_s: z.number().positive().optional(),
      /** What arrives before is not judged. */
      warm_up_s: seconds.default(0),
    })
    .prefault({}),
  targets: z.enum(["T1", "T2"]).default("T1"),
  class_shares: z
    .strictObject({ interactive: share.default(0), standard: share.default(0), batch: share.default(0) })
    .default({ interactive: 0.5, standard: 0.35, batch: 0.15 }),
  policies: z
    .array(z.enum(POLICY_NAMES))
    .min(1)
    .default(["WLR", "CHAIN", "SPL", "zml-cost", "zml-balanced", "zml-latency"]),
  seed: z
    .number()
    .int()
    .min(0)
    .max(2 ** 31 - 1)
    .default(1),
  gateways: z.number().int().min(1).max(256).default(1),
  /** 0: every decision sees the load as it is. */
  metrics_interval_ms: z
    .number()
    .min(0)
    .max(600_000)
    .refine((ms) => ms === 0 || ms >= 1, "too small: expected 0, or at least 1 ms")
    .default(50),
  metrics_delay_ms: z.number().min(0).max(600_000).default(0),
  constants_error: z.number().min(0).max(0.9).default(0.2),
  noise_sigma: z.number().min(0).max(1).default(0.05),
  step_token_budget: z.number().int().min(1).max(1_000_000).default(2_048),
  /** The report also tells each stretch of so many seconds; null: it does not. */
  series_every_s: z.number().min(1).nullable().default(null),
  failures: z.array(failure).default([]),
  prices: z.array(price).default([]),
});

export type Scenario = z.output<typeof scenarioSchema>;
export type ScenarioTargets = Scenario["failures"][number] | Scenario["prices"][number];

/** What a scenario asks for and cannot be had, with the path of the value that says so. */
export class ScenarioError extends Error {
  readonly path: ConfigIssue["path"];

  constructor(path: ConfigIssue["path"], message: string) {
    super(message);
    this.name = "ScenarioError";
    this.path = path;
  }
}

/** Checks a parsed file. Unknown keys, wrong values and what does not fit together come back with their paths. */
export function parseScenario(value: unknown): { scenario: Scenario } | { issues: ConfigIssue[] } {
  const result = scenarioSchema.safeParse(value ?? {});
  if (!result.success) return { issues: result.error.issues.flatMap((issue) => issuesOf(issue, [])) };
  const issues = contradictions(result.data);
  return issues.length > 0 ? { issues } : { scenario: result.data };
}

function contradictions({ fleet, workload, class_shares: shares, failures }: Scenario): ConfigIssue[] {
  const issues: ConfigIssue[] = [];
  const wrong = (path: ConfigIssue["path"], message: string, hint: string) =>
    issues.push({ path, at: "value", message, hint });
  if (workload.preset !== undefined && workload.sources !== undefined) {
    wrong(["workload", "sources"], "preset and sources both say what comes", "keep one of them");
  }
  if (workload.load !== undefined && workload.rps !== undefined) {
    wrong(["workload", "rps"], "load and rps both say how much comes", "keep one of them");
  }
  const isDiurnal = WORKLOADS[workload.preset ?? "W1"].some(({ arrivals: { kind } }) => kind === "diurnal");
  if (workload.day_s !== undefined && (workload.sources !== undefined || !isDiurnal)) {
    wrong(["workload", "day_s"], "day_s is for a preset with a day curve", "name W8, or set it in a source's arrivals");
  }
  if (workload.warm_up_s >= workload.duration_s) {
    wrong(
      ["workload", "warm_up_s"],
      `warm_up_s (${workload.warm_up_s}) leaves nothing of duration_s (${workload.duration_s})`,
      "lower it",
    );
  }
  if (shares.interactive + shares.standard + shares.batch <= 0) {
    wrong(["class_shares"], "all shares are 0", "give at least one class a share");
  }
  if (typeof fleet !== "string") {
    for (const [index, { family }] of fleet.entries()) {
      const first = fleet.find((other) => other.family.toLowerCase() === family.toLowerCase())?.family;
      if (first === family || first === undefined) continue;
      wrong(["fleet", index, "family"], `${family} and ${first} name their nodes alike`, "rename one of them");
    }
  }
  for (const [index, failure] of failures.entries()) {
    if ("to_s" in failure && failure.to_s <= failure.from_s) {
      wrong(["failures", index, "to_s"], `to_s (${failure.to_s}) is not after from_s (${failure.from_s})`, "raise it");
    }
  }
  return issues;
}

function issuesOf(issue: z.core.$ZodIssue, parent: ConfigIssue["path"]): ConfigIssue[] {
  const path = [...parent, ...issue.path.map((part) => (typeof part === "number" ? part : String(part)))];
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const near = nearestName(key, KEYS);
      return {
        path: [...path, key],
        at: "key",
        message: `unknown key ${JSON.stringify(key.slice(0, 64))}`,
        hint:
          near === null
            ? `it is no key of ${path.length === 0 ? "a scenario" : formatPath(path)}`
            : `did you mean ${near}?`,
      };
    });
  }
  if (issue.code === "invalid_union") {
    const deeper = issue.errors.find((branch) =>
      branch.every((inner) => inner.path.length > 0 || inner.code === "unrecognized_keys"),
    );
    if (deeper !== undefined && deeper.length > 0) return deeper.flatMap((inner) => issuesOf(inner, path));
    if (formatPath(path) === "fleet") {
      return [
        {
          path,
          at: "value",
          message: "this is no fleet",
          hint: `one of ${Object.keys(FLEETS).join(", ")}, or a list of node groups`,
        },
      ];
    }
  }
  return [{ path, at: "value", message: issue.message.charAt(0).toLowerCase() + issue.message.slice(1), hint: null }];
}

/** Every key that some mapping of a scenario knows, for what a slip meant. */
const KEYS = [
  ...Object.keys(scenarioSchema.shape),
  ...Object.keys(group.shape),
  ...Object.keys(source.shape),
  ...[...failure.options, ...price.options, ...arrivals.options].flatMap(({ shape }) => Object.keys(shape)),
  ...["preset", "sources", "load", "rps", "duration_s", "warm_up_s", "day_s", "interactive", "standard", "batch"],
];
