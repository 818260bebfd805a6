/** From the configuration and what nodes report to the directory that decisions read. Pure but for new names. */

import { type AccountData, BUILT_IN_POLICY, CHAIN_FAMILIES_MAX, type ModelData, type PolicyData } from "@zml/engine";
import { type AccountConfig, ALL_ACCOUNTS, type Config, type PolicyConfig } from "@zml/protocol";
import type { NameRegistry } from "./name-registry.ts";
import { servedAccounts } from "./shared-nodes.ts";

/** A model on a node, as the directory sees it. */
export interface PlacedModel {
  /** Name that callers use. */
  readonly name: string;
  /** Placement row. */
  readonly placement: number;
  /** Name (as callers use it) of the model on this node that it is an adapter (LoRA) of; null: it is none. */
  readonly adapterOf: string | null;
}

/** A node as the directory sees it. */
export interface PlacedNode {
  readonly row: number;
  /** Accounts whose requests may go to it, its own included. */
  readonly accounts: readonly string[];
  readonly family: string;
  readonly models: readonly PlacedModel[];
  /** False while nobody knows which models it serves: it declares none and has not answered a poll. */
  readonly areModelsKnown: boolean;
}

/** Everything in the directory, by key. */
export interface CompiledDirectory {
  readonly families: readonly string[];
  readonly accounts: ReadonlyMap<string, AccountData>;
  /** By `entryKey(account, name)`. */
  readonly policies: ReadonlyMap<string, PolicyData>;
  /** By `entryKey(account, name)`. */
  readonly models: ReadonlyMap<string, ModelData>;
  /** What the operator should know and what nothing was refused for. */
  readonly warnings: readonly string[];
}

/** An empty directory, before the first configuration. */
export const EMPTY_DIRECTORY: CompiledDirectory = {
  families: [],
  accounts: new Map(),
  policies: new Map(),
  models: new Map(),
  warnings: [],
};

/** Key of something that belongs to an account. */
export function entryKey(account: string, name: string): string {
  return JSON.stringify([account, name]);
}

/**
 * Compiles the whole directory.
 *
 * @param config order of its nodes is the order of registration of their families.
 * @param nodes what is placed, in that order; nodes that leave are not among them.
 */
export function compileDirectory(
  config: Pick<Config, "accounts" | "policies" | "models" | "nodes">,
  nodes: readonly PlacedNode[],
  names: NameRegistry,
): CompiledDirectory {
  const warnings: string[] = [];
  for (const { family } of config.nodes) names.families.register("", family);
  for (const policy of config.policies) {
    for (const { family } of policy.acceleratorPreference) names.families.register("", family);
  }
  const families = familiesByAccount(config);
  const chains = new Map(
    config.accounts.map(({ name }) => [name, accountChain(name, [...(families.get(name) ?? [])], names, warnings)]),
  );
  const policies = new Map<string, PolicyData>();
  for (const policy of config.policies) {
    const index = names.policies.register(policy.account, policy.name);
    const data = index < 0 ? null : compilePolicyData(policy, index, chains.get(policy.account) ?? [], names);
    if (data === null) warnings.push(tooMany(`policy ${policy.name} is left out`, "policies"));
    else policies.set(entryKey(policy.account, policy.name), data);
  }
  const accounts = new Map<string, AccountData>();
  const incomplete = new Set(nodes.flatMap((node) => (node.areModelsKnown ? [] : node.accounts)));
  config.accounts.forEach((account, index) => {
    const isCatalogComplete = !incomplete.has(account.name);
    const data = accountData(account, { index, isCatalogComplete }, chains.get(account.name) ?? [], names);
    if (data === null) warnings.push(tooMany(`account ${account.name} is left out`, "policies"));
    else accounts.set(account.name, data);
  });
  const models = compileModels(config, nodes, accounts, names, warnings);
  return { families: names.families.list(), accounts, policies, models, warnings };
}

type Chain = PolicyData["chain"];

/** Families of the nodes that serve each account, in order of first registration. */
function familiesByAccount({ accounts, nodes }: Pick<Config, "accounts" | "nodes">): Map<string, Set<string>> {
  const all = accounts.map(({ name }) => name);
  const families = new Map(all.map((name) => [name, new Set<string>()]));
  // most nodes that serve everybody are of a family that one before them brought
  const everywhere = new Set<string>();
  for (const node of nodes) {
    if (everywhere.has(node.family)) continue;
    if (node.sharedWith.includes(ALL_ACCOUNTS)) everywhere.add(node.family);
    for (const account of servedAccounts(node, all)) families.get(account)?.add(node.family);
  }
  return families;
}

/** The families of an account, each its own tier. */
function accountChain(account: string, families: readonly string[], names: NameRegistry, warnings: string[]): Chain {
  if (families.length > CHAIN_FAMILIES_MAX) {
    warnings.push(
      `account ${account} has nodes of ${families.length} families; policies that name none use the first ` +
        `${CHAIN_FAMILIES_MAX}: name the families in accelerator_preference`,
    );
  }
  return families
    .map((family) => names.families.find("", family))
    .filter((family) => family >= 0)
    .slice(0, CHAIN_FAMILIES_MAX)
    .map((family, order) => ({ family, priority: order + 1 }));
}

/** @param allFamilies the chain of a policy that names no family. Families that have no index are left out. */
export function compilePolicyData(
  policy: PolicyConfig,
  index: number,
  allFamilies: Chain,
  names: Pick<NameRegistry, "families">,
): PolicyData {
  const stated = policy.acceleratorPreference
    .map(({ family, priority }) => ({ family: names.families.find("", family), priority }))
    .filter(({ family }) => family >= 0)
    .slice(0, CHAIN_FAMILIES_MAX);
  return {
    account: policy.account,
    name: policy.name,
    index,
    chain: policy.acceleratorPreference.length === 0 ? allFamilies : stated,
    latencyTargetMs: policy.latencyTargetMs ?? Number.NaN,
    ttftTargetMs: policy.ttftTargetMs ?? Number.NaN,
    tokenTargetMs: policy.tokenTargetMs ?? Number.NaN,
    costPriority: policy.costPriority,
    estimator: policy.estimator,
    queueOnSaturation: policy.queueOnSaturation,
    maxQueueMs: policy.maxQueueMs,
    acceptableWaiting: policy.acceptableWaiting,
  };
}

function accountData(
  account: AccountConfig,
  { index, isCatalogComplete }: { index: number; isCatalogComplete: boolean },
  chain: Chain,
  names: NameRegistry,
): AccountData | null {
  const builtIn = names.policies.register(account.name, BUILT_IN_POLICY);
  if (builtIn < 0) return null;
  return {
    name: account.name,
    index,
    defaultPolicy: account.defaultPolicy,
    isCatalogComplete,
    builtIn: { ...BUILT_IN, account: account.name, index: builtIn, chain },
  };
}

/** What stands behind every account's default: balanced, no target, no queue. */
const BUILT_IN = {
  name: BUILT_IN_POLICY,
  latencyTargetMs: Number.NaN,
  ttftTargetMs: Number.NaN,
  tokenTargetMs: Number.NaN,
  costPriority: "balanced",
  estimator: "predictive",
  queueOnSaturation: false,
  maxQueueMs: 30_000,
  acceptableWaiting: 4,
} as const;

/** A model while its nodes are gathered. */
interface ModelDraft {
  account: string;
  name: string;
  policy: string | null;
  isRegistered: boolean;
  rows: number[];
  placements: number[];
  families: number[];
  /** Of an adapter: the model it is for, as the first node says that serves it. */
  adapterOf: string | null;
  /** Of an adapter: nodes with both, by family. */
  nodesWithBoth: number[];
}

function compileModels(
  config: Pick<Config, "models">,
  nodes: readonly PlacedNode[],
  accounts: ReadonlyMap<string, AccountData>,
  names: NameRegistry,
  warnings: string[],
): Map<string, ModelData> {
  const drafts = new Map<string, ModelDraft>();
  const draft = (account: string, name: string, policy: string | null, isRegistered: boolean): ModelDraft => {
    const key = entryKey(account, name);
    let found = drafts.get(key);
    if (found === undefined) {
      const nodes = { rows: [], placements: [], families: [], adapterOf: null, nodesWithBoth: [] };
      found = { account, name, policy, isRegistered, ...nodes };
      drafts.set(key, found);
    }
    return found;
  };
  for (const { account, name, policy } of config.models) draft(account, name, policy, true);
  for (const node of nodes) {
    const family = names.families.find("", node.family);
    // more families than an index can tell apart: such a node takes no traffic, and placing it warned already
    if (family < 0) continue;
    const served = new Set(node.models.map(({ name }) => name));
    for (const account of node.accounts) {
      for (const { name, placement, adapterOf } of node.models) {
        const model = draft(account, name, null, false);
        model.adapterOf ??= adapterOf;
        if (model.adapterOf !== null && served.has(model.adapterOf)) {
          model.nodesWithBoth[family] = (model.nodesWithBoth[family] ?? 0) + 1;
        }
        model.rows.push(node.row);
        model.placements.push(placement);
        model.families.push(family);
      }
    }
  }
  const models = new Map<string, ModelData>();
  let leftOut = 0;
  for (const [key, { rows, placements, families, adapterOf, nodesWithBoth, ...rest }] of drafts) {
    if (!accounts.has(rest.account)) continue;
    const index = names.models.register(rest.account, rest.name);
    if (index < 0) {
      leftOut += 1;
      continue;
    }
    models.set(key, {
      ...rest,
      index,
      rows: Int32Array.from(rows),
      placements: Int32Array.from(placements),
      families: Int32Array.from(families),
      ...adapterMissing(adapterOf === null ? undefined : drafts.get(entryKey(rest.account, adapterOf)), nodesWithBoth),
    });
  }
  if (leftOut > 0) warnings.push(tooMany(`${leftOut} models are left out`, "models"));
  return models;
}

/** Nodes that serve the model that an adapter is for, less those that serve both, by family. */
function adapterMissing(base: ModelDraft | undefined, nodesWithBoth: readonly number[]): Partial<ModelData> {
  if (base === undefined) return {};
  const missing: number[] = [];
  for (const family of base.families) missing[family] = (missing[family] ?? -(nodesWithBoth[family] ?? 0)) + 1;
  if (missing.every((count) => count === 0)) return {};
  return { adapterMissing: Int32Array.from(missing, (count) => count ?? 0) };
}

function tooMany(what: string, kind: string): string {
  return `${what}: this process has seen as many ${kind} as it can tell apart; restart it to forget the old ones`;
}
