import type { Reason } from "@zml/engine/reasons";

/**
 * The routing header: an RFC 9651 dictionary such as
 * `node="mi300x-a", policy="batch", family="MI300X", decision="0198…", queue_depth=3, attempt=1, reason=cheapest`.
 * The encoder writes on the hot path; the decoder reads what any node or proxy may have made of it.
 */

/** What the routing header says. Members are absent where they are not known (yet). */
export interface Routing {
  /** The chosen node. */
  readonly node?: string;
  /** The policy that was applied. */
  readonly policy?: string;
  /** The node's accelerator family. */
  readonly family?: string;
  /** The decision's id, a UUIDv7; `zml explain` takes it. */
  readonly decision?: string;
  /** Requests on the node at dispatch, without this one. */
  readonly queueDepth?: number;
  /** 1 for the first dispatch of the request. */
  readonly attempt?: number;
  /** Why this node, or why none: a word of the engine's closed list. */
  readonly reason?: Reason;
  /** Whether the caller's wish for a family was followed; absent when there was none. */
  readonly hint?: "used" | "unused";
}

/** A routing as it was read: a gateway that is newer than the reader may know more reasons. */
export interface ReceivedRouting extends Omit<Routing, "reason"> {
  readonly reason?: string;
}

/** The largest Integer of RFC 9651: 15 digits. */
const MAX_INTEGER = 999_999_999_999_999;

/** A String's content that needs no escape. */
const PLAIN = /^[ !#-[\]-~]*$/;
const PRINTABLE = /^[ -~]*$/;

/**
 * The value of the routing header.
 * @throws RangeError when a text is not printable ASCII: names are checked where they enter, so that would be a header
 * injection that got past us
 */
export function encodeRoutingHeader(routing: Routing): string {
  let out = "";
  if (routing.node !== undefined) out = `node=${string(routing.node)}`;
  if (routing.policy !== undefined) out += `${comma(out)}policy=${string(routing.policy)}`;
  if (routing.family !== undefined) out += `${comma(out)}family=${string(routing.family)}`;
  if (routing.decision !== undefined) out += `${comma(out)}decision=${string(routing.decision)}`;
  // -1 and NaN are how tables say unknown: such a member is left out.
  if (isCount(routing.queueDepth)) out += `${comma(out)}queue_depth=${routing.queueDepth}`;
  if (isCount(routing.attempt)) out += `${comma(out)}attempt=${routing.attempt}`;
  if (routing.reason !== undefined) out += `${comma(out)}reason=${routing.reason}`;
  if (routing.hint !== undefined) out += `${comma(out)}hint=${routing.hint}`;
  return out;
}

function comma(before: string): string {
  return before === "" ? "" : ", ";
}

function isCount(value: number | undefined): value is number {
  return value !== undefined && Number.isInteger(value) && value >= 0 && value <= MAX_INTEGER;
}

function string(value: string): string {
  if (PLAIN.test(value)) return `"${value}"`;
  if (!PRINTABLE.test(value)) throw new RangeError("a text of the routing header is not printable ASCII");
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/**
 * Reads a routing header. Members that are unknown, have parameters or the wrong type don't disturb the others; a later
 * member of the same name wins.
 * @returns `null` when the value is no dictionary at all (RFC 9651: the whole field is then ignored)
 */
export function decodeRoutingHeader(value: string): ReceivedRouting | null {
  const members = parseDictionary(value);
  if (members === null) return null;
  const text = (key: string) => kindOf(members.get(key), "string");
  const word = (key: string) => kindOf(members.get(key), "token");
  const count = (key: string) => {
    const item = members.get(key);
    return item?.kind === "integer" && item.value >= 0 ? item.value : undefined;
  };
  const node = text("node");
  const policy = text("policy");
  const family = text("family");
  const decision = text("decision");
  const queueDepth = count("queue_depth");
  const attempt = count("attempt");
  const reason = word("reason");
  const hint = word("hint");
  return {
    ...(node !== undefined && { node }),
    ...(policy !== undefined && { policy }),
    ...(family !== undefined && { family }),
    ...(decision !== undefined && { decision }),
    ...(queueDepth !== undefined && { queueDepth }),
    ...(attempt !== undefined && { attempt }),
    ...(reason !== undefined && { reason }),
    ...((hint === "used" || hint === "unused") && { hint }),
  };
}

/** A member as far as the routing header needs it; what has another type is only skipped over. */
type Item =
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "token"; readonly value: string }
  | { readonly kind: "integer"; readonly value: number }
  | { readonly kind: "other" };

function kindOf(item: Item | undefined, kind: "string" | "token"): string | undefined {
  return item !== undefined && item.kind === kind ? item.value : undefined;
}

const OTHER: Item = { kind: "other" };

// Sticky patterns, one per production of RFC 9651; each starts where the last one ended.
const KEY = /[a-z*][a-z0-9_.*-]*/y;
const STRING = /"((?:[ !#-[\]-~]|\\["\\])*)"/y;
const NUMBER = /-?(?:\d{1,12}\.\d{1,3}|\d{1,15})(?![\d.])/y;
const WORD = /[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*/y;
const BYTES_BOOLEAN_DATE_DISPLAY = /:[A-Za-z0-9+/=]*:|\?[01]|@-?\d{1,15}|%"(?:[ !#$&-~]|%[0-9a-f]{2})*"/y;
const SPACES = / */y;
const BLANKS = /[ \t]*/y;

/** A cursor over one header value. */
class Cursor {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#source.length;
  }

  /** Takes what the pattern matches here; `null` when it doesn't. */
  take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#source);
    if (match !== null) this.#at = pattern.lastIndex;
    return match;
  }

  /** Takes the character if it is the next one. */
  takeChar(char: string): boolean {
    if (this.#source[this.#at] !== char) return false;
    this.#at += 1;
    return true;
  }
}

function parseDictionary(source: string): Map<string, Item> | null {
  const members = new Map<string, Item>();
  const cursor = new Cursor(source.replace(/^ +| +$/g, ""));
  while (!cursor.isAtEnd) {
    const key = cursor.take(KEY)?.[0];
    if (key === undefined) return null;
    // A key alone is the Boolean true.
    const item = cursor.takeChar("=") ? parseMember(cursor) : OTHER;
    if (item === null || !skipParameters(cursor)) return null;
    members.set(key, item);
    cursor.take(BLANKS);
    if (cursor.isAtEnd) return members;
    if (!cursor.takeChar(",")) return null;
    cursor.take(BLANKS);
    // A comma with nothing after it.
    if (cursor.isAtEnd) return null;
  }
  return members;
}

function parseMember(cursor: Cursor): Item | null {
  return cursor.takeChar("(") ? skipInnerList(cursor) : parseBareItem(cursor);
}

function parseBareItem(cursor: Cursor): Item | null {
  const text = cursor.take(STRING)?.[1];
  if (text !== undefined) return { kind: "string", value: text.replace(/\\(.)/g, "$1") };
  const number = cursor.take(NUMBER)?.[0];
  if (number !== undefined) return number.includes(".") ? OTHER : { kind: "integer", value: Number(number) };
  const word = cursor.take(WORD)?.[0];
  if (word !== undefined) return { kind: "token", value: word };
  return cursor.take(BYTES_BOOLEAN_DATE_DISPLAY) === null ? null : OTHER;
}

function skipInnerList(cursor: Cursor): Item | null {
  cursor.take(SPACES);
  while (!cursor.takeChar(")")) {
    if (parseBareItem(cursor) === null || !skipParameters(cursor)) return null;
    // Items are parted by spaces; without one only the end of the list may follow.
    if (cursor.take(SPACES)?.[0] === "") return cursor.takeChar(")") ? OTHER : null;
  }
  return OTHER;
}

function skipParameters(cursor: Cursor): boolean {
  while (cursor.takeChar(";")) {
    cursor.take(SPACES);
    if (cursor.take(KEY) === null) return false;
    if (cursor.takeChar("=") && parseBareItem(cursor) === null) return false;
  }
  return true;
}
