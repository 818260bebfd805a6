/** For tests: a registry that keeps objects in memory and believes every spec. */

import { isDeepStrictEqual } from "node:util";
import type { ObjectKind } from "@zml/protocol";
import type { AuditEntry, AuditRecord } from "../../control/objects/audit.ts";
import type {
  Actor,
  ApplyResult,
  ManagedObject,
  ManagedObjects,
  WriteCondition,
  WriteDone,
  WriteRefusal,
} from "../../control/objects/managed-objects.ts";

export class MemoryObjects implements ManagedObjects {
  readonly #objects = new Map<string, ManagedObject>();
  readonly #audit: AuditRecord[] = [];
  readonly draining = new Set<string>();
  #revision = 0;
  /** What the next writes answer in place of doing it. */
  refusal: WriteRefusal | null = null;
  isAcknowledged = true;

  /** Puts an object there as if it had always been. */
  add(
    kind: ObjectKind,
    account: string,
    name: string,
    spec: Readonly<Record<string, unknown>> = {},
    owner: ManagedObject["owner"] = "api",
  ): ManagedObject {
    this.#revision += 1;
    const times = { createdAtMs: 1_700_000_000_000, updatedAtMs: 1_700_000_000_000 + this.#revision };
    const object = { kind, account, name, owner, spec, revision: String(this.#revision), ...times };
    this.#objects.set(JSON.stringify([kind, account, name]), object);
    return object;
  }

  list(kind: ObjectKind, account: string | null): readonly ManagedObject[] {
    return [...this.#objects.values()]
      .filter((object) => object.kind === kind && (account === null || object.account === account))
      .sort((a, b) => compare(a.account, b.account) || compare(a.name, b.name));
  }

  get(kind: ObjectKind, account: string, name: string): ManagedObject | null {
    return this.#objects.get(JSON.stringify([kind, account, name])) ?? null;
  }

  async put(
    kind: ObjectKind,
    account: string,
    name: string,
    spec: Readonly<Record<string, unknown>>,
    condition: WriteCondition,
    actor: Actor,
  ) {
    const before = this.get(kind, account, name);
    const refused = this.refusal ?? refuse(before, condition);
    if (refused !== null) return refused;
    if (before !== null && isDeepStrictEqual(before.spec, spec)) return this.#written("unchanged", before);
    const object = this.add(kind, account, name, spec);
    const action = before === null ? "created" : "updated";
    await this.note({ kind, account, name, action, before: before?.spec ?? null, after: spec }, actor);
    return this.#written(action, object);
  }

  async remove(kind: ObjectKind, account: string, name: string, condition: WriteCondition, actor: Actor) {
    const before = this.get(kind, account, name);
    const refused = this.refusal ?? refuse(before, condition);
    if (refused !== null) return refused;
    if (before === null) return refusal("not_found", "it is not there");
    this.#objects.delete(JSON.stringify([kind, account, name]));
    await this.note({ kind, account, name, action: "deleted", before: before.spec, after: null }, actor);
    return this.#written("deleted", before);
  }

  async apply(
    file: Readonly<Record<string, unknown>>,
    { isDryRun }: { isDryRun: boolean; actor: Actor; prune: boolean },
  ): Promise<ApplyResult> {
    if (this.refusal !== null) return this.refusal;
    const changes = Object.keys(file).map((name) => {
      const fields = [{ path: "cost_priority", before: undefined, after: "cost" }];
      return { kind: "policy" as const, account: "default", name, action: "created" as const, fields };
    });
    const version = isDryRun ? null : ++this.#revision;
    return { kind: "applied", changes, version, isAcknowledged: this.isAcknowledged, warnings: [], planTag: null };
  }

  async mintKey(account: string, name: string, spec: Readonly<Record<string, unknown>>, actor: Actor) {
    if (this.get("key", account, name) !== null) return refusal("precondition_failed", "there is such a key");
    const written = await this.put("key", account, name, spec, { ifMatch: null, ifNoneMatch: "*" }, actor);
    return written.kind === "written" ? { ...written, secret: "zml_made" } : written;
  }

  async rotateKey(account: string, name: string, _options: { overlapMs: number }, _actor: Actor) {
    const key = this.get("key", account, name);
    if (key === null) return refusal("not_found", "there is no such key");
    return { ...this.#written("updated", this.add("key", account, name, key.spec)), secret: "zml_rotated" };
  }

  exportYaml(): string {
    return "nodes: []\n";
  }

  async setDraining(_account: string, id: string, isDraining: boolean) {
    if (isDraining) this.draining.add(id);
    else this.draining.delete(id);
    return { kind: "written" } as const;
  }

  async note(entry: AuditEntry, actor: Actor): Promise<void> {
    const { length } = this.#audit;
    this.#audit.push({ ...entry, actor, id: length + 1, atMs: 1_700_000_000_000 + length, version: null });
  }

  async listAudit({ account, kind, name, beforeId, limit }: Parameters<ManagedObjects["listAudit"]>[0]) {
    return this.#audit
      .filter((record) => account === null || record.account === account)
      .filter((record) => kind === null || record.kind === kind)
      .filter((record) => name === null || record.name === name)
      .filter((record) => beforeId === null || record.id < beforeId)
      .toReversed()
      .slice(0, limit);
  }

  async diffFile() {
    return { errors: [], warnings: [], needsRestart: [], sections: ["timeouts"], changes: [] };
  }

  async backup() {
    return { bytes: 4096 };
  }

  #written(action: WriteDone["action"], object: ManagedObject): WriteDone {
    const { isAcknowledged } = this;
    return { kind: "written", action, object, version: this.#revision, isAcknowledged, warnings: [] };
  }
}

function refuse(before: ManagedObject | null, { ifMatch, ifNoneMatch }: WriteCondition): WriteRefusal | null {
  const isStale = ifMatch !== null && (before === null || (ifMatch !== "*" && !ifMatch.includes(before.revision)));
  if (isStale || (ifNoneMatch !== null && before !== null)) return refusal("precondition_failed", "it has changed");
  return before?.owner === "file" ? refusal("owned_by_file", "zml.yaml declares it") : null;
}

function refusal(code: WriteRefusal["code"], message: string): WriteRefusal {
  return { kind: "refused", code, problems: [{ path: [], message, hint: "look at it again" }] };
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
