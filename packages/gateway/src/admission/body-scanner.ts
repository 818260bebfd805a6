import type { FieldSpan, JsonKind, RoutingField } from "../request-body/routing-fields.ts";
import {
  fieldOfKey,
  HEAD_KEYS,
  type HeadKey,
  headKeyOf,
  isPromptKey,
  RAW_KEY_BYTES,
  RAW_VALUE_BYTES,
  ROUTING_FIELDS,
  unescapeJson,
} from "../request-body/routing-fields.ts";
import { type BodyRefusal, type BodyScan, refusal } from "./body-scan.ts";
import { NestedJson } from "./nested-json.ts";
import type { PromptPart } from "./prompt-marks.ts";
import { RoutingValues } from "./routing-values.ts";
import { forgetWords, skipStringBody, skipStringWithEscapes } from "./string-skip.ts";
import { UTF8_OK, Utf8Check } from "./utf8-check.ts";

export interface BodyScanOptions {
  /** Deepest nesting of arrays and objects that is accepted; a bound, because every engine has one. Default 512. */
  readonly maxDepth?: number;
  /**
   * Whether `policy` and `accelerator` are held to their types and may stand only once. False where a header has
   * already decided them: then they are somebody else's members. Default true.
   */
  readonly checkHints?: boolean;
}

/** A span whose member has not been followed by anything yet. */
type OpenSpan = { -readonly [Key in keyof FieldSpan]: FieldSpan[Key] };

/** Parts of a prompt that are told: more of them are repetitions. */
const PROMPT_PARTS_MAX = 16;

/** Containers that a body may nest. */
const DEFAULT_MAX_DEPTH = 512;

// What the next byte may be.
const START = 0;
const VALUE = 1;
/** Inside an array or object that is a value. */
const NESTED = 2;
const FIRST_KEY = 3;
const KEY = 4;
const COLON = 5;
const AFTER_VALUE = 6;
const DONE = 7;
const STRING = 8;
const ESCAPE = 9;
const HEX = 10;
const LITERAL = 11;
const MINUS = 12;
const ZERO = 13;
const INTEGER = 14;
const POINT = 15;
const FRACTION = 16;
const EXPONENT = 17;
const EXPONENT_SIGN = 18;
const EXPONENT_DIGITS = 19;

const EXPECTED = [
  "a value",
  "a value",
  "the end of an array or object",
  "a key or }",
  "a key",
  "a colon",
  "a comma or the end of the object",
  "nothing but white space after the end",
  "the end of a string, without raw control characters",
  "an escape character",
  "a hexadecimal digit",
  "true, false or null",
  "a digit",
  "the end of a number",
  "a digit",
  "a digit",
  "a digit",
  "a digit or a sign",
  "a digit",
  "a digit",
] as const;

const LITERALS = { true: Buffer.from("true"), false: Buffer.from("false"), null: Buffer.from("null") } as const;
const NOTHING = Buffer.alloc(0);

/**
 * Validates a JSON body (RFC 8259, UTF-8, no byte order mark) chunk by chunk, reads the routing fields of its top
 * level and notes what its prompt holds. Linear in the body's bytes; keeps nothing of it but the few values that it
 * reports. It accepts what `JSON.parse` accepts, up to the depth bound, and the result does not depend on how the body is
 * cut into chunks.
 *
 * A body that is not JSON is `invalid_json` even if a routing field was wrong before.
 */
export class BodyScanner {
  readonly #utf8 = new Utf8Check();
  readonly #nested: NestedJson;
  /** Where the value stands that is read: false before and in a root that is no object, true in the root object. */
  #isInRoot = false;
  #state = START;
  #bytes = 0;

  #literal: Buffer = LITERALS.null;
  #literalKind: "true" | "false" | "null" = "null";
  /** Matched bytes of a literal, or digits of a \u escape. */
  #matched = 0;
  #nestedKind: "object" | "array" = "object";
  #stringIsKey = false;

  /** First byte of the token whose text may be needed, and what of it stood in earlier chunks. */
  #tokenStart = -1;
  #tokenHead: Buffer = NOTHING;
  #tokenEscaped = false;

  #memberIndex = -1;
  #field = -1;
  /** Index into HEAD_KEYS of the member that is read, -1: another one. */
  #headKey = -1;
  readonly #promptParts: PromptPart[] = [];
  /** The member that is read holds the prompt. */
  #isPrompt = false;
  #keyStart = -1;
  #valueStart = -1;
  #comma = -1;
  #openSpan = -1;
  #spans: OpenSpan[] = [];

  readonly #values: RoutingValues;
  #rootIsObject = false;

  #syntax: BodyRefusal | null = null;

  constructor(options: BodyScanOptions = {}) {
    this.#values = new RoutingValues(options.checkHints ?? true);
    this.#nested = new NestedJson((options.maxDepth ?? DEFAULT_MAX_DEPTH) - 1);
  }

  /** True once the bytes cannot be JSON any more; further chunks are not looked at. */
  get failed(): boolean {
    return this.#syntax !== null;
  }

  /** Takes the next bytes. They are only read, and not kept. */
  push(chunk: Buffer): void {
    if (this.#syntax === null && chunk.length > 0) {
      const invalid = this.#utf8.push(chunk);
      if (invalid === UTF8_OK) {
        this.#scan(chunk, chunk.length);
      } else {
        // The lead byte is scanned too: outside of a string it is an unexpected byte, however the body was cut.
        this.#scan(chunk, Math.max(0, invalid + 1));
        this.#refuseSyntax(this.#bytes + invalid, "valid UTF-8");
      }
    }
    this.#bytes += chunk.length;
  }

  /** Says what the body was. Call once, after the last chunk. */
  end(): BodyScan {
    forgetWords();
    const bytes = this.#bytes;
    if (this.#syntax === null) {
      if (this.#utf8.pendingBytes > 0) this.#refuseSyntax(bytes - this.#utf8.pendingBytes, "valid UTF-8");
      else if (this.#state === START) return refusal("body_empty", "the body is empty; expected a JSON object", bytes);
      else if (this.#state === NESTED) this.#refuseSyntax(bytes, this.#nested.expectedNext);
      else if (!isComplete(this.#state, this.#isInRoot)) this.#refuseSyntax(bytes, EXPECTED[this.#state] as string);
    }
    if (this.#syntax !== null) return this.#syntax;
    if (!this.#rootIsObject) return refusal("body_not_object", "the body must be a JSON object", 0);
    const { model, stream, maxTokens, n, policy, accelerator, issue } = this.#values;
    if (issue !== null) return issue;
    if (model === null) {
      return refusal("missing_model", 'the body has no "model"; name the model to use', bytes, "model");
    }
    return {
      ok: true,
      model,
      stream,
      maxTokens,
      n,
      images: this.#nested.contents.images,
      textBytes: this.#nested.contents.textBytes,
      opaqueBytes: this.#nested.contents.opaqueBytes,
      promptParts: this.#promptParts,
      policy,
      accelerator,
      spans: this.#spans,
      bodyBytes: bytes,
    };
  }

  /** Runs the grammar over bytes[0, end). */
  #scan(bytes: Buffer, end: number): void {
    const base = this.#bytes;
    let state = this.#state;
    let at = 0;
    while (at < end) {
      const byte = bytes[at] as number;
      switch (state) {
        case STRING:
          at = this.#tokenStart >= 0 ? skipStringBody(bytes, at, end) : skipStringWithEscapes(bytes, at, end);
          if (at === end) break;
          if (bytes[at] === 0x22) {
            state = this.#stringIsKey ? this.#endKey(bytes, at) : this.#endString(bytes, at);
          } else if (bytes[at] === 0x5c) {
            this.#tokenEscaped = true;
            state = ESCAPE;
          } else {
            return this.#refuseSyntax(base + at, EXPECTED[STRING]);
          }
          at++;
          break;

        case ESCAPE:
          if (byte === 0x75) {
            this.#matched = 0;
            state = HEX;
          } else if (isEscape(byte)) state = STRING;
          else return this.#refuseSyntax(base + at, EXPECTED[ESCAPE]);
          at++;
          break;

        case HEX:
          if (!isHex(byte)) return this.#refuseSyntax(base + at, EXPECTED[HEX]);
          if (++this.#matched === 4) state = STRING;
          at++;
          break;

        case AFTER_VALUE:
          if (byte === 0x2c) {
            this.#endMember(base + at);
            state = KEY;
          } else if (byte === 0x7d) state = this.#endRoot();
          else if (!isSpace(byte)) return this.#refuseSyntax(base + at, EXPECTED[AFTER_VALUE]);
          at++;
          break;

        case COLON:
          if (byte === 0x3a) state = VALUE;
          else if (!isSpace(byte)) return this.#refuseSyntax(base + at, EXPECTED[COLON]);
          at++;
          break;

        case FIRST_KEY:
        case KEY:
          if (byte === 0x22) {
            this.#stringIsKey = true;
            this.#keyStart = base + at;
            this.#startToken(base + at + 1, true);
            state = STRING;
          } else if (byte === 0x7d && state === FIRST_KEY) state = this.#endRoot();
          else if (!isSpace(byte)) return this.#refuseSyntax(base + at, EXPECTED[state] as string);
          at++;
          break;

        case START:
        case VALUE:
          if (isSpace(byte)) {
            at++;
            break;
          }
          this.#valueStart = base + at;
          if (byte === 0x22) {
            this.#stringIsKey = false;
            this.#startToken(base + at + 1, this.#field >= 0);
            state = STRING;
          } else if (byte === 0x7b && !this.#isInRoot) {
            this.#isInRoot = true;
            this.#rootIsObject = true;
            state = FIRST_KEY;
          } else if (byte === 0x7b || byte === 0x5b) {
            if (!this.#nested.open(byte === 0x7b, this.#isPrompt))
              return this.#refuseSyntax(base + at, "fewer levels of nesting");
            this.#nestedKind = byte === 0x7b ? "object" : "array";
            state = NESTED;
          } else if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) {
            this.#startToken(base + at, this.#field >= 0);
            state = byte === 0x2d ? MINUS : byte === 0x30 ? ZERO : INTEGER;
          } else if (byte === 0x74 || byte === 0x66 || byte === 0x6e) {
            this.#literalKind = byte === 0x74 ? "true" : byte === 0x66 ? "false" : "null";
            this.#literal = LITERALS[this.#literalKind];
            this.#matched = 1;
            state = LITERAL;
          } else {
            return this.#refuseSyntax(base + at, EXPECTED[state] as string);
          }
          at++;
          break;

        case NESTED:
          at = this.#nested.scan(bytes, at, end, base);
          if (at < 0) return this.#refuseSyntax(base + ~at, this.#nested.expected);
          if (this.#nested.depth === 0) state = this.#endValue(this.#nestedKind, NOTHING, base + at);
          break;

        case LITERAL:
          if (byte !== this.#literal[this.#matched]) return this.#refuseSyntax(base + at, EXPECTED[LITERAL]);
          at++;
          if (++this.#matched === this.#literal.length) state = this.#endValue(this.#literalKind, NOTHING, base + at);
          break;

        case DONE:
          if (!isSpace(byte)) return this.#refuseSyntax(base + at, EXPECTED[DONE]);
          at++;
          break;

        default: {
          const next = nextInNumber(state, byte);
          if (next < 0) return this.#refuseSyntax(base + at, EXPECTED[state] as string);
          // A number ends before the byte that isn't part of it.
          if (next === AFTER_VALUE) state = this.#endValue("number", this.#endToken(bytes, at), base + at);
          else {
            state = next;
            at++;
          }
        }
      }
    }
    this.#state = state;
    if (this.#tokenStart >= 0) this.#keepToken(bytes, end);
  }

  #endRoot(): number {
    this.#isInRoot = false;
    return DONE;
  }

  /** Marks where a key or value starts whose text will be needed. */
  #startToken(offset: number, isNeeded: boolean): void {
    this.#tokenStart = isNeeded ? offset : -1;
    this.#tokenEscaped = false;
  }

  /** The chunk ends inside a token: copies what is needed of it, a bounded amount. */
  #keepToken(bytes: Buffer, end: number): void {
    const from = Math.max(0, this.#tokenStart - this.#bytes);
    const room = RAW_VALUE_BYTES + 1 - this.#tokenHead.length;
    if (room > 0) this.#tokenHead = Buffer.concat([this.#tokenHead, bytes.subarray(from, Math.min(end, from + room))]);
  }

  /** Text of the token that ends before bytes[end]; cut off above RAW_VALUE_BYTES, which no field may reach. */
  #endToken(bytes: Buffer, end: number): Buffer {
    if (this.#tokenStart < 0) return NOTHING;
    const from = Math.max(0, this.#tokenStart - this.#bytes);
    let raw = bytes.subarray(from, Math.min(end, from + RAW_VALUE_BYTES + 1));
    if (this.#tokenHead.length > 0) raw = Buffer.concat([this.#tokenHead, raw]);
    this.#tokenStart = -1;
    this.#tokenHead = NOTHING;
    return raw;
  }

  #endKey(bytes: Buffer, at: number): number {
    this.#memberIndex++;
    const from = this.#tokenStart - this.#bytes;
    if (from >= 0 && !this.#tokenEscaped) {
      this.#field = fieldOfKey(bytes, from, at);
      this.#headKey = headKeyOf(bytes, from, at);
      this.#tokenStart = -1;
    } else {
      let raw = this.#endToken(bytes, at);
      if (this.#tokenEscaped && raw.length <= RAW_KEY_BYTES) raw = Buffer.from(unescapeJson(raw));
      this.#field = fieldOfKey(raw, 0, raw.length);
      this.#headKey = headKeyOf(raw, 0, raw.length);
    }
    this.#isPrompt = isPromptKey(this.#headKey);
    return COLON;
  }

  #endString(bytes: Buffer, at: number): number {
    if (this.#isPrompt) this.#nested.contents.textBytes += this.#bytes + at - this.#valueStart - 1;
    return this.#endValue("string", this.#endToken(bytes, at), this.#bytes + at + 1);
  }

  #endValue(kind: JsonKind, raw: Buffer, end: number): number {
    if (!this.#isInRoot) return DONE;
    if (this.#headKey >= 0 && this.#promptParts.length < PROMPT_PARTS_MAX) {
      this.#promptParts.push({ key: HEAD_KEYS[this.#headKey] as HeadKey, start: this.#valueStart, end });
    }
    if (this.#field >= 0) {
      const field = ROUTING_FIELDS[this.#field] as RoutingField;
      this.#field = -1;
      this.#values.read(field, kind, this.#textOf(kind, raw), this.#keyStart, hasField(this.#spans, field));
      this.#openSpan = this.#spans.length;
      this.#spans.push({
        field,
        memberIndex: this.#memberIndex,
        keyStart: this.#keyStart,
        valueStart: this.#valueStart,
        valueEnd: end,
        commaBefore: this.#comma,
        commaAfter: -1,
      });
    }
    return AFTER_VALUE;
  }

  /** A comma at the top level: the member before it is not the last. */
  #endMember(offset: number): void {
    if (this.#openSpan >= 0) {
      (this.#spans[this.#openSpan] as OpenSpan).commaAfter = offset;
      this.#openSpan = -1;
    }
    this.#comma = offset;
  }

  /** What a token means, within what a routing field may hold. */
  #textOf(kind: JsonKind, raw: Buffer): string | null {
    if (raw.length > RAW_VALUE_BYTES) return null;
    if (kind === "string") return this.#tokenEscaped ? unescapeJson(raw) : raw.toString("utf8");
    return kind === "number" ? raw.toString("latin1") : null;
  }

  #refuseSyntax(offset: number, expected: string): void {
    const message = `the body is not valid JSON: expected ${expected} at byte ${offset}`;
    this.#syntax ??= refusal("invalid_json", message, offset, null, expected);
  }
}

/** Whether a body may end here; a bare number ends with the body. */
function isComplete(state: number, isInRoot: boolean): boolean {
  if (state === DONE) return true;
  return !isInRoot && (state === ZERO || state === INTEGER || state === FRACTION || state === EXPONENT_DIGITS);
}

function hasField(spans: readonly FieldSpan[], field: RoutingField): boolean {
  for (const span of spans) if (span.field === field) return true;
  return false;
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isHex(byte: number): boolean {
  const letter = byte | 0x20;
  return (byte >= 0x30 && byte <= 0x39) || (letter >= 0x61 && letter <= 0x66);
}

/** One of " \ / b f n r t. */
function isEscape(byte: number): boolean {
  switch (byte) {
    case 0x22:
    case 0x5c:
    case 0x2f:
    case 0x62:
    case 0x66:
    case 0x6e:
    case 0x72:
    case 0x74:
      return true;
    default:
      return false;
  }
}

/** State after one more byte of a number; AFTER_VALUE when the number ended before it, -1 when it may not stand here. */
function nextInNumber(state: number, byte: number): number {
  const isDigit = byte >= 0x30 && byte <= 0x39;
  switch (state) {
    case MINUS:
      return !isDigit ? -1 : byte === 0x30 ? ZERO : INTEGER;
    case POINT:
      return isDigit ? FRACTION : -1;
    case EXPONENT:
      return isDigit ? EXPONENT_DIGITS : byte === 0x2b || byte === 0x2d ? EXPONENT_SIGN : -1;
    case EXPONENT_SIGN:
      return isDigit ? EXPONENT_DIGITS : -1;
    default:
      if (isDigit) return state === ZERO ? -1 : state;
      if (byte === 0x2e && (state === ZERO || state === INTEGER)) return POINT;
      if ((byte | 0x20) === 0x65 && state !== EXPONENT_DIGITS) return EXPONENT;
      return AFTER_VALUE;
  }
}
