/** Where the objects of each kind stand in the values of a configuration file. Pure. */

import { type ConfigPath, DEFAULT_ACCOUNT, hasAccount, OBJECT_KINDS, type ObjectKind } from "@zml/protocol";
import type { ObjectKey, Spec } from "./managed-objects.ts";

/** The values of a file, or of a part of one. */
export type FileValues = Readonly<Record<string, unknown>>;

/** An entry of a file, as the object that it is. */
export interface ListedObject {
  readonly key: ObjectKey;
  /** The entry itself, with name and account where it has them. */
  readonly entry: Spec;
  readonly path: ConfigPath;
}

/** Section of the file, or path to it. */
const LISTS = {
  account: ["accounts"],
  node: ["nodes"],
  model: ["models"],
  policy: ["policies"],
  key: ["keys"],
  price_feed: ["prices", "feeds"],
} as const satisfies Record<ObjectKind, readonly string[]>;

/** Path of the list of a kind. */
export function listPath(kind: ObjectKind): readonly string[] {
  return LISTS[kind];
}

/** The field that holds the name. */
export function nameField(kind: ObjectKind): "id" | "name" {
  return kind === "node" ? "id" : "name";
}

/** For maps: the same text for the same object. */
export function keyText({ kind, account, name }: ObjectKey): string {
  return JSON.stringify([kind, account, name]);
}

/** How texts call an object: `policy batch of the account research`. */
export function objectWords({ kind, account, name }: ObjectKey): string {
  const of = account === "" || account === DEFAULT_ACCOUNT ? "" : ` of the account ${account}`;
  return `${KIND_WORDS[kind]} ${name}${of}`;
}

const KIND_WORDS: Readonly<Record<ObjectKind, string>> = {
  account: "account",
  node: "node",
  model: "model",
  policy: "policy",
  key: "key",
  price_feed: "price feed",
};

/** What stands in the list of a kind; nothing where there is no list. */
export function listOf(values: FileValues, kind: ObjectKind): readonly unknown[] {
  let value: unknown = values;
  for (const part of LISTS[kind]) value = isMapping(value) && Object.hasOwn(value, part) ? value[part] : undefined;
  return Array.isArray(value) ? value : [];
}

/** The objects of a kind, as far as they have a name. */
export function objectsOf(values: FileValues, kind: ObjectKind): ListedObject[] {
  const field = nameField(kind);
  return listOf(values, kind).flatMap((entry, index) => {
    if (!isMapping(entry)) return [];
    const { [field]: name, account = DEFAULT_ACCOUNT } = entry;
    if (typeof name !== "string" || typeof account !== "string") return [];
    const key: ObjectKey = { kind, account: hasAccount(kind) ? account : "", name };
    return [{ key, entry, path: [...LISTS[kind], index] }];
  });
}

/** The objects of all kinds, as far as they have a name. */
export function allObjectsOf(values: FileValues): ListedObject[] {
  return OBJECT_KINDS.flatMap((kind) => objectsOf(values, kind));
}

/** The entry of an object, as it stands in a list. */
export function entryOf({ kind, account, name }: ObjectKey, spec: Spec): Spec {
  const named = { [nameField(kind)]: name };
  return hasAccount(kind) && account !== DEFAULT_ACCOUNT ? { ...named, account, ...spec } : { ...named, ...spec };
}

/** An entry without what its key says. */
export function specOf(kind: ObjectKind, entry: Spec): Spec {
  const { [nameField(kind)]: _name, ...rest } = entry;
  if (!hasAccount(kind)) return rest;
  const { account: _account, ...spec } = rest;
  return spec;
}

/** The values with these lists in place of their own. */
export function withLists(values: FileValues, lists: ReadonlyMap<ObjectKind, readonly unknown[]>): FileValues {
  const next: Record<string, unknown> = { ...values };
  for (const [kind, list] of lists) {
    const [section, field] = LISTS[kind];
    if (field === undefined) next[section] = list;
    else next[section] = { ...(isMapping(next[section]) ? next[section] : {}), [field]: list };
  }
  return next;
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
