/** The values of the file with the objects of the API behind its own, and the way back from a path to what is there. */

import { type ConfigPath, formatPath, OBJECT_KINDS, type ObjectKind } from "@zml/protocol";
import type { StoredDigest } from "../../store/object-operations.ts";
import type { ObjectKey, Spec } from "./managed-objects.ts";
import { entryOf, type FileValues, listOf, listPath, objectWords, withLists } from "./object-lists.ts";

/** An object that the API owns. */
export interface ApiObject {
  readonly key: ObjectKey;
  readonly spec: Spec;
  /** Moves with each change of any object, never back. */
  readonly revision: number;
  /** Unix ms. */
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Of keys: what callers may present. */
  readonly digests: readonly StoredDigest[];
}

/** Whose a path is. */
export type PathOwner =
  | { readonly owner: "file"; readonly path: ConfigPath }
  | { readonly owner: "api"; readonly key: ObjectKey; readonly path: ConfigPath };

export class MergedValues {
  readonly values: FileValues;
  /** Entries of the file, per kind. */
  readonly #ofFile = new Map<ObjectKind, number>();
  /** The API's objects, in the order in which they stand behind the file's. */
  readonly #ofApi = new Map<ObjectKind, readonly ApiObject[]>();

  constructor(file: FileValues, api: Iterable<ApiObject>) {
    const byKind = Map.groupBy(api, ({ key }) => key.kind);
    const lists = new Map<ObjectKind, readonly unknown[]>();
    for (const kind of OBJECT_KINDS) {
      const own = listOf(file, kind);
      // the order in which they were made: families count in the order of their registration
      const objects = (byKind.get(kind) ?? []).sort(byAge);
      this.#ofFile.set(kind, own.length);
      this.#ofApi.set(kind, objects);
      if (objects.length > 0) lists.set(kind, [...own, ...objects.map(entryOfObject)]);
    }
    this.values = withLists(file, lists);
  }

  /** How many entries of a list are the file's. */
  ofFile(kind: ObjectKind): number {
    return this.#ofFile.get(kind) ?? 0;
  }

  /** Whose a path of the merged values is. */
  ownerOf(path: ConfigPath): PathOwner {
    for (const kind of OBJECT_KINDS) {
      const list = listPath(kind);
      const index = path[list.length];
      if (typeof index !== "number" || !list.every((part, depth) => part === path[depth])) continue;
      const object = this.#ofApi.get(kind)?.[index - this.ofFile(kind)];
      if (object !== undefined) return { owner: "api", key: object.key, path: path.slice(list.length + 1) };
    }
    return { owner: "file", path };
  }

  /** For texts that name two places. No lines: to know them the whole file is read again. */
  placeOf(path: ConfigPath, fileName: string): string {
    const place = this.ownerOf(path);
    return `${formatPath(place.path)} of ${place.owner === "file" ? fileName : `the ${objectWords(place.key)}`}`;
  }
}

/** One object each time, so that whoever knows the entry need not look at it again. */
function entryOfObject(object: ApiObject): Spec {
  const known = ENTRIES.get(object);
  if (known !== undefined) return known;
  const entry = entryOf(object.key, object.spec);
  ENTRIES.set(object, entry);
  return entry;
}

const ENTRIES = new WeakMap<ApiObject, Spec>();

function byAge(left: ApiObject, right: ApiObject): number {
  return left.createdAtMs - right.createdAtMs || (left.key.name < right.key.name ? -1 : 1);
}
