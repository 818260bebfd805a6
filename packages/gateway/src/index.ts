/** The gateway as a library: what tests, the demo and benches start in their own process. */

export type { DecisionJson } from "@zml/protocol/admin";
export { formatProblems } from "./config/config-problem.ts";
export { type ReadConfigResult, readConfig } from "./config/read-config.ts";
export type { FleetReportJson, ModelReportJson, NodeReportJson, NodeStateName } from "./control/fleet-report.ts";
export { startGateway } from "./control/gateway.ts";
export type { Gateway, GatewayOptions, GatewayStats } from "./control/gateway-interface.ts";
export type { GatewayLog } from "./control/gateway-log.ts";
export type { ReloadResult } from "./control/reload.ts";
export { StartError } from "./control/start-error.ts";
export { explainText } from "./evidence/explain.ts";
