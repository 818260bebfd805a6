/** Which accounts a node serves: its own, and those that the operator shares it with. Pure. */

import { ALL_ACCOUNTS, type NodeConfig } from "@zml/protocol";

/** What says whom a node serves. */
export type NodeOwner = Pick<NodeConfig, "account" | "sharedWith">;

/** True when requests of the account may go to the node. */
export function servesAccount({ account, sharedWith }: NodeOwner, caller: string): boolean {
  return account === caller || sharedWith.includes(caller) || sharedWith.includes(ALL_ACCOUNTS);
}

/** The accounts that a node serves, each once. @param all every account there is */
export function servedAccounts({ account, sharedWith }: NodeOwner, all: readonly string[]): readonly string[] {
  if (sharedWith.length === 0) return [account];
  return [...new Set([account, ...(sharedWith.includes(ALL_ACCOUNTS) ? all : sharedWith)])];
}
