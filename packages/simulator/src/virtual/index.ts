/** Routing in virtual time: what `zml simulate` and the routing bench run. */

export { FLEETS, type FleetName, type FleetPlan, type PlannedNode } from "./fleet-plan.ts";
export { type Assignment, searchHindsight } from "./hindsight.ts";
export { POLICY_NAMES, type PolicyName } from "./policies.ts";
export { type ReportJson, regretOf, type StretchJson } from "./report.ts";
export type { RequestClass } from "./request-classes.ts";
export { type PreparedScenario, prepareScenario, runPolicy, simulatePolicy } from "./run-scenario.ts";
export { parseScenario, type Scenario, ScenarioError } from "./scenario.ts";
export { MAX_SEQUENCES } from "./virtual-gateway.ts";
export type { Workload } from "./workload.ts";
export { WORKLOADS, type WorkloadName } from "./workload-presets.ts";
