/** Reading JSON that a node sent: nothing about its shape is believed. */

export type Json = Readonly<Record<string, unknown>>;

/** The value when it is an object (not an array), else null. */
export function asObject(value: unknown): Json | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

/** The parsed text, undefined when it isn't JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** A text member, "" when it is none. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A number ≥ 0, NaN when it is none. */
export function numberOf(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : Number.NaN;
}
