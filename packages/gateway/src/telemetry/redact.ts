/** Secrets in text: known values wherever they stand, and what looks like one. */

export const REDACTED = "[secret]";

/** Shorter values are taken out where they stand as a word only: "admin" as a key may not cut "administrator" up. */
const ANYWHERE_LENGTH = 8;

/**
 * What is a secret by its shape, whoever holds it: keys that the gateway made (their values are known to nobody), values of
 * `authorization`, private keys, and credentials in a URL.
 */
const SHAPES = [
  "zml_[A-Za-z0-9_-]{20,}",
  "(?<=\\b(?:bearer|basic)(?:\\s|%20)+)[^\\s\"'\\\\,;]+",
  "-----BEGIN [A-Z ]*PRIVATE KEY-----[\\s\\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
  "(?<=\\b[a-z][a-z0-9+.-]*://)[^\\s/\"'@]*:[^\\s/\"'@]*(?=@)",
];

/** Names of fields whose values are nobody's to read; `tokens` and `key_name` are none of them. */
const SECRET_NAME =
  /(?:^|[_-])(?:authorization|cookie|password|passwd|secret|credentials?|token|pepper)$|api[_-]?key$|private[_-]?key$/i;

/** Depth of nested fields that are looked at; a field below is left out. */
const DEPTH_MAX = 4;

/**
 * Makes what takes secrets out of texts. Values are found as they are, as JSON, URL and base64 text hold them.
 *
 * @param values in any order; empty ones are left out.
 */
export function createRedactor(values: readonly string[]): (text: string) => string {
  const forms = new Set(values.filter((value) => value !== "").flatMap(formsOf));
  const patterns = [...forms]
    // a value that holds another one goes first
    .sort((a, b) => b.length - a.length)
    .map((form) =>
      form.length >= ANYWHERE_LENGTH ? escaped(form) : `(?<![A-Za-z0-9])${escaped(form)}(?![A-Za-z0-9])`,
    );
  const pattern = new RegExp([...patterns, ...SHAPES.map((shape) => `(?i:${shape})`)].join("|"), "g");
  return (text) => text.replace(pattern, REDACTED);
}

function formsOf(value: string): string[] {
  const json = JSON.stringify(value).slice(1, -1);
  const base64 = Buffer.from(value).toString("base64");
  return [value, json, JSON.stringify(json).slice(1, -1), encodeURIComponent(value), base64];
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}

/** The fields of a line without the values of those that are secrets by their name. */
export function redactNames(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      SECRET_NAME.test(snakeOf(name)) ? REDACTED : inside(value, 1),
    ]),
  );
}

function inside(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null || value instanceof Error) return value;
  // what renders itself does so
  if (typeof Reflect.get(value, "toJSON") === "function") return value;
  if (depth >= DEPTH_MAX) return "[deep]";
  if (Array.isArray(value)) return value.map((item) => inside(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      SECRET_NAME.test(snakeOf(name)) ? REDACTED : inside(item, depth + 1),
    ]),
  );
}

function snakeOf(name: string): string {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1_$2");
}
