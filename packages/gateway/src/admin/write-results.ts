/** From what the registry did to what the caller hears. */

import type { AdminProblemCode, Json, ObjectJson, ProblemError } from "@zml/protocol/admin";
import type { ManagedObject, WriteDone, WriteProblem, WriteRefusal } from "../control/objects/managed-objects.ts";
import { AdminProblem, shown } from "./admin-problem.ts";
import type { Principal } from "./authorize.ts";
import { etagOf } from "./entity-tags.ts";
import { fieldPath } from "./parse-input.ts";

/**
 * What accounts other than `default` see of a node: where it is and what it is reached with is the operator's network and
 * environment. A list of what is shown, so that what comes new is hidden.
 */
const NODE_FIELDS_OF_TENANTS = new Set([
  "id",
  "account",
  "family",
  "display_name",
  "engine",
  "gpus",
  "platform",
  "cost",
  "models",
  "max_in_flight",
  // what the audit tells of it beside its entry
  "draining",
  "cooldown_remaining_ms",
]);

/** An object as it is answered. */
export function objectJson(object: ManagedObject, principal: Principal): Json<ObjectJson> {
  const { kind, account, name, owner, revision, createdAtMs, updatedAtMs } = object;
  return {
    kind,
    account,
    name,
    owner,
    revision,
    created_at: dateOf(createdAtMs),
    updated_at: dateOf(updatedAtMs),
    spec: shownSpec(kind, object.spec, principal),
  };
}

/** The values of an object, as far as a principal may see them. */
export function shownSpec<T extends object>(kind: string, spec: T, { isOperator }: Principal): T | Partial<T> {
  if (kind !== "node" || isOperator) return spec;
  return Object.fromEntries(Object.entries(spec).filter(([key]) => NODE_FIELDS_OF_TENANTS.has(key))) as Partial<T>;
}

/** What a write answers. */
export function writtenJson(written: WriteDone, principal: Principal) {
  const { action, object, version, isAcknowledged, warnings } = written;
  return {
    action,
    object: object === null ? null : objectJson(object, principal),
    version,
    is_acknowledged: isAcknowledged,
    warnings,
  };
}

/** Headers of an answer about an object. */
export function objectHeaders(object: ManagedObject | null, location?: string): Record<string, string> {
  return {
    ...(object === null ? {} : { etag: etagOf(object.revision) }),
    ...(location === undefined ? {} : { location }),
  };
}

const CODES: Readonly<Record<WriteRefusal["code"], AdminProblemCode>> = {
  invalid: "invalid_object",
  not_found: "not_found",
  precondition_failed: "precondition_failed",
  owned_by_file: "owned_by_file",
  owned_by_discovery: "owned_by_discovery",
  in_use: "in_use",
  store_unavailable: "store_unavailable",
  needs_restart: "needs_restart",
};

/** A store that is locked or full is tried again by every call, s. */
const STORE_RETRY_S = "5";

/** What a refusal says. @param within what paths stand under, `spec` for one object */
export function refusedProblem({ code, problems }: WriteRefusal, within: "spec" | null): AdminProblem {
  const errors = problems.map((problem) => problemError(problem, within));
  const [first] = errors;
  const detail = first === undefined ? code : sentence(first, problems.length);
  const headers = code === "store_unavailable" ? { "retry-after": STORE_RETRY_S } : {};
  return new AdminProblem(CODES[code], detail, { errors, headers });
}

/** There is no such object, or none that the key may see. */
export function noSuch(one: string, name: string, account: string): AdminProblem {
  const of = account === "" ? "" : ` of account ${shown(account)}`;
  return new AdminProblem("not_found", `there is no ${one.replace(/^an? /, "")} ${shown(name)}${of}`);
}

function problemError({ path, message, hint }: WriteProblem, within: "spec" | null): ProblemError {
  const full = within === null || path[0] === within || path.length === 0 ? path : [within, ...path];
  return { path: fieldPath(full), message, hint: hint ?? "" };
}

function sentence({ path, message, hint }: ProblemError, count: number): string {
  const where = path === "" ? "" : `${path}: `;
  const more = count > 1 ? ` (and ${count - 1} more)` : "";
  return `${where}${message}${hint === "" ? "" : `: ${hint}`}${more}`;
}

export function dateOf(unixMs: number | null): string | null {
  return unixMs === null ? null : new Date(unixMs).toISOString();
}
