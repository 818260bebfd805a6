import type { Endpoint } from "@zml/engine/reasons";
import type { z } from "zod";
import { type mintedKeySchema, NO_USAGE_LIMITS } from "./account-config.ts";
import type { ConfigFile, EngineName } from "./config.ts";
import { type ListenAddress, parseListen } from "./config-fields.ts";
import { API_ORIGIN, completeDiscovery, type DiscoveryConfig, FILE_ORIGIN } from "./discovery-config.ts";
import { DEFAULT_ACCOUNT } from "./fixed-names.ts";
import type { LogLevel } from "./log-levels.ts";
import {
  type CustomConfig,
  completeCustom,
  completeGpuExporter,
  type GpuExporterConfig,
} from "./node-sources-config.ts";
import { completeFeed, type FeedConfig } from "./price-config.ts";
import { completeNodeTls, completeServerTls, type NodeTlsConfig, type ServerTlsConfig } from "./transport-config.ts";

/** `usd_per_gpu_hour` → `usdPerGpuHour`. */
type CamelKey<S extends string> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelKey<Tail>>}` : S;

/** A shape of the wire with the names that code uses. */
export type Camelized<T> = T extends readonly (infer U)[]
  ? readonly Camelized<U>[]
  : T extends object
    ? { readonly [K in keyof T as K extends string ? CamelKey<K> : K]: Camelized<T[K]> }
    : T;

export type HealthConfig = Camelized<ConfigFile["health"]>;
export type LimitsConfig = Camelized<ConfigFile["limits"]>;
export type TimeoutsConfig = Camelized<ConfigFile["timeouts"]>;
export type FailoverConfig = Camelized<ConfigFile["failover"]>;
export type Http2Config = Camelized<ConfigFile["data"]["http2"]>;
export type StoreConfig = Camelized<ConfigFile["store"]>;
export type EvidenceConfig = Omit<Camelized<ConfigFile["evidence"]>, "keep"> & {
  /** Null: none are kept. */
  readonly keep: { readonly days: number; readonly bytes: number } | null;
};
export type TelemetryConfig = Omit<Camelized<ConfigFile["telemetry"]>, "traces" | "log"> & {
  readonly traces: TracesConfig;
  /** `level` null: what the command line says. */
  readonly log: Omit<Camelized<ConfigFile["telemetry"]["log"]>, "level"> & { readonly level: LogLevel | null };
};
/** `endpoint` null: nothing is traced. */
export type TracesConfig = Omit<Camelized<ConfigFile["telemetry"]["traces"]>, "endpoint"> & {
  readonly endpoint: string | null;
};
export type AccessLogConfig = TelemetryConfig["accessLog"];
/** `valueEnv` null: the gateway made the key, and its hash is in the store. */
export type KeyConfig = Omit<Camelized<ConfigFile["keys"][number]>, "valueEnv"> & { readonly valueEnv: string | null };
export type UsageLimits = KeyConfig["limits"];
export type PolicyConfig = Camelized<ConfigFile["policies"][number]>;

/** An account with every default applied. */
export interface AccountConfig {
  readonly name: string;
  readonly displayName: string;
  /** `null`: the built-in policy. */
  readonly defaultPolicy: string | null;
  readonly limits: UsageLimits;
}

/** A valid key that the gateway made, with its defaults. */
export type MintedKey = z.output<typeof mintedKeySchema>;

/** A model on a node, under the caller's name and the node's. */
export interface ServedModel {
  readonly name: string;
  readonly upstreamModel: string;
  /** What the file states about it, which wins over what the node tells. NaN, null: it states nothing. */
  readonly contextTokens: number;
  readonly readsImages: boolean | null;
  readonly endpoints: readonly Endpoint[] | null;
  /** The model that it is an adapter (LoRA) of, by the caller's name. */
  readonly adapterOf: string | null;
}

export interface PortConfig {
  readonly listen: ListenAddress;
  readonly allowUnauthenticated: boolean;
}

/** A node with every default and override applied. */
export interface NodeConfig {
  readonly id: string;
  /** `file`, or the name of the source that found it. */
  readonly origin: string;
  /** Without a slash at its end, so that upstream paths are appended as they are. */
  readonly url: string;
  readonly family: string;
  readonly account: string;
  /** Accounts that it serves beside its own; `*`: all. */
  readonly sharedWith: readonly string[];
  readonly displayName: string;
  /** `null`: to be detected. */
  readonly engine: EngineName | null;
  readonly custom: CustomConfig;
  /** `null`: on the node's own port. */
  readonly metricsUrl: string | null;
  readonly gpuExporter: GpuExporterConfig | null;
  /** Its name in TLS and in the host field; `null`: the host of its url. */
  readonly serverName: string | null;
  readonly allowLinkLocal: boolean;
  readonly gpus: number;
  /** What its engine has to be built for, lower case; `null`: not stated. For `zml nodes check`. */
  readonly platform: string | null;
  /** As stated; NaN: unknown. With a `priceKey` it counts until the feed has a price. */
  readonly usdPerGpuHour: number;
  /** Reference into the provider cost table; `null`: none. */
  readonly priceKey: string | null;
  /** `null`: what the node reports. */
  readonly models: readonly ServedModel[] | null;
  /** `null`: from the engine. */
  readonly maxInFlight: number | null;
  readonly maxConnections: number;
  readonly keepAliveMs: number;
  readonly maxConnectionAgeMs: number;
  /** The name of the variable; the key itself is in the secrets that come with the configuration. */
  readonly apiKeyEnv: string | null;
  readonly httpVersion: "1.1" | "2";
  readonly http2: Camelized<ConfigFile["nodes"][number]["http2"]>;
  /** `null`: the system's authorities, the host's name. */
  readonly tls: NodeTlsConfig | null;
  readonly timeouts: TimeoutsConfig;
  readonly health: HealthConfig;
  readonly failover: { readonly cooldownMs: number; readonly cooldownMaxMs: number };
}

export interface ModelConfig {
  readonly name: string;
  readonly account: string;
  readonly displayName: string;
  /** `null`: the account's default policy. */
  readonly policy: string | null;
}

/** The admin port, with the limits of its requests. */
export interface AdminPortConfig extends PortConfig {
  readonly bodyBytes: number;
  readonly requestMs: number;
  readonly connections: number;
}

/** The data port, with the limits of its connections. */
export interface DataPortConfig extends PortConfig {
  readonly headMs: number;
  readonly bodyMs: number;
  readonly keepAliveMs: number;
  /** Origins whose pages may read answers; `*` is any. */
  readonly corsOrigins: readonly string[];
  /** Open connections of callers, in all and of one address. */
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  /** Addresses and networks without a limit of their own. */
  readonly trustedProxies: readonly string[];
  /** `null`: clear text. */
  readonly tls: ServerTlsConfig | null;
  readonly http2: Http2Config;
}

/** The configuration as the product uses it: complete, frozen by type, free of secrets. */
export interface Config {
  readonly data: DataPortConfig;
  readonly admin: AdminPortConfig;
  readonly workers: number;
  readonly health: HealthConfig;
  readonly limits: LimitsConfig;
  readonly timeouts: TimeoutsConfig;
  readonly failover: FailoverConfig;
  readonly store: StoreConfig;
  readonly evidence: EvidenceConfig;
  readonly telemetry: TelemetryConfig;
  readonly prices: { readonly feeds: readonly FeedConfig[] };
  readonly discovery: DiscoveryConfig;
  readonly keys: readonly KeyConfig[];
  /** Always with the account `default`. */
  readonly accounts: readonly AccountConfig[];
  readonly nodes: readonly NodeConfig[];
  readonly policies: readonly PolicyConfig[];
  readonly models: readonly ModelConfig[];
}

/** Renames the keys of a value of the wire, all the way down. Values are untouched; what is no plain value is kept. */
export function camelize<T>(value: T): Camelized<T>;
export function camelize(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => camelize(item));
  if (typeof value !== "object" || value === null) return value;
  const renamed: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) renamed[camelKey(key)] = camelize(item);
  return renamed;
}

/** `usd_per_gpu_hour` → `usdPerGpuHour`. */
export function camelKey(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * The complete configuration of a valid file.
 * @param file what `configFileSchema` gave
 * @param cores processor cores, for the default of `workers`
 * @param mintedKeys keys beside those of the file
 * @param nodesOfFile the nodes after so many are the admin API's
 */
export function completeConfig(
  file: ConfigFile,
  {
    cores,
    mintedKeys = [],
    nodesOfFile = file.nodes.length,
  }: { cores: number; mintedKeys?: readonly MintedKey[]; nodesOfFile?: number },
): Config {
  const timeouts: TimeoutsConfig = camelize(file.timeouts);
  const health: HealthConfig = camelize(file.health);
  const failover: FailoverConfig = camelize(file.failover);
  const accounts: AccountConfig[] = file.accounts.map((account) => ({
    name: account.name,
    displayName: account.display_name ?? account.name,
    defaultPolicy: account.default_policy,
    limits: camelize(account.limits),
  }));
  if (!accounts.some((account) => account.name === DEFAULT_ACCOUNT)) {
    accounts.unshift({
      name: DEFAULT_ACCOUNT,
      displayName: DEFAULT_ACCOUNT,
      defaultPolicy: null,
      limits: camelize(NO_USAGE_LIMITS),
    });
  }
  return {
    data: {
      ...port(file.data),
      headMs: file.data.head_ms,
      bodyMs: file.data.body_ms,
      keepAliveMs: file.data.keep_alive_ms,
      corsOrigins: file.data.cors_origins,
      maxConnections: file.data.max_connections,
      maxConnectionsPerAddress: file.data.max_connections_per_address,
      trustedProxies: file.data.trusted_proxies,
      tls: file.data.tls === undefined ? null : completeServerTls(file.data.tls),
      http2: camelize(file.data.http2),
    },
    admin: {
      ...port(file.admin),
      bodyBytes: file.admin.body_bytes,
      requestMs: file.admin.request_ms,
      connections: file.admin.connections,
    },
    workers: file.workers ?? Math.max(1, cores - 1),
    health,
    limits: camelize(file.limits),
    timeouts,
    failover,
    store: camelize(file.store),
    evidence: { ...camelize(file.evidence), keep: file.evidence.keep ?? null },
    telemetry: completeTelemetry(file.telemetry),
    prices: { feeds: file.prices.feeds.map(completeFeed) },
    discovery: completeDiscovery(file.discovery),
    keys: [
      ...file.keys.map((key) => camelize(key)),
      ...mintedKeys.map((key): KeyConfig => ({ ...camelize(key), valueEnv: null })),
    ],
    accounts,
    nodes: completeNodes(file.nodes, { timeouts, health, failover }, nodesOfFile),
    policies: file.policies.map((policy) => camelize(policy)),
    models: file.models.map((model) => ({
      name: model.name,
      account: model.account,
      displayName: model.display_name ?? model.name,
      policy: model.policy,
    })),
  };
}

function completeTelemetry({ traces, log, ...others }: ConfigFile["telemetry"]): TelemetryConfig {
  return {
    ...camelize(others),
    traces: { ...camelize(traces), endpoint: traces.endpoint ?? null },
    log: { ...camelize(log), level: log.level ?? null },
  };
}

function port(section: Pick<ConfigFile["admin"], "listen" | "allow_unauthenticated">): PortConfig {
  const listen = parseListen(section.listen);
  if (listen === null) throw new Error(`listen address passed the schema but can't be read: ${section.listen}`);
  return { listen, allowUnauthenticated: section.allow_unauthenticated };
}

type NodeFile = ConfigFile["nodes"][number];
type SharedByNodes = Pick<Config, "timeouts" | "health" | "failover">;

/** The last form of a node, by the very entry that it was made of: what did not change is the same object. */
const COMPLETED = new WeakMap<NodeFile, { readonly shared: string; readonly node: NodeConfig }>();

function completeNodes(nodes: readonly NodeFile[], shared: SharedByNodes, ofFile: number): NodeConfig[] {
  const text = JSON.stringify(shared);
  return nodes.map((entry, index) => {
    const origin = index < ofFile ? FILE_ORIGIN : API_ORIGIN;
    const known = COMPLETED.get(entry);
    if (known !== undefined && known.shared === text && known.node.origin === origin) return known.node;
    const node = completeNode(entry, shared, origin);
    COMPLETED.set(entry, { shared: text, node });
    return node;
  });
}

/**
 * A valid node with every default and override applied.
 * @param shared sections that it may override
 * @param origin `file`, or the source that found it
 */
export function completeNode(
  node: ConfigFile["nodes"][number],
  shared: Pick<Config, "timeouts" | "health" | "failover">,
  origin: string,
): NodeConfig {
  return {
    id: node.id,
    origin,
    url: node.url.replace(/\/+$/, ""),
    family: node.family,
    account: node.account,
    sharedWith: node.shared_with,
    displayName: node.display_name ?? node.id,
    engine: node.engine ?? null,
    custom: completeCustom(node.custom),
    metricsUrl: node.metrics_url ?? null,
    gpuExporter: node.gpu_exporter === undefined ? null : completeGpuExporter(node.gpu_exporter),
    serverName: node.server_name ?? null,
    allowLinkLocal: node.allow_link_local,
    gpus: node.gpus,
    platform: node.platform?.toLowerCase() ?? null,
    usdPerGpuHour: node.cost?.usd_per_gpu_hour ?? Number.NaN,
    priceKey: node.cost?.price ?? null,
    models: node.models === undefined ? null : node.models.map(servedModel),
    maxInFlight: node.max_in_flight ?? null,
    maxConnections: node.max_connections,
    keepAliveMs: node.keep_alive_ms,
    maxConnectionAgeMs: node.max_connection_age_ms,
    apiKeyEnv: node.api_key_env ?? null,
    httpVersion: node.http_version,
    http2: camelize(node.http2),
    tls: node.tls === undefined ? null : completeNodeTls(node.tls),
    timeouts: overridden(shared.timeouts, node.timeouts),
    health: overridden(shared.health, node.health),
    failover: {
      cooldownMs: node.failover?.cooldown_ms ?? shared.failover.cooldownMs,
      cooldownMaxMs: shared.failover.cooldownMaxMs,
    },
  };
}

function servedModel(given: NonNullable<ConfigFile["nodes"][number]["models"]>[number]): ServedModel {
  const model = typeof given === "string" ? { name: given } : given;
  return {
    name: model.name,
    upstreamModel: model.upstream_model ?? model.name,
    contextTokens: model.context_tokens ?? Number.NaN,
    readsImages: model.images ?? null,
    endpoints: model.endpoints ?? null,
    adapterOf: model.adapter_of ?? null,
  };
}

/** `base` with what the override sets; `null` is a value (no limit), an absent key is none. */
function overridden<T extends object>(base: T, override: Record<string, unknown> | undefined): T {
  if (override === undefined) return base;
  const set = Object.entries(override).filter(([, value]) => value !== undefined);
  return { ...base, ...Object.fromEntries(set.map(([key, value]) => [camelKey(key), value])) };
}
