import type { ConfigIssue } from "@zml/protocol";
import { own, type RawEntry } from "./raw-file.ts";

/** What an entry of one kind needs and takes, of the keys that belong to some kinds only. */
export interface KeysOfKind {
  /** All of these keys, of every kind. */
  readonly keys: readonly string[];
  readonly needs: readonly string[];
  readonly takes: readonly string[];
  readonly kind: string;
  /** How texts call such an entry: `a feed`. */
  readonly what: string;
}

/** Which keys a kind needs and takes. */
export function checkKeysOfKind(entry: RawEntry, { keys, needs, takes, kind, what }: KeysOfKind): ConfigIssue[] {
  return keys.flatMap((key): ConfigIssue[] => {
    const isSet = own(entry, key) !== undefined;
    if (!isSet && needs.includes(key)) {
      return [{ path: entry.path, at: "value", message: `${what} of ${kind} needs ${key}`, hint: null }];
    }
    if (!isSet || needs.includes(key) || takes.includes(key)) return [];
    const message = `${key} means nothing to ${kind}`;
    const hint = `take it out; it takes ${[...needs, ...takes].join(", ")}`;
    return [{ path: [...entry.path, key], at: "key", message, hint }];
  });
}
