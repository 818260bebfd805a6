/** The objects of the control plane as whoever manages them sees them. */

import type { ObjectKind, ObjectOwner } from "@zml/protocol";
import type { ConfigProblem } from "../../config/config-problem.ts";
import type { AuditQuery } from "../../store/object-operations.ts";
import type { AuditEntry, AuditRecord } from "./audit.ts";

/** Which object: its kind, whose it is, and its name there. */
export interface ObjectKey {
  readonly kind: ObjectKind;
  /** "" for accounts and price feeds, which belong to nobody. */
  readonly account: string;
  /** Of a node: its id. */
  readonly name: string;
}

/** An entry as it stands in zml.yaml, without the name and the account of its key. */
export type Spec = Readonly<Record<string, unknown>>;

/** An object as it is in force. */
export interface ManagedObject extends ObjectKey {
  readonly owner: ObjectOwner;
  /** Holds no secret. */
  readonly spec: Spec;
  /** Another one whenever the object is another. */
  readonly revision: string;
  /** Unix ms; null: the file says nothing of it. */
  readonly createdAtMs: number | null;
  readonly updatedAtMs: number | null;
}

/** Who asks for a change. */
export interface Actor {
  readonly kind: "key" | "loopback" | "file";
  readonly name: string;
  readonly account: string;
}

/** What has to hold for a write, as HTTP's If-Match and If-None-Match say it. */
export interface WriteCondition {
  /** One of these revisions, or any ("*"); null: whatever is there. */
  readonly ifMatch: readonly string[] | "*" | null;
  /** "*": nothing may be there. */
  readonly ifNoneMatch: "*" | null;
}

/** No condition. */
export const UNCONDITIONAL: WriteCondition = { ifMatch: null, ifNoneMatch: null };

/** Why a write was refused. */
export type WriteRefusalCode =
  | "invalid"
  | "not_found"
  | "precondition_failed"
  | "owned_by_file"
  | "owned_by_discovery"
  /** Others name it. */
  | "in_use"
  | "store_unavailable"
  | "needs_restart";

/** One thing that is wrong. */
export interface WriteProblem {
  /** Inside the spec that was given, or inside the file that was given to `apply`. */
  readonly path: readonly (string | number)[];
  readonly message: string;
  readonly hint: string | null;
}

/** Nothing changed. */
export interface WriteRefusal {
  readonly kind: "refused";
  readonly code: WriteRefusalCode;
  readonly problems: readonly WriteProblem[];
}

/** What a version came to. */
export interface AppliedVersion {
  readonly version: number;
  /** False when a worker had not acknowledged it in time; it will. */
  readonly isAcknowledged: boolean;
  readonly warnings: readonly string[];
}

export interface WriteDone extends AppliedVersion {
  readonly kind: "written";
  readonly action: "created" | "updated" | "unchanged" | "deleted";
  /** As it is now; what was deleted, as it was. */
  readonly object: ManagedObject | null;
}

export type WriteResult = WriteDone | WriteRefusal;

/** A value that changed. Absent ones are `undefined`. */
export interface FieldChange {
  /** `cost.usd_per_gpu_hour`. */
  readonly path: string;
  readonly before: unknown;
  readonly after: unknown;
}

/** What becomes of one object. */
export interface ObjectChange extends ObjectKey {
  readonly action: "created" | "updated" | "deleted";
  readonly fields: readonly FieldChange[];
}

export type ApplyResult =
  | (Omit<AppliedVersion, "version"> & {
      readonly kind: "applied";
      readonly changes: readonly ObjectChange[];
      /** Null: a dry run. */
      readonly version: number | null;
      /** Names what is to change, from which revisions on. Null: it is applied. */
      readonly planTag: string | null;
    })
  | WriteRefusal;

/** `secret`: of a key that was made, here and nowhere else. */
export type MintResult = (WriteDone & { readonly secret?: string }) | WriteRefusal;

/** What another file would change. */
export interface FileDiff {
  readonly errors: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
  /** Why a running process can't take it. */
  readonly needsRestart: readonly string[];
  /** Sections of the file that differ. */
  readonly sections: readonly string[];
  readonly changes: readonly ObjectChange[];
}

/**
 * The objects in force, whoever owns them, and changes of those that the API owns. A write is validated with everything
 * else, kept in the store together with its audit row, then put in force as one version. One at a time; what can't be
 * done is a refusal.
 */
export interface ManagedObjects {
  /** Sorted by account and name. `account` null: of all accounts. O(objects of the kind). */
  list(kind: ObjectKind, account: string | null): readonly ManagedObject[];
  get(kind: ObjectKind, account: string, name: string): ManagedObject | null;
  put(
    kind: ObjectKind,
    account: string,
    name: string,
    spec: Spec,
    condition: WriteCondition,
    actor: Actor,
  ): Promise<WriteResult>;
  remove(
    kind: ObjectKind,
    account: string,
    name: string,
    condition: WriteCondition,
    actor: Actor,
  ): Promise<WriteResult>;
  /**
   * Makes the objects of a part of a file what it says, all of them or none, as one version.
   *
   * @param prune objects that the API owns, of the kinds whose lists the part has, and that are not in it, go.
   * @param ifMatch tags of plans that were shown before: refused when it would change another thing. Nothing to change is
   *   never refused.
   */
  apply(
    file: Readonly<Record<string, unknown>>,
    options: {
      readonly isDryRun: boolean;
      readonly actor: Actor;
      readonly prune: boolean;
      readonly ifMatch?: WriteCondition["ifMatch"];
    },
  ): Promise<ApplyResult>;
  /** Makes a key. */
  mintKey(account: string, name: string, spec: Spec, actor: Actor): Promise<MintResult>;
  /** Gives a key another secret; the old one is accepted for `overlapMs` more. */
  rotateKey(account: string, name: string, options: { readonly overlapMs: number }, actor: Actor): Promise<MintResult>;
  /** Takes a node out of the choice, or back; whoever owns it. Kept over restarts. */
  setDraining(
    account: string,
    id: string,
    isDraining: boolean,
    actor: Actor,
  ): Promise<{ readonly kind: "written" } | WriteRefusal>;
  /** The whole configuration as zml.yaml, without found nodes and without secrets. */
  exportYaml(): string;
  /** What another file would change. */
  diffFile(text: string): Promise<FileDiff>;
  /** Puts into the audit what was done already. */
  note(entry: AuditEntry, actor: Actor): Promise<void>;
  /** Newest first. @throws StoreFault when the store can't tell. */
  listAudit(query: AuditQuery): Promise<readonly AuditRecord[]>;
  /** Copies the store and its pepper into new files. @throws StoreFault */
  backup(path: string): Promise<{ readonly bytes: number }>;
}
