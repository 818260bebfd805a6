/**
 * Which row of the limits table is whose. A key or an account keeps its row, and with it its counts, while the process
 * lives: limits that change, and a key that goes and comes back, begin nothing anew.
 */

import { type LimitsTable, writeLimits } from "@zml/engine";
import type { Config, UsageLimits } from "@zml/protocol";

/** Whose a row is; `key` "": the account's. */
export interface LimitOwner {
  readonly account: string;
  readonly key: string;
}

export class LimitRows {
  readonly table: LimitsTable;
  readonly #rows = new Map<string, number>();
  readonly #owners: LimitOwner[] = [];
  readonly #onTaken: (row: number, owner: LimitOwner) => void;

  /** @param onTaken a row is given out: what its owner spent before is told to it here */
  constructor(table: LimitsTable, onTaken: (row: number, owner: LimitOwner) => void = () => {}) {
    this.table = table;
    this.#onTaken = onTaken;
  }

  /** Rows that were ever given out. */
  get used(): number {
    return this.#owners.length;
  }

  /** Row of an owner; -1: none. */
  find(owner: LimitOwner): number {
    return this.#rows.get(keyOf(owner)) ?? -1;
  }

  /** Rows of accounts, by name. */
  accountRows(): Record<string, number> {
    const rows = this.#owners.flatMap((owner, row): [string, number][] =>
      owner.key === "" ? [[owner.account, row]] : [],
    );
    return Object.fromEntries(rows);
  }

  /** Rows with their owners, those that left included. */
  entries(): Iterable<[row: number, owner: LimitOwner]> {
    return this.#owners.entries();
  }

  /**
   * Writes the limits of a configuration.
   *
   * @returns warnings: owners whose limits found no row.
   */
  assign({ accounts, keys }: Pick<Config, "accounts" | "keys">): string[] {
    const wanted = [
      ...accounts.map(({ name, limits }) => ({ owner: { account: name, key: "" }, limits })),
      ...keys.map(({ name, account, limits }) => ({ owner: { account, key: name }, limits })),
    ];
    // those with limits first: the others are counted where there is room
    wanted.sort((a, b) => Number(hasLimits(b.limits)) - Number(hasLimits(a.limits)));
    const present = new Set(wanted.map(({ owner }) => keyOf(owner)));
    const warnings: string[] = [];
    for (const { owner, limits } of wanted) {
      const row = this.#take(owner, present);
      if (row >= 0) writeLimits(this.table, row, limits);
      else if (hasLimits(limits)) {
        const what = owner.key === "" ? `the account ${owner.account}` : `the key ${owner.key} of ${owner.account}`;
        warnings.push(
          `limits of ${what} are not counted: all ${this.table.rows} rows are taken; restart, or name fewer`,
        );
      }
    }
    return warnings;
  }

  #take(owner: LimitOwner, present: ReadonlySet<string>): number {
    const known = this.find(owner);
    if (known >= 0) return known;
    const row = this.#owners.length < this.table.rows ? this.#owners.length : this.#reuse(present);
    if (row < 0) return -1;
    this.#owners[row] = owner;
    this.#rows.set(keyOf(owner), row);
    this.#onTaken(row, owner);
    return row;
  }

  /** A row whose owner left and for which nothing runs; -1: there is none. */
  #reuse(present: ReadonlySet<string>): number {
    for (const [row, owner] of this.#owners.entries()) {
      if (present.has(keyOf(owner)) || Atomics.load(this.table.running, row) !== 0) continue;
      this.#rows.delete(keyOf(owner));
      return row;
    }
    return -1;
  }
}

function hasLimits(limits: UsageLimits): boolean {
  return Object.values(limits).some((limit) => limit !== null);
}

function keyOf({ account, key }: LimitOwner): string {
  // names hold no NUL
  return `${account}\u0000${key}`;
}
