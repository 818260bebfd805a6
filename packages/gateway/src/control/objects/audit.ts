/** Who changed what, when, from which value to which: in the store, and as a log event. */

import type { AuditAppend, AuditQuery, AuditRow } from "../../store/object-operations.ts";
import type { StoreClient } from "../../store/store.ts";
import { StoreFault } from "../../store/store-fault.ts";
import type { GatewayLog } from "../gateway-log.ts";
import { fieldChanges } from "./field-changes.ts";
import type { Actor } from "./managed-objects.ts";

const DAY_MS = 86_400_000;
/** Changes that one log event lists: ten thousand nodes in one go are one line, and the store has them all. */
const LOGGED_MAX = 20;

/** Something that was done. */
export interface AuditEntry {
  /** A kind of objects; "": the gateway itself. */
  readonly kind: string;
  readonly account: string;
  readonly name: string;
  readonly action: string;
  /** Values without secrets; null: there was, or is, nothing. */
  readonly before: unknown;
  readonly after: unknown;
}

/** The same as it was kept. */
export interface AuditRecord extends AuditEntry {
  readonly id: number;
  /** Unix ms. */
  readonly atMs: number;
  readonly actor: Actor;
  /** Of the configuration that it became, in the process that did it; null: of none. */
  readonly version: number | null;
}

export interface AuditOptions {
  readonly store: StoreClient;
  readonly log: GatewayLog;
  /** Unix ms. */
  readonly nowMs: () => number;
  /** How long rows are kept. */
  readonly days: () => number;
}

export class Audit {
  readonly #options: AuditOptions;

  constructor(options: AuditOptions) {
    this.#options = options;
  }

  /** Rows for a write that keeps them together with what it changes. */
  append(entries: readonly AuditEntry[], actor: Actor): AuditAppend {
    const { nowMs, days } = this.#options;
    const atMs = nowMs();
    const rows = entries.map(({ kind, account, name, action, before, after }): AuditRow => {
      const text = (value: unknown) => (value === null || value === undefined ? null : JSON.stringify(value));
      const { kind: actorKind, name: actorName, account: actorAccount } = actor;
      const who = { atMs, actorKind, actorName, actorAccount };
      return { ...who, kind, account, name, action, before: text(before), after: text(after) };
    });
    return { rows, forgetBeforeMs: atMs - days() * DAY_MS };
  }

  /** The log event of what was done. @param version that it became; null: of none. */
  tell(entries: readonly AuditEntry[], actor: Actor, version: number | null): void {
    if (entries.length === 0) return;
    const changes = entries.slice(0, LOGGED_MAX).map(({ kind, account, name, action, before, after }) => ({
      ...{ action, kind, account, name },
      fields: fieldChanges(before, after),
    }));
    const { log } = this.#options;
    log.info({ actor, count: entries.length, changes, ...(version === null ? {} : { version }) }, "audit");
  }

  /** Keeps and tells what is done already, so that nothing that fails here is the caller's: the log event stands. */
  async note(entries: readonly AuditEntry[], actor: Actor, version: number | null = null): Promise<void> {
    if (entries.length === 0) return;
    this.tell(entries, actor, version);
    try {
      await this.#options.store.call("audit.append", this.append(entries, actor));
    } catch (error) {
      // a store that fails has said so
      if (error instanceof StoreFault) return;
      this.#options.log.error({ error: String(error) }, "what was done could not be kept in the audit");
    }
  }

  /** The change of this revision is in force. */
  async noteVersion(revision: number, version: number): Promise<void> {
    await this.#options.store.call("audit.version", { revision, version }).catch(() => undefined);
  }

  /** Newest first. @throws StoreFault */
  async list(query: AuditQuery): Promise<AuditRecord[]> {
    const rows = await this.#options.store.call("audit.list", query);
    return rows.map(({ id, atMs, actorKind, actorName, actorAccount, before, after, version, ...rest }) => ({
      ...{ id, atMs, version },
      ...{ kind: rest.kind, account: rest.account, name: rest.name, action: rest.action },
      actor: { kind: actorKind as Actor["kind"], name: actorName, account: actorAccount },
      before: before === null ? null : (JSON.parse(before) as unknown),
      after: after === null ? null : (JSON.parse(after) as unknown),
    }));
  }
}
