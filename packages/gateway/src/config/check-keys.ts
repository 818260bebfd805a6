import { BUILT_IN_POLICY, type ConfigIssue, type ConfigPath, nearestName } from "@zml/protocol";
import type { Findings } from "./check-references.ts";
import { own, type RawEntry, type RawFile, textOf } from "./raw-file.ts";

/** What the account of a key has. */
export interface KnownNames {
  /** "open": a poll may find others. */
  readonly models: ReadonlySet<string> | "open";
  readonly policies: ReadonlySet<string>;
}

/** The rules about keys: what they name exists, and they have not ended. */
export function checkKeys(
  file: RawFile,
  { namesOf, nowMs }: { namesOf: (key: RawEntry) => KnownNames; nowMs: number },
): Findings {
  const errors = file.keys.flatMap((key) => {
    const known = namesOf(key);
    const policies = new Set([...known.policies, BUILT_IN_POLICY]);
    return [
      ...(known.models === "open" ? [] : unknown(key, "models", "model", known.models)),
      ...unknown(key, "policies", "policy", policies),
    ];
  });
  const warnings = file.keys
    .filter((key) => hasExpired(key, nowMs))
    .map(
      (key): ConfigIssue => ({
        path: [...key.path, "expires_at"],
        at: "value",
        message: `the key expired at ${textOf(key, "expires_at")}`,
        hint: "callers who send it are refused: give it a later end, or take it out",
      }),
    );
  return { errors, warnings };
}

/** Whether a key has ended. A time that is none has its own message. */
export function hasExpired(key: RawEntry, nowMs: number): boolean {
  return Date.parse(textOf(key, "expires_at") ?? "") <= nowMs;
}

function unknown(key: RawEntry, field: string, what: string, known: ReadonlySet<string>): ConfigIssue[] {
  return textsOf(key, field)
    .filter(({ text }) => !known.has(text))
    .map(({ text, path }) => {
      const nearest = nearestName(text, [...known]);
      return {
        path,
        at: "value",
        message: `there is no ${what} ${JSON.stringify(text.slice(0, 128))} in the key's account`,
        hint: nearest === null ? `declare it under ${field}` : `did you mean ${nearest}?`,
      };
    });
}

/** The texts of a list inside an entry. */
export function textsOf(entry: RawEntry, field: string): { text: string; path: ConfigPath }[] {
  const list = own(entry, field);
  if (!Array.isArray(list)) return [];
  return list.flatMap((text: unknown, index) =>
    typeof text === "string" ? [{ text, path: [...entry.path, field, index] }] : [],
  );
}
