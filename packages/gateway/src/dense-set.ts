/**
 * A set whose members know their place, for what comes and goes with every request.
 *
 * A `Set` with such a churn is rehashed all the time, and V8's discarded tables point on to their successors: once one
 * of them is old, all later ones stay alive until the next full collection, with the requests that they list. Measured:
 * 12 MB survived each minor collection where 0.8 MB does with this, a fifth of all CPU time.
 */

/** A possible member; -1: of no set. A member is in one set of its kind at a time. */
export interface DenseMember {
  slot: number;
}

export class DenseSet<T extends DenseMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  /** Adds what is not a member yet. O(1). */
  add(member: T): void {
    if (member.slot >= 0) return;
    member.slot = this.#members.length;
    this.#members.push(member);
  }

  /** Removes a member; others are left alone. O(1). */
  delete(member: T): void {
    const { slot } = member;
    if (slot < 0) return;
    member.slot = -1;
    const last = this.#members.pop();
    if (last === undefined || last === member) return;
    last.slot = slot;
    this.#members[slot] = last;
  }

  /** The members now, in no order; a copy, so that the set may change meanwhile. */
  snapshot(): T[] {
    return [...this.#members];
  }

  /** Visits the members from the last to the first; the visitor may remove the one that it is shown. */
  forEachBackward(visit: (member: T) => void): void {
    for (let slot = this.#members.length - 1; slot >= 0; slot--) {
      const member = this.#members[slot];
      if (member !== undefined) visit(member);
    }
  }
}
