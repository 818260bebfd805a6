/** The objects in force as whoever manages them sees them, whoever owns them. */

import { createHash } from "node:crypto";
import { OBJECT_KINDS, type ObjectKind } from "@zml/protocol";
import type { FoundEntry } from "../../discovery/index.ts";
import type { Draft } from "../configuration.ts";
import type { ManagedObject, ObjectKey, Spec } from "./managed-objects.ts";
import type { ApiObject } from "./merged-values.ts";
import { keyText, objectsOf, specOf } from "./object-lists.ts";

/** Made once per configuration and list of found nodes, per kind on use. */
export class ObjectList {
  readonly #draft: Draft;
  readonly #found: readonly FoundEntry[];
  readonly #byKind = new Map<ObjectKind, ReadonlyMap<string, ManagedObject>>();

  constructor(draft: Draft, found: readonly FoundEntry[]) {
    this.#draft = draft;
    this.#found = found;
  }

  /** Whether it shows these very inputs. */
  isOf(draft: Draft, found: readonly FoundEntry[]): boolean {
    return draft === this.#draft && found === this.#found;
  }

  get(key: ObjectKey): ManagedObject | null {
    return this.#ofKind(key.kind).get(keyText(key)) ?? null;
  }

  /** Sorted by account and name. */
  list(kind: ObjectKind, account: string | null): ManagedObject[] {
    const all = [...this.#ofKind(kind).values()];
    return account === null ? all : all.filter((object) => object.account === account);
  }

  /** Of all kinds. */
  *all(): Iterable<ManagedObject> {
    for (const kind of OBJECT_KINDS) yield* this.#ofKind(kind).values();
  }

  #ofKind(kind: ObjectKind): ReadonlyMap<string, ManagedObject> {
    const known = this.#byKind.get(kind);
    if (known !== undefined) return known;
    const { source, api } = this.#draft;
    const objects = [
      ...objectsOf(source.value, kind).map(({ key, entry }) => hashed(key, specOf(kind, entry), "file")),
      ...[...api.values()].filter(({ key }) => key.kind === kind).map(ofApi),
      ...(kind === "node" ? this.#found.map(ofSource) : []),
    ];
    const map = new Map(objects.sort(byName).map((object) => [keyText(object), object]));
    this.#byKind.set(kind, map);
    return map;
  }
}

/** An object of the API as it is told. */
export function ofApi({ key, spec, revision, createdAtMs, updatedAtMs }: ApiObject): ManagedObject {
  return { ...key, owner: "api", spec, revision: String(revision), createdAtMs, updatedAtMs };
}

function ofSource({ node: { id, account }, entry }: FoundEntry): ManagedObject {
  return hashed({ kind: "node", account, name: id }, specOf("node", entry), "discovery");
}

/** Only who asks for one object needs its revision: it is not made before. */
function hashed(key: ObjectKey, spec: Spec, owner: "file" | "discovery"): ManagedObject {
  let revision: string | null = null;
  return {
    ...key,
    owner,
    spec,
    get revision() {
      revision ??= createHash("sha256").update(JSON.stringify(spec)).digest("base64url").slice(0, 16);
      return revision;
    },
    createdAtMs: null,
    updatedAtMs: null,
  };
}

function byName(left: ManagedObject, right: ManagedObject): number {
  return compare(left.account, right.account) || compare(left.name, right.name);
}

/** By code unit: the same order on every machine. */
function compare(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}
