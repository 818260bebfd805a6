/** The admin API: what its routes take and answer. Loaded when the first admin request comes. */

export * from "./access.ts";
export * from "./backtest.ts";
export * from "./changes.ts";
export * from "./decisions.ts";
export * from "./fields.ts";
export * from "./fleet.ts";
export * from "./live.ts";
export * from "./money.ts";
export * from "./object-routes.ts";
export * from "./objects.ts";
export * from "./problem.ts";
export * from "./problem-codes.ts";
export * from "./route-contract.ts";
export * from "./routes.ts";
export * from "./sources.ts";
export * from "./what-if.ts";
