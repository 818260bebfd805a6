/** What the store can be asked about managed objects. Runs on the store's own thread, each call in one transaction. */

import type { DatabaseSync } from "node:sqlite";
import { StoreFault } from "./store-fault.ts";

/** A value of a key that the gateway made, as far as anybody knows it. */
export interface StoredDigest {
  /** See `config/key-digest.ts`. */
  readonly digest: string;
  /** Unix ms. */
  readonly createdAtMs: number;
  /** Unix ms; null: as long as the key itself. */
  readonly expiresAtMs: number | null;
}

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
  /** Of keys: what callers may present. */
  readonly digests: readonly StoredDigest[];
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

/** A row as it was kept. */
export interface StoredAudit extends AuditRow {
  readonly id: number;
  /** Of the configuration that it became, counted from the start of that process; null: of none. */
  readonly version: number | null;
}

/** What of the audit somebody asks for. Null: all. */
export interface AuditQuery {
  readonly account: string | null;
  readonly kind: string | null;
  readonly name: string | null;
  /** Rows older than this one. */
  readonly beforeId: number | null;
  readonly limit: number;
}

/** A change of objects, with what is told of it. All of it or nothing. */
export interface ObjectsWrite {
  /** What the caller knows: another writer since then makes the store refuse. */
  readonly sequence: number;
  readonly puts: readonly Omit<StoredObject, "revision">[];
  readonly removes: readonly StoredKey[];
  /** What tells that a pepper is the one of the stored digests; null: as it is. */
  readonly pepperCheck: string | null;
  readonly audit: AuditAppend;
}

/** Rows for the audit, and from when on older ones are kept. */
export interface AuditAppend {
  readonly rows: readonly AuditRow[];
  readonly forgetBeforeMs: number;
}

/** Everything that the API made. */
export interface ObjectsLoaded {
  /** Number of the last change. */
  readonly sequence: number;
  readonly objects: readonly StoredObject[];
  readonly drains: readonly StoredDrain[];
  readonly pepperCheck: string | null;
}

/** A node that takes no new requests. */
export interface StoredDrain {
  readonly account: string;
  readonly node: string;
}

/** Arguments and result of each call. Structured-cloneable. */
export interface ObjectCalls {
  "objects.load": { args: null; result: ObjectsLoaded };
  /** Answers with the number of the change, which is the revision of what was put. */
  "objects.write": { args: ObjectsWrite; result: number };
  "drains.set": { args: StoredDrain & { isDrained: boolean; audit: AuditAppend }; result: null };
  "audit.append": { args: AuditAppend; result: null };
  /** The change of this revision became this version. */
  "audit.version": { args: { revision: number; version: number }; result: null };
  /** Newest first. */
  "audit.list": { args: AuditQuery; result: readonly StoredAudit[] };
}

/** How each call is done on an open database. */
export type ObjectOperations = {
  readonly [K in keyof ObjectCalls]: (args: ObjectCalls[K]["args"]) => ObjectCalls[K]["result"];
};

/** Prepares every statement once. */
export function createObjectOperations(database: DatabaseSync): ObjectOperations {
  const sql = (text: string) => database.prepare(text);
  const readSequence = sql("SELECT value FROM counters WHERE name = 'objects'");
  const moveSequence = sql("UPDATE counters SET value = value + 1 WHERE name = 'objects'");
  const loadObjects = sql(
    "SELECT kind, account, name, spec, revision, created_at_ms AS createdAtMs, updated_at_ms AS updatedAtMs FROM objects",
  );
  const loadDigests = sql(
    `SELECT account, name, digest, created_at_ms AS createdAtMs, expires_at_ms AS expiresAtMs FROM key_digests
     ORDER BY created_at_ms, digest`,
  );
  const loadDrains = sql("SELECT account, node FROM drains");
  const readCheck = sql("SELECT value FROM notes WHERE name = 'pepper'");
  const putCheck = sql("INSERT INTO notes VALUES ('pepper', ?) ON CONFLICT DO UPDATE SET value = excluded.value");
  const putObject = sql(
    `INSERT INTO objects (kind, account, name, spec, revision, created_at_ms, updated_at_ms)
     VALUES (:kind, :account, :name, :spec, :revision, :createdAtMs, :updatedAtMs)
     ON CONFLICT DO UPDATE SET spec = excluded.spec, revision = excluded.revision,
       created_at_ms = excluded.created_at_ms, updated_at_ms = excluded.updated_at_ms`,
  );
  const removeObject = sql("DELETE FROM objects WHERE kind = :kind AND account = :account AND name = :name");
  const removeDigests = sql("DELETE FROM key_digests WHERE account = :account AND name = :name");
  const putDigest = sql(
    `INSERT INTO key_digests (account, name, digest, created_at_ms, expires_at_ms)
     VALUES (:account, :name, :digest, :createdAtMs, :expiresAtMs)`,
  );
  const removeDrain = sql("DELETE FROM drains WHERE account = :account AND node = :node");
  const putDrain = sql("INSERT INTO drains VALUES (:account, :node, :atMs) ON CONFLICT DO NOTHING");
  const addAudit = sql(
    `INSERT INTO audit (at_ms, actor_kind, actor_name, actor_account, action, kind, account, name, before, after, revision)
     VALUES (:atMs, :actorKind, :actorName, :actorAccount, :action, :kind, :account, :name, :before, :after, :revision)`,
  );
  const forgetAudit = sql("DELETE FROM audit WHERE at_ms < ?");
  const setVersion = sql("UPDATE audit SET version = :version WHERE revision = :revision");
  const listAudit = sql(
    `SELECT id, at_ms AS atMs, actor_kind AS actorKind, actor_name AS actorName, actor_account AS actorAccount, action,
       kind, account, name, before, after, version FROM audit
     WHERE (:account IS NULL OR account = :account) AND (:kind IS NULL OR kind = :kind)
       AND (:name IS NULL OR name = :name) AND (:beforeId IS NULL OR id < :beforeId)
     ORDER BY id DESC LIMIT :limit`,
  );
  const sequence = (): number => (readSequence.get() as { value: number }).value;
  const audit = ({ rows, forgetBeforeMs }: AuditAppend, revision: number | null): void => {
    for (const row of rows) addAudit.run({ ...row, revision });
    forgetAudit.run(forgetBeforeMs);
  };
  return {
    "objects.load": () => {
      const digests = Map.groupBy(loadDigests.all() as unknown as (StoredDigest & StoredKey)[], ({ account, name }) =>
        JSON.stringify([account, name]),
      );
      const objects = (loadObjects.all() as unknown as Omit<StoredObject, "digests">[]).map((object) => ({
        ...object,
        digests: object.kind === "key" ? (digests.get(JSON.stringify([object.account, object.name])) ?? []) : [],
      }));
      const check = readCheck.get() as { value: string } | undefined;
      const drains = loadDrains.all() as unknown as StoredDrain[];
      return { sequence: sequence(), objects, drains, pepperCheck: check?.value ?? null };
    },
    "objects.write": ({ sequence: known, puts, removes, pepperCheck, audit: append }) => {
      const current = sequence();
      if (current !== known) {
        throw new StoreFault("conflict", `another writer changed the objects of the store (${known}, now ${current})`);
      }
      moveSequence.run();
      const revision = current + 1;
      for (const { digests, ...object } of puts) {
        putObject.run({ ...object, revision });
        if (object.kind !== "key") continue;
        const { account, name } = object;
        removeDigests.run({ account, name });
        for (const { digest, createdAtMs, expiresAtMs } of digests) {
          putDigest.run({ account, name, digest, createdAtMs, expiresAtMs });
        }
      }
      for (const { kind, account, name } of removes) {
        removeObject.run({ kind, account, name });
        if (kind === "key") removeDigests.run({ account, name });
        // a node that is made again under the same id takes requests
        if (kind === "node") removeDrain.run({ account, node: name });
      }
      if (pepperCheck !== null) putCheck.run(pepperCheck);
      audit(append, revision);
      return revision;
    },
    "drains.set": ({ account, node, isDrained, audit: append }) => {
      if (isDrained) putDrain.run({ account, node, atMs: append.rows[0]?.atMs ?? 0 });
      else removeDrain.run({ account, node });
      audit(append, null);
      return null;
    },
    "audit.append": (append) => {
      audit(append, null);
      return null;
    },
    "audit.version": ({ revision, version }) => {
      setVersion.run({ revision, version });
      return null;
    },
    "audit.list": (query) => listAudit.all({ ...query }) as unknown as StoredAudit[],
  };
}
