/** Where prices can come from, and what each provider needs to be asked. */

/** How capacity is bought. */
export const MARKETS = ["on_demand", "spot"] as const;
/** How capacity is bought. */
export type Market = (typeof MARKETS)[number];

/** The keys of a feed that belong to some providers only. */
export const FEED_KEYS_OF_PROVIDERS = [
  "regions",
  "instance_types",
  "api_key_env",
  "api_key_file",
  "profile",
  "credentials_file",
  "endpoint",
  "path",
  "url",
] as const;
type FeedKey = (typeof FEED_KEYS_OF_PROVIDERS)[number];

/** What a provider needs and takes, beyond the keys of every feed. */
export interface PriceProviderRules {
  /** Keys of the feed without which it can't ask. */
  readonly needs: readonly FeedKey[];
  readonly takes: readonly FeedKey[];
  /** The only markets that it can price. */
  readonly markets: readonly Market[];
  /** Keys without which an entry of `instance_types` can't be priced. */
  readonly needsOfType: readonly ("gpus" | "gpu_sku")[];
  /** Time between two fetches unless the feed says otherwise, ms. */
  readonly intervalMs: number;
}

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const KEY: readonly FeedKey[] = ["api_key_env", "api_key_file"];

/** The providers. Spot markets move within minutes, lists within weeks: hence the intervals. */
export const PRICE_PROVIDERS = {
  aws_spot: {
    needs: ["regions", "instance_types"],
    takes: ["profile", "endpoint"],
    markets: ["spot"],
    needsOfType: ["gpus"],
    intervalMs: 5 * MINUTE_MS,
  },
  azure_retail: {
    needs: ["regions", "instance_types"],
    takes: ["endpoint"],
    markets: MARKETS,
    needsOfType: ["gpus"],
    intervalMs: DAY_MS / 4,
  },
  gcp_catalog: {
    needs: ["regions", "instance_types"],
    takes: [...KEY, "credentials_file", "endpoint"],
    markets: MARKETS,
    needsOfType: ["gpus", "gpu_sku"],
    intervalMs: DAY_MS / 4,
  },
  vastai: {
    needs: ["instance_types"],
    takes: ["regions", ...KEY, "endpoint"],
    markets: MARKETS,
    needsOfType: [],
    intervalMs: 5 * MINUTE_MS,
  },
  runpod: {
    needs: [],
    takes: ["instance_types", ...KEY, "endpoint"],
    markets: ["on_demand"],
    needsOfType: [],
    intervalMs: 5 * MINUTE_MS,
  },
  lambda: {
    needs: [],
    takes: ["regions", "instance_types", ...KEY, "endpoint"],
    markets: ["on_demand"],
    needsOfType: [],
    intervalMs: DAY_MS / 4,
  },
  file: {
    needs: ["path"],
    takes: ["regions", "instance_types"],
    markets: MARKETS,
    needsOfType: [],
    intervalMs: MINUTE_MS,
  },
  url: {
    needs: ["url"],
    takes: ["regions", "instance_types", ...KEY],
    markets: MARKETS,
    needsOfType: [],
    intervalMs: 60 * MINUTE_MS,
  },
} as const satisfies Record<string, PriceProviderRules>;

/** A source of prices that has a feed. */
export type PriceProvider = keyof typeof PRICE_PROVIDERS;
