/** Reading JSON that a node sent: nothing about its shape is believed. */

export type Json = Readonly<Record<string, unknown>>;

/** The value when it is an object (not an array), else null. */
export function asObject(value: unknown): Json | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

/** Characters of JSON that are read: a list of 1,024 models has that many. The worst text of this size takes 20 to 40 ms. */
const JSON_CHARACTERS_MAX = 2 ** 19;

/** Nesting that is read. Deep texts are what JSON.parse is slowest with: 4 MiB of brackets take half a second. */
const JSON_DEPTH_MAX = 64;

/** Texts up to this size are quick however deep. */
const SMALL_CHARACTERS = 8192;

/** The parsed text, undefined when it isn't JSON, or more than a node has to say. */
export function parseJson(text: string): unknown {
  if (text.length > JSON_CHARACTERS_MAX || (text.length > SMALL_CHARACTERS && isDeep(text))) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isDeep(text: string): boolean {
  let depth = 0;
  let isText = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isText) {
      if (code === BACKSLASH) at++;
      else if (code === QUOTE) isText = false;
    } else if (code === QUOTE) isText = true;
    else if (code === BRACKET_OPEN || code === BRACE_OPEN) {
      depth += 1;
      if (depth > JSON_DEPTH_MAX) return true;
    } else if (code === BRACKET_CLOSE || code === BRACE_CLOSE) depth -= 1;
  }
  return false;
}

const QUOTE = 34;
const BRACKET_OPEN = 91;
const BACKSLASH = 92;
const BRACKET_CLOSE = 93;
const BRACE_OPEN = 123;
const BRACE_CLOSE = 125;

/** A text member, "" when it is none. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A number ≥ 0, NaN when it is none. */
export function numberOf(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : Number.NaN;
}
