/** The API's objects in the store, and what is known of them here. */

import type { ObjectKind } from "@zml/protocol";
import type { AuditAppend, StoredDrain, StoredKey, StoredObject } from "../../store/object-operations.ts";
import type { StoreClient } from "../../store/store.ts";
import { StoreFault } from "../../store/store-fault.ts";
import type { ObjectKey, Spec } from "./managed-objects.ts";
import type { ApiObject } from "./merged-values.ts";
import { isMapping } from "./object-lists.ts";

/** A change of the API's objects. */
export interface ObjectsChange {
  readonly puts: readonly Omit<ApiObject, "revision">[];
  readonly removes: readonly ObjectKey[];
  /** Of the pepper that their digests were made with; null: there are none new. */
  readonly pepperCheck: string | null;
  readonly audit: AuditAppend;
}

/** What the store holds. */
export interface LoadedObjects {
  readonly objects: readonly ApiObject[];
  readonly drains: readonly StoredDrain[];
  readonly pepperCheck: string | null;
}

export class ObjectStore {
  readonly #store: StoreClient;
  /** Number of the last change that is known here; null: what the store holds is not known. */
  #sequence: number | null = null;

  constructor(store: StoreClient) {
    this.#store = store;
  }

  /** False before the first load, and after a write of which nobody knows whether it was made. */
  get isKnown(): boolean {
    return this.#sequence !== null;
  }

  /** What it holds is not in force here, and has to be loaded again. */
  forget(): void {
    this.#sequence = null;
  }

  /** @throws StoreFault */
  async load(): Promise<LoadedObjects> {
    const { sequence, objects, drains, pepperCheck } = await this.#store.call("objects.load", null);
    const loaded = { objects: objects.map(fromStored), drains, pepperCheck };
    this.#sequence = sequence;
    return loaded;
  }

  /**
   * Makes a change, or nothing of it.
   *
   * @returns the revision of what was put.
   * @throws StoreFault
   */
  async write({ puts, removes, pepperCheck, audit }: ObjectsChange): Promise<number> {
    const known = this.#sequence;
    if (known === null) throw new StoreFault("failed", "the objects of the store were not loaded: try again");
    // until it answers nobody knows whether it was made
    this.#sequence = null;
    try {
      const sequence = await this.#store.call("objects.write", {
        sequence: known,
        puts: puts.map(toStored),
        removes: removes.map(storedKey),
        pepperCheck,
        audit,
      });
      this.#sequence = sequence;
      return sequence;
    } catch (error) {
      const isMade = error instanceof StoreFault && UNKNOWN_END.has(error.kind);
      if (!isMade) this.#sequence = known;
      throw error;
    }
  }
}

/** Faults after which a write may have been made, or another writer's was. */
const UNKNOWN_END: ReadonlySet<string> = new Set(["timeout", "closed", "conflict", "failed"]);

function storedKey({ kind, account, name }: ObjectKey): StoredKey {
  return { kind, account, name };
}

function toStored({ key, spec, createdAtMs, updatedAtMs, digests }: Omit<ApiObject, "revision">) {
  return { ...storedKey(key), spec: JSON.stringify(spec), createdAtMs, updatedAtMs, digests };
}

function fromStored({ kind, account, name, spec, ...rest }: StoredObject): ApiObject {
  const { revision, createdAtMs, updatedAtMs, digests } = rest;
  const parsed: unknown = JSON.parse(spec);
  const key = { kind: kind as ObjectKind, account, name };
  return { key, spec: isMapping(parsed) ? (parsed as Spec) : {}, revision, createdAtMs, updatedAtMs, digests };
}
