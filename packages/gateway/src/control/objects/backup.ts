/** A copy of the store that runs, with the pepper of its keys beside it. */

import { existsSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { PRIVATE_FILE } from "../../store/private-files.ts";
import type { Store } from "../../store/store.ts";
import { StoreFault, toStoreFault } from "../../store/store-fault.ts";
import { pepperOfBackup } from "../../store/store-files.ts";
import { readPepper } from "./pepper.ts";

/**
 * Copies the store into a new file, consistently, while it is used.
 *
 * @returns size of the copy.
 * @throws StoreFault also when the file is there already.
 */
export async function backupStore(store: Store, given: string): Promise<{ readonly bytes: number }> {
  const path = resolve(given);
  const pepper = readPepper(store.folder);
  for (const file of [path, pepperOfBackup(path)]) {
    if (existsSync(file)) throw new StoreFault("unreachable", `the file ${file} is there already: name a new one`);
  }
  await store.call("store.backup", { path });
  try {
    if (pepper !== null && store.isOnDisk) {
      writeFileSync(pepperOfBackup(path), pepper, { mode: PRIVATE_FILE, flag: "wx" });
    }
    return { bytes: statSync(path).size };
  } catch (error) {
    throw toStoreFault(error, path);
  }
}
