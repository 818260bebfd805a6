/**
 * Everything that can be compared, by name: the baselines of §4.6, MEL once more with a plan for each class, the router that knows all
 * (ORA-1), and ZML by cost priority.
 */

import type { CostPriority } from "@zml/engine";
import type { FleetPlan } from "./fleet-plan.ts";
import { planBuckets } from "./plan-buckets.ts";
import type { RequestClass } from "./request-classes.ts";
import { clairvoyant } from "./routers/clairvoyant.ts";
import {
  leastRequest,
  roundRobin,
  sessionAffinity,
  twoChoices,
  uniform,
  weightedLeastRequest,
  weightedLoad,
  weightedRoundRobin,
} from "./routers/classical.ts";
import {
  bestFit,
  newTokensTimesBatch,
  plannedBuckets,
  prefixAffinity,
  scriptedChain,
  shortestPredictedLatency,
} from "./routers/scripted.ts";
import type { SimulationOptions } from "./simulate.ts";
import type { Workload } from "./workload.ts";

export const POLICY_NAMES = [
  "RR",
  "RND",
  "WRR",
  "LR",
  "WLR",
  "P2C",
  "WP2C",
  "SA",
  "PFX",
  "LMX",
  "CHAIN",
  "SPL",
  "BF",
  "MEL",
  "MEL-C",
  "ORA-1",
  "zml-cost",
  "zml-balanced",
  "zml-latency",
] as const;
export type PolicyName = (typeof POLICY_NAMES)[number];

/** What a policy is made for: only MEL looks, since it plans offline. */
export interface PolicyContext {
  readonly plan: FleetPlan;
  readonly classes: readonly RequestClass[];
  readonly workload: Workload;
}

/** How `simulate` runs a policy. */
export function policyOptions(
  name: PolicyName,
  { plan, classes, workload }: PolicyContext,
): Pick<SimulationOptions, "createRouter"> & { costPriority: CostPriority } {
  const baseline = (createRouter: NonNullable<SimulationOptions["createRouter"]>) => ({
    createRouter,
    costPriority: "balanced" as const,
  });
  switch (name) {
    case "RR":
      return baseline(roundRobin);
    case "RND":
      return baseline(uniform);
    case "WRR":
      return baseline(weightedRoundRobin);
    case "LR":
      return baseline(leastRequest);
    case "WLR":
      return baseline(weightedLeastRequest);
    case "P2C":
      return baseline(() => twoChoices((view, row) => view.inFlight[row] as number));
    case "WP2C":
      return baseline(() => twoChoices(weightedLoad));
    case "SA":
      return baseline(sessionAffinity);
    case "PFX":
      return baseline(prefixAffinity);
    case "LMX":
      return baseline(newTokensTimesBatch);
    case "CHAIN":
      return baseline(scriptedChain);
    case "SPL":
      return baseline(shortestPredictedLatency);
    case "BF":
      return baseline(bestFit);
    case "MEL":
    case "MEL-C": {
      const buckets = planBuckets(plan, classes, workload, name === "MEL-C");
      return baseline(() => plannedBuckets(buckets));
    }
    case "ORA-1": {
      const constants = plan.nodes.map((node) => node.constants);
      return baseline((nodes) => clairvoyant({ constants, nodes, workload, classes }));
    }
    case "zml-cost":
      return { createRouter: null, costPriority: "cost" };
    case "zml-balanced":
      return { createRouter: null, costPriority: "balanced" };
    case "zml-latency":
      return { createRouter: null, costPriority: "latency" };
  }
}
