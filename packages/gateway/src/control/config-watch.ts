/** Watches the configuration file. Editors and orchestrators write it in parts, rename over it or swap a link. */

import { watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { GatewayLog } from "./gateway-log.ts";

/** A file that stayed the same for this long has been written to its end, ms. */
const SETTLE_MS = 100;

/**
 * Calls `onChange` when the file has changed and settled. Its directory is watched, since a rename over the file ends a
 * watch of the file itself; what else happens there costs one `stat` per `SETTLE_MS`.
 *
 * @returns what ends it.
 */
export function watchConfigFile(path: string, onChange: () => Promise<void>, log: GatewayLog): () => void {
  let timer: NodeJS.Timeout | null = null;
  let isEnded = false;
  let seen = "";
  let pending = "";
  const look = async (): Promise<void> => {
    timer = null;
    const now = await fingerprint(path);
    if (isEnded || now === seen) return;
    if (now === pending && now !== MISSING) {
      seen = now;
      pending = "";
      await onChange();
      return;
    }
    pending = now;
    // a file that is gone comes back with an event; until then the configuration in force stays
    if (now !== MISSING) later();
  };
  const later = (): void => {
    if (isEnded) return;
    timer ??= setTimeout(() => {
      look().catch((error: unknown) => log.error({ error: String(error) }, "looking at the configuration file failed"));
    }, SETTLE_MS);
  };
  const blind = (error: unknown): void => {
    log.warn(
      { error: error instanceof Error ? error.message : String(error) },
      "changes of the configuration file are not seen: send SIGHUP to reload it",
    );
  };
  let end = (): void => undefined;
  try {
    const watcher = watch(dirname(path), { persistent: false }, later);
    watcher.on("error", blind);
    end = () => watcher.close();
  } catch (error) {
    blind(error);
  }
  // what was written between reading the file and watching it would be missed otherwise; an unchanged one is no change
  later();
  return () => {
    isEnded = true;
    if (timer !== null) clearTimeout(timer);
    end();
  };
}

const MISSING = "missing";

async function fingerprint(path: string): Promise<string> {
  try {
    const { ino, size, mtimeMs } = await stat(path);
    return `${ino} ${size} ${mtimeMs}`;
  } catch {
    return MISSING;
  }
}
