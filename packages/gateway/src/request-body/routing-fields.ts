/**
 * The top-level members of a request body that routing reads, and what their values may be.
 *
 * Four names limit the output: OpenAI's `max_tokens` and `max_completion_tokens`, the Responses API's
 * `max_output_tokens` and llama.cpp's `n_predict`. Several of them may stand together; the same one twice may not.
 */

/** Every name that is read. Compared after unescaping and by case: `Model` is another key. */
export const ROUTING_FIELDS = [
  "model",
  "stream",
  "n",
  "policy",
  "accelerator",
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "n_predict",
] as const;

export type RoutingField = (typeof ROUTING_FIELDS)[number];

/** Where a member of the top-level object stands. Offsets are bytes from the start of the (decoded) body. */
export interface FieldSpan {
  readonly field: RoutingField;
  /** Position of the member in the object, 0 for the first; counts every member, not only routing fields. */
  readonly memberIndex: number;
  /** The key's opening quote. */
  readonly keyStart: number;
  readonly valueStart: number;
  /** One past the value's last byte. */
  readonly valueEnd: number;
  /** The comma before the key; -1 for the first member. */
  readonly commaBefore: number;
  /** The comma after the value; -1 for the last member. */
  readonly commaAfter: number;
}

export type JsonKind = "string" | "number" | "true" | "false" | "null" | "object" | "array";

/** A model name's longest form in UTF-8. */
const MODEL_NAME_BYTES = 256;
/** Policies and families are at most this long. */
const OBJECT_NAME_BYTES = 128;
/** One byte of text takes at most six in JSON (`\u0061`): a longer raw key cannot be a routing field. */
export const RAW_KEY_BYTES = 6 * Math.max(...ROUTING_FIELDS.map((name) => name.length));
/** A longer raw value cannot be a valid model name; the same bound holds for the digits of a number. */
export const RAW_VALUE_BYTES = 6 * MODEL_NAME_BYTES;

const FIELD_BYTES = ROUTING_FIELDS.map((name) => Buffer.from(name, "latin1"));
const LONGEST_FIELD = Math.max(...ROUTING_FIELDS.map((name) => name.length));

/** Index into ROUTING_FIELDS of an unescaped key in bytes[start, end), or -1. */
export function fieldOfKey(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start;
  if (length > LONGEST_FIELD) return -1;
  for (let field = 0; field < FIELD_BYTES.length; field++) {
    const name = FIELD_BYTES[field] as Buffer;
    if (name.length === length && standsAt(name, bytes, start)) return field;
  }
  return -1;
}

/** The members that a prompt is made of. The first two hold its parts; the last three stand in front of them. */
export const HEAD_KEYS = ["messages", "input", "prompt", "tools", "system", "instructions"] as const;
export type HeadKey = (typeof HEAD_KEYS)[number];

const HEAD_KEY_BYTES = HEAD_KEYS.map((name) => Buffer.from(name, "latin1"));

/** Index into HEAD_KEYS of an unescaped key in bytes[start, end), or -1. */
export function headKeyOf(bytes: Uint8Array, start: number, end: number): number {
  for (let key = 0; key < HEAD_KEY_BYTES.length; key++) {
    const name = HEAD_KEY_BYTES[key] as Buffer;
    if (name.length === end - start && standsAt(name, bytes, start)) return key;
  }
  return -1;
}

/** True for the members that hold a prompt's parts, whose texts and images are counted. */
export function isPromptKey(headKey: number): boolean {
  return headKey === 0 || headKey === 1;
}

function standsAt(name: Uint8Array, bytes: Uint8Array, start: number): boolean {
  let at = 0;
  while (at < name.length && name[at] === bytes[start + at]) at++;
  return at === name.length;
}

/** Text of a JSON string from the bytes between its quotes, which the scanner has already validated. */
export function unescapeJson(raw: Buffer): string {
  return JSON.parse(`"${raw.toString("utf8")}"`);
}

/** True for 1 to 256 bytes of UTF-8 without control characters or lone surrogates. */
export function isModelName(text: string): boolean {
  return text !== "" && text.isWellFormed() && Buffer.byteLength(text) <= MODEL_NAME_BYTES && !/\p{Cc}/u.test(text);
}

/** True for text that can be looked up as a policy or a family; whether it exists is another question. */
export function isObjectName(text: string): boolean {
  return text !== "" && text.isWellFormed() && Buffer.byteLength(text) <= OBJECT_NAME_BYTES;
}
