/** The managed objects of a running gateway: reads what is in force, changes what the API owns. */

import { isDeepStrictEqual } from "node:util";
import { hasAccount, type ObjectKind } from "@zml/protocol";
import { keyDigest } from "../../config/key-digest.ts";
import type { ConfigSource } from "../../config/read-config.ts";
import type { FoundEntry } from "../../discovery/index.ts";
import type { AuditQuery, StoredDigest } from "../../store/object-operations.ts";
import type { Store } from "../../store/store.ts";
import { StoreFault } from "../../store/store-fault.ts";
import type { Configuration, DraftProblem } from "../configuration.ts";
import type { Audit, AuditEntry } from "./audit.ts";
import { backupStore } from "./backup.ts";
import { exportYaml } from "./export-yaml.ts";
import { fieldChanges } from "./field-changes.ts";
import { fileDiff } from "./file-diff.ts";
import type { KeptObjects } from "./kept-objects.ts";
import type {
  Actor,
  ApplyResult,
  FileDiff,
  ManagedObject,
  ManagedObjects,
  MintResult,
  ObjectKey,
  Spec,
  WriteCondition,
  WriteDone,
  WriteRefusal,
  WriteResult,
} from "./managed-objects.ts";
import { afterRotation, mintSecret } from "./minted-secret.ts";
import { actionOf, type ObjectChanges, type PlannedChange } from "./object-changes.ts";
import { ObjectList, ofApi } from "./object-list.ts";
import { keyText, nameField, objectWords, specOf } from "./object-lists.ts";
import { type Plan, planOf, planTag } from "./partial-file.ts";
import {
  inUse,
  problemsFor,
  problemsIn,
  refusal,
  refuseCondition,
  refuseOthers,
  refuseStore,
  sourceFor,
} from "./refusals.ts";

export interface RegistryOptions {
  readonly configuration: Configuration;
  readonly kept: KeptObjects;
  readonly changes: ObjectChanges;
  readonly audit: Audit;
  readonly store: Store;
  /** Nodes that sources found: the same list while nothing in it changes. */
  readonly found: () => readonly FoundEntry[];
  /** Unix ms. */
  readonly nowMs: () => number;
}

export class Registry implements ManagedObjects {
  readonly #options: RegistryOptions;
  #list: ObjectList | null = null;

  constructor(options: RegistryOptions) {
    this.#options = options;
  }

  list(kind: ObjectKind, account: string | null): readonly ManagedObject[] {
    return this.#current().list(kind, account);
  }

  get(kind: ObjectKind, account: string, name: string): ManagedObject | null {
    return this.#current().get({ kind, account, name });
  }

  put(
    kind: ObjectKind,
    account: string,
    name: string,
    given: Spec,
    condition: WriteCondition,
    actor: Actor,
  ): Promise<WriteResult> {
    const key = { kind, account, name };
    return this.#inTurn(async () => {
      const current = this.#current().get(key);
      const refused = this.#refuse(key, current, condition, actor);
      if (refused !== null) return refused;
      if (kind === "key" && current === null) {
        return refusal("not_found", `there is no ${objectWords(key)}`, "the gateway makes keys: POST /admin/v1/keys");
      }
      const spec = ownSpec(key, given);
      if (!("spec" in spec)) return spec;
      if (current !== null && isDeepStrictEqual(current.spec, spec.spec)) return this.#unchanged(current);
      return this.#change({ key, before: current, after: spec.spec }, actor);
    });
  }

  remove(
    kind: ObjectKind,
    account: string,
    name: string,
    condition: WriteCondition,
    actor: Actor,
  ): Promise<WriteResult> {
    const key = { kind, account, name };
    return this.#inTurn(async () => {
      const current = this.#current().get(key);
      const refused = this.#refuse(key, current, condition, actor);
      if (refused !== null) return refused;
      if (current === null) return refusal("not_found", `there is no ${objectWords(key)}`);
      return this.#change({ key, before: current, after: null }, actor);
    });
  }

  apply(
    file: Readonly<Record<string, unknown>>,
    { isDryRun, actor, prune, ifMatch = null }: Parameters<ManagedObjects["apply"]>[1],
  ): Promise<ApplyResult> {
    return this.#inTurn<ApplyResult>(async () => {
      const plan = planOf(file, this.#current(), { source: this.#sourceFor(actor), prune });
      if ("code" in plan) return plan;
      const changes = plan.changes.map((change) => ({
        ...change.key,
        action: actionOf(change),
        fields: fieldChanges(change.before?.spec, change.after),
      }));
      const tag = isDryRun || ifMatch !== null ? planTag(plan.changes) : null;
      const same = { kind: "applied", changes, isAcknowledged: true, planTag: isDryRun ? tag : null } as const;
      const { version } = this.#options.configuration;
      if (plan.changes.length === 0) return { ...same, version: isDryRun ? null : version, warnings: [] };
      if (ifMatch !== null && ifMatch !== "*" && !ifMatch.includes(tag ?? "")) {
        const message = "what it would change is not what was shown: an object has changed since";
        return refusal("precondition_failed", message, "try it again, then apply it");
      }
      if (isDryRun) {
        const checked = this.#options.changes.check(plan.changes);
        if ("code" in checked) return checked;
        if ("problems" in checked) return this.#refusePart(plan, checked.problems, actor);
        return { ...same, version: null, warnings: checked.warnings };
      }
      const made = await this.#options.changes.make(plan.changes, actor);
      if (made.kind === "wrong") return this.#refusePart(plan, made.problems, actor);
      if (made.kind === "refused") return made;
      const { isAcknowledged, warnings } = made;
      return { kind: "applied", changes, version: made.version, isAcknowledged, warnings, planTag: null };
    });
  }

  mintKey(account: string, name: string, given: Spec, actor: Actor): Promise<MintResult> {
    const key: ObjectKey = { kind: "key", account, name };
    return this.#inTurn(async () => {
      const current = this.#current().get(key);
      const refused = refuseOthers(key, current, this.#sourceFor(actor));
      if (refused !== null) return refused;
      if (current !== null) {
        return refusal(
          "precondition_failed",
          `the ${objectWords(key)} is there already`,
          "rotate it, or delete it first",
        );
      }
      const spec = ownSpec(key, given);
      if (!("spec" in spec)) return spec;
      const keep = (digest: StoredDigest) => [digest];
      return this.#withSecret({ key, before: null, after: spec.spec }, keep, actor);
    });
  }

  rotateKey(
    account: string,
    name: string,
    { overlapMs }: { readonly overlapMs: number },
    actor: Actor,
  ): Promise<MintResult> {
    const key: ObjectKey = { kind: "key", account, name };
    return this.#inTurn(async () => {
      const current = this.#current().get(key);
      const refused = refuseOthers(key, current, this.#sourceFor(actor));
      if (refused !== null) return refused;
      if (current === null) return refusal("not_found", `there is no ${objectWords(key)}`);
      const before = this.#options.configuration.inForce.api.get(keyText(key))?.digests ?? [];
      const keep = ({ digest, createdAtMs }: StoredDigest) =>
        afterRotation(before, digest, { nowMs: createdAtMs, overlapMs });
      return this.#withSecret({ key, before: current, after: current.spec, action: "rotated" }, keep, actor);
    });
  }

  async setDraining(account: string, id: string, isDraining: boolean, actor: Actor) {
    const key: ObjectKey = { kind: "node", account, name: id };
    return this.#inTurn<{ readonly kind: "written" } | WriteRefusal>(async () => {
      if (this.#current().get(key) === null) return refusal("not_found", `there is no ${objectWords(key)}`);
      return (await this.#options.kept.setDraining(key, isDraining, actor)) ?? { kind: "written" };
    });
  }

  exportYaml(): string {
    return exportYaml(this.#options.configuration.inForce);
  }

  async diffFile(text: string): Promise<FileDiff> {
    const { configuration } = this.#options;
    return fileDiff(configuration.inForce.source.read(text), configuration);
  }

  note(entry: AuditEntry, actor: Actor): Promise<void> {
    return this.#options.audit.note([entry], actor);
  }

  listAudit(query: AuditQuery) {
    return this.#options.audit.list(query);
  }

  backup(path: string): Promise<{ readonly bytes: number }> {
    return backupStore(this.#options.store, path);
  }

  /** Makes a secret, and the change that has its digest. */
  async #withSecret(
    change: PlannedChange,
    keep: (digest: StoredDigest) => readonly StoredDigest[],
    actor: Actor,
  ): Promise<MintResult> {
    const pepper = this.#options.kept.pepper();
    if ("code" in pepper) return pepper;
    const secret = mintSecret();
    const digest = { digest: keyDigest(pepper.bytes, secret), createdAtMs: this.#options.nowMs(), expiresAtMs: null };
    const result = await this.#change({ ...change, digests: keep(digest) }, actor, pepper.check);
    return result.kind === "written" ? { ...result, secret } : result;
  }

  /** One change of one object. */
  async #change(change: PlannedChange, actor: Actor, pepperCheck: string | null = null): Promise<WriteResult> {
    const made = await this.#options.changes.make([change], actor, pepperCheck);
    if (made.kind === "refused") return made;
    const source = this.#sourceFor(actor);
    if (made.kind === "wrong") {
      if (change.after === null) return inUse(change.key, made.problems, source);
      return { kind: "refused", code: "invalid", problems: problemsFor(change.key, made.problems, source) };
    }
    const [put] = made.objects;
    const { version, isAcknowledged, warnings } = made;
    const object = put === undefined ? change.before : ofApi(put);
    return { kind: "written", action: actionOf(change), object, version, isAcknowledged, warnings };
  }

  #refusePart(plan: Plan, problems: readonly DraftProblem[], actor: Actor): WriteRefusal {
    return { kind: "refused", code: "invalid", problems: problemsIn(plan.pathOf, problems, this.#sourceFor(actor)) };
  }

  /** One change at a time, each on what the store holds. */
  #inTurn<T>(change: () => Promise<T | WriteRefusal>): Promise<T | WriteRefusal> {
    return this.#options.configuration.inTurn(async () => {
      try {
        return (await this.#options.kept.know()) ?? (await change());
      } catch (error) {
        if (error instanceof StoreFault) return refuseStore(error);
        throw error;
      }
    });
  }

  #current(): ObjectList {
    const { configuration, found } = this.#options;
    const nodes = found();
    if (this.#list?.isOf(configuration.inForce, nodes) !== true) {
      this.#list = new ObjectList(configuration.inForce, nodes);
    }
    return this.#list as ObjectList;
  }

  #sourceFor({ account }: Actor): ConfigSource {
    return sourceFor(account, this.#options.configuration.inForce.source);
  }

  /** Why a write of the object is refused whatever it says: somebody else owns it, or it changed meanwhile. */
  #refuse(key: ObjectKey, current: ManagedObject | null, condition: WriteCondition, actor: Actor): WriteRefusal | null {
    return refuseOthers(key, current, this.#sourceFor(actor)) ?? refuseCondition(key, current, condition);
  }

  #unchanged(object: ManagedObject): WriteDone {
    const { version } = this.#options.configuration;
    return { kind: "written", action: "unchanged", object, version, isAcknowledged: true, warnings: [] };
  }
}

/** The spec as it is kept: name and account stand in the key, and must not say another thing. */
function ownSpec(key: ObjectKey, given: Spec): { spec: Spec } | WriteRefusal {
  const said: [string, string][] = [[nameField(key.kind), key.name]];
  if (hasAccount(key.kind)) said.push(["account", key.account]);
  const problems = said.flatMap(([field, expected]) => {
    const value = Object.hasOwn(given, field) ? given[field] : expected;
    if (value === expected) return [];
    return [{ path: [field], message: `expected ${expected}, as the address says`, hint: "take it out" }];
  });
  if (problems.length > 0) return { kind: "refused", code: "invalid", problems };
  return { spec: specOf(key.kind, given) };
}
