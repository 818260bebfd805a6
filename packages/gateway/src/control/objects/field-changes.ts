/** What differs between two specs, field by field. Pure. */

import { isDeepStrictEqual } from "node:util";
import type { FieldChange } from "./managed-objects.ts";
import { isMapping } from "./object-lists.ts";

/** Mappings are looked into; lists change as a whole. `null`: there was, or is, nothing. */
export function fieldChanges(before: unknown, after: unknown): FieldChange[] {
  const changes: FieldChange[] = [];
  walk(before ?? {}, after ?? {}, "", changes);
  return changes;
}

function walk(before: unknown, after: unknown, path: string, changes: FieldChange[]): void {
  if (isMapping(before) && isMapping(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      walk(own(before, key), own(after, key), path === "" ? key : `${path}.${key}`, changes);
    }
    return;
  }
  if (!isDeepStrictEqual(before, after)) changes.push({ path, before, after });
}

function own(value: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}
