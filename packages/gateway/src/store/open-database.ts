/** Opens the store's file, or says in words why it can't be. Runs on the store's own thread. */

import { existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { MIGRATIONS } from "./migrations.ts";
import { makePrivateFile, makePrivateFolder } from "./private-files.ts";
import { StoreFault, toStoreFault } from "./store-fault.ts";
import { MEMORY } from "./store-messages.ts";

/** A lock of another process is waited for this long, ms: a backup holds it for less. */
const BUSY_TIMEOUT_MS = 2_000;

/**
 * Opens and migrates. The file and its folder are made when they are missing, for this user alone.
 *
 * @param settings pragmas that have to come before anything is written.
 * @throws StoreFault of the kind `newer` or `corrupt` when this file must not be touched; of another kind when it may
 *   work later (a full or read-only disk, a lock).
 */
export function openDatabase(path: string, migrations: readonly string[] = MIGRATIONS, settings = ""): DatabaseSync {
  let database: DatabaseSync | null = null;
  try {
    if (path !== MEMORY && !existsSync(path)) {
      makePrivateFolder(dirname(path));
      makePrivateFile(path);
    }
    database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
    if (settings !== "") database.exec(settings);
    // readers never wait for the writer; a crash of the machine may lose the last seconds, never the file
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;");
    migrate(database, path, migrations);
    return database;
  } catch (error) {
    database?.close();
    throw toStoreFault(error, path);
  }
}

/**
 * Opens what is there for reading: on a disk that takes no writes a gateway starts with what its store holds. It sees no
 * later write of anybody.
 *
 * @throws StoreFault also when the file has to be migrated first.
 */
export function openForReading(path: string, migrations: readonly string[] = MIGRATIONS): DatabaseSync {
  let database: DatabaseSync | null = null;
  try {
    const file = pathToFileURL(path);
    // where nothing can be written, there is no room for the index of a log, and none is needed when the log is empty
    if ((statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0) file.searchParams.set("immutable", "1");
    database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
    const version = versionOf(database);
    if (version !== migrations.length) {
      throw new StoreFault(
        "read_only",
        `the store ${path} has version ${version}, this ZML needs ${migrations.length}, and it can't be written: ` +
          HINT_READ_ONLY,
      );
    }
    return database;
  } catch (error) {
    database?.close();
    throw toStoreFault(error, path);
  }
}

const HINT_READ_ONLY = "let this user write there, or name another store.path";

function migrate(database: DatabaseSync, path: string, migrations: readonly string[]): void {
  if (versionOf(database) === migrations.length) return;
  // the lock first: two processes that start at once must not both run the same step
  database.exec("BEGIN IMMEDIATE");
  try {
    const version = versionOf(database);
    if (version > migrations.length) {
      throw new StoreFault(
        "newer",
        `the store ${path} has version ${version} and this ZML knows ${migrations.length}: start the newer ZML, or ` +
          "name another store.path",
      );
    }
    for (const step of migrations.slice(version)) database.exec(step);
    database.exec(`PRAGMA user_version = ${migrations.length}`);
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
}

function versionOf(database: DatabaseSync): number {
  const row = database.prepare("PRAGMA user_version").get() as { user_version: number };
  return row.user_version;
}
