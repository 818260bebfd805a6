/** The file is read again: what it says is put in force as one version, or refused as a whole. */

import { basename } from "node:path";
import { DEFAULT_ACCOUNT } from "@zml/protocol";
import { formatProblems } from "../config/config-problem.ts";
import { diffConfig } from "../config/diff-config.ts";
import type { ConfigSource, ReadConfigResult } from "../config/read-config.ts";
import { hasSameFiles } from "../config/tls-files.ts";
import { type Configuration, type Draft, isReadFile } from "./configuration.ts";
import type { GatewayLog } from "./gateway-log.ts";
import type { Audit } from "./objects/audit.ts";
import { fileChanges } from "./objects/file-diff.ts";
import { LOCKOUT, locksOut } from "./objects/lockout.ts";
import type { AppliedVersion } from "./objects/managed-objects.ts";
import { actionOf } from "./objects/object-changes.ts";
import { problemWords } from "./objects/refusals.ts";

/** What became of a reload. */
export type ReloadResult =
  | (AppliedVersion & { readonly kind: "applied" })
  | { readonly kind: "unchanged" }
  | { readonly kind: "refused"; readonly problems: readonly string[] };

/** Reads the file anew; null: nothing in it has changed since `before` was read. */
export type ReadAgain = (before: Draft) => ReadConfigResult | null | Promise<ReadConfigResult | null>;

/** Whether the file is as it was when `before` was read, told at once. */
export type IsAsRead = (before: Draft) => boolean;

/** What became of a reload, and when. */
export interface LastReload {
  /** RFC 3339. */
  readonly at: string;
  readonly kind: ReloadResult["kind"];
  readonly problems: readonly string[];
}

export interface FileReloadsOptions {
  readonly configuration: Configuration;
  /** Reads the file anew; absent: there is none. */
  readonly readAgain: ReadAgain | undefined;
  readonly isAsRead: IsAsRead;
  readonly isStopping: () => boolean;
  readonly audit: Audit;
  readonly log: GatewayLog;
}

export class FileReloads {
  readonly #options: FileReloadsOptions;
  #applied = 0;
  #refused = 0;
  #last: LastReload | null = null;

  constructor(options: FileReloadsOptions) {
    this.#options = options;
  }

  /** Reloads that were put in force. */
  get applied(): number {
    return this.#applied;
  }

  get refused(): number {
    return this.#refused;
  }

  /** What became of the last one; null: there was none. */
  get last(): LastReload | null {
    return this.#last;
  }

  /** @param isFirstLook the watch looked for the first time; nobody asked. */
  async reload({ isFirstLook = false } = {}): Promise<ReloadResult> {
    const { configuration, isAsRead, isStopping } = this.#options;
    // not behind the changes that are under way: none of them changes the file, and this one changes nothing
    if (!isStopping() && isAsRead(configuration.inForce)) return this.#note(this.#unchanged(isFirstLook), isFirstLook);
    return configuration.inTurn(async () => this.#note(await this.#reload(isFirstLook), isFirstLook));
  }

  #note(result: ReloadResult, isFirstLook: boolean): ReloadResult {
    if (!isFirstLook || result.kind !== "unchanged") {
      const problems = result.kind === "refused" ? result.problems : [];
      this.#last = { at: new Date().toISOString(), kind: result.kind, problems };
    }
    return result;
  }

  /** For the watch: a reload that says in the log what went wrong. */
  async fromWatch(isFirstLook: boolean): Promise<void> {
    await this.reload({ isFirstLook }).catch((error: unknown) => {
      const { log } = this.#options;
      log.error({ error: error instanceof Error ? error.message : String(error) }, "the reload failed");
    });
  }

  async #reload(isFirstLook: boolean): Promise<ReloadResult> {
    const { configuration, readAgain, isStopping, log } = this.#options;
    if (isStopping()) return this.#refuse(["the gateway is stopping: start it again with the new file"]);
    if (readAgain === undefined) return this.#refuse(["this gateway was started without a file to read again"]);
    const before = configuration.inForce;
    const read = await readAgain(before);
    if (read === null) return this.#unchanged(isFirstLook);
    if (!isReadFile(read)) return this.#refuse(read.errors.map((problem) => formatProblems([problem])));
    const drafted = configuration.draft({ read });
    if ("problems" in drafted) return this.#refuse(problemWords(drafted.problems, read.source));
    const { draft } = drafted;
    const diff = diffConfig(before.config, draft.config);
    if (diff.needsRestart.length > 0) return this.#refuse(diff.needsRestart);
    if (diff.isEmpty && hasSameFiles(before.secrets, draft.secrets)) {
      // its lines may be others
      configuration.begin(draft);
      return this.#unchanged(isFirstLook);
    }
    if (locksOut(before.config, draft.config, Date.now())) {
      return this.#refuse([`${LOCKOUT.message}: give ${DEFAULT_ACCOUNT} one in the file, or ${LOCKOUT.hint}`]);
    }
    const applied = await configuration.apply(draft);
    this.#applied += 1;
    for (const warning of read.warnings) log.warn({}, formatProblems([warning]));
    const { version, isAcknowledged } = applied;
    this.#audit(before.source, draft.source, version);
    const count = (list: { added: readonly unknown[]; removed: readonly unknown[]; changed: readonly unknown[] }) =>
      `+${list.added.length} -${list.removed.length} ~${list.changed.length}`;
    const fields = { version, nodes: count(diff.nodes), policies: count(diff.policies), models: count(diff.models) };
    log.info({ ...fields, isAcknowledged }, "the configuration was applied");
    const warnings = [...read.warnings.map((problem) => formatProblems([problem])), ...applied.warnings];
    return { kind: "applied", version, isAcknowledged, warnings };
  }

  /** Nobody waits for the store: the file is in force whether it can be told or not. */
  #audit(before: ConfigSource, after: ConfigSource, version: number): void {
    const entries = fileChanges(before.value, after.value).map(({ key, ...values }) => {
      return { ...key, action: actionOf(values), ...values };
    });
    const actor = { kind: "file", name: basename(after.fileName), account: DEFAULT_ACCOUNT } as const;
    void this.#options.audit.note(entries, actor, version);
  }

  #unchanged(isFirstLook: boolean): ReloadResult {
    // nobody asked for the first look at a watched file: a line at each start would say that somebody did
    if (!isFirstLook) this.#options.log.info({}, "the configuration was read again: nothing changed");
    return { kind: "unchanged" };
  }

  #refuse(problems: readonly string[]): ReloadResult {
    this.#refused += 1;
    const { log } = this.#options;
    for (const problem of problems) log.error({ problem }, "the new configuration is refused, the old one runs on");
    return { kind: "refused", problems };
  }
}
