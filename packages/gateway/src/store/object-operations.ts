/** What the store can be asked about managed objects. Runs on the store's own thread, each call in one transaction. */

import type { DatabaseSync } from "node:sqlite";
import { StoreFault } from "./store-fault.ts";

/** An object that the admin API made. */
export interface StoredObject {
  readonly kind: string;
  /** "" for kinds without accounts. */
  readonly account: string;
  readonly name: string;
  /** JSON. */
  readonly spec: string;
  readonly revision: number;
  /** Unix ms. */
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Which object. */
export type StoredKey = Pick<StoredObject, "kind" | "account" | "name">;

/** Who changed what. */
export interface AuditRow extends StoredKey {
  /** Unix ms. */
  readonly atMs: number;
  readonly actorKind: string;
  readonly actorName: string;
  readonly actorAccount: string;
  readonly action: string;
  /** JSON; null: there was, or is, nothing. */
  readonly before: string | null;
  readonly after: string | null;
}

/** A change of objects, with what is told of it. All of it or nothing. */
export interface ObjectsWrite {
  /** What the caller knows: another writer since then makes the store refuse. */
  readonly sequence: number;
  readonly puts: readonly Omit<StoredObject, "revision">[];
  readonly removes: readonly StoredKey[];
  readonly audit: readonly AuditRow[];
}

/** Everything that the API made. */
export interface ObjectsLoaded {
  /** Number of the last change. */
  readonly sequence: number;
  readonly objects: readonly StoredObject[];
}

/** Arguments and result of each call. Structured-cloneable. */
export interface ObjectCalls {
  "objects.load": { args: null; result: ObjectsLoaded };
  /** Answers with the number of the change, which is the revision of what was put. */
  "objects.write": { args: ObjectsWrite; result: number };
}

/** How each call is done on an open database. */
export type ObjectOperations = {
  readonly [K in keyof ObjectCalls]: (args: ObjectCalls[K]["args"]) => ObjectCalls[K]["result"];
};

/** Prepares every statement once. */
export function createObjectOperations(database: DatabaseSync): ObjectOperations {
  const readSequence = database.prepare("SELECT value FROM counters WHERE name = 'objects'");
  const moveSequence = database.prepare("UPDATE counters SET value = value + 1 WHERE name = 'objects'");
  const loadObjects = database.prepare(
    `SELECT kind, account, name, spec, revision, created_at_ms AS createdAtMs, updated_at_ms AS updatedAtMs FROM objects`,
  );
  const putObject = database.prepare(
    `INSERT INTO objects (kind, account, name, spec, revision, created_at_ms, updated_at_ms)
     VALUES (:kind, :account, :name, :spec, :revision, :createdAtMs, :updatedAtMs)
     ON CONFLICT DO UPDATE SET spec = excluded.spec, revision = excluded.revision,
       created_at_ms = excluded.created_at_ms, updated_at_ms = excluded.updated_at_ms`,
  );
  const removeObject = database.prepare(
    "DELETE FROM objects WHERE kind = :kind AND account = :account AND name = :name",
  );
  const addAudit = database.prepare(
    `INSERT INTO audit (at_ms, actor_kind, actor_name, actor_account, action, kind, account, name, before, after)
     VALUES (:atMs, :actorKind, :actorName, :actorAccount, :action, :kind, :account, :name, :before, :after)`,
  );
  const sequence = (): number => (readSequence.get() as { value: number }).value;
  return {
    "objects.load": () => ({ sequence: sequence(), objects: loadObjects.all() as unknown as StoredObject[] }),
    "objects.write": ({ sequence: known, puts, removes, audit }) => {
      const current = sequence();
      if (current !== known) {
        throw new StoreFault("conflict", `another writer changed the objects of the store (${known}, now ${current})`);
      }
      moveSequence.run();
      const revision = current + 1;
      for (const object of puts) putObject.run({ ...object, revision });
      for (const { kind, account, name } of removes) removeObject.run({ kind, account, name });
      for (const row of audit) addAudit.run({ ...row });
      return revision;
    },
  };
}
