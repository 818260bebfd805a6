/**
 * Nodes from files in Prometheus's file_sd format. Their folders are watched and, since watches miss what happens on
 * network disks and through links, the files are read every `refresh_ms` besides.
 */

import { constants, type FSWatcher, watch } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import type { SourceConfig } from "@zml/protocol";
import { RepeatedLook } from "../repeated-look.ts";
import { type Look, pause, type RunningSource, type SourceContext, SourceError, type StartSource } from "../source.ts";
import { type FileTargets, parseFileSd } from "./file-sd-format.ts";

/** Largest file, bytes: 100,000 targets with labels. */
const FILE_BYTES_MAX = 16 * 2 ** 20;
/** Files of one source: beyond, a pattern points at the wrong folder. */
const FILES_MAX = 1_000;
/** A file that stayed the same for this long has been written to its end, ms. */
const SETTLE_MS = 100;
/** Readings of a file that goes on changing under them. */
const READINGS_MAX = 10;

export const startFileSource: StartSource = (context) => new FileSource(context);

class FileSource implements RunningSource {
  readonly #repeated: RepeatedLook;
  readonly #config: SourceConfig;
  readonly #watchers = new Map<string, FSWatcher>();
  /** By path: what it held when it could last be read. */
  #lastGood = new Map<string, FileTargets>();
  #timer: NodeJS.Timeout | null = null;
  #isStopped = false;

  constructor(context: SourceContext) {
    this.#config = context.config;
    this.#repeated = new RepeatedLook(context, (_config, signal) => this.#look(signal));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
    await this.#repeated.stop();
  }

  /** Reads every file; one that can't be read keeps what it held, and the others count. */
  async #look(signal: AbortSignal): Promise<Look> {
    // watched first: what is written while we read is seen
    this.#watchFolders();
    const errors: string[] = [];
    const files = new Map<string, FileTargets>();
    for (const pattern of this.#config.paths) {
      for (const path of await this.#filesOf(pattern, errors)) {
        try {
          files.set(path, await readTargets(path, this.#config, signal));
        } catch (error) {
          if (!(error instanceof SourceError)) throw error;
          errors.push(`${path}: ${error.message}`);
          const old = this.#lastGood.get(path);
          if (old !== undefined) files.set(path, old);
        }
      }
    }
    this.#lastGood = files;
    const error = errors.length === 0 ? null : shortened(errors);
    if (files.size === 0) return { found: null, error };
    const lists = [...files.values()];
    const targets = lists.flatMap((list) => list.targets);
    return { found: { targets, leaving: [], dropped: lists.flatMap((list) => list.dropped), note: null }, error };
  }

  /** The files of a path or pattern. A pattern that names none any more keeps those that it named. */
  async #filesOf(pattern: string, errors: string[]): Promise<string[]> {
    const [folder, last] = [dirname(pattern), basename(pattern)];
    if (!/[*?]/.test(last)) return [pattern];
    const matches = matcher(last);
    const before = () =>
      [...this.#lastGood.keys()].filter((path) => dirname(path) === folder && matches.test(basename(path)));
    let names: string[];
    try {
      names = (await readdir(folder)).filter((name) => matches.test(name)).sort();
    } catch (error) {
      errors.push(`${folder}: ${inWords(error, "the folder")}`);
      return before();
    }
    if (names.length === 0) {
      errors.push(`${pattern}: no file has such a name; an empty list is a file with []`);
      return before();
    }
    if (names.length > FILES_MAX)
      errors.push(`${pattern}: ${names.length} files have such names, ${FILES_MAX} are read`);
    return names.slice(0, FILES_MAX).map((name) => join(folder, name));
  }

  #watchFolders(): void {
    for (const folder of new Set(this.#config.paths.map((path) => dirname(path)))) {
      if (this.#watchers.has(folder) || this.#isStopped) continue;
      try {
        const watcher = watch(folder, { persistent: false }, () => this.#lookSoon());
        // a folder that went is watched again once it is there; the timer sees it meanwhile
        watcher.on("error", () => this.#unwatch(folder));
        watcher.on("close", () => {
          // the next one may be there already
          if (this.#watchers.get(folder) === watcher) this.#watchers.delete(folder);
        });
        this.#watchers.set(folder, watcher);
      } catch {
        // the look itself says what is wrong with the folder
      }
    }
  }

  #unwatch(folder: string): void {
    this.#watchers.get(folder)?.close();
    this.#watchers.delete(folder);
  }

  #lookSoon(): void {
    if (this.#isStopped) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      // a folder that was moved away and made anew tells nothing more: each look watches afresh
      for (const folder of [...this.#watchers.keys()]) this.#unwatch(folder);
      this.#repeated.lookNow();
    }, SETTLE_MS);
    this.#timer.unref();
  }
}

/** The text that stood still while it was read. */
async function readTargets(path: string, config: SourceConfig, signal: AbortSignal): Promise<FileTargets> {
  let seen = "";
  for (let reading = 0; reading < READINGS_MAX; reading++) {
    const { text, version, ageMs } = await readFileBounded(path);
    // an editor or a copy may still be at it: half a YAML list is a valid, shorter one
    if (ageMs >= SETTLE_MS || version === seen) {
      return parseFileSd(text, { isJson: extname(path).toLowerCase() === ".json", port: config.port });
    }
    seen = version;
    await pause(SETTLE_MS, signal);
    if (signal.aborted) break;
  }
  throw new SourceError("it changes all the time");
}

async function readFileBounded(path: string): Promise<{ text: string; version: string; ageMs: number }> {
  try {
    // without it a pipe would hold a thread until somebody writes
    const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    try {
      const stat = await file.stat();
      const { ino, size, mtimeMs } = stat;
      if (stat.isDirectory()) throw new SourceError("it is a folder");
      if (!stat.isFile()) throw new SourceError("it is no file");
      if (size > FILE_BYTES_MAX) throw new SourceError(`it has ${size} bytes, at most ${FILE_BYTES_MAX} are read`);
      const text = await file.readFile("utf8");
      return { text, version: `${ino} ${size} ${mtimeMs}`, ageMs: Math.abs(Date.now() - mtimeMs) };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof SourceError) throw error;
    throw new SourceError(inWords(error, "the file"), error);
  }
}

function inWords(error: unknown, what: string): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  switch (code) {
    case "ENOENT":
      return `${what} is not there`;
    case "EACCES":
    case "EPERM":
      return `${what} may not be read by this user`;
    case "EISDIR":
      return `${what} is a folder`;
    case "ENOTDIR":
      return `${what} is not in a folder`;
    default:
      return `${what} can't be read (${String(code ?? "unknown")})`;
  }
}

/** The last part of a pattern. */
function matcher(pattern: string): RegExp {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`);
}

function shortened(errors: readonly string[]): string {
  const [first = ""] = errors;
  return errors.length === 1 ? first : `${first} (and ${errors.length - 1} more)`;
}
