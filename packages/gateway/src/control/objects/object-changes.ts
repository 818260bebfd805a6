/** Changes of what the API owns: checked with everything else, kept, put in force. All of them or none. */

import { type Config, formatPath } from "@zml/protocol";
import type { StoredDigest } from "../../store/object-operations.ts";
import { StoreFault } from "../../store/store-fault.ts";
import type { Configuration, DraftProblem } from "../configuration.ts";
import type { Audit, AuditEntry } from "./audit.ts";
import { LOCKOUT, locksOut } from "./lockout.ts";
import type {
  Actor,
  AppliedVersion,
  ManagedObject,
  ObjectChange,
  ObjectKey,
  Spec,
  WriteRefusal,
} from "./managed-objects.ts";
import type { ApiObject } from "./merged-values.ts";
import { keyText } from "./object-lists.ts";
import type { ObjectStore } from "./object-store.ts";
import { refusal, refuseStore } from "./refusals.ts";

/** What is to become of one object that the API owns, or of none. */
export interface PlannedChange {
  readonly key: ObjectKey;
  readonly before: ManagedObject | null;
  /** Null: it goes. */
  readonly after: Spec | null;
  /** Of a key, where they change. */
  readonly digests?: readonly StoredDigest[];
  /** How the audit calls it. Default: created, updated or deleted. */
  readonly action?: string;
}

/** `created`, `updated` or `deleted`. */
export function actionOf({ before, after }: { before: unknown; after: unknown }): ObjectChange["action"] {
  return after === null ? "deleted" : before === null ? "created" : "updated";
}

/** What came of changes. */
export type ChangeResult =
  | (AppliedVersion & { readonly kind: "made"; readonly objects: readonly ApiObject[] })
  | { readonly kind: "wrong"; readonly problems: readonly DraftProblem[] }
  | WriteRefusal;

export interface ObjectChangesOptions {
  readonly configuration: Configuration;
  readonly objects: ObjectStore;
  readonly audit: Audit;
  /** These objects are gone. */
  readonly onRemoved: (keys: readonly ObjectKey[]) => void;
  /** Unix ms. */
  readonly nowMs: () => number;
}

export class ObjectChanges {
  readonly #options: ObjectChangesOptions;

  constructor(options: ObjectChangesOptions) {
    this.#options = options;
  }

  /** What would be wrong with them, and what they would warn of. */
  check(
    changes: readonly PlannedChange[],
  ): WriteRefusal | { problems: readonly DraftProblem[] } | { warnings: readonly string[] } {
    const drafted = this.#options.configuration.draft({ api: this.#next(changes).api });
    if ("problems" in drafted) return drafted;
    return this.#refuseLockout(drafted.draft.config) ?? { warnings: warningsOf(changes, drafted.warnings) };
  }

  /** Makes them. In a turn of the configuration. @param pepperCheck of the pepper of new digests. */
  async make(
    changes: readonly PlannedChange[],
    actor: Actor,
    pepperCheck: string | null = null,
  ): Promise<ChangeResult> {
    const { configuration, objects, audit } = this.#options;
    const { api, puts } = this.#next(changes);
    const drafted = configuration.draft({ api });
    if ("problems" in drafted) return { kind: "wrong", problems: drafted.problems };
    const refused = this.#refuseLockout(drafted.draft.config);
    if (refused !== null) return refused;
    const removes = changes.flatMap(({ key, after }) => (after === null ? [key] : []));
    const entries = changes.map(auditEntry);
    let revision: number;
    try {
      revision = await objects.write({ puts, removes, pepperCheck, audit: audit.append(entries, actor) });
    } catch (error) {
      if (error instanceof StoreFault) return refuseStore(error);
      throw error;
    }
    for (const put of puts) put.revision = revision;
    this.#options.onRemoved(removes);
    const applied = await configuration.apply(drafted.draft);
    audit.tell(entries, actor, applied.version);
    await audit.noteVersion(revision, applied.version);
    const warnings = [...warningsOf(changes, drafted.warnings), ...applied.warnings];
    return { kind: "made", objects: puts, ...applied, warnings };
  }

  #refuseLockout(next: Config): WriteRefusal | null {
    const { configuration, nowMs } = this.#options;
    return locksOut(configuration.config, next, nowMs()) ? refusal("invalid", LOCKOUT.message, LOCKOUT.hint) : null;
  }

  /** The API's objects after the changes, and those of them that are new or others than before. */
  #next(changes: readonly PlannedChange[]): { api: Map<string, ApiObject>; puts: Mutable<ApiObject>[] } {
    const { configuration, nowMs } = this.#options;
    const api = new Map(configuration.inForce.api);
    const atMs = nowMs();
    const puts = changes.flatMap(({ key, after, digests }) => {
      const text = keyText(key);
      const old = api.get(text);
      if (after === null) {
        api.delete(text);
        return [];
      }
      const put: Mutable<ApiObject> = {
        key,
        spec: after,
        // known once the store has it
        revision: 0,
        createdAtMs: old?.createdAtMs ?? atMs,
        updatedAtMs: atMs,
        digests: digests ?? old?.digests ?? [],
      };
      api.set(text, put);
      return [put];
    });
    return { api, puts };
  }
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function auditEntry(change: PlannedChange): AuditEntry {
  const { key, before, after } = change;
  return { ...key, action: change.action ?? actionOf(change), before: before?.spec ?? null, after };
}

/** Only those of what is changed: the others were told when they came. */
function warningsOf(changes: readonly PlannedChange[], warnings: readonly DraftProblem[]): string[] {
  const changed = new Set(changes.map(({ key }) => keyText(key)));
  return warnings.flatMap(({ place, issue }) => {
    if (place.owner !== "api" || !changed.has(keyText(place.key))) return [];
    const { message, hint } = issue;
    return [`${place.key.name}: ${formatPath(place.path)}: ${message}${hint === null ? "" : `: ${hint}`}`];
  });
}
