export { ALL_ACCOUNTS, SCOPES, type Scope } from "./account-config.ts";
export * from "./complete-config.ts";
export * from "./config.ts";
export {
  formatListen,
  isLoopback,
  isModelName,
  type ListenAddress,
  MAX_DURATION_MS,
  MAX_GPU_HOUR_USD,
  NAME_PATTERN,
  parseListen,
} from "./config-fields.ts";
export {
  type ConfigIssue,
  type ConfigPath,
  formatPath,
  keysAt,
  nearestName,
  parseConfigFile,
  parseMintedKey,
} from "./config-issues.ts";
export {
  API_ORIGIN,
  type DiscoveryConfig,
  FILE_ORIGIN,
  type NodeTemplate,
  SOURCE_KEYS_OF_KINDS,
  SOURCE_KINDS,
  type SourceConfig,
  type SourceKind,
  type SourceRules,
  TARGET_FIELDS,
  type TargetField,
} from "./discovery-config.ts";
export * from "./errors.ts";
export * from "./fixed-names.ts";
export * from "./fleet-words.ts";
export { LOG_LEVELS, type LogLevel } from "./log-levels.ts";
export { type MetricSelector, parseMetricSelector } from "./metric-selector.ts";
export type { CustomConfig, CustomMetric, GpuExporterConfig } from "./node-sources-config.ts";
export * from "./objects.ts";
export {
  type FeedConfig,
  formatPriceReference,
  type InstanceTypeConfig,
  parsePriceReference,
} from "./price-config.ts";
export * from "./price-providers.ts";
export { SAMPLERS, type SamplerName, whyNotReceiverUrl } from "./telemetry-config.ts";
export { completeNodeTls, type NodeTlsConfig, type ServerTlsConfig } from "./transport-config.ts";
