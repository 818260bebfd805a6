import {
  type ConfigIssue,
  FEED_KEYS_OF_PROVIDERS,
  isLoopback,
  nearestName,
  PRICE_PROVIDERS,
  type PriceProvider,
  type PriceProviderRules,
  parsePriceReference,
} from "@zml/protocol";
import { rawTemplates } from "./check-discovery.ts";
import { checkKeysOfKind } from "./keys-of-kind.ts";
import { entries, own, type RawEntry, type RawFile, section, textOf } from "./raw-file.ts";

/** The rules about price feeds and the nodes that name them. Duplicate feed names are found with the other duplicates. */
export function checkPrices(file: RawFile): { errors: ConfigIssue[]; warnings: ConfigIssue[] } {
  const feeds = rawFeeds(file);
  const nodes = [...file.nodes, ...rawTemplates(file)];
  return {
    errors: [...feeds.flatMap(checkFeed), ...nodes.flatMap((node) => checkReference(node, feeds))],
    warnings: [...feeds.flatMap(keyInTheClear), ...nodes.flatMap((node) => uncountedGpus(node, feeds))],
  };
}

/** The feeds as far as they are mappings. */
export function rawFeeds(file: RawFile): RawEntry[] {
  return entries(section(file.top, "prices"), "feeds");
}

function rulesOf(feed: RawEntry): (PriceProviderRules & { readonly provider: PriceProvider }) | undefined {
  const provider = textOf(feed, "provider");
  if (provider === undefined || !Object.hasOwn(PRICE_PROVIDERS, provider)) return undefined;
  const name = provider as PriceProvider;
  return { ...PRICE_PROVIDERS[name], provider: name };
}

/** Which keys a provider needs and takes. */
function checkFeed(feed: RawEntry): ConfigIssue[] {
  const rules = rulesOf(feed);
  if (rules === undefined) return [];
  const issues = checkKeysOfKind(feed, {
    ...rules,
    keys: FEED_KEYS_OF_PROVIDERS,
    kind: rules.provider,
    what: "a feed",
  });
  if (own(feed, "api_key_env") !== undefined && own(feed, "api_key_file") !== undefined) {
    const message = "api_key_env and api_key_file both name the key";
    issues.push({ path: [...feed.path, "api_key_file"], at: "key", message, hint: "keep one of them" });
  }
  return [...issues, ...checkTypes(feed, rules)];
}

const GCP_PARTS = ["cpu_sku", "vcpus", "ram_sku", "memory_gib"] as const;

/** What an instance type must say, since its provider doesn't. */
function checkTypes(feed: RawEntry, { provider, needsOfType }: PriceProviderRules & { provider: string }) {
  const types = own(feed, "instance_types");
  if (!Array.isArray(types)) return [];
  const mappings = new Map(entries(feed, "instance_types").map((entry) => [entry.path.at(-1), entry]));
  return types.flatMap((type: unknown, index): ConfigIssue[] => {
    const path = [...feed.path, "instance_types", index];
    const entry = mappings.get(index);
    if (entry === undefined) {
      if (typeof type !== "string" || needsOfType.length === 0) return [];
      const example = needsOfType.map((key) => `${key}: …`).join(", ");
      const message = `${provider} doesn't say how many GPUs ${JSON.stringify(type)} has`;
      return [{ path, at: "value", message, hint: `write { name: ${type}, ${example} }` }];
    }
    const missing = needsOfType.filter((key) => own(entry, key) === undefined);
    const issues = missing.map((key): ConfigIssue => {
      return { path, at: "value", message: `an instance type of ${provider} needs ${key}`, hint: null };
    });
    if (provider !== "gcp_catalog" || own(entry, "gpu_only") === true) return issues;
    const absent = GCP_PARTS.filter((key) => own(entry, key) === undefined);
    if (absent.length > 0) {
      issues.push({
        path,
        at: "value",
        message: `the GPU's SKU leaves vCPUs and memory out: ${absent.join(", ")} are missing`,
        hint: "add them, or gpu_only: true if that is meant",
      });
    }
    return issues;
  });
}

/** The key of a feed that goes to another machine without TLS. */
function keyInTheClear(feed: RawEntry): ConfigIssue[] {
  const hasKey = own(feed, "api_key_env") !== undefined || own(feed, "api_key_file") !== undefined;
  return (["endpoint", "url"] as const).flatMap((key): ConfigIssue[] => {
    const text = textOf(feed, key);
    if (!hasKey || text === undefined || !URL.canParse(text)) return [];
    const { protocol, hostname } = new URL(text);
    if (protocol !== "http:" || isLoopback(hostname.replace(/^\[|\]$/g, ""))) return [];
    const message = "the feed's key goes over the network in the clear";
    return [{ path: [...feed.path, key], at: "value", message, hint: "use https://" }];
  });
}

function checkReference(node: RawEntry, feeds: readonly RawEntry[]): ConfigIssue[] {
  const reference = referenceOf(node);
  if (reference === null) return [];
  const path = [...node.path, "cost", "price"];
  const feed = feeds.find((one) => textOf(one, "name") === reference.feed);
  if (feed === undefined) {
    const known = feeds.flatMap((one) => textOf(one, "name") ?? []);
    const nearest = nearestName(reference.feed, known);
    const hint = nearest === null ? "declare it under prices.feeds" : `did you mean ${nearest}?`;
    return [{ path, at: "value", message: `there is no price feed ${JSON.stringify(reference.feed)}`, hint }];
  }
  const rules = rulesOf(feed);
  if (rules === undefined || rules.markets.includes(reference.market)) return [];
  return [
    {
      path,
      at: "value",
      message: `${rules.provider} has no prices for ${reference.market}`,
      hint: `it has ${rules.markets.join(", ")}: use another feed, or usd_per_gpu_hour`,
    },
  ];
}

/** An instance of eight GPUs behind a node that says nothing of its GPUs counts as one, at an eighth of its price. */
function uncountedGpus(node: RawEntry, feeds: readonly RawEntry[]): ConfigIssue[] {
  const reference = referenceOf(node);
  if (reference === null || own(node, "gpus") !== undefined) return [];
  const feed = feeds.find((one) => textOf(one, "name") === reference.feed);
  if (feed === undefined) return [];
  const type = entries(feed, "instance_types").find((one) => textOf(one, "name") === reference.instanceType);
  const gpus = type === undefined ? undefined : own(type, "gpus");
  if (typeof gpus !== "number" || gpus <= 1) return [];
  return [
    {
      path: [...node.path, "cost", "price"],
      at: "value",
      message: `${reference.instanceType} has ${gpus} GPUs and the node doesn't say how many it uses: 1 is counted`,
      hint: `write gpus: ${gpus}, or gpus: 1 if that is meant`,
    },
  ];
}

function referenceOf(node: RawEntry) {
  const text = textOf(section(node, "cost"), "price");
  return text === undefined ? null : parsePriceReference(text);
}
