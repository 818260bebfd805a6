/** Puts a backup in the place of a store that no gateway uses. */

import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { MIGRATIONS } from "./migrations.ts";
import { copyPrivately, makePrivateFolder } from "./private-files.ts";
import { StoreFault, toStoreFault } from "./store-fault.ts";
import { DECISIONS_FILE, decisionsOfBackup, PEPPER_FILE, pepperOfBackup, STORE_FILE } from "./store-files.ts";

export interface RestoreOptions {
  /** The copy that `zml store backup` made. */
  readonly backup: string;
  /** Folder of the store. */
  readonly folder: string;
  /** Put it in the place of a store that is there. */
  readonly force: boolean;
}

/** What was put there. */
export interface Restored {
  readonly version: number;
  /** Objects that the API made. */
  readonly objects: number;
  /** True: the pepper of its keys came with it. */
  readonly hasPepper: boolean;
  /** True: kept decisions came with it. */
  readonly hasDecisions: boolean;
}

/**
 * Whole or not at all: the copy is made beside the store, checked, and renamed.
 *
 * @throws StoreFault when it is no store, a newer one, in use, or when another one is there and `force` is not set.
 */
export function restoreStore({ backup, folder, force }: RestoreOptions): Restored {
  const path = join(folder, STORE_FILE);
  const draft = `${path}.restoring`;
  try {
    const isThere = existsSync(path);
    if (isThere && !force) {
      throw new StoreFault("unreachable", `there is a store at ${path} already: restore with --force to replace it`);
    }
    makePrivateFolder(folder);
    copyPrivately(backup, draft);
    const found = checkCopy(draft, backup);
    const pepper = pepperOfBackup(backup);
    const hasPepper = existsSync(pepper);
    if (found.keys > 0 && !hasPepper && !existsSync(join(folder, PEPPER_FILE))) {
      throw new StoreFault(
        "unreachable",
        `the backup has ${found.keys} keys, and ${pepper}, without which none of them can be checked, is missing: put it there`,
      );
    }
    const sequence = isThere ? sequenceOfUnused(path) : 0;
    moveOn(draft, Math.max(sequence, found.sequence) + 1);
    if (hasPepper) {
      copyPrivately(pepper, `${draft}.pepper`);
      renameSync(`${draft}.pepper`, join(folder, PEPPER_FILE));
    }
    const decisions = decisionsOfBackup(backup);
    const hasDecisions = existsSync(decisions);
    if (hasDecisions) putDecisions(decisions, folder, force);
    // what belongs to the file that goes would be read into the one that comes
    for (const rest of ["-wal", "-shm"]) rmSync(`${path}${rest}`, { force: true });
    renameSync(draft, path);
    return { version: found.version, objects: found.objects, hasPepper, hasDecisions };
  } catch (error) {
    throw toStoreFault(error, dirname(path) === dirname(backup) ? backup : path);
  } finally {
    for (const rest of ["", "-wal", "-shm", "-journal", ".pepper"]) rmSync(`${draft}${rest}`, { force: true });
  }
}

/** Kept decisions of the backup, in the place of those that are there. */
function putDecisions(backup: string, folder: string, force: boolean): void {
  const path = join(folder, DECISIONS_FILE);
  const draft = `${path}.restoring`;
  try {
    if (existsSync(path) && !force) {
      throw new StoreFault(
        "unreachable",
        `there are kept decisions at ${path} already: restore with --force to replace them`,
      );
    }
    copyPrivately(backup, draft);
    const database = new DatabaseSync(draft);
    try {
      const verdict = database.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
      const { count } = database.prepare("SELECT count(*) AS count FROM sqlite_schema WHERE name = 'chunks'").get() as {
        count: number;
      };
      if (verdict !== "ok" || count !== 1) {
        throw new StoreFault("corrupt", `the file ${backup} holds no kept decisions, or is damaged: move it away`);
      }
    } finally {
      database.close();
    }
    for (const rest of ["-wal", "-shm"]) rmSync(`${path}${rest}`, { force: true });
    renameSync(draft, path);
  } finally {
    for (const rest of ["", "-wal", "-shm", "-journal"]) rmSync(`${draft}${rest}`, { force: true });
  }
}

interface Found {
  readonly version: number;
  readonly objects: number;
  readonly keys: number;
  readonly sequence: number;
}

function checkCopy(draft: string, backup: string): Found {
  const database = new DatabaseSync(draft, { readOnly: true });
  try {
    const number = (sql: string): number => Number(Object.values(database.prepare(sql).get() ?? {})[0] ?? 0);
    const version = number("PRAGMA user_version");
    if (version > MIGRATIONS.length) {
      throw new StoreFault(
        "newer",
        `the backup ${backup} has version ${version} and this ZML knows ${MIGRATIONS.length}: restore it with the newer ZML`,
      );
    }
    const verdict = database.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
    if (version === 0 || verdict !== "ok") {
      throw new StoreFault("corrupt", `the file ${backup} is no store of ZML, or a damaged one: name another backup`);
    }
    // what older shapes don't have
    if (version < OBJECTS_SINCE) return { version, objects: 0, keys: 0, sequence: 0 };
    return {
      version,
      objects: number("SELECT count(*) FROM objects"),
      keys: number("SELECT count(DISTINCT account || ' ' || name) FROM key_digests"),
      sequence: number("SELECT value FROM counters WHERE name = 'objects'"),
    };
  } finally {
    database.close();
  }
}

/** The step that brought the objects. */
const OBJECTS_SINCE = 3;

/** Revisions are never used twice, and a gateway that is resting must see that the store is another one. */
function moveOn(draft: string, sequence: number): void {
  const database = new DatabaseSync(draft);
  try {
    const row = database.prepare("PRAGMA user_version").get();
    if (Number(row?.["user_version"]) < OBJECTS_SINCE) return;
    database.prepare("UPDATE counters SET value = ? WHERE name = 'objects'").run(sequence);
  } finally {
    database.close();
  }
}

/** Number of the last change of the store that goes. @throws StoreFault `locked` while somebody has it open. */
function sequenceOfUnused(path: string): number {
  let database: DatabaseSync;
  try {
    database = new DatabaseSync(path, { timeout: 0 });
  } catch {
    return 0;
  }
  try {
    // in this mode it opens only when nobody else has it open
    database.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; ROLLBACK");
    const row = database.prepare("SELECT value FROM counters WHERE name = 'objects'").get();
    return Number(row?.["value"] ?? 0);
  } catch (error) {
    const fault = toStoreFault(error, path);
    if (fault.kind === "locked") {
      throw new StoreFault("locked", `the store ${path} is in use: stop the gateway first`);
    }
    // a damaged one, or one of an older shape: the reason to restore
    return 0;
  } finally {
    database.close();
  }
}
