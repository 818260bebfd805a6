/** One case of the routing bench: its scenario once, and what each policy came to on it. */

import { type PolicyName, parseScenario, prepareScenario, type ReportJson, runPolicy } from "@zml/simulator/virtual";
import { boundOf } from "./bound.ts";
import type { RoutingCase } from "./grid.ts";

/** What one policy came to on one case. */
export interface CaseResult {
  readonly policy: PolicyName;
  readonly rps: number;
  /** Requests per second that are 100 % load. */
  readonly capacityRps: number;
  /** Whole fleet. */
  readonly usdPerHour: number;
  readonly report: ReportJson;
  readonly wallMs: number;
}

/** The same of no policy: see `bound.ts`. */
export interface BoundResult {
  readonly attainment: number;
  readonly goodputPerUsd: number;
}

/** A case that can be run, one policy after the other. Every policy meets the same requests. */
export function prepareCase(of: RoutingCase) {
  const { fleet, workload, load, seed, durationS, warmUpS } = of;
  const { workload: more, ...rest } = of.scenario;
  const parsed = parseScenario({
    ...rest,
    fleet,
    seed,
    workload: {
      preset: workload,
      load,
      duration_s: durationS,
      warm_up_s: warmUpS,
      ...(more as Record<string, unknown> | undefined),
    },
  });
  if ("issues" in parsed) {
    throw new Error(parsed.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "));
  }
  const prepared = prepareScenario(parsed.scenario, ".");
  const usdPerHour = prepared.plan.nodes.reduce((sum, node) => sum + node.usdPerHour, 0);
  return {
    run(policy: PolicyName): CaseResult {
      const startMs = performance.now();
      const report = runPolicy(prepared, policy);
      const { rps, capacityRps } = prepared;
      return { policy, rps, capacityRps, usdPerHour, report, wallMs: performance.now() - startMs };
    },
    bound(): BoundResult {
      return boundOf(prepared.plan, prepared.classes, prepared.workload, { warmUpMs: warmUpS * 1000 });
    },
  };
}
