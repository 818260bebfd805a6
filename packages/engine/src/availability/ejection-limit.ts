/**
 * At most a share of the nodes of a model is taken out by health alone: late or missing answers and standstill, which a
 * fault of our own network would show on all nodes at once. A refused connection and a node's own "not ready" are proof
 * and don't count. Nodes over the share stay in, where failed requests cool them down.
 */

import { assert } from "../assert.ts";

/**
 * What health says of a node. `out`: proof that it takes nothing, or nobody has seen it take anything; `suspect`: it
 * ought to be out by health alone.
 */
export type Standing = "in" | "suspect" | "out";

/** Why a node ought to be out. */
export interface Suspicion {
  /** A refused connection, or its own word. */
  readonly isProof: boolean;
  /** A poll of it has been answered, sooner or later. */
  readonly hasAnswered: boolean;
}

/** A node that never answered takes no traffic anyway, so that it takes no place among those that may be out. */
export function standingOf(suspicion: Suspicion | null): Standing {
  if (suspicion === null) return "in";
  return suspicion.isProof || !suspicion.hasAnswered ? "out" : "suspect";
}

interface Member {
  readonly row: number;
  models: readonly number[];
  standing: Standing;
  isEjected: boolean;
}

interface ModelCount {
  /** Nodes that are not proven out. */
  counted: number;
  ejected: number;
}

/** Nodes of a fleet and their models. Rows and models are indexes of the fleet table. */
export class EjectionLimit {
  #share: number;
  readonly #members = new Map<number, Member>();
  readonly #models = new Map<number, ModelCount>();
  /** In the order in which they became suspects. */
  readonly #suspects = new Set<Member>();

  /** @param share 0..1 of a model's nodes; 0: none, else one at least. */
  constructor(share: number) {
    this.#share = share;
  }

  /** Takes another share. Returns rows whose ejection changed. */
  setShare(share: number): number[] {
    this.#share = share;
    return this.#changes(() => {});
  }

  /** True while a suspect is out. */
  isEjected(row: number): boolean {
    return this.#members.get(row)?.isEjected ?? false;
  }

  /** Adds a node, or changes its models or standing. Returns rows whose ejection changed, its own included. */
  set(row: number, models: readonly number[], standing: Standing): number[] {
    const before = this.#members.get(row);
    const isSameModels = before !== undefined && isSameList(before.models, models);
    if (isSameModels && before.standing === standing) return [];
    if (isSameModels && before.standing === "in" && standing === "suspect") return this.#suspect(before);
    return this.#changes(() => {
      const member = before ?? { row, models, standing, isEjected: false };
      if (before !== undefined) this.#count(member, -1);
      member.models = models;
      member.standing = standing;
      if (standing !== "suspect") member.isEjected = false;
      this.#members.set(row, member);
      this.#count(member, 1);
      if (standing === "suspect") this.#suspects.add(member);
      else this.#suspects.delete(member);
    });
  }

  /** Forgets a node. Returns rows of others whose ejection changed. */
  remove(row: number): number[] {
    const member = this.#members.get(row);
    if (member === undefined) return [];
    return this.#changes(() => {
      this.#count(member, -1);
      member.isEjected = false;
      this.#members.delete(row);
      this.#suspects.delete(member);
    }).filter((changed) => changed !== row);
  }

  /** A whole fleet may become suspect at once: one more changes nothing for the others. */
  #suspect(member: Member): number[] {
    member.standing = "suspect";
    this.#suspects.add(member);
    if (!member.models.every((model) => this.#room(model) > 0)) return [];
    this.#eject(member, true);
    return [member.row];
  }

  #count(member: Member, sign: 1 | -1): void {
    for (const model of member.models) {
      const count = this.#models.get(model) ?? { counted: 0, ejected: 0 };
      this.#models.set(model, count);
      if (member.standing !== "out") count.counted += sign;
      if (member.isEjected) count.ejected += sign;
      assert(count.counted >= 0 && count.ejected >= 0, "counts of a model's nodes don't go below 0");
      if (sign < 0 && count.counted === 0 && count.ejected === 0) this.#models.delete(model);
    }
  }

  /** Runs a change and holds the share again. O(suspects × their models). */
  #changes(change: () => void): number[] {
    const before = [...this.#suspects].filter((member) => member.isEjected);
    change();
    // the newest goes back first: the oldest has been silent for longest
    for (const member of [...this.#suspects].reverse()) {
      if (member.isEjected && member.models.some((model) => this.#room(model) < 0)) this.#eject(member, false);
    }
    for (const member of this.#suspects) {
      if (!member.isEjected && member.models.every((model) => this.#room(model) > 0)) this.#eject(member, true);
    }
    const after = new Set([...this.#suspects].filter((member) => member.isEjected));
    const gone = before.filter((member) => !after.delete(member));
    return [...gone, ...after].map(({ row }) => row);
  }

  #eject(member: Member, isEjected: boolean): void {
    member.isEjected = isEjected;
    for (const model of member.models) {
      const count = this.#models.get(model);
      assert(count !== undefined, "a member's models are counted");
      count.ejected += isEjected ? 1 : -1;
    }
  }

  /** Nodes of a model that may still be ejected; negative: too many are. */
  #room(model: number): number {
    const count = this.#models.get(model);
    if (count === undefined) return 0;
    const allowed = this.#share === 0 ? 0 : Math.max(1, Math.floor(count.counted * this.#share));
    return allowed - count.ejected;
  }
}

function isSameList(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index]);
}
