/** The keys in force as the admin port looks them up: by keyed digest, so that the time taken says nothing about a key. */

import { keyDigest } from "../config/key-digest.ts";
import type { WorkerKeys } from "../thread-messages.ts";
import type { AdminAccess, AdminKey } from "./authorize.ts";

/** O(keys), once for each configuration. */
export function adminAccess({ pepper, list }: WorkerKeys, allowUnauthenticated: boolean): AdminAccess {
  const byDigest = new Map(
    list.map(({ digest, name, account, scopes, expiresAtMs }): [string, AdminKey] => [
      digest,
      { name, account, scopes, expiresAtMs: Number.isFinite(expiresAtMs) ? expiresAtMs : null },
    ]),
  );
  return {
    hasAdminKey: list.some(({ scopes }) => scopes.includes("admin")),
    allowUnauthenticated,
    findKey: (value) => byDigest.get(keyDigest(pepper, value)) ?? null,
  };
}
