export { type ConfigProblem, formatProblems } from "./config-problem.ts";
export { type Change, type ConfigDiff, diffConfig, keepsRow, type ListDiff, type LiveSection } from "./diff-config.ts";
export { type ReadConfigOptions, type ReadConfigResult, readConfig } from "./read-config.ts";
export type { ConfigSecrets, Environment } from "./resolve-secrets.ts";
export { Secret } from "./secret.ts";
