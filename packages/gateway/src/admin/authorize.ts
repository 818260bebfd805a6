/** Who asks on the admin port, and what they may. Everything is denied that no rule allows. */

import type { IncomingMessage } from "node:http";
import { DEFAULT_ACCOUNT, isLoopback } from "@zml/protocol";
import type { AccessRule } from "@zml/protocol/admin/access";
import type { Actor } from "../control/objects/managed-objects.ts";
import { AdminProblem, shown } from "./admin-problem.ts";

/** A key, as far as the admin port looks at it. */
export interface AdminKey {
  readonly name: string;
  readonly account: string;
  readonly scopes: readonly string[];
  /** Unix ms; null: never. */
  readonly expiresAtMs: number | null;
}

/** Who may ask. */
export interface AdminAccess {
  /** Whether a key with the scope `admin` exists: without one the port may be open. */
  readonly hasAdminKey: boolean;
  readonly allowUnauthenticated: boolean;
  /** The key of this value; null: there is none. Takes the same time for every value that is none. */
  findKey(value: string): AdminKey | null;
}

/** Who asks. */
export interface Principal {
  readonly actor: Actor;
  readonly account: string;
  /** Of the account `default`: sees and changes everything, as far as the scopes go. */
  readonly isOperator: boolean;
  readonly mayWrite: boolean;
}

/** Asked without a key, where none is asked for. */
const LOOPBACK: Principal = {
  actor: { kind: "loopback", name: "loopback", account: DEFAULT_ACCOUNT },
  account: DEFAULT_ACCOUNT,
  isOperator: true,
  mayWrite: true,
};

/** A key of ours has 47 characters; keys of the file may be longer. What is longer than this is none. */
const KEY_LENGTH_MAX = 4096;

const CHALLENGE = { headers: { "www-authenticate": "Bearer" } };

/** True when no key is asked for. */
export function isOpen({ hasAdminKey, allowUnauthenticated }: AdminAccess, listenHost: string): boolean {
  return !hasAdminKey && (isLoopback(listenHost) || allowUnauthenticated);
}

/**
 * Finds who asks by `authorization: Bearer KEY`. Where no key is asked for, one that is presented counts all the same.
 *
 * @throws AdminProblem 401 or 403.
 */
export function authenticate(
  request: IncomingMessage,
  access: AdminAccess,
  { listenHost, unixMs }: { listenHost: string; unixMs: number },
): Principal {
  // of two such headers Node would keep the first: whoever is in between may have looked at the other
  const presented = request.headersDistinct["authorization"] ?? [];
  if (presented.length === 0) {
    if (isOpen(access, listenHost)) return LOOPBACK;
    throw new AdminProblem("missing_api_key", "no key: send it as authorization: Bearer KEY", CHALLENGE);
  }
  const [, value] = /^bearer +([!-~]+)$/i.exec(presented[0] ?? "") ?? [];
  const isOne = presented.length === 1 && value !== undefined && value.length <= KEY_LENGTH_MAX;
  const key = isOne ? access.findKey(value) : null;
  if (key === null || (key.expiresAtMs !== null && key.expiresAtMs <= unixMs)) {
    const detail =
      "the key is not known here, or has expired: send one key of this gateway as authorization: Bearer KEY";
    throw new AdminProblem("invalid_api_key", detail, CHALLENGE);
  }
  const mayWrite = key.scopes.includes("admin");
  if (!mayWrite && !key.scopes.includes("read")) throw lacksScope(key.name, "read or admin");
  return {
    actor: { kind: "key", name: key.name, account: key.account },
    account: key.account,
    isOperator: key.account === DEFAULT_ACCOUNT,
    mayWrite,
  };
}

/** Holds a principal to the rule of a route. @throws AdminProblem 403. */
export function authorize(principal: Principal, rule: AccessRule): void {
  if (rule === "open") return;
  if ((rule === "write" || rule === "operator_write") && !principal.mayWrite) {
    throw lacksScope(principal.actor.name, "admin");
  }
  if ((rule === "operator_read" || rule === "operator_write") && !principal.isOperator) {
    const detail = `the key ${shown(principal.actor.name)} is of account ${shown(principal.account)}: use a key of account "default"`;
    throw new AdminProblem("operator_only", detail);
  }
}

/** The account that a request is about. @throws AdminProblem 403 for one that is not the principal's. */
export function accountOf(principal: Principal, asked: string | undefined): string {
  const account = asked ?? principal.account;
  if (!principal.isOperator && account !== principal.account) {
    throw new AdminProblem(
      "other_account",
      `account ${shown(account)} is not that of the key ${shown(principal.actor.name)} (${principal.account})`,
    );
  }
  return account;
}

function lacksScope(key: string, scope: string): AdminProblem {
  return new AdminProblem("key_scope", `the key ${shown(key)} lacks the scope ${scope}: use a key that has it`);
}
