/**
 * The file of kept decisions: chunks of records, the names behind their indexes, what the fleet was meanwhile, and what
 * was lost. Beside the store, not in it (docs/decisions, kept decisions). Runs on the thread of kept decisions, and in a
 * back-test, which only reads.
 */

import { rmSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { openDatabase } from "../../store/open-database.ts";
import { makeFileOfCopy } from "../../store/private-files.ts";
import { decodeChunk, encodeChunk } from "./chunk-codec.ts";
import { ColumnReader, type DecisionColumns } from "./decision-columns.ts";

const MIGRATIONS: readonly string[] = [
  `
  -- one process; indexes of its names stand in its records
  CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- unix ms of its engine time 0
    origin_ms REAL NOT NULL,
    -- of its decision ids
    tail INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE names (
    run INTEGER NOT NULL,
    kind TEXT NOT NULL,
    idx INTEGER NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (run, kind, idx)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    records INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    -- unix ms at which its decisions were made
    first_at_ms REAL NOT NULL,
    last_at_ms REAL NOT NULL,
    -- int32 each, so that a decision is looked for without inflating
    sequences BLOB NOT NULL,
    body BLOB NOT NULL
  ) STRICT;
  CREATE INDEX chunks_by_time ON chunks (last_at_ms);

  -- records that are not there, of this time
  CREATE TABLE losses (
    run INTEGER NOT NULL,
    from_ms REAL NOT NULL,
    to_ms REAL NOT NULL,
    records INTEGER NOT NULL,
    reason TEXT NOT NULL
  ) STRICT;

  -- the fleet and its policies as a whole
  CREATE TABLE fleet_states (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    at_ms REAL NOT NULL,
    body BLOB NOT NULL
  ) STRICT;

  -- what changed of a node between two of them
  CREATE TABLE node_changes (
    run INTEGER NOT NULL,
    at_ms REAL NOT NULL,
    identity INTEGER NOT NULL,
    state INTEGER NOT NULL,
    usd_per_hour REAL,
    max_in_flight REAL,
    concurrency_limit REAL
  ) STRICT;
  CREATE INDEX node_changes_by_time ON node_changes (at_ms);
  `,
];

/** Kinds of names. */
export const NAME_KINDS = ["models", "policies", "families", "identities", "keys"] as const;
export type NameKind = (typeof NAME_KINDS)[number];

/** A name that has an index. */
export interface IndexedName {
  readonly kind: NameKind;
  readonly index: number;
  readonly scope: string;
  readonly name: string;
}

/** What changed of a node. `state` indexes `NODE_STATES`; NaN: unknown. */
export interface NodeChange {
  readonly atMs: number;
  readonly identity: number;
  readonly state: number;
  readonly usdPerHour: number;
  readonly maxInFlight: number;
  readonly concurrencyLimit: number;
}

/** What a replay needs to know of a node's health. */
export const NODE_STATES = ["down", "up", "draining"] as const;

/** Where a chunk is. */
export interface ChunkRow {
  readonly id: number;
  readonly run: number;
  readonly worker: number;
  readonly records: number;
  readonly firstAtMs: number;
  readonly lastAtMs: number;
}

/** A process whose records are kept. */
export interface RunRow {
  readonly id: number;
  readonly originMs: number;
  readonly tail: number;
}

/** What the file holds. */
export interface KeptSpan {
  readonly records: number;
  readonly bytes: number;
  /** Unix ms; null: there is no record. */
  readonly oldestAtMs: number | null;
  readonly newestAtMs: number | null;
}

/** A record that was found. */
export interface FoundRecord {
  readonly run: RunRow;
  readonly worker: number;
  readonly reader: ColumnReader;
  readonly index: number;
}

/** Smallest part of a file that deletions give back, pages: less is reused by the next chunk. */
const VACUUM_PAGES = 256;

const CHUNK = "id, run, worker, records, first_at_ms AS firstAtMs, last_at_ms AS lastAtMs";

export class DecisionDatabase {
  readonly #database: DatabaseSync;
  #pageBytes = 0;

  /** @throws StoreFault as `openDatabase`. */
  constructor(path: string) {
    this.#database = openDatabase(
      path,
      MIGRATIONS,
      "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_size_limit = 4194304;",
    );
    this.#pageBytes = this.#number("PRAGMA page_size");
  }

  close(): void {
    this.#database.close();
  }

  /** Copies everything, consistently, into a new file. */
  async backup(path: string): Promise<void> {
    const { backup } = await import("node:sqlite");
    makeFileOfCopy(path);
    try {
      await backup(this.#database, path);
    } catch (error) {
      rmSync(path, { force: true });
      throw error;
    }
  }

  /** All of it or nothing. */
  write<T>(work: () => T): T {
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#database.exec("COMMIT");
      return result;
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      throw error;
    }
  }

  /** @returns id of the run. */
  addRun({ originMs, tail }: Omit<RunRow, "id">): number {
    const { lastInsertRowid } = this.#database
      .prepare("INSERT INTO runs (origin_ms, tail) VALUES (?, ?)")
      .run(originMs, tail);
    return Number(lastInsertRowid);
  }

  addNames(run: number, names: readonly IndexedName[]): void {
    const put = this.#database.prepare(
      "INSERT OR REPLACE INTO names (run, kind, idx, scope, name) VALUES (?, ?, ?, ?, ?)",
    );
    for (const { kind, index, scope, name } of names) put.run(run, kind, index, scope, name);
  }

  /** @returns bytes that the chunk takes. */
  addChunk({ id: run, originMs }: Pick<RunRow, "id" | "originMs">, worker: number, columns: DecisionColumns): number {
    const { sequences, head } = columns;
    const atMs = new ColumnReader(columns).number("decidedAtMs");
    let [first, last, firstMs, lastMs] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let index = 0; index < head.count; index++) {
      const sequence = sequences[index] as number;
      const at = atMs?.[index] as number;
      if (sequence < first) first = sequence;
      if (sequence > last) last = sequence;
      if (at < firstMs) firstMs = at;
      if (at > lastMs) lastMs = at;
    }
    const body = encodeChunk(columns);
    const { buffer, byteOffset, byteLength } = sequences;
    this.#database
      .prepare(
        `INSERT INTO chunks (run, worker, records, first_sequence, last_sequence, first_at_ms, last_at_ms, sequences, body)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        ...[run, worker, head.count, first, last, originMs + firstMs, originMs + lastMs],
        new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength),
        body,
      );
    return body.byteLength + byteLength;
  }

  addLoss(run: number, loss: { fromMs: number; toMs: number; records: number; reason: string }): void {
    this.#database
      .prepare("INSERT INTO losses (run, from_ms, to_ms, records, reason) VALUES (?, ?, ?, ?, ?)")
      .run(run, loss.fromMs, loss.toMs, loss.records, loss.reason);
  }

  addFleetState(run: number, atMs: number, body: Uint8Array): void {
    this.#database.prepare("INSERT INTO fleet_states (run, at_ms, body) VALUES (?, ?, ?)").run(run, atMs, body);
  }

  addNodeChanges(run: number, changes: readonly NodeChange[]): void {
    const put = this.#database.prepare(
      `INSERT INTO node_changes (run, at_ms, identity, state, usd_per_hour, max_in_flight, concurrency_limit)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    const known = (value: number) => (Number.isNaN(value) ? null : value);
    for (const { atMs, identity, state, usdPerHour, maxInFlight, concurrencyLimit } of changes) {
      put.run(run, atMs, identity, state, known(usdPerHour), known(maxInFlight), known(concurrencyLimit));
    }
  }

  /** Bytes in use. The file itself is not smaller than it once was until pages are given back. */
  get usedBytes(): number {
    return (this.#number("PRAGMA page_count") - this.#number("PRAGMA freelist_count")) * this.#pageBytes;
  }

  /**
   * Takes out what is older than that, and the oldest until `bytes` are not exceeded. In one transaction with what is
   * written. Returns records that went.
   */
  prune({ beforeMs, bytes }: { beforeMs: number; bytes: number }): number {
    const aged = this.#number("SELECT coalesce(sum(records), 0) FROM chunks WHERE last_at_ms < ?", beforeMs);
    if (aged > 0) this.#database.prepare("DELETE FROM chunks WHERE last_at_ms < ?").run(beforeMs);
    let gone = aged;
    while (this.usedBytes > bytes) {
      const oldest = this.#database.prepare("SELECT id, records FROM chunks ORDER BY id LIMIT 1").get() as
        | { id: number; records: number }
        | undefined;
      if (oldest === undefined) break;
      this.#database.prepare("DELETE FROM chunks WHERE id = ?").run(oldest.id);
      gone += oldest.records;
    }
    if (gone > 0) this.#pruneRest();
    return gone;
  }

  /** Makes the file smaller by pages that nothing uses. Outside a transaction. */
  giveBack(): void {
    if (this.#number("PRAGMA freelist_count") < VACUUM_PAGES) return;
    this.#database.exec(`PRAGMA incremental_vacuum(${VACUUM_PAGES})`);
  }

  /** What belongs to records that are gone: names of runs, losses, and the fleet before the last state that is needed. */
  #pruneRest(): void {
    const oldest = this.span().oldestAtMs;
    const database = this.#database;
    const newestRun = this.#number("SELECT coalesce(max(id), 0) FROM runs");
    const isUnused = "NOT IN (SELECT run FROM chunks) AND run <> ?";
    for (const table of ["names", "losses", "fleet_states", "node_changes"]) {
      database.prepare(`DELETE FROM ${table} WHERE run ${isUnused}`).run(newestRun);
    }
    database.prepare("DELETE FROM runs WHERE id NOT IN (SELECT run FROM chunks) AND id <> ?").run(newestRun);
    if (oldest === null) return;
    database.prepare("DELETE FROM losses WHERE to_ms < ?").run(oldest);
    const base = this.#number("SELECT coalesce(max(id), 0) FROM fleet_states WHERE at_ms <= ?", oldest);
    database.prepare("DELETE FROM fleet_states WHERE id < ?").run(base);
    database.prepare("DELETE FROM node_changes WHERE at_ms < (SELECT at_ms FROM fleet_states WHERE id = ?)").run(base);
  }

  span(): KeptSpan {
    const row = this.#database
      .prepare(
        "SELECT coalesce(sum(records), 0) AS records, min(first_at_ms) AS oldestAtMs, max(last_at_ms) AS newestAtMs FROM chunks",
      )
      .get() as Omit<KeptSpan, "bytes">;
    return { ...row, bytes: this.usedBytes };
  }

  /**
   * The record of a decision id. O(chunks of about that time).
   *
   * @param toleranceMs how far the wall clock of an id and that of its record may be apart.
   */
  find(
    { worker, sequence, unixMs }: { worker: number; sequence: number; unixMs: number },
    toleranceMs: number,
  ): FoundRecord | null {
    const rows = this.#database
      .prepare(
        `SELECT ${CHUNK}, sequences FROM chunks WHERE worker = ? AND first_sequence <= ? AND last_sequence >= ?
         AND last_at_ms >= ? AND first_at_ms <= ? ORDER BY id DESC`,
      )
      .all(worker, sequence, sequence, unixMs - toleranceMs, unixMs + toleranceMs);
    for (const row of rows as unknown as (ChunkRow & { sequences: Uint8Array })[]) {
      const sequences = new Int32Array(new Uint8Array(row.sequences).buffer);
      const index = sequences.indexOf(sequence);
      const run = index < 0 ? null : this.run(row.run);
      if (run === null) continue;
      const reader = this.read(row.id);
      const atMs = reader?.number("decidedAtMs")?.[index];
      if (reader === null || atMs === undefined) continue;
      if (Math.abs(run.originMs + atMs - unixMs) <= toleranceMs) return { run, worker, reader, index };
    }
    return null;
  }

  /** An earlier record of the same request. */
  findInRun(run: RunRow, worker: number, sequence: number): FoundRecord | null {
    const rows = this.#database
      .prepare(
        `SELECT id, sequences FROM chunks WHERE run = ? AND worker = ? AND first_sequence <= ? AND last_sequence >= ?
         ORDER BY id DESC`,
      )
      .all(run.id, worker, sequence, sequence);
    for (const row of rows as unknown as { id: number; sequences: Uint8Array }[]) {
      const index = new Int32Array(new Uint8Array(row.sequences).buffer).indexOf(sequence);
      const reader = index < 0 ? null : this.read(row.id);
      if (reader !== null) return { run, worker, reader, index };
    }
    return null;
  }

  run(id: number): RunRow | null {
    const row = this.#database.prepare("SELECT id, origin_ms AS originMs, tail FROM runs WHERE id = ?").get(id);
    return (row as unknown as RunRow | undefined) ?? null;
  }

  runs(): RunRow[] {
    return this.#database
      .prepare("SELECT id, origin_ms AS originMs, tail FROM runs ORDER BY id")
      .all() as unknown as RunRow[];
  }

  /** The records of a chunk; null: it is gone. @throws Error when it can't be read. */
  read(id: number): ColumnReader | null {
    const row = this.#database.prepare("SELECT body FROM chunks WHERE id = ?").get(id) as
      | { body: Uint8Array }
      | undefined;
    return row === undefined ? null : new ColumnReader(decodeChunk(row.body));
  }

  /** Chunks whose decisions may be of that time, in the order in which they were written. */
  chunksBetween(fromMs: number, toMs: number): ChunkRow[] {
    return this.#database
      .prepare(`SELECT ${CHUNK} FROM chunks WHERE last_at_ms >= ? AND first_at_ms < ? ORDER BY id`)
      .all(fromMs, toMs) as unknown as ChunkRow[];
  }

  /** The newest chunk at or before an id; null: there is none. */
  chunkAtOrBefore(id: number): ChunkRow | null {
    const row = this.#database.prepare(`SELECT ${CHUNK} FROM chunks WHERE id <= ? ORDER BY id DESC LIMIT 1`).get(id);
    return (row as unknown as ChunkRow | undefined) ?? null;
  }

  /** Names of a run. */
  names(run: number): IndexedName[] {
    return this.#database
      .prepare('SELECT kind, idx AS "index", scope, name FROM names WHERE run = ?')
      .all(run) as unknown as IndexedName[];
  }

  nameOf(run: number, kind: NameKind, index: number): Pick<IndexedName, "scope" | "name"> | null {
    const row = this.#database
      .prepare("SELECT scope, name FROM names WHERE run = ? AND kind = ? AND idx = ?")
      .get(run, kind, index);
    return (row as unknown as IndexedName | undefined) ?? null;
  }

  losses(fromMs: number, toMs: number): { run: number; records: number; reason: string }[] {
    return this.#database
      .prepare("SELECT run, records, reason FROM losses WHERE to_ms >= ? AND from_ms < ?")
      .all(fromMs, toMs) as unknown as { run: number; records: number; reason: string }[];
  }

  /** The fleet at a time and what it became until another, oldest first: the last state before it is the first. */
  fleetStates(run: number, fromMs: number, toMs: number): { atMs: number; body: Uint8Array }[] {
    return this.#database
      .prepare(
        `SELECT at_ms AS atMs, body FROM fleet_states WHERE run = :run AND at_ms < :to AND id >= coalesce(
           (SELECT max(id) FROM fleet_states WHERE run = :run AND at_ms <= :from), 0) ORDER BY id`,
      )
      .all({ run, from: fromMs, to: toMs }) as unknown as { atMs: number; body: Uint8Array }[];
  }

  nodeChanges(run: number, fromMs: number, toMs: number): NodeChange[] {
    const rows = this.#database
      .prepare(
        `SELECT at_ms AS atMs, identity, state, usd_per_hour AS usdPerHour, max_in_flight AS maxInFlight,
           concurrency_limit AS concurrencyLimit FROM node_changes WHERE run = ? AND at_ms >= ? AND at_ms < ?
         ORDER BY at_ms, rowid`,
      )
      .all(run, fromMs, toMs) as unknown as NodeChange[];
    const known = (value: number | null) => value ?? Number.NaN;
    return rows.map((row) => ({
      ...row,
      usdPerHour: known(row.usdPerHour),
      maxInFlight: known(row.maxInFlight),
      concurrencyLimit: known(row.concurrencyLimit),
    }));
  }

  #number(sql: string, ...values: (number | string)[]): number {
    return Number(Object.values(this.#database.prepare(sql).get(...values) ?? {})[0] ?? 0);
  }
}
