/** For tests: a registry that keeps objects in memory and believes every spec. */

import { isDeepStrictEqual } from "node:util";
import type { ObjectKind } from "@zml/protocol";
import type {
  ManagedObject,
  ManagedObjects,
  WriteCondition,
  WriteDone,
  WriteRefusal,
} from "../../control/objects/managed-objects.ts";

export class MemoryObjects implements ManagedObjects {
  readonly #objects = new Map<string, ManagedObject>();
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
  ) {
    const before = this.get(kind, account, name);
    const refused = this.refusal ?? refuse(before, condition);
    if (refused !== null) return refused;
    if (before !== null && isDeepStrictEqual(before.spec, spec)) return this.#written("unchanged", before);
    const object = this.add(kind, account, name, spec);
    const action = before === null ? "created" : "updated";
    return this.#written(action, object);
  }

  async remove(kind: ObjectKind, account: string, name: string, condition: WriteCondition) {
    const before = this.get(kind, account, name);
    const refused = this.refusal ?? refuse(before, condition);
    if (refused !== null) return refused;
    if (before === null) return refusal("not_found", "it is not there");
    this.#objects.delete(JSON.stringify([kind, account, name]));
    return this.#written("deleted", before);
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
