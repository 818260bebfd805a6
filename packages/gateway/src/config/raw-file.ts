import type { ConfigPath } from "@zml/protocol";

/**
 * The parsed text as far as it makes sense, for the rules that look at more than one object: they must still work when
 * some other part of the file breaks the schema, so that everything is reported at once.
 */
export interface RawEntry {
  readonly path: ConfigPath;
  readonly fields: Readonly<Record<string, unknown>>;
}

const LISTS = ["keys", "accounts", "nodes", "policies", "models"] as const;

/** The lists of the file; entries that are no mapping are left out. */
export type RawFile = Readonly<Record<(typeof LISTS)[number], readonly RawEntry[]>> & { readonly top: RawEntry };

/** Reads what is there. Never throws. */
export function rawFile(value: unknown): RawFile {
  const top: RawEntry = { path: [], fields: isMapping(value) ? value : {} };
  return {
    top,
    keys: entries(top, "keys"),
    accounts: entries(top, "accounts"),
    nodes: entries(top, "nodes"),
    policies: entries(top, "policies"),
    models: entries(top, "models"),
  };
}

/** The mappings of a list inside an entry. */
export function entries(parent: RawEntry, key: string): RawEntry[] {
  const list = own(parent, key);
  if (!Array.isArray(list)) return [];
  return list.flatMap((item: unknown, index) =>
    isMapping(item) ? [{ path: [...parent.path, key, index], fields: item }] : [],
  );
}

/** A mapping inside an entry; an empty one when there is none. */
export function section(parent: RawEntry, key: string): RawEntry {
  const value = own(parent, key);
  return { path: [...parent.path, key], fields: isMapping(value) ? value : {} };
}

/** A text of the entry, or `undefined` when it is absent or no text. */
export function textOf(entry: RawEntry, key: string): string | undefined {
  const value = own(entry, key);
  return typeof value === "string" ? value : undefined;
}

/** Whatever stands there; nothing that objects inherit. */
export function own(entry: RawEntry, key: string): unknown {
  return Object.hasOwn(entry.fields, key) ? entry.fields[key] : undefined;
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
