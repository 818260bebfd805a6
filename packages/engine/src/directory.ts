/**
 * The directory: names to what they mean, in the compiled form that decisions read. Numbers that change with load are
 * in the fleet table; everything here changes only with the configuration or with what nodes report to serve.
 *
 * Entries are immutable: an update replaces them. A running request keeps the policy it started with, and takes its model's rows anew at each decision. Indexes are
 * handed out once per name and process, so a record that holds an index stays readable after any update.
 */

import { assert } from "./assert.ts";
import { CHAIN_FAMILIES_MAX } from "./bounds.ts";
import type { CostPriority, EstimatorName } from "./reasons.ts";

/** Name of the policy that stands behind every account's default. */
export const BUILT_IN_POLICY = "zml-default";

/** One policy, as data that crosses threads. */
export interface PolicyData {
  account: string;
  name: string;
  index: number;
  /** Families of the chain, by priority; equal `priority` is one tier. */
  chain: readonly { family: number; priority: number }[];
  /** Whole response, ms. NaN: no target. */
  latencyTargetMs: number;
  /** Time to first token of a stream, ms. NaN: no target. */
  ttftTargetMs: number;
  /** Time per output token of a stream, ms. NaN: no target. */
  tokenTargetMs: number;
  costPriority: CostPriority;
  /** What tells response times. */
  estimator: EstimatorName;
  queueOnSaturation: boolean;
  maxQueueMs: number;
  /** Requests that may wait on a node for its depth to be acceptable in `latency`. */
  acceptableWaiting: number;
}

/** One model with the rows that serve it, as data that crosses threads. */
export interface ModelData {
  account: string;
  name: string;
  index: number;
  /** Name of its policy, null: the account's default. */
  policy: string | null;
  /** False for a model that nodes report and nobody registered. */
  isRegistered: boolean;
  /** Parallel columns, one entry per node that serves the model. */
  rows: Int32Array;
  placements: Int32Array;
  families: Int32Array;
  /**
   * Of an adapter (LoRA): nodes that serve the model it is for and not the adapter, by family index. They take part in no
   * decision; its evidence names them.
   */
  adapterMissing?: Int32Array;
}

/** One account, as data that crosses threads. */
export interface AccountData {
  name: string;
  index: number;
  /** Name of the account's default policy, null: the built-in one. */
  defaultPolicy: string | null;
  /** False while a node that declares no models has never been polled: an unknown name may yet turn out to be served. */
  isCatalogComplete: boolean;
  /** The built-in policy for this account: balanced, families in order of first registration. */
  builtIn: PolicyData;
}

/** A change of the directory; the first one holds everything. Removals are applied before additions. */
export interface DirectoryUpdate {
  version: number;
  /** All family names in order of first registration; index = family. */
  families?: readonly string[];
  accounts?: readonly AccountData[];
  removeAccounts?: readonly string[];
  policies?: readonly PolicyData[];
  removePolicies?: readonly { account: string; name: string }[];
  models?: readonly ModelData[];
  removeModels?: readonly { account: string; name: string }[];
}

/** A policy compiled for decisions. */
export interface Policy extends PolicyData {
  /** Families of the chain in order of priority, at most `CHAIN_FAMILIES_MAX`. */
  readonly chainFamilies: Int32Array;
  /** Tier of each chain position, 0-based, ascending. */
  readonly chainTiers: Int32Array;
  /** Position in the chain by family index, -1 outside; families beyond its length are outside. */
  readonly positionOfFamily: Int16Array;
}

export interface Model extends ModelData {
  /** Rows that serve the model, for membership tests. */
  readonly rowSet: ReadonlySet<number>;
  /** Nodes that serve the model by family index; families beyond its length have none. */
  readonly nodesOfFamily: Int32Array;
}

export interface Account extends AccountData {
  readonly builtInPolicy: Policy;
  readonly policies: ReadonlyMap<string, Policy>;
  readonly models: ReadonlyMap<string, Model>;
}

/** The directory of one thread. */
export interface Directory {
  version: number;
  families: readonly string[];
  familyIndex: ReadonlyMap<string, number>;
  accounts: Map<string, Account>;
  /** By index, for queue heads of other workers. */
  modelsByIndex: Map<number, Model>;
  policiesByIndex: Map<number, Policy>;
}

/** An empty directory, version 0. */
export function createDirectory(): Directory {
  return {
    version: 0,
    families: [],
    familyIndex: new Map(),
    accounts: new Map(),
    modelsByIndex: new Map(),
    policiesByIndex: new Map(),
  };
}

/**
 * Compiles a policy: sorts the chain by priority and numbers its tiers.
 *
 * @throws Error when the chain is longer than `CHAIN_FAMILIES_MAX` (the configuration is checked before).
 */
export function compilePolicy(data: PolicyData): Policy {
  assert(data.chain.length <= CHAIN_FAMILIES_MAX, `a chain has at most ${CHAIN_FAMILIES_MAX} families`);
  const chain = data.chain.map((link, order) => ({ ...link, order }));
  chain.sort((a, b) => a.priority - b.priority || a.order - b.order);
  const chainFamilies = Int32Array.from(chain, (link) => link.family);
  const chainTiers = new Int32Array(chain.length);
  for (let position = 1; position < chain.length; position++) {
    const isSameTier = chain[position]?.priority === chain[position - 1]?.priority;
    chainTiers[position] = (chainTiers[position - 1] ?? 0) + (isSameTier ? 0 : 1);
  }
  const positionOfFamily = new Int16Array(Math.max(0, ...chainFamilies.map((family) => family + 1))).fill(-1);
  chainFamilies.forEach((family, position) => {
    positionOfFamily[family] = position;
  });
  return { ...data, chainFamilies, chainTiers, positionOfFamily };
}

/** Compiles a model. */
export function compileModel(data: ModelData): Model {
  const nodesOfFamily = new Int32Array(data.families.reduce((length, family) => Math.max(length, family + 1), 0));
  for (const family of data.families) nodesOfFamily[family] = (nodesOfFamily[family] ?? 0) + 1;
  return { ...data, rowSet: new Set(data.rows), nodesOfFamily };
}

/** The model as it is now; one that is gone keeps its name, and nothing serves it. */
export function presentModel(directory: Directory, model: Model): Model {
  const present = directory.modelsByIndex.get(model.index);
  if (present !== undefined || model.rows.length === 0) return present ?? model;
  return compileModel({ ...model, rows: NO_ROWS, placements: NO_ROWS, families: NO_ROWS });
}

const NO_ROWS = new Int32Array(0);

/** Applies an update in place: maps of the accounts it touches are replaced, entries it does not name stay. */
export function applyUpdate(directory: Directory, update: DirectoryUpdate): void {
  if (update.families !== undefined) {
    directory.families = update.families;
    directory.familyIndex = new Map(update.families.map((name, index) => [name, index]));
  }
  const touched = new Map<string, { policies: Map<string, Policy>; models: Map<string, Model> }>();
  const touch = (accountName: string) => {
    let maps = touched.get(accountName);
    if (maps === undefined) {
      const account = directory.accounts.get(accountName);
      maps = { policies: new Map(account?.policies), models: new Map(account?.models) };
      touched.set(accountName, maps);
    }
    return maps;
  };
  for (const name of update.removeAccounts ?? []) {
    removeAccount(directory, name);
  }
  for (const { account, name } of update.removePolicies ?? []) {
    if (!directory.accounts.has(account)) continue;
    const { policies } = touch(account);
    const old = policies.get(name);
    if (old !== undefined) directory.policiesByIndex.delete(old.index);
    policies.delete(name);
  }
  for (const { account, name } of update.removeModels ?? []) {
    if (!directory.accounts.has(account)) continue;
    const { models } = touch(account);
    const old = models.get(name);
    if (old !== undefined) directory.modelsByIndex.delete(old.index);
    models.delete(name);
  }
  for (const data of update.policies ?? []) {
    const policy = compilePolicy(data);
    touch(data.account).policies.set(data.name, policy);
    directory.policiesByIndex.set(data.index, policy);
  }
  for (const data of update.models ?? []) {
    const model = compileModel(data);
    touch(data.account).models.set(data.name, model);
    directory.modelsByIndex.set(data.index, model);
  }
  for (const data of update.accounts ?? []) {
    const builtInPolicy = compilePolicy(data.builtIn);
    directory.policiesByIndex.set(data.builtIn.index, builtInPolicy);
    const { policies, models } = touch(data.name);
    directory.accounts.set(data.name, { ...data, builtInPolicy, policies, models });
  }
  for (const [name, maps] of touched) {
    const account = directory.accounts.get(name);
    assert(account !== undefined, "policies and models belong to an account that the directory has");
    directory.accounts.set(name, { ...account, ...maps });
  }
  directory.version = update.version;
}

/** An account leaves with everything it has, so that an update need not name it all. */
function removeAccount(directory: Directory, name: string): void {
  const account = directory.accounts.get(name);
  if (account === undefined) return;
  for (const { index } of account.policies.values()) directory.policiesByIndex.delete(index);
  for (const { index } of account.models.values()) directory.modelsByIndex.delete(index);
  directory.policiesByIndex.delete(account.builtIn.index);
  directory.accounts.delete(name);
}
