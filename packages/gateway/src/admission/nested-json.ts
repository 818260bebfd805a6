import { PromptContents, TEXT_BYTES } from "./prompt-contents.ts";
import { skipStringWithEscapes } from "./string-skip.ts";

/*
 * The grammar of arrays and objects as one table: TABLE[state << 8 | byte] is the next state. States come in two
 * families, inside an object and inside an array, so that a comma or the end of a number needs no look at the stack.
 * States from STRING_KEY on are not plain steps: the loop leaves the table for them.
 */

/** What must come next, for each plain state, in the order of the states' numbers. */
const expectations: string[] = [];

function state(expected: string): number {
  return expectations.push(expected) - 1;
}

const FAIL = 255;
const OPEN_OBJECT = 254;
const OPEN_ARRAY = 253;
const CLOSE = 252;
/** Inside a key, inside a value of an object, inside an element of an array. */
const STRING_KEY = 240;
const STRING_MEMBER = 241;
const STRING_ELEMENT = 242;

const table = new Uint8Array(256 * 256).fill(FAIL);

function on(from: number, bytes: string, to: number): void {
  for (const byte of Buffer.from(bytes, "latin1")) table[(from << 8) | byte] = to;
}

const SPACES = " \t\r\n";
const DIGITS = "0123456789";
const NONZERO = "123456789";

/** Adds the states of a value, from its first byte to `after`; returns the state before it. */
function addValue(after: number, string: number, expected: string): number {
  const before = state(expected);
  on(before, SPACES, before);
  on(before, "{", OPEN_OBJECT);
  on(before, "[", OPEN_ARRAY);
  on(before, '"', string);
  for (const literal of ["true", "false", "null"]) {
    let from = before;
    for (const [index, letter] of [...literal].entries()) {
      const to = index === literal.length - 1 ? after : state("true, false or null");
      on(from, letter, to);
      from = to;
    }
  }
  const minus = state("a digit");
  const zero = state("the end of a number");
  const integer = state("a digit");
  const point = state("a digit");
  const fraction = state("a digit");
  const exponent = state("a digit or a sign");
  const exponentSign = state("a digit");
  const exponentDigits = state("a digit");
  on(before, "-", minus);
  for (const from of [before, minus]) {
    on(from, "0", zero);
    on(from, NONZERO, integer);
  }
  on(integer, DIGITS, integer);
  for (const from of [point, fraction]) on(from, DIGITS, fraction);
  for (const from of [zero, integer]) on(from, ".", point);
  for (const from of [zero, integer, fraction]) on(from, "eE", exponent);
  on(exponent, "+-", exponentSign);
  for (const from of [exponent, exponentSign, exponentDigits]) on(from, DIGITS, exponentDigits);
  // A number has no end mark of its own: it ends with what may follow a value.
  for (const from of [zero, integer, fraction, exponentDigits]) numberEnds.push([from, after]);
  return before;
}

/** Adds the states inside a string, which ends in `after`. */
function addString(string: number, after: number): void {
  on(string, '"', after);
  const afterBackslash = state("an escape character");
  inEscape.add(afterBackslash);
  on(string, "\\", afterBackslash);
  on(afterBackslash, '"\\/bfnrt', string);
  let from = afterBackslash;
  let bytes = "u";
  for (let digit = 0; digit < 4; digit++) {
    const to = state("a hexadecimal digit");
    inEscape.add(to);
    on(from, bytes, to);
    bytes = `${DIGITS}abcdefABCDEF`;
    from = to;
  }
  on(from, bytes, string);
}

const numberEnds: [number, number][] = [];
/** States between a backslash and the end of its escape. */
const inEscape = new Set<number>();

const AFTER_MEMBER = state("a comma or the end of the object");
const AFTER_ELEMENT = state("a comma or the end of the array");
const COLON = state("a colon");
const FIRST_KEY = state("a key or }");
const KEY = state("a key");
const MEMBER = addValue(AFTER_MEMBER, STRING_MEMBER, "a value");
const ELEMENT = addValue(AFTER_ELEMENT, STRING_ELEMENT, "a value");
const FIRST_ELEMENT = addValue(AFTER_ELEMENT, STRING_ELEMENT, "a value or ]");
addString(STRING_KEY, COLON);
addString(STRING_MEMBER, AFTER_MEMBER);
addString(STRING_ELEMENT, AFTER_ELEMENT);
for (const each of [AFTER_MEMBER, AFTER_ELEMENT, COLON, FIRST_KEY, KEY]) on(each, SPACES, each);
on(FIRST_KEY, '"', STRING_KEY);
on(FIRST_KEY, "}", CLOSE);
on(KEY, '"', STRING_KEY);
on(COLON, ":", MEMBER);
on(AFTER_MEMBER, ",", KEY);
on(AFTER_MEMBER, "}", CLOSE);
on(AFTER_ELEMENT, ",", ELEMENT);
on(AFTER_ELEMENT, "]", CLOSE);
on(FIRST_ELEMENT, "]", CLOSE);
for (const [from, after] of numberEnds) {
  for (const byte of Buffer.from(`${SPACES},]}`)) table[(from << 8) | byte] = table[(after << 8) | byte] as number;
}

const TABLE = table;
const EXPECTED: readonly string[] = expectations;
/** 1 for the states inside an escape. */
const IN_ESCAPE = Uint8Array.from({ length: 256 }, (_, each) => Number(inEscape.has(each)));
const QUOTE = 0x22;
/** Bytes of "image". */
const SHORTEST_TYPE = 5;

/**
 * Validates one array or object with everything in it, over any chunks, and notes what its strings hold. One instance can
 * check many, one after the other.
 */
export class NestedJson {
  /** What should have stood where `scan` failed. */
  expected = "";
  /** Containers that are open. */
  depth = 0;
  readonly contents = new PromptContents();
  /** The container is part of the prompt. */
  #isPrompt = false;
  /** Offset in the body of the string that is read, behind its quote. */
  #stringStart = 0;
  #hasEscape = false;
  /** The value that comes belongs to a key "type". */
  #isType = false;
  /** One bit per open container: 1 for an object. 64 bytes for the default depth, which stay on the heap. */
  readonly #containers: Uint8Array;
  readonly #maxDepth: number;
  #state = FAIL;

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
    this.#containers = new Uint8Array((maxDepth + 7) >> 3);
  }

  /** Starts behind the opening bracket. False when that is too deep. */
  open(isObject: boolean, isPrompt: boolean): boolean {
    if (this.depth >= this.#maxDepth) return false;
    this.#isPrompt = isPrompt;
    this.#isType = false;
    this.#push(isObject);
    return true;
  }

  /**
   * Scans bytes[from, end), which begin at the offset `base` of the body. Returns the index behind the container's closing
   * bracket, `end` with `depth` above 0 when the container goes on, or ~index of the byte that may not stand there.
   */
  scan(bytes: Buffer, from: number, end: number, base: number): number {
    const { contents } = this;
    const isPrompt = this.#isPrompt;
    let textBytes = 0;
    let hasEscape = this.#hasEscape;
    let isType = this.#isType;
    let at = from;
    let current = this.#state;
    let start = this.#stringStart;
    let isResumed = current >= STRING_KEY;
    while (at < end) {
      let next = current;
      if (isResumed) isResumed = false;
      else {
        next = TABLE[(current << 8) | (bytes[at] as number)] as number;
        at++;
      }
      if (next < STRING_KEY) {
        current = next;
      } else if (next <= STRING_ELEMENT) {
        if (IN_ESCAPE[current] === 1) hasEscape = true;
        else if (current < STRING_KEY) {
          start = base + at;
          hasEscape = false;
        }
        current = next;
        const begin = at;
        at = skipStringWithEscapes(bytes, at, end);
        const length = base + at - start;
        if (length > TEXT_BYTES) contents.sample(bytes, begin, at, start + TEXT_BYTES - base);
        if (at === end || bytes[at] !== QUOTE) continue;
        if (next === STRING_KEY) {
          current = COLON;
          if (!isPrompt) isType = false;
          else if (start >= base && !hasEscape) isType = length === 4 && isTypeAt(bytes, at - 4);
          else isType = contents.isTypeKey({ bytes, at, base, start, hasEscape });
        } else {
          current = next === STRING_MEMBER ? AFTER_MEMBER : AFTER_ELEMENT;
          if (length > TEXT_BYTES && contents.endSample()) contents.opaqueBytes += length;
          else textBytes += length;
          if (isType && current === AFTER_MEMBER && length >= SHORTEST_TYPE && this.#isInElement()) {
            if (contents.isImageType({ bytes, at, base, start, hasEscape })) contents.images++;
          }
        }
        at++;
      } else if (next === CLOSE) {
        this.depth--;
        if (this.depth === 0) {
          if (isPrompt) contents.textBytes += textBytes;
          return at;
        }
        current = this.#isInObject() ? AFTER_MEMBER : AFTER_ELEMENT;
      } else if (next === FAIL) {
        this.expected = EXPECTED[current] ?? "the end of a string, without raw control characters";
        return ~(at - 1);
      } else {
        if (this.depth >= this.#maxDepth) {
          this.expected = `at most ${this.#maxDepth + 1} levels of nesting`;
          return ~(at - 1);
        }
        this.#push(next === OPEN_OBJECT);
        current = this.#state;
      }
    }
    this.#state = current;
    this.#stringStart = start;
    this.#hasEscape = hasEscape;
    this.#isType = isType;
    if (isPrompt) contents.textBytes += textBytes;
    if (isPrompt && (current >= STRING_KEY || IN_ESCAPE[current] === 1)) contents.keep(bytes, end, base, start);
    return at;
  }

  /** What the next byte should be, for a body that ends too early. */
  get expectedNext(): string {
    return EXPECTED[this.#state] ?? "the end of a string";
  }

  #push(isObject: boolean): void {
    const slot = this.depth >> 3;
    const bit = 1 << (this.depth & 7);
    const bits = this.#containers[slot] as number;
    this.#containers[slot] = isObject ? bits | bit : bits & ~bit;
    this.depth++;
    this.#state = isObject ? FIRST_KEY : FIRST_ELEMENT;
  }

  #isInObject(): boolean {
    return this.#isObject(this.depth - 1);
  }

  /** True in an object that is an element of an array. */
  #isInElement(): boolean {
    return this.depth > 1 && !this.#isObject(this.depth - 2);
  }

  #isObject(level: number): boolean {
    return ((this.#containers[level >> 3] as number) & (1 << (level & 7))) !== 0;
  }
}

function isTypeAt(bytes: Buffer, at: number): boolean {
  return bytes[at] === 0x74 && bytes[at + 1] === 0x79 && bytes[at + 2] === 0x70 && bytes[at + 3] === 0x65;
}
