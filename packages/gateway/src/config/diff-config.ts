import { isDeepStrictEqual } from "node:util";
import {
  type AccountConfig,
  type Config,
  formatListen,
  type KeyConfig,
  type ModelConfig,
  type NodeConfig,
  type PolicyConfig,
} from "@zml/protocol";

/** An object before and after. */
export interface Change<T> {
  readonly before: T;
  readonly after: T;
}

/** What became of the objects of one list. Each object of `next` is in one of added, changed, unchanged. */
export interface ListDiff<T> {
  readonly added: readonly T[];
  readonly removed: readonly T[];
  readonly changed: readonly Change<T>[];
  readonly unchanged: readonly T[];
}

const LIVE_SECTIONS = [
  "data",
  "admin",
  "health",
  "limits",
  "timeouts",
  "failover",
  "prices",
  "discovery",
  "evidence",
  "telemetry",
] as const;
/** A section whose changes apply at once. */
export type LiveSection = (typeof LIVE_SECTIONS)[number];

/** What a new configuration changes. */
export interface ConfigDiff {
  /** Texts for the operator, one per change that a running process can't make. Not empty: refuse the whole change. */
  readonly needsRestart: readonly string[];
  /** Sections with a change that applies at once. */
  readonly sections: readonly LiveSection[];
  /** By id. A node whose url changed is another endpoint under the same name: see `keepsRow`. */
  readonly nodes: ListDiff<NodeConfig>;
  readonly policies: ListDiff<PolicyConfig>;
  readonly models: ListDiff<ModelConfig>;
  readonly accounts: ListDiff<AccountConfig>;
  readonly keys: ListDiff<KeyConfig>;
  /** Order of registration decides the built-in policy's chain, so it counts as a change of its own. */
  readonly isFamilyOrderChanged: boolean;
  /** Nothing changed at all. */
  readonly isEmpty: boolean;
}

/** Compares two complete configurations. Pure. */
export function diffConfig(old: Config, next: Config): ConfigDiff {
  const needsRestart = restartReasons(old, next);
  const sections = LIVE_SECTIONS.filter((name) => !isDeepStrictEqual(livePart(old, name), livePart(next, name)));
  const nodes = diffList(old.nodes, next.nodes, (node) => node.id);
  const policies = diffList(old.policies, next.policies, accountAndName);
  const models = diffList(old.models, next.models, accountAndName);
  const accounts = diffList(old.accounts, next.accounts, (account) => account.name);
  const keys = diffList(old.keys, next.keys, accountAndName);
  const isFamilyOrderChanged = !isDeepStrictEqual(familyOrder(old), familyOrder(next));
  const hasListChange = [nodes, policies, models, accounts, keys].some(
    (diff) => diff.added.length + diff.removed.length + diff.changed.length > 0,
  );
  const isEmpty = needsRestart.length === 0 && sections.length === 0 && !hasListChange && !isFamilyOrderChanged;
  return { needsRestart, sections, nodes, policies, models, accounts, keys, isFamilyOrderChanged, isEmpty };
}

/** Whether a changed node keeps its row of the fleet table: the same id at the same url (design: rows). */
export function keepsRow({ before, after }: Change<NodeConfig>): boolean {
  return before.id === after.id && before.url === after.url;
}

function restartReasons(old: Config, next: Config): string[] {
  const settings: [string, string | number, string | number][] = [
    ["data.listen", formatListen(old.data.listen), formatListen(next.data.listen)],
    ["data.tls", tlsKind(old.data.tls), tlsKind(next.data.tls)],
    ["admin.listen", formatListen(old.admin.listen), formatListen(next.admin.listen)],
    ["workers", old.workers, next.workers],
    ["limits.nodes", old.limits.nodes, next.limits.nodes],
    ["limits.prefixes", old.limits.prefixes, next.limits.prefixes],
    ["store.path", old.store.path, next.store.path],
    ["evidence.ring_records", old.evidence.ringRecords, next.evidence.ringRecords],
  ];
  return settings
    .filter(([, before, after]) => before !== after)
    .map(([name, before, after]) => `${name} changed from ${before} to ${after}: needs a restart`);
}

/** What a listening port can't change; certificates and versions can change. */
function tlsKind(tls: Config["data"]["tls"]): string {
  if (tls === null) return "clear text";
  return tls.clientCaFile === null ? "TLS" : "TLS with callers' certificates";
}

/** A section without the settings that need a restart. */
function livePart(config: Config, section: LiveSection): unknown {
  switch (section) {
    case "data":
      return { ...config.data, listen: null };
    case "admin":
      return { ...config.admin, listen: null };
    case "limits":
      return { ...config.limits, nodes: 0, prefixes: 0 };
    case "evidence":
      return { ...config.evidence, ringRecords: 0 };
    default:
      return config[section];
  }
}

/** Account and family, in order of first registration. */
function familyOrder(config: Config): string[] {
  return [...new Set(config.nodes.map((node) => JSON.stringify([node.account, node.family])))];
}

function accountAndName(item: { readonly account: string; readonly name: string }): string {
  // Names may hold any separator that we could choose.
  return JSON.stringify([item.account, item.name]);
}

function diffList<T>(old: readonly T[], next: readonly T[], identity: (item: T) => string): ListDiff<T> {
  const before = new Map(old.map((item) => [identity(item), item]));
  const added: T[] = [];
  const changed: Change<T>[] = [];
  const unchanged: T[] = [];
  for (const item of next) {
    const twin = before.get(identity(item));
    before.delete(identity(item));
    if (twin === undefined) added.push(item);
    else if (isDeepStrictEqual(twin, item)) unchanged.push(item);
    else changed.push({ before: twin, after: item });
  }
  return { added, removed: [...before.values()], changed, unchanged };
}
