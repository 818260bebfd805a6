export * from "./complete-config.ts";
export * from "./config.ts";
export {
  formatListen,
  isLoopback,
  isModelName,
  type ListenAddress,
  MAX_DURATION_MS,
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
} from "./config-issues.ts";
export * from "./errors.ts";
export * from "./fixed-names.ts";
export { type MetricSelector, parseMetricSelector } from "./metric-selector.ts";
export { whyNoNodeAddress } from "./node-address.ts";
export type { CustomConfig, CustomMetric, GpuExporterConfig } from "./node-sources-config.ts";
export {
  FEED_KEYS_OF_PROVIDERS,
  type FeedConfig,
  formatPriceReference,
  type InstanceTypeConfig,
  MARKETS,
  type Market,
  PRICE_PROVIDERS,
  type PriceProvider,
  type PriceProviderRules,
  parsePriceReference,
} from "./price-config.ts";
