/** The difference of two directories as the update that turns one into the other. Pure. */

import { isDeepStrictEqual } from "node:util";
import type { DirectoryUpdate } from "@zml/engine";
import type { CompiledDirectory } from "./compile-directory.ts";

/** What changed; null when nothing did. The version is the caller's to give. */
export function directoryDelta(
  before: CompiledDirectory,
  after: CompiledDirectory,
): Omit<DirectoryUpdate, "version"> | null {
  const accounts = changedEntries(before.accounts, after.accounts);
  const policies = changedEntries(before.policies, after.policies);
  const models = changedEntries(before.models, after.models);
  const removeAccounts = removedEntries(before.accounts, after.accounts).map(({ name }) => name);
  // what belongs to an account that goes, goes with it: an update may only touch accounts that the directory has
  const isOfKept = ({ account }: { account: string }) => !removeAccounts.includes(account);
  const named = ({ account, name }: { account: string; name: string }) => ({ account, name });
  const removePolicies = removedEntries(before.policies, after.policies).filter(isOfKept).map(named);
  const removeModels = removedEntries(before.models, after.models).filter(isOfKept).map(named);
  const areFamiliesNew = before.families.length !== after.families.length;
  const update: Omit<DirectoryUpdate, "version"> = {
    ...(areFamiliesNew ? { families: after.families } : {}),
    ...(accounts.length > 0 ? { accounts } : {}),
    ...(removeAccounts.length > 0 ? { removeAccounts } : {}),
    ...(policies.length > 0 ? { policies } : {}),
    ...(removePolicies.length > 0 ? { removePolicies } : {}),
    ...(models.length > 0 ? { models } : {}),
    ...(removeModels.length > 0 ? { removeModels } : {}),
  };
  return Object.keys(update).length === 0 ? null : update;
}

function changedEntries<T>(before: ReadonlyMap<string, T>, after: ReadonlyMap<string, T>): T[] {
  const changed: T[] = [];
  for (const [key, value] of after) {
    if (!isDeepStrictEqual(before.get(key), value)) changed.push(value);
  }
  return changed;
}

function removedEntries<T>(before: ReadonlyMap<string, T>, after: ReadonlyMap<string, T>): T[] {
  return [...before].filter(([key]) => !after.has(key)).map(([, value]) => value);
}
