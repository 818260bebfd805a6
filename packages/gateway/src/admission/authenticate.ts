/** Who calls: the key's holder, or nobody. */

import { ALL_RIGHTS, type CallerRows, type CallRights } from "@zml/engine";
import { DEFAULT_ACCOUNT } from "@zml/protocol/fixed-names";
import { createKeyDigest, type KeyDigest } from "../config/key-digest.ts";
import type { WorkerKey, WorkerKeys } from "../thread-messages.ts";
import { type PresentedKey, presentedKey } from "./presented-key.ts";
import { RecentKeys } from "./recent-keys.ts";

/** What a caller may do, and as whom. */
export interface CallerRights extends CallRights {
  readonly account: string;
  /** Name of its key; null: no key is asked. */
  readonly key: string | null;
  /** Index of the key's name in records; -1: none. */
  readonly keyIndex: number;
  /** Rows in the limits table. */
  readonly rows: CallerRows;
}

export type Caller =
  | { readonly kind: "known"; readonly rights: CallerRights }
  | { readonly kind: "missing" }
  | { readonly kind: "invalid"; readonly fault: "unknown" | Extract<PresentedKey, { kind: "faulty" }>["fault"] }
  | { readonly kind: "expired"; readonly key: string; readonly expiredAt: string }
  | { readonly kind: "forbidden"; readonly key: string };

interface HeldKey {
  readonly name: string;
  readonly mayInfer: boolean;
  /** Unix ms; infinite: never. */
  readonly expiresAtMs: number;
  readonly rights: CallerRights;
  readonly known: Caller;
}

const MISSING: Caller = { kind: "missing" };
const UNKNOWN: Caller = { kind: "invalid", fault: "unknown" };

/** The keys of one worker, by digest. Replaced as a whole: what is taken out is refused from the next request on. */
export class CallerKeys {
  readonly #digest: KeyDigest;
  readonly #held: ReadonlyMap<string, HeldKey>;
  /** Gone with these keys: what was revoked is in no later one. */
  readonly #recent = new RecentKeys<HeldKey>();
  readonly #anybody: Caller;

  constructor({ pepper, list, accountRows }: WorkerKeys) {
    this.#digest = createKeyDigest(pepper);
    this.#held = new Map(list.map((key) => [key.digest, heldKey(key, rowOf(accountRows, key.account))]));
    const rights: CallerRights = {
      ...ALL_RIGHTS,
      account: DEFAULT_ACCOUNT,
      key: null,
      keyIndex: -1,
      rows: { key: -1, account: rowOf(accountRows, DEFAULT_ACCOUNT) },
    };
    this.#anybody = { kind: "known", rights };
  }

  /**
   * Finds the caller of a request; without keys everybody is one.
   *
   * @param unixMs time of day, asked for when a key has an end
   */
  identify(rawHeaders: readonly string[], unixMs: () => number = Date.now): Caller {
    if (this.#held.size === 0) return this.#anybody;
    const presented = presentedKey(rawHeaders);
    if (presented.kind === "none") return MISSING;
    if (presented.kind === "faulty") return { kind: "invalid", fault: presented.fault };
    const key = this.#holderOf(presented.value);
    if (key === undefined) return UNKNOWN;
    if (key.expiresAtMs !== Number.POSITIVE_INFINITY && key.expiresAtMs <= unixMs()) {
      return { kind: "expired", key: key.name, expiredAt: new Date(key.expiresAtMs).toISOString() };
    }
    return key.mayInfer ? key.known : { kind: "forbidden", key: key.name };
  }

  #holderOf(presented: string): HeldKey | undefined {
    const seen = this.#recent.find(presented);
    if (seen !== null) return seen;
    const held = this.#held.get(this.#digest(presented));
    if (held !== undefined) this.#recent.note(presented, held);
    return held;
  }
}

function rowOf(rows: WorkerKeys["accountRows"], account: string): number {
  return Object.hasOwn(rows, account) ? (rows[account] as number) : -1;
}

function heldKey(key: WorkerKey, accountRow: number): HeldKey {
  const { name, account, models, policies } = key;
  const setOf = (names: readonly string[] | null) => (names === null ? null : new Set(names));
  const rights: CallerRights = {
    account,
    key: name,
    keyIndex: key.index,
    models: setOf(models),
    policies: setOf(policies),
    rows: { key: key.limitRow, account: accountRow },
  };
  return {
    name,
    mayInfer: key.scopes.includes("infer"),
    expiresAtMs: key.expiresAtMs,
    rights,
    known: { kind: "known", rights },
  };
}
