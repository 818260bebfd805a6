/**
 * Watches the configuration file and those that it names. Editors and orchestrators write them in parts, rename over them
 * or swap a link.
 */

import { watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { GatewayLog } from "./gateway-log.ts";

/** A file that stayed the same for this long has been written to its end, ms. */
const SETTLE_MS = 100;

/** `isFirst`: the file was looked at for the first time, and may be as it was read at the start. */
export type OnChange = (isFirst: boolean) => Promise<void>;

/** Watches as many files as the configuration names now. */
export class FileWatches {
  readonly #onChange: OnChange;
  readonly #log: GatewayLog;
  readonly #ends = new Map<string, () => void>();

  constructor(onChange: OnChange, log: GatewayLog) {
    this.#onChange = onChange;
    this.#log = log;
  }

  /** Watches these files and no others. */
  follow(paths: readonly string[]): void {
    for (const [path, end] of this.#ends) {
      if (paths.includes(path)) continue;
      end();
      this.#ends.delete(path);
    }
    for (const path of paths) {
      if (!this.#ends.has(path)) this.#ends.set(path, watchFile(path, this.#onChange, this.#log));
    }
  }

  end(): void {
    this.follow([]);
  }
}

/**
 * Calls `onChange` when the file has changed and settled. Its directory is watched, since a rename over the file ends a
 * watch of the file itself; what else happens there costs one `stat` per `SETTLE_MS`.
 *
 * @returns what ends it.
 */
function watchFile(path: string, onChange: OnChange, log: GatewayLog): () => void {
  let timer: NodeJS.Timeout | null = null;
  let isEnded = false;
  let seen = "";
  let pending = "";
  const look = async (): Promise<void> => {
    timer = null;
    const now = await fingerprint(path);
    if (isEnded || now === seen) return;
    if (now === pending && now !== MISSING) {
      const isFirst = seen === "";
      seen = now;
      pending = "";
      await onChange(isFirst);
      return;
    }
    pending = now;
    // a file that is gone comes back with an event; until then the configuration in force stays
    if (now !== MISSING) later();
  };
  const later = (): void => {
    if (isEnded) return;
    timer ??= setTimeout(() => {
      look().catch((error: unknown) => log.error({ error: String(error) }, "looking at a configuration file failed"));
    }, SETTLE_MS);
  };
  const blind = (error: unknown): void => {
    log.warn(
      { error: error instanceof Error ? error.message : String(error) },
      "changes of a configuration file are not seen: send SIGHUP to reload it",
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
