/** Drafts in the place of policies that requests were recorded under. */

import { CHAIN_FAMILIES_MAX, type PolicyData } from "@zml/engine";
import type { PolicyConfig } from "@zml/protocol";
import { BacktestError, type RecordedWindow } from "./recorded-window.ts";

/** A draft and what it stands for. */
export interface PlacedDraft {
  /** Unified index of the policy that it replaces. */
  readonly index: number;
  readonly data: PolicyData;
  readonly requests: number;
}

/** Policies of a window by how many requests ran under them. */
export function policyCounts({ traffic }: Pick<RecordedWindow, "traffic">): Map<number, number> {
  const counts = new Map<number, number>();
  for (let index = 0; index < traffic.count; index++) {
    const policy = traffic.policy[index] as number;
    counts.set(policy, (counts.get(policy) ?? 0) + 1);
  }
  return counts;
}

/**
 * Puts drafts in their places.
 *
 * @param replaces name of the policy that the only draft stands for; null: the one of its own name.
 * @throws BacktestError with everything that is wrong, by path.
 */
export function placeDrafts(
  window: RecordedWindow,
  drafts: readonly PolicyConfig[],
  replaces: string | null,
): PlacedDraft[] {
  const { fleet } = window;
  const counts = policyCounts(window);
  const errors: { path: string; message: string }[] = [];
  const wrong = (path: string, message: string) => errors.push({ path, message });
  if (drafts.length === 0) wrong("policies", "there is no policy in the draft: name at least one");
  if (replaces !== null && drafts.length > 1) wrong("replaces", "it is for a draft of one policy");
  const families = fleet.families.names.map(({ name }) => name);
  const served = new Map<string, ReadonlySet<number>>();
  // nodes that serve nothing of the account are nothing that it may learn of
  const familiesOf = (account: string): ReadonlySet<number> => {
    let found = served.get(account);
    if (found === undefined) {
      const isOwn = (model: number) => fleet.models.names[model]?.scope === account;
      const nodes = fleet.nodes.filter((node) => node !== undefined && [...node.models.keys()].some(isOwn));
      found = new Set(nodes.map((node) => node?.family ?? -1));
      served.set(account, found);
    }
    return found;
  };
  const seen = new Set<number>();
  const placed: PlacedDraft[] = [];
  drafts.forEach((draft, at) => {
    const name = replaces ?? draft.name;
    const index = fleet.policies.find(draft.account, name);
    const requests = counts.get(index) ?? 0;
    const base = fleet.policyData[index];
    if (requests === 0 || base === undefined) {
      const known = Array.from(counts.keys(), (policy) => fleet.policies.names[policy])
        .filter((policy) => policy?.scope === draft.account)
        .map((policy) => policy?.name ?? "");
      const which = known.length === 0 ? `none of account ${draft.account}` : known.sort().join(", ");
      const path = replaces === null ? `policies[${at}].name` : "replaces";
      const hint = replaces === null ? ": say which one it stands for (--replaces)" : "";
      wrong(path, `no request of the window ran under ${name}; there are ${which}${hint}`);
    } else if (seen.has(index)) wrong(`policies[${at}].name`, `${name} is there twice`);
    seen.add(index);
    draft.acceleratorPreference.forEach(({ family }, position) => {
      const usable = familiesOf(draft.account);
      if (usable.has(families.indexOf(family))) return;
      const known = [...usable].map((index) => families[index] ?? "").sort();
      const path = `policies[${at}].accelerator_preference[${position}].family`;
      wrong(path, `no node of the window is of family ${family}; there are ${known.join(", ")}`);
    });
    if (base === undefined) return;
    const stated = draft.acceleratorPreference.map(({ family, priority }) => ({
      family: families.indexOf(family),
      priority,
    }));
    const all = families.map((_, family) => ({ family, priority: family + 1 }));
    placed.push({
      index,
      requests,
      data: {
        ...base,
        chain: stated.length > 0 ? stated : all.slice(0, CHAIN_FAMILIES_MAX),
        latencyTargetMs: draft.latencyTargetMs ?? Number.NaN,
        ttftTargetMs: draft.ttftTargetMs ?? Number.NaN,
        tokenTargetMs: draft.tokenTargetMs ?? Number.NaN,
        costPriority: draft.costPriority,
        estimator: draft.estimator,
        queueOnSaturation: draft.queueOnSaturation,
        maxQueueMs: draft.maxQueueMs,
        acceptableWaiting: draft.acceptableWaiting,
      },
    });
  });
  if (errors.length > 0) {
    throw new BacktestError("draft", errors.map(({ path, message }) => `${path}: ${message}`).join("; "), errors);
  }
  return placed;
}
