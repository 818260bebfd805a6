/** Objects: list, get, put, delete, and the two things that only keys have. */

import { hasAccount } from "@zml/protocol";
import {
  COLLECTION_NAMES,
  type CollectionName,
  KEY_ROUTES,
  OBJECT_ROUTES,
  PAGE_DEFAULT,
  RESOURCES,
} from "@zml/protocol/admin";
import { z } from "zod";
import type { ManagedObject, ManagedObjects, WriteResult } from "../control/objects/managed-objects.ts";
import { AdminProblem } from "./admin-problem.ts";
import { accountOf, type Principal } from "./authorize.ts";
import { type BoundRoute, bind } from "./bound-route.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import { isUnchanged, writeCondition } from "./entity-tags.ts";
import { noSuch, objectHeaders, objectJson, refusedProblem, writtenJson } from "./write-results.ts";

/** Where a page ended: account and name of its last object. */
const placeSchema = z.tuple([z.string(), z.string()]);

export function objectHandlers(): BoundRoute[] {
  return [...COLLECTION_NAMES.flatMap(collectionHandlers), ...keyHandlers()];
}

function collectionHandlers(name: CollectionName): BoundRoute[] {
  const { kind, one } = RESOURCES[name];
  const isOwned = hasAccount(kind);
  const routes = OBJECT_ROUTES[name];
  /** Kinds without accounts are kept under the empty one. */
  const ownerOf = (principal: Principal, asked: string | undefined) => (isOwned ? accountOf(principal, asked) : "");
  return [
    bind(routes.list, ({ query }, { principal, sources }) => {
      const { owner, contains, limit = PAGE_DEFAULT } = query;
      const after = decodeCursor(query.cursor, placeSchema);
      const account = asked(query) === undefined ? null : accountOf(principal, asked(query));
      const all = visible(sources.objects.list(kind, null), principal, account);
      const words = contains?.toLowerCase() ?? null;
      const rest = all.filter(
        (object) =>
          (owner === undefined || object.owner === owner) &&
          isAfter(object, after) &&
          (words === null || holds(object, words)),
      );
      const page = rest.slice(0, limit);
      const last = page.at(-1);
      const isMore = rest.length > page.length && last !== undefined;
      return {
        status: 200,
        body: {
          items: page.map((object) => objectJson(object, principal)),
          next_cursor: isMore ? encodeCursor([last.account, last.name]) : null,
        },
      };
    }),
    bind(routes.get, ({ params, query, headers }, { principal, sources }) => {
      const object = findVisible(sources.objects, principal, { kind, account: asked(query), name: params.name });
      if (object === null) throw noSuch(one, params.name, asked(query) ?? (isOwned ? principal.account : ""));
      const answer = objectHeaders(object);
      if (isUnchanged(headers["if-none-match"], object.revision)) return { status: 304, body: null, headers: answer };
      return { status: 200, body: objectJson(object, principal), headers: answer };
    }),
    bind(routes.put, async ({ params, query, headers, body }, { principal, sources }) => {
      const account = ownerOf(principal, asked(query));
      refuseOtherName(body, { kind, account, name: params.name });
      const condition = writeCondition(headers);
      const written = taken(
        await sources.objects.put(kind, account, params.name, body.spec, condition, principal.actor),
      );
      const { action, isAcknowledged } = written;
      const status = isAcknowledged ? (action === "created" ? 201 : 200) : 202;
      const location = action === "created" ? locationOf(name, params.name, account) : undefined;
      return { status, body: writtenJson(written, principal), headers: objectHeaders(written.object, location) };
    }),
    bind(routes.delete, async ({ params, query, headers }, { principal, sources }) => {
      const account = ownerOf(principal, asked(query));
      const condition = writeCondition(headers);
      const written = taken(await sources.objects.remove(kind, account, params.name, condition, principal.actor));
      return { status: written.isAcknowledged ? 200 : 202, body: writtenJson(written, principal) };
    }),
  ];
}

function keyHandlers(): BoundRoute[] {
  return [
    bind(KEY_ROUTES.mint, async ({ body }, { principal, sources }) => {
      const account = accountOf(principal, body.account);
      const written = taken(await sources.objects.mintKey(account, body.name, body.spec ?? {}, principal.actor));
      const answer = minted(written, principal);
      const headers = objectHeaders(answer.object, locationOf("keys", body.name, account));
      return { status: written.isAcknowledged ? 201 : 202, body: answer.body, headers };
    }),
    bind(KEY_ROUTES.rotate, async ({ params, query, body }, { principal, sources }) => {
      const account = accountOf(principal, asked(query));
      const overlapMs = body.overlap_seconds * 1000;
      const written = taken(await sources.objects.rotateKey(account, params.name, { overlapMs }, principal.actor));
      const answer = minted(written, principal);
      return { status: written.isAcknowledged ? 200 : 202, body: answer.body, headers: objectHeaders(answer.object) };
    }),
  ];
}

/** `?account=`, where the kind has accounts. */
function asked(query: object): string | undefined {
  return (query as { readonly account?: string }).account;
}

type Taken<R> = Exclude<R, { readonly kind: "refused" }>;

/** @throws AdminProblem for a refusal. */
function taken<R extends WriteResult>(result: R): Taken<R> {
  if (result.kind === "refused") throw refusedProblem(result, "spec");
  return result as Taken<R>;
}

function minted(written: Taken<WriteResult> & { readonly secret?: string }, principal: Principal) {
  const { object, secret, version, isAcknowledged, warnings } = written;
  if (object === null || secret === undefined) throw new Error("the registry made a key without telling its value");
  const body = {
    object: objectJson(object, principal),
    secret,
    version,
    is_acknowledged: isAcknowledged,
    warnings,
  };
  return { object, body };
}

/** What a principal may see: all, or what belongs to its account. */
function visible(
  objects: readonly ManagedObject[],
  principal: Principal,
  account: string | null,
): readonly ManagedObject[] {
  return objects.filter((object) => {
    if (!principal.isOperator && !isVisible(object, principal)) return false;
    return account === null || object.account === account || isSharedWith(object, account);
  });
}

function findVisible(
  objects: ManagedObjects,
  principal: Principal,
  { kind, account, name }: { kind: ManagedObject["kind"]; account: string | undefined; name: string },
): ManagedObject | null {
  if (kind === "account" || kind === "price_feed") {
    const found = objects.get(kind, "", name);
    return found !== null && (principal.isOperator || isVisible(found, principal)) ? found : null;
  }
  const own = objects.get(kind, accountOf(principal, account), name);
  if (own !== null || kind !== "node") return own;
  // a node that its owner shares is found under the account that it is shared with
  const asked = account ?? principal.account;
  return objects.list("node", null).find((object) => object.name === name && isSharedWith(object, asked)) ?? null;
}

function isVisible(object: ManagedObject, { account }: Principal): boolean {
  if (object.kind === "account") return object.name === account;
  return object.account === account || isSharedWith(object, account);
}

function isSharedWith({ kind, spec }: ManagedObject, account: string): boolean {
  const sharedWith = kind === "node" ? spec["shared_with"] : undefined;
  return Array.isArray(sharedWith) && (sharedWith.includes("*") || sharedWith.includes(account));
}

/** By code unit, as the registry sorts. */
function isAfter({ account, name }: ManagedObject, after: readonly [string, string] | null): boolean {
  if (after === null) return true;
  return account === after[0] ? name > after[1] : account > after[0];
}

/** Whether the name, the account or the name for people holds the text. @param words in lower case. */
function holds({ account, name, spec }: ManagedObject, words: string): boolean {
  const shownName = spec["display_name"];
  return `${account}\n${name}\n${typeof shownName === "string" ? shownName : ""}`.toLowerCase().includes(words);
}

/** What GET answered may be sent back whole, but not to the URL of another object. */
function refuseOtherName(
  body: { readonly account?: string | undefined; readonly name?: string | undefined },
  { account, name }: { kind: string; account: string; name: string },
): void {
  const errors = [
    { path: "account", given: body.account, expected: account },
    { path: "name", given: body.name, expected: name },
  ]
    .filter(({ given, expected }) => given !== undefined && given !== expected)
    .map(({ path, expected }) => ({
      path,
      message: `the URL says ${JSON.stringify(expected)}`,
      hint: "make them agree, or leave it out of the body",
    }));
  const [first] = errors;
  if (first !== undefined) throw new AdminProblem("invalid_body", `${first.path}: ${first.message}`, { errors });
}

function locationOf(collection: CollectionName, name: string, account: string): string {
  const query = account === "" ? "" : `?account=${encodeURIComponent(account)}`;
  return `/admin/v1/${collection}/${encodeURIComponent(name)}${query}`;
}
