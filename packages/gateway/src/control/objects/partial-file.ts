/** A part of a configuration file, as changes of what the API owns. */

import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type ConfigPath, DEFAULT_ACCOUNT, hasAccount, OBJECT_KINDS, type ObjectKind } from "@zml/protocol";
import type { ConfigSource } from "../../config/read-config.ts";
import type { ManagedObject, ObjectKey, WriteProblem, WriteRefusal } from "./managed-objects.ts";
import type { PlannedChange } from "./object-changes.ts";
import type { ObjectList } from "./object-list.ts";
import { type FileValues, isMapping, keyText, listPath, objectsOf, objectWords, specOf } from "./object-lists.ts";
import { refuseOthers } from "./refusals.ts";

/** Changes, and where in the part each object stands. */
export interface Plan {
  readonly changes: readonly PlannedChange[];
  readonly pathOf: ReadonlyMap<string, ConfigPath>;
}

/** What a part of a file asks for, or why it can't be had. */
export function planOf(
  part: FileValues,
  current: ObjectList,
  { prune, source }: { prune: boolean; source: ConfigSource },
): Plan | WriteRefusal {
  const foreign = otherSections(part);
  if (foreign.length > 0) return invalid(foreign);
  const changes: PlannedChange[] = [];
  const problems: WriteProblem[] = [];
  const pathOf = new Map<string, ConfigPath>();
  const kinds = OBJECT_KINDS.filter((kind) => hasList(part, kind));
  for (const kind of kinds) {
    const objects = objectsOf(part, kind);
    problems.push(...nameless(part, kind));
    for (const { key, entry, path } of objects) {
      const text = keyText(key);
      if (pathOf.has(text)) {
        problems.push({ path, message: `the ${objectWords(key)} is there twice`, hint: "keep one of them" });
        continue;
      }
      pathOf.set(text, path);
      const before = current.get(key);
      const spec = specOf(kind, entry);
      if (before !== null && isDeepStrictEqual(before.spec, spec)) continue;
      const others = refuseOthers(key, before, source);
      if (others !== null) return { ...others, problems: others.problems.map((problem) => ({ ...problem, path })) };
      if (kind === "key" && before === null) {
        const hint = "the gateway makes keys, and tells their value once: zml keys create, or POST /admin/v1/keys";
        problems.push({ path, message: `there is no ${objectWords(key)}`, hint });
        continue;
      }
      changes.push({ key, before, after: spec });
    }
  }
  if (problems.length > 0) return invalid(problems);
  if (prune) changes.push(...kinds.flatMap((kind) => leftOut(kind, current, pathOf)));
  return { changes, pathOf };
}

/** Another one whenever it would change another object, to another value, or from another revision on. */
export function planTag(changes: readonly PlannedChange[]): string {
  const said = changes.map(({ key, before, after }) => [keyText(key), before?.revision ?? null, after]);
  return createHash("sha256").update(JSON.stringify(said)).digest("base64url").slice(0, TAG_LENGTH);
}

/** 132 bits. */
const TAG_LENGTH = 22;

function invalid(problems: readonly WriteProblem[]): WriteRefusal {
  return { kind: "refused", code: "invalid", problems };
}

/** Objects of the API that the part does not name. */
function leftOut(kind: ObjectKind, current: ObjectList, named: ReadonlyMap<string, ConfigPath>): PlannedChange[] {
  return current
    .list(kind, null)
    .filter((object: ManagedObject) => object.owner === "api" && !named.has(keyText(object)))
    .map((before) => ({ key: keyOf(before), before, after: null }));
}

/** Without what else an object says. */
function keyOf({ kind, account, name }: ObjectKey): ObjectKey {
  return { kind, account, name };
}

function hasList(part: FileValues, kind: ObjectKind): boolean {
  const [section = "", field] = listPath(kind);
  const value = Object.hasOwn(part, section) ? part[section] : undefined;
  return field === undefined ? value !== undefined : isMapping(value) && Object.hasOwn(value, field);
}

/** Sections that are no lists of objects. */
function otherSections(part: FileValues): WriteProblem[] {
  const known = new Map(OBJECT_KINDS.map((kind) => [listPath(kind)[0] ?? "", listPath(kind)[1]]));
  return Object.keys(part).flatMap((section): WriteProblem[] => {
    const hint = "only lists of objects can be applied; settings stand in the gateway's own file";
    const field = known.get(section);
    if (!known.has(section)) return [{ path: [section], message: `${section} is no list of objects`, hint }];
    const value = part[section];
    if (field === undefined) return Array.isArray(value) ? [] : [notA("list", [section])];
    if (!isMapping(value)) return [notA("mapping", [section])];
    return Object.keys(value).flatMap((key) => {
      if (key !== field) return [{ path: [section, key], message: `${section}.${key} is no list of objects`, hint }];
      return Array.isArray(value[key]) ? [] : [notA("list", [section, key])];
    });
  });
}

function notA(what: string, path: ConfigPath): WriteProblem {
  return { path, message: `expected a ${what}`, hint: null };
}

/** Entries that no key can be made of: they would be overlooked. */
function nameless(part: FileValues, kind: ObjectKind): WriteProblem[] {
  const path = listPath(kind);
  const named = new Set(objectsOf(part, kind).map((object) => object.path.at(-1)));
  const [section = "", field] = path;
  const list = field === undefined ? part[section] : (part[section] as Record<string, unknown>)[field];
  return (list as unknown[]).flatMap((entry, index) => {
    if (named.has(index)) return [];
    if (!isMapping(entry)) return [notA("mapping", [...path, index])];
    const field = kind === "node" ? "id" : "name";
    if (typeof entry[field] !== "string") {
      return [
        {
          path: [...path, index, field],
          message: `expected the ${field} of the ${kind.replace("_", " ")}`,
          hint: null,
        },
      ];
    }
    const account = hasAccount(kind) ? "account" : "name";
    return [{ path: [...path, index, account], message: `expected an account such as ${DEFAULT_ACCOUNT}`, hint: null }];
  });
}
