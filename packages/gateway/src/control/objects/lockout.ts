/**
 * The first key of the scope `admin` closes an admin port that was open. If that key is another account's, or the last of
 * the operators' goes and such a key stays, no operator could ever undo it over the admin API. Pure.
 */

import { type Config, DEFAULT_ACCOUNT, type KeyConfig } from "@zml/protocol";

/** What is wrong, and what to do before the change. */
export const LOCKOUT = {
  message: `operators would be locked out: only other accounts would have keys of the scope admin, and ${DEFAULT_ACCOUNT} none`,
  hint: `first make one of its own: zml keys create NAME --account ${DEFAULT_ACCOUNT} --scope admin`,
} as const;

/** True when a change takes the admin port from the operators. */
export function locksOut(before: Config, after: Config, nowMs: number): boolean {
  return !isLockedOut(before, nowMs) && isLockedOut(after, nowMs);
}

/** True when only other accounts have keys of the scope admin. */
function isLockedOut({ keys }: Pick<Config, "keys">, nowMs: number): boolean {
  const admins = keys.filter(({ scopes }) => scopes.includes("admin"));
  const isOperators = ({ account, expiresAt }: KeyConfig) =>
    account === DEFAULT_ACCOUNT && (expiresAt === null || Date.parse(expiresAt) > nowMs);
  return admins.length > 0 && !admins.some(isOperators);
}
