/**
 * The pepper of the keys that the gateway makes: 32 random bytes in a file beside the store. Whoever has a copy of the
 * store alone can't try values against its digests.
 */

import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { keyDigest, PROCESS_PEPPER } from "../../config/key-digest.ts";
import { linkIfNew, makePrivateFolder, PRIVATE_FILE } from "../../store/private-files.ts";
import { StoreFault, toStoreFault } from "../../store/store-fault.ts";
import { PEPPER_FILE } from "../../store/store-files.ts";
import { MEMORY } from "../../store/store-messages.ts";

const PEPPER_BYTES = 32;

/** There is no file, or what stands in the place of its folder is none. */
const ABSENT: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR"]);

/** What tells a pepper and tells nothing of it: kept in the store beside the digests. */
export function pepperCheck(pepper: Uint8Array): string {
  return keyDigest(pepper, "zml pepper").slice(0, 16);
}

/**
 * The pepper of a store, or null when there is none yet.
 *
 * @throws StoreFault when the file can't be read, or holds something else.
 */
export function readPepper(folder: string): Uint8Array | null {
  if (folder === MEMORY) return PROCESS_PEPPER;
  const path = join(folder, PEPPER_FILE);
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && ABSENT.has(String(error.code))) return null;
    throw toStoreFault(error, path);
  }
  if (bytes.length === PEPPER_BYTES) return bytes;
  const found = `the file ${path} has ${bytes.length} bytes, and the pepper of the store has ${PEPPER_BYTES}`;
  throw new StoreFault("corrupt", `${found}: put the file of the backup there`);
}

/**
 * Makes a pepper, or takes the one that another process made meanwhile. Whole or not at all, for this user alone.
 *
 * @throws StoreFault
 */
export function makePepper(folder: string): Uint8Array {
  const path = join(folder, PEPPER_FILE);
  const draft = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    makePrivateFolder(folder);
    const file = openSync(draft, "wx", PRIVATE_FILE);
    try {
      writeSync(file, randomBytes(PEPPER_BYTES));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    linkIfNew(draft, path);
  } catch (error) {
    throw toStoreFault(error, path);
  } finally {
    rmSync(draft, { force: true });
  }
  const pepper = readPepper(folder);
  if (pepper === null) throw new StoreFault("failed", `the file ${path} went while it was made: try again`);
  return pepper;
}
