/** Changes of objects, as `zml apply`, `diff` and `audit` show them. */

import { counted } from "./nodes-words.ts";
import { objectTitle } from "./object-kinds.ts";
import { type Colour, oneLine, painted } from "./table-text.ts";

/** A field that changes. */
export interface FieldChange {
  readonly path: string;
  readonly before: unknown;
  readonly after: unknown;
}

/** An object that changes, or stays. */
export interface Change {
  readonly kind: string;
  readonly account: string;
  readonly name: string;
  readonly action: string;
  readonly fields: readonly FieldChange[];
}

const SIGNS: Readonly<Record<string, { readonly sign: string; readonly colour: Colour }>> = {
  created: { sign: "+", colour: "green" },
  updated: { sign: "~", colour: "yellow" },
  deleted: { sign: "-", colour: "red" },
};

/** Whether anything happens to the object. */
export function isChange({ action }: Change): boolean {
  return action !== "unchanged";
}

/** A line per object that changes, and one per field. @param limit objects that are shown. */
export function changeLines(
  changes: readonly Change[],
  { isColoured, limit }: { isColoured: boolean; limit: number },
): string[] {
  const moved = changes.filter(isChange);
  const lines = moved.slice(0, limit).flatMap((change) => {
    const { sign, colour } = SIGNS[change.action] ?? { sign: "?", colour: "yellow" };
    const head = painted(oneLine(`${sign} ${objectTitle(change)}`), isColoured, colour);
    // what goes is told by its name
    const fields = change.action === "deleted" ? [] : change.fields;
    return [head, ...fields.map((field) => `    ${fieldText(field, change.action === "created")}`)];
  });
  const more = moved.length - limit;
  return more > 0 ? [...lines, `… and ${counted(more, "object")} more: --full shows all`] : lines;
}

/** `1 to create, 2 to change, 0 to delete`, or that there is nothing to do. */
export function changeSummary(changes: readonly Change[]): string {
  const count = (action: string) => changes.filter((change) => change.action === action).length;
  if (!changes.some(isChange)) return "nothing to change: all of it is as it says";
  return `${count("created")} to create, ${count("updated")} to change, ${count("deleted")} to delete`;
}

/** `cost_priority: balanced → cost`. */
export function fieldText({ path, before, after }: FieldChange, isNew = false): string {
  const values = isNew && isNothing(before) ? valueText(after) : `${valueText(before)} → ${valueText(after)}`;
  return oneLine(path === "" ? values : `${path}: ${values}`);
}

/** Longer values are cut: a list of models may have thousands of characters. */
const VALUE_MAX = 160;

function valueText(value: unknown): string {
  if (isNothing(value)) return "–";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : text;
}

function isNothing(value: unknown): boolean {
  return value === null || value === undefined;
}
