/** Step 1: which account, model and policy a call means. Lookups in memory only. */

import type { Account, Directory, Model, Policy } from "../directory.ts";
import type { PolicySource } from "../reasons.ts";
import { createRouteRequest, type RouteRequest } from "../route-request.ts";

/** A call as the gateway read it. */
export interface RoutingCall {
  account: string;
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
}

/** Why a call was refused, with the names that would have been right. */
export interface Refusal {
  kind: "refused";
  code: "model_not_found" | "policy_not_found" | "family_not_found" | "no_node_available";
  /** The name that was not found. */
  name: string;
  /** Names of this account that exist, sorted. */
  known: string[];
}

export type Admission = { kind: "admitted"; request: RouteRequest } | Refusal;

/**
 * Resolves a call: policy override → the model's policy → the account's default → built-in. A name that does not exist
 * is refused, never replaced by a default.
 */
export function admit(directory: Directory, call: RoutingCall, nowMs: number): Admission {
  const account = directory.accounts.get(call.account);
  const model = account?.models.get(call.model);
  if (account === undefined || model === undefined) {
    const isComplete = account === undefined || account.isCatalogComplete;
    const known = account === undefined ? [] : [...account.models.keys()].sort();
    return { kind: "refused", code: isComplete ? "model_not_found" : "no_node_available", name: call.model, known };
  }
  const found = resolvePolicy(account, model, call.policy);
  if (found === null) {
    return {
      kind: "refused",
      code: "policy_not_found",
      name: call.policy ?? "",
      known: [...account.policies.keys(), account.builtInPolicy.name].sort(),
    };
  }
  const hintFamily = call.accelerator === null ? -1 : (directory.familyIndex.get(call.accelerator) ?? -2);
  if (hintFamily === -2) {
    return {
      kind: "refused",
      code: "family_not_found",
      name: call.accelerator ?? "",
      known: [...directory.families].sort(),
    };
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
      admittedAtMs: nowMs,
    }),
  };
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
