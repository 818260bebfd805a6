/**
 * Watches the configuration file and those that it names. Editors and orchestrators write them in parts, rename over them
 * or swap a link.
 */

import { type FSWatcher, readlinkSync, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { parse, resolve, sep } from "node:path";
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
 * Calls `onChange` when the file has changed and settled. Folders are watched, since a rename over the file ends a watch of
 * the file itself, and where links lead to it the folder of each link: Kubernetes swaps one above the file. What else
 * happens there costs one `stat` per `SETTLE_MS`.
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
    follow();
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
  const watchers = new Map<string, FSWatcher>();
  const follow = (): void => {
    const folders = watchedFolders(path);
    for (const [folder, watcher] of watchers) {
      if (folders.has(folder)) continue;
      watcher.close();
      watchers.delete(folder);
    }
    for (const folder of folders) {
      if (watchers.has(folder)) continue;
      try {
        const watcher = watch(folder, { persistent: false }, later);
        watcher.on("error", blind);
        watchers.set(folder, watcher);
      } catch (error) {
        blind(error);
      }
    }
  };
  follow();
  // what was written between reading the file and watching it would be missed otherwise; an unchanged one is no change
  later();
  return () => {
    isEnded = true;
    if (timer !== null) clearTimeout(timer);
    for (const watcher of watchers.values()) watcher.close();
  };
}

/** Links of one path; the system gives up at 40. */
const LINKS_MAX = 40;

/** The real folders in which something decides what a path leads to: that of the file, and that of each link on its way. */
function watchedFolders(path: string): Set<string> {
  const folders = new Set<string>();
  let rest = resolve(path).split(sep).slice(1);
  let at = parse(resolve(path)).root;
  let links = 0;
  while (rest.length > 0 && links <= LINKS_MAX) {
    const [name = "", ...others] = rest;
    rest = others;
    const here = resolve(at, name);
    const target = linkTarget(here);
    if (target !== null) {
      folders.add(at);
      links += 1;
      const led = resolve(at, target);
      at = parse(led).root;
      rest = [...led.split(sep).slice(1), ...rest];
      continue;
    }
    if (rest.length === 0) folders.add(at);
    else at = here;
  }
  return folders;
}

/** Null: no link, or nothing. */
function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
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
