import { z } from "zod";
import * as field from "./config-fields.ts";
import { whyNoNodeAddress } from "./node-address.ts";
import { MARKETS, type Market, PRICE_PROVIDERS, type PriceProvider } from "./price-providers.ts";

/**
 * Prices in the configuration: the section `prices` with its feeds, and a node's `cost`. Which keys belong to which
 * provider stands in `PRICE_PROVIDERS`; the gateway checks it beside the line numbers.
 */

/** One part of a price reference: no slash, no control character, no blank at its ends. */
const PART = /^(?!\s)[^/\p{Cc}]{1,128}(?<!\s)$/u;

function part(what: string) {
  return z.string({ error: (issue) => `expected ${what}, got ${field.shown(issue.input)}` }).regex(PART, {
    error: (issue) => `expected ${what} of 1 to 128 characters without a slash, got ${field.shown(issue.input)}`,
  });
}

const REFERENCE_SHAPE =
  "expected FEED/REGION/INSTANCE_TYPE/MARKET such as aws/us-east-1/p5.48xlarge/spot (market: on_demand or spot)";

/** What a node's `cost.price` names. */
export interface PriceReference {
  readonly feed: string;
  readonly region: string;
  readonly instanceType: string;
  readonly market: Market;
}

/** The parts of `FEED/REGION/INSTANCE_TYPE/MARKET`, or `null` if it is none. */
export function parsePriceReference(text: string): PriceReference | null {
  const parts = text.split("/");
  const [feed, region, instanceType, last] = parts;
  const market = MARKETS.find((name) => name === last);
  if (parts.length !== 4 || market === undefined) return null;
  if (feed === undefined || region === undefined || instanceType === undefined) return null;
  if (![feed, region, instanceType].every((one) => PART.test(one))) return null;
  return { feed, region, instanceType, market };
}

/** The reference as it is written. */
export function formatPriceReference({ feed, region, instanceType, market }: PriceReference): string {
  return `${feed}/${region}/${instanceType}/${market}`;
}

/** A node's `cost`. */
export const costSchema = z
  .strictObject(
    {
      usd_per_gpu_hour: field
        .decimal("a price in USD per GPU-hour", { min: 0, max: 100_000 })
        .optional()
        .describe("USD per GPU-hour. Beside price: what counts until the feed's first good price."),
      price: z
        .string({ error: (issue) => `${REFERENCE_SHAPE}, got ${field.shown(issue.input)}` })
        .refine((text) => parsePriceReference(text) !== null, {
          error: (issue) => `${REFERENCE_SHAPE}, got ${field.shown(issue.input)}`,
        })
        .optional()
        .describe("FEED/REGION/INSTANCE_TYPE/MARKET: a price that a feed keeps."),
    },
    field.mapping,
  )
  .refine((cost) => cost.usd_per_gpu_hour !== undefined || cost.price !== undefined, {
    error: "expected usd_per_gpu_hour or price, got neither",
  });

const instanceTypeSchema = z.union(
  [
    part("an instance type"),
    z.strictObject(
      {
        name: part("an instance type").describe("As the provider writes it, upper and lower case included."),
        gpus: field
          .count({ min: 1, max: 65_536 })
          .optional()
          .describe("GPUs of one instance, where the provider doesn't say."),
        gpu_sku: field.text("the text of a SKU").optional().describe("gcp_catalog: such as Nvidia H100 80GB GPU."),
        cpu_sku: field.text("the text of a SKU").optional().describe("gcp_catalog: such as A3 Instance Core."),
        vcpus: field.count({ min: 1, max: 65_536 }).optional().describe("gcp_catalog: vCPUs of one instance."),
        ram_sku: field.text("the text of a SKU").optional().describe("gcp_catalog: such as A3 Instance Ram."),
        memory_gib: field.count({ min: 1, max: 1_000_000 }).optional().describe("gcp_catalog: memory of one instance."),
        gpu_only: field
          .flag()
          .default(false)
          .describe("gcp_catalog: leave the price of vCPUs and memory out, on purpose."),
      },
      field.mapping,
    ),
  ],
  {
    error: (issue) => `expected an instance type or { name: p5.48xlarge, gpus: 8 }, got ${field.shown(issue.input)}`,
  },
);

/** Why a text is not the address of a price interface, or `null`. Never repeats credentials or a query. */
function whyNotAddress(value: string): string | null {
  if (!URL.canParse(value)) return "expected a URL such as https://prices.example/list.csv";
  const url = new URL(value);
  if (url.username !== "" || url.password !== "") return "the URL holds credentials: name a variable in api_key_env";
  if (url.protocol !== "http:" && url.protocol !== "https:") return "expected a URL with http:// or https://";
  if (value.includes("#")) return "the URL has a fragment: take it out";
  return whyNoNodeAddress(url.hostname) === null ? null : "the URL leads to a metadata or link-local address";
}

function address() {
  return z
    .string({ error: (issue) => `expected a URL, got ${typeof issue.input === "string" ? "a text" : "no text"}` })
    .refine((value) => whyNotAddress(value) === null, {
      error: (issue) => (typeof issue.input === "string" ? (whyNotAddress(issue.input) ?? "wrong URL") : "wrong URL"),
    });
}

const PROVIDER_NAMES = Object.keys(PRICE_PROVIDERS) as [PriceProvider, ...PriceProvider[]];

export const feedSchema = z.strictObject(
  {
    name: part("a feed name").describe("The first part of price references."),
    provider: field.oneOf(PROVIDER_NAMES).describe("Where the prices come from."),
    cloud_account: field
      .name("a cloud account")
      .default("default")
      .describe("Label of the account at the provider, for people: one feed per account."),
    regions: z
      .array(part("a region"), field.list)
      .min(1, { error: "name at least one region" })
      .optional()
      .describe("Regions to ask for, as the provider writes them."),
    instance_types: z
      .array(instanceTypeSchema, field.list)
      .min(1, { error: "name at least one instance type" })
      .optional()
      .describe("Instance types to ask for."),
    interval_ms: field
      // one fetch costs a provider's rate limit and some of this thread's time
      .durationMs({ min: 100 })
      .optional()
      .describe("Time between two fetches. Default: by provider."),
    timeout_ms: field
      .durationMs({ max: 600_000 })
      .default(30_000)
      .describe("A fetch, with all its pages, that is not over after this long has failed."),
    max_change: field
      .decimal("a factor", { min: 1, max: 1_000_000 })
      .default(100)
      .describe("A price that moves by more than this factor counts when a second fetch says it again."),
    stale_after_ms: field
      .durationMs({ max: 30 * 86_400_000 })
      .optional()
      .describe("An unconfirmed price this old raises an alarm. Default: three intervals."),
    api_key_env: field.envName().optional().describe("The environment variable that holds the provider's key."),
    api_key_file: field.text("a path").optional().describe("A file that holds it, read at each fetch."),
    profile: field.text("a profile").optional().describe("aws_spot: profile of the shared AWS configuration."),
    credentials_file: field
      .text("a path")
      .optional()
      .describe("gcp_catalog: a credentials file instead of the application default credentials."),
    endpoint: address().optional().describe("Base URL instead of the provider's own, for a proxy."),
    path: field.text("a path").optional().describe("file: a CSV or JSON list, beside the configuration file."),
    url: address().optional().describe("url: address of a CSV or JSON list."),
  },
  field.mapping,
);

export const pricesSchema = z
  .strictObject({ feeds: z.array(feedSchema, field.list).default([]).describe("Sources of prices.") }, field.mapping)
  .prefault({})
  .describe("The provider cost table: feeds that keep prices up to date.");

/** A feed as it stands in the file, defaults applied. */
export type FeedFile = z.output<typeof feedSchema>;

/** An instance type to ask a provider for. */
export interface InstanceTypeConfig {
  readonly name: string;
  /** `null`: the provider says. */
  readonly gpus: number | null;
  readonly gpuSku: string | null;
  readonly cpuSku: string | null;
  readonly vcpus: number | null;
  readonly ramSku: string | null;
  readonly memoryGib: number | null;
}

/** A feed with every default applied. Secrets come beside the configuration. */
export interface FeedConfig {
  readonly name: string;
  readonly provider: PriceProvider;
  readonly cloudAccount: string;
  /** Empty: all. */
  readonly regions: readonly string[];
  /** Empty: all. */
  readonly instanceTypes: readonly InstanceTypeConfig[];
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly maxChange: number;
  readonly staleAfterMs: number;
  readonly apiKeyEnv: string | null;
  readonly apiKeyFile: string | null;
  readonly profile: string | null;
  readonly credentialsFile: string | null;
  /** Without a slash at its end. */
  readonly endpoint: string | null;
  readonly path: string | null;
  readonly url: string | null;
}

/** The complete form of a valid feed. */
export function completeFeed(feed: FeedFile): FeedConfig {
  const intervalMs = feed.interval_ms ?? PRICE_PROVIDERS[feed.provider].intervalMs;
  return {
    name: feed.name,
    provider: feed.provider,
    cloudAccount: feed.cloud_account,
    regions: feed.regions ?? [],
    instanceTypes: (feed.instance_types ?? []).map(completeType),
    intervalMs,
    timeoutMs: feed.timeout_ms,
    maxChange: feed.max_change,
    staleAfterMs: feed.stale_after_ms ?? 3 * intervalMs,
    apiKeyEnv: feed.api_key_env ?? null,
    apiKeyFile: feed.api_key_file ?? null,
    profile: feed.profile ?? null,
    credentialsFile: feed.credentials_file ?? null,
    endpoint: feed.endpoint?.replace(/\/+$/, "") ?? null,
    path: feed.path ?? null,
    url: feed.url ?? null,
  };
}

function completeType(type: NonNullable<FeedFile["instance_types"]>[number]): InstanceTypeConfig {
  const stated = typeof type === "string" ? { name: type } : type;
  return {
    name: stated.name,
    gpus: "gpus" in stated ? (stated.gpus ?? null) : null,
    gpuSku: "gpu_sku" in stated ? (stated.gpu_sku ?? null) : null,
    cpuSku: "cpu_sku" in stated ? (stated.cpu_sku ?? null) : null,
    vcpus: "vcpus" in stated ? (stated.vcpus ?? null) : null,
    ramSku: "ram_sku" in stated ? (stated.ram_sku ?? null) : null,
    memoryGib: "memory_gib" in stated ? (stated.memory_gib ?? null) : null,
  };
}
