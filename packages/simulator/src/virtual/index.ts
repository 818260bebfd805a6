/** Routing in virtual time: what `zml simulate` and the routing bench run. */

export { FLEETS, type FleetName, type FleetPlan, type NodeGroup, type PlannedNode, planFleet } from "./fleet-plan.ts";
export { type Assignment, searchHindsight } from "./hindsight.ts";
export { POLICY_NAMES, type PolicyName, policyOptions } from "./policies.ts";
export { type PredictionJson, predictionsOf } from "./prediction-report.ts";
export { createRecords, type Records, SERVED } from "./records.ts";
export { type ReportJson, regretOf, type StretchJson } from "./report.ts";
export { isWithinTargets, type RequestClass, requestClasses } from "./request-classes.ts";
export { REQUEST_OVERHEAD_MS } from "./routers/predict.ts";
export { type PreparedScenario, prepareScenario, runPolicy, simulatePolicy } from "./run-scenario.ts";
export { parseScenario, type Scenario, ScenarioError } from "./scenario.ts";
export { simulate } from "./simulate.ts";
export { MAX_SEQUENCES, VirtualGateway } from "./virtual-gateway.ts";
export { createWorkload, type Workload } from "./workload.ts";
export { presetSources, WORKLOADS, type WorkloadName } from "./workload-presets.ts";
