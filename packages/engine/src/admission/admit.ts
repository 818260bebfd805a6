/** Step 1: which account, model and policy a call means. Lookups in memory only. */

import type { Account, Directory, Model, Policy } from "../directory.ts";
import type { PromptMarks } from "../prefix-table.ts";
import type { PolicySource } from "../reasons.ts";
import { createRouteRequest, type RouteRequest } from "../route-request.ts";

/** What a caller may name. */
export interface CallRights {
  /** Null: every model of the account. */
  readonly models: ReadonlySet<string> | null;
  /** Policies that its requests may run under, however they are found. Null: all. */
  readonly policies: ReadonlySet<string> | null;
}

/** Everything that the account has. */
export const ALL_RIGHTS: CallRights = { models: null, policies: null };

/** A call as the gateway read it. */
export interface RoutingCall {
  account: string;
  rights: CallRights;
  model: string;
  /** Policy override, null: none. */
  policy: string | null;
  /** Accelerator hint, null: none. */
  accelerator: string | null;
  /** Index into `ENDPOINTS`. */
  endpoint: number;
  isStream: boolean;
  /** Prompt, tokens, estimated. */
  promptTokens: number;
  /** The caller's output limit, tokens. NaN: none. */
  maxTokens: number;
  /** `n`, at least 1. */
  answers: number;
  /** The least that the prompt can have, tokens; 0: nothing is certain. */
  promptTokensAtLeast: number;
  /** The prompt holds images. */
  hasImages: boolean;
  /** Beginnings that its prompt is known by; default: none. */
  marks?: PromptMarks | null;
}

/** Why a call was refused, with the names that would have been right. */
export interface Refusal {
  kind: "refused";
  code:
    | "model_not_found"
    | "policy_not_found"
    | "family_not_found"
    | "no_node_available"
    | "model_not_allowed"
    | "policy_not_allowed";
  /** The name that was not found, or may not be used. */
  name: string;
  /** Names of this account that exist and that the caller may use, sorted. */
  known: string[];
}

export type Admission = { kind: "admitted"; request: RouteRequest } | Refusal;

/**
 * Resolves a call: policy override → the model's policy → the account's default → built-in. A name that does not exist
 * is refused, never replaced by a default.
 */
export function admit(directory: Directory, call: RoutingCall, nowMs: number): Admission {
  const { rights } = call;
  const account = directory.accounts.get(call.account);
  // before it is looked for: which other models there are is not the caller's to know
  if (rights.models !== null && !rights.models.has(call.model)) {
    return { kind: "refused", code: "model_not_allowed", name: call.model, known: allowedModels(account, rights) };
  }
  const model = account?.models.get(call.model);
  if (account === undefined || model === undefined) {
    const isComplete = account === undefined || account.isCatalogComplete;
    const known = allowedModels(account, rights);
    return { kind: "refused", code: isComplete ? "model_not_found" : "no_node_available", name: call.model, known };
  }
  const found = resolvePolicy(account, model, call.policy);
  if (found === null) {
    return {
      kind: "refused",
      code: "policy_not_found",
      name: call.policy ?? "",
      known: allowedPolicies(account, rights),
    };
  }
  if (rights.policies !== null && !rights.policies.has(found.policy.name)) {
    const { name } = found.policy;
    return { kind: "refused", code: "policy_not_allowed", name, known: allowedPolicies(account, rights) };
  }
  const hintFamily = call.accelerator === null ? -1 : familyOf(directory, account, call.accelerator);
  if (hintFamily === -2) {
    const known = [...familiesOf(account)].map((family) => directory.families[family] ?? "").sort();
    return { kind: "refused", code: "family_not_found", name: call.accelerator ?? "", known };
  }
  return {
    kind: "admitted",
    request: createRouteRequest({
      account: call.account,
      model,
      policy: found.policy,
      policySource: found.source,
      hintFamily,
      endpoint: call.endpoint,
      isStream: call.isStream,
      promptTokens: call.promptTokens,
      maxTokens: call.maxTokens,
      answers: call.answers,
      promptTokensAtLeast: call.promptTokensAtLeast,
      hasImages: call.hasImages,
      marks: call.marks ?? null,
      admittedAtMs: nowMs,
    }),
  };
}

/** The models of an account that a caller may use, sorted. */
export function allowedModels(account: Account | undefined, { models }: CallRights): string[] {
  const names = account === undefined ? [] : [...account.models.keys()];
  return names.filter((name) => models === null || models.has(name)).sort();
}

function allowedPolicies(account: Account, { policies }: CallRights): string[] {
  const names = [...account.policies.keys(), account.builtInPolicy.name];
  return names.filter((name) => policies === null || policies.has(name)).sort();
}

/** Index of a family that the account has to do with; -2: there is none of that name. */
function familyOf(directory: Directory, account: Account, name: string): number {
  const family = directory.familyIndex.get(name) ?? -2;
  return familiesOf(account).has(family) ? family : -2;
}

/** Families of each account's nodes and policies. An update replaces the account, and with it what is kept here. */
const familiesByAccount = new WeakMap<Account, ReadonlySet<number>>();

function familiesOf(account: Account): ReadonlySet<number> {
  const known = familiesByAccount.get(account);
  if (known !== undefined) return known;
  const families = new Set<number>(account.builtInPolicy.chainFamilies);
  for (const { chainFamilies } of account.policies.values()) for (const family of chainFamilies) families.add(family);
  for (const { nodesOfFamily } of account.models.values()) {
    nodesOfFamily.forEach((nodes, family) => {
      if (nodes > 0) families.add(family);
    });
  }
  familiesByAccount.set(account, families);
  return families;
}

/** The policy of a call and how it was found; null when the override names none of the account's policies. */
export function resolvePolicy(
  account: Account,
  model: Model,
  override: string | null,
): { policy: Policy; source: PolicySource } | null {
  if (override !== null) {
    const policy =
      account.policies.get(override) ?? (override === account.builtInPolicy.name ? account.builtInPolicy : undefined);
    return policy === undefined ? null : { policy, source: "call" };
  }
  const ofModel = model.policy === null ? undefined : account.policies.get(model.policy);
  if (ofModel !== undefined) return { policy: ofModel, source: "model" };
  const ofAccount = account.defaultPolicy === null ? undefined : account.policies.get(account.defaultPolicy);
  if (ofAccount !== undefined) return { policy: ofAccount, source: "account" };
  return { policy: account.builtInPolicy, source: "built_in" };
}
