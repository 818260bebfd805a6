/**
 * Names and the indexes that stand for them in shared memory and in records. An index is handed out once per name and
 * process and never given to another name, so that a record that holds one stays readable after any reload.
 */

import { MODELS_MAX, POLICIES_MAX } from "@zml/engine";

/**
 * Families that one process may ever see. Their index is an offset into each policy's position table, and a fleet has a
 * handful: thousands mean that something else was written into `family`.
 */
export const FAMILIES_MAX = 4096;

/** Nodes (id at url) that one process may ever see, over all reloads: far more than rows, and some 200 MB of names. */
const IDENTITIES_MAX = 2 ** 20;

/** Keys that one process may ever tell apart in its records: ten thousand accounts, some keys each. */
const KEYS_MAX = 2 ** 17;

/** A name in two parts: (account, model), (account, policy), (id, url); families have no first part. */
export interface QualifiedName {
  readonly scope: string;
  readonly name: string;
}

/** The names of one kind. */
export class NameTable {
  readonly #indexes = new Map<string, number>();
  readonly #names: QualifiedName[] = [];
  readonly #bound: number;

  constructor(bound: number) {
    this.#bound = bound;
  }

  /** Names known so far. */
  get size(): number {
    return this.#names.length;
  }

  /** Index of a name, which is given one if it has none; -1 when the bound is reached. */
  register(scope: string, name: string): number {
    const key = keyOf(scope, name);
    const known = this.#indexes.get(key);
    if (known !== undefined) return known;
    if (this.#names.length >= this.#bound) return -1;
    this.#names.push({ scope, name });
    this.#indexes.set(key, this.#names.length - 1);
    return this.#names.length - 1;
  }

  /** Index of a name, -1: never registered. */
  find(scope: string, name: string): number {
    return this.#indexes.get(keyOf(scope, name)) ?? -1;
  }

  /** Name behind an index; null: no such index. */
  nameOf(index: number): QualifiedName | null {
    return this.#names[index] ?? null;
  }

  /** Plain names by index. */
  list(): string[] {
    return this.#names.map(({ name }) => name);
  }
}

/** All names of a process. */
export interface NameRegistry {
  /** (account, model). */
  readonly models: NameTable;
  /** (account, policy), the built-in ones of the accounts included. */
  readonly policies: NameTable;
  /** ("", family), in order of first registration. */
  readonly families: NameTable;
  /** (url, node id): another url is another endpoint under the same id. */
  readonly identities: NameTable;
  /** (account, key): names only. */
  readonly keys: NameTable;
}

/** @param bounds for tests; each kind's bound has its reason beside it. */
export function createNameRegistry(bounds: Partial<Record<keyof NameRegistry, number>> = {}): NameRegistry {
  return {
    models: new NameTable(bounds.models ?? MODELS_MAX),
    policies: new NameTable(bounds.policies ?? POLICIES_MAX),
    families: new NameTable(bounds.families ?? FAMILIES_MAX),
    identities: new NameTable(bounds.identities ?? IDENTITIES_MAX),
    keys: new NameTable(bounds.keys ?? KEYS_MAX),
  };
}

function keyOf(scope: string, name: string): string {
  // no name holds a NUL: ids and families match a pattern, models have no control characters, urls are parsed
  return `${scope}\u0000${name}`;
}
