/**
 * The files of a store hold names, digests of keys and where nodes are: this user alone may read them. SQLite makes what
 * belongs to a database (`-wal`, `-shm`) with the rights that the database has.
 */

import { randomBytes } from "node:crypto";
import { chmodSync, closeSync, copyFileSync, linkSync, lstatSync, mkdirSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";
import { StoreFault } from "./store-fault.ts";
import { DECISIONS_FILE, PEPPER_FILE, STORE_FILE } from "./store-files.ts";

export const PRIVATE_FILE = 0o600;
const PRIVATE_FOLDER = 0o700;
/** Of group and others. */
const RIGHTS_OF_OTHERS = 0o077;

const FILES: readonly string[] = [
  ...[STORE_FILE, DECISIONS_FILE].flatMap((file) => [file, `${file}-wal`, `${file}-shm`]),
  PEPPER_FILE,
];

/** Makes a folder that is missing, for this user alone. One that is there keeps its rights: it may be shared on purpose. */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: PRIVATE_FOLDER });
}

/**
 * Makes an empty file for this user alone, before SQLite makes one that all may read.
 *
 * @returns false: there is one already.
 * @throws what the system says when it can't be made.
 */
export function makePrivateFile(path: string): boolean {
  const draft = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    // closed before it has its name: to close a file that SQLite has open in this process drops SQLite's locks of it
    closeSync(openSync(draft, "wx", PRIVATE_FILE));
    return linkIfNew(draft, path);
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Makes the file that a copy goes into.
 *
 * @throws StoreFault when there is one already.
 */
export function makeFileOfCopy(path: string): void {
  if (!makePrivateFile(path)) {
    throw new StoreFault("unreachable", `the file ${path} is there already: name a new one`);
  }
}

/** Gives a file a second name. @returns false: the name is taken. */
export function linkIfNew(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}

/** Copies a file over whatever is there; the copy is for this user alone, also where the original is not. */
export function copyPrivately(from: string, to: string): void {
  rmSync(to, { force: true });
  makePrivateFile(to);
  copyFileSync(from, to);
  // a copy gets the rights of its original
  chmodSync(to, PRIVATE_FILE);
}

/** What became of files that others could use. */
export interface Narrowed {
  readonly files: readonly string[];
  /** Those that could not be changed, with what the system said. */
  readonly failed: readonly string[];
}

/** Takes the rights of others from those files of a store that are this user's; links are left alone. */
export function narrowRights(folder: string): Narrowed {
  const files: string[] = [];
  const failed: string[] = [];
  for (const name of FILES) {
    const path = join(folder, name);
    try {
      const found = lstatSync(path, { throwIfNoEntry: false });
      if (found === undefined || !found.isFile() || found.uid !== process.getuid?.()) continue;
      if ((found.mode & RIGHTS_OF_OTHERS) === 0) continue;
      chmodSync(path, found.mode & 0o777 & ~RIGHTS_OF_OTHERS);
      files.push(name);
    } catch (error) {
      failed.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { files, failed };
}
