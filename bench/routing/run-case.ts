/** One case of the routing bench: its scenario once, and what each policy came to on it. */

import {
  type Assignment,
  type PolicyName,
  parseScenario,
  prepareScenario,
  type ReportJson,
  runPolicy,
  searchHindsight,
  simulatePolicy,
} from "@zml/simulator/virtual";
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

/** What a search in hindsight came to in one window (ORA-2). */
export interface HindsightResult {
  readonly fromS: number;
  /** The policy with the most good tokens per USD there, from which the search starts. */
  readonly policy: PolicyName;
  readonly given: Assignment;
  readonly found: Assignment;
  readonly kept: number;
  readonly wallMs: number;
}

/** Moves that a search tries in a window (§4.7). */
const EVALUATIONS = 2_000;

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
    /** @param reports of the case's policies, with a series: the two stretches in the middle are the windows. */
    hindsight(reports: readonly (readonly [PolicyName, ReportJson])[]): HindsightResult[] {
      const count = reports[0]?.[1].series?.length ?? 0;
      return [count / 2 - 1, count / 2].map((place) => {
        const startMs = performance.now();
        const worth = (report: ReportJson) => {
          const stretch = report.series?.[place];
          return stretch === undefined ? 0 : stretch.good_tokens / stretch.busy_usd;
        };
        const [policy] = reports.reduce((best, one) => (worth(one[1]) > worth(best[1]) ? one : best));
        const { plan, classes, workload, scenario } = prepared;
        const lengthMs = (durationS * 1000) / count;
        const { given, found, kept } = searchHindsight({
          plan,
          classes,
          workload,
          nodeOf: simulatePolicy(prepared, policy).records.node,
          fromMs: place * lengthMs,
          toMs: (place + 1) * lengthMs,
          evaluations: EVALUATIONS,
          stepTokenBudget: scenario.step_token_budget,
          seed,
        });
        return { fromS: (place * lengthMs) / 1000, policy, given, found, kept, wallMs: performance.now() - startMs };
      });
    },
    bound(): BoundResult {
      return boundOf(prepared.plan, prepared.classes, prepared.workload, { warmUpMs: warmUpS * 1000 });
    },
  };
}
