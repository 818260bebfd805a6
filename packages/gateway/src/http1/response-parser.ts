/**
 * Reads HTTP/1.1 answers of nodes off a connection, byte by byte strict where framing is at stake: whoever reads a
 * length wrongly gives one caller's answer to another. Pure; any split of the bytes gives the same calls.
 *
 * Accepted: status line and fields that end with CR LF, one `content-length` or `transfer-encoding: chunked` or neither
 * (the body then ends with the connection), interim answers (skipped), chunk extensions and trailers (dropped).
 * Refused: both framings, several lengths, other codings, folded fields, bare LF or CR, control characters, 101.
 */

/** Fields of an answer by lower-case name; several of one name are joined by ", ". */
export type ResponseHeaders = Readonly<Record<string, string>>;

/** What the parser tells. */
export interface ResponseHandler {
  onHead(status: number, headers: ResponseHeaders): void;
  /** Bytes of the body, without framing. */
  onBody(bytes: Buffer): void;
}

/** A node's bytes are no HTTP/1.1 answer. The text names the rule, never the bytes. */
export class BadResponseError extends Error {}

/** The head of an answer is larger than the limit. */
export class HeadTooLargeError extends BadResponseError {}

/** Longest chunk-size line and longest trailer section, bytes. */
const CHUNK_LINE_MAX = 4096;

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t -~\u0080-\u00ff]*)?$/;
/** Name, colon, value, without folding. */
const FIELD = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t -~\u0080-\u00ff]*$/;
const LENGTH = /^\d{1,15}$/;
const CHUNK_SIZE = /^([0-9A-Fa-f]{1,13})[ \t]*(?:;[\t -~\u0080-\u00ff]*)?$/;

type State = "head" | "length" | "until_close" | "chunk_size" | "chunk_data" | "chunk_end" | "trailers" | "done";

export class ResponseParser {
  readonly #handler: ResponseHandler;
  readonly #headBytesMax: number;
  #state: State = "head";
  /** Text of a head, line or trailer section that has not ended yet. */
  #text = "";
  /** Body bytes that are still to come, of the answer or of the chunk. */
  #remaining = 0;
  #trailerBytes = 0;
  /** The connection can carry another request once this answer is complete. */
  #isKeptAlive = false;
  /** What the node says about idle connections, ms; NaN: nothing. */
  keepAliveHintMs = Number.NaN;

  /** @param headBytesMax the largest head that is read. */
  constructor(handler: ResponseHandler, headBytesMax: number) {
    this.#handler = handler;
    this.#headBytesMax = headBytesMax;
  }

  /** Bytes came behind the end of the answer. */
  #hasSurplus = false;

  /** True once the answer is complete; looked at after `push`, so that what a caller does then finds no bytes left over. */
  get isComplete(): boolean {
    return this.#state === "done";
  }

  /** True when the answer is complete and its connection stays open. */
  get canReuse(): boolean {
    return this.#state === "done" && this.#isKeptAlive && !this.#hasSurplus;
  }

  /** Nobody listens any more: the rest of what is being taken is left alone. */
  stop(): void {
    this.#state = "done";
    this.#isKeptAlive = false;
  }

  /**
   * Takes bytes off the connection: the first `length` of a block.
   *
   * @throws BadResponseError when they break the grammar; the connection is of no use then.
   */
  push(block: Buffer, length: number = block.length): void {
    let at = 0;
    while (at < length) {
      switch (this.#state) {
        case "head":
          at = this.#readHead(block, at, length);
          break;
        case "length":
        case "chunk_data":
          at = this.#readCounted(block, at, length);
          break;
        case "until_close":
          this.#handler.onBody(partOf(block, at, length));
          return;
        case "chunk_size":
        case "chunk_end":
          at = this.#readFraming(block, at, length);
          break;
        case "trailers":
          at = this.#readLine(block, at, length);
          break;
        case "done":
          this.#hasSurplus = true;
          return;
      }
    }
  }

  /**
   * The connection ended.
   *
   * @returns true when that is where the answer ends, false when it is cut off.
   */
  end(): boolean {
    if (this.#state === "until_close") this.#state = "done";
    return this.#state === "done";
  }

  #readHead(block: Buffer, from: number, length: number): number {
    // the end mark may be split over two reads: three characters of the text before are searched again
    const known = this.#text.length;
    this.#text += block.toString("latin1", from, Math.min(length, from + this.#headBytesMax + 4));
    const end = this.#text.indexOf("\r\n\r\n", Math.max(0, known - 3));
    if (end < 0) {
      if (this.#text.length > this.#headBytesMax) throw new HeadTooLargeError("the head is too large");
      return length;
    }
    if (end > this.#headBytesMax) throw new HeadTooLargeError("the head is too large");
    const head = this.#text.slice(0, end);
    this.#text = "";
    this.#takeHead(head);
    return from + end + 4 - known;
  }

  #takeHead(head: string): void {
    const lineEnd = head.indexOf("\r\n");
    const statusLine = STATUS_LINE.exec(lineEnd < 0 ? head : head.slice(0, lineEnd));
    if (statusLine === null) throw new BadResponseError("no HTTP/1.1 status line");
    const status = Number(statusLine[2]);
    const headers = lineEnd < 0 ? fieldsOf("") : fieldsOf(head.slice(lineEnd + 2));
    if (status < 200) {
      if (status === 101) throw new BadResponseError("a switch of protocols that nobody asked for");
      return;
    }
    this.#frame(status, statusLine[1] === "1", headers);
    this.#handler.onHead(status, headers);
    if (this.#state === "length" && this.#remaining === 0) this.#state = "done";
  }

  #frame(status: number, isHttp11: boolean, headers: Record<string, string>): void {
    const { connection, "content-length": length, "transfer-encoding": coding } = headers;
    const options = connection === undefined ? "" : connection.toLowerCase();
    this.#isKeptAlive = isHttp11 ? !hasToken(options, "close") : hasToken(options, "keep-alive");
    this.keepAliveHintMs = hintOf(headers["keep-alive"]);
    if (status === 204 || status === 304) {
      this.#state = "length";
      this.#remaining = 0;
    } else if (coding !== undefined) {
      if (length !== undefined) throw new BadResponseError("both content-length and transfer-encoding");
      if (coding.toLowerCase() !== "chunked") throw new BadResponseError("a transfer coding other than chunked");
      this.#state = "chunk_size";
    } else if (length !== undefined) {
      if (!LENGTH.test(length)) throw new BadResponseError("content-length is no number");
      this.#state = "length";
      this.#remaining = Number(length);
    } else {
      this.#state = "until_close";
      this.#isKeptAlive = false;
    }
  }

  #readCounted(block: Buffer, from: number, length: number): number {
    const end = Math.min(length, from + this.#remaining);
    this.#remaining -= end - from;
    const isLast = this.#remaining === 0;
    const isChunk = this.#state === "chunk_data";
    if (isLast) this.#state = isChunk ? "chunk_end" : "done";
    this.#handler.onBody(partOf(block, from, end));
    return end;
  }

  /** The usual framing, whole and without extension, is read off its bytes; anything else as a line. */
  #readFraming(block: Buffer, from: number, length: number): number {
    if (this.#text !== "") return this.#readLine(block, from, length);
    let at = from;
    let size = 0;
    if (this.#state === "chunk_size") {
      const digitsEnd = Math.min(from + SIZE_DIGITS_MAX, length);
      for (; at < digitsEnd; at++) {
        const digit = HEX_VALUES[block[at] as number] as number;
        if (digit < 0) break;
        size = size * 16 + digit;
      }
      if (at === from) return this.#readLine(block, from, length);
    }
    if (at + 1 >= length || block[at] !== CR || block[at + 1] !== LF) return this.#readLine(block, from, length);
    if (this.#state === "chunk_end") this.#state = "chunk_size";
    else this.#beginChunk(size);
    return at + 2;
  }

  #beginChunk(size: number): void {
    this.#remaining = size;
    this.#state = size === 0 ? "trailers" : "chunk_data";
  }

  /** A line of the chunk framing: a size, the empty one after a chunk's data, or one of the trailers. */
  #readLine(block: Buffer, from: number, length: number): number {
    let newline = from;
    while (newline < length && block[newline] !== LF) newline++;
    const end = Math.min(length, newline + 1);
    this.#text += block.toString("latin1", from, end);
    if (this.#text.length > CHUNK_LINE_MAX) throw new BadResponseError("a line of the chunk framing is too long");
    if (newline === length) return end;
    if (!this.#text.endsWith("\r\n")) throw new BadResponseError("a line of the chunk framing ends without CR LF");
    const line = this.#text.slice(0, -2);
    this.#text = "";
    this.#takeLine(line);
    return end;
  }

  #takeLine(line: string): void {
    if (this.#state === "chunk_end") {
      if (line !== "") throw new BadResponseError("a chunk is longer than its size");
      this.#state = "chunk_size";
    } else if (this.#state === "trailers") {
      this.#trailerBytes += line.length + 2;
      if (this.#trailerBytes > CHUNK_LINE_MAX) throw new BadResponseError("the trailer section is too large");
      if (line === "") this.#state = "done";
    } else {
      const size = CHUNK_SIZE.exec(line)?.[1];
      if (size === undefined) throw new BadResponseError("a chunk size is malformed");
      this.#beginChunk(Number.parseInt(size, 16));
    }
  }
}

const CR = 0x0d;
const LF = 0x0a;

/** Digits of a size that are read off their bytes: all but absurd ones, and exact in Int32. */
const SIZE_DIGITS_MAX = 7;

/** What a byte counts as a hexadecimal digit; -1: it is none. */
const HEX_VALUES = Int8Array.from({ length: 256 }, (_, byte) => {
  const digit = Number.parseInt(String.fromCharCode(byte), 16);
  return Number.isNaN(digit) ? -1 : digit;
});

function partOf(block: Buffer, from: number, end: number): Buffer {
  return from === 0 && end === block.length ? block : block.subarray(from, end);
}

/** Header fields by lower-case name; lines are joined by CR LF, the last one has none. */
function fieldsOf(section: string): Record<string, string> {
  const headers: Record<string, string> = new Fields();
  for (let at = 0; at < section.length; ) {
    const newline = section.indexOf("\r\n", at);
    const end = newline < 0 ? section.length : newline;
    const { name, value } = fieldOf(section.slice(at, end));
    const first = headers[name];
    headers[name] = first === undefined ? value : `${first}, ${value}`;
    at = end + 2;
    if (at === section.length) throw new BadResponseError("a header field is malformed");
  }
  return headers;
}

interface Field {
  readonly name: string;
  readonly value: string;
}

/** Fields that a server writes alike into nearly all of its answers: such a line is taken apart once. */
const REPEATED = new Set([
  "content-type",
  "server",
  "connection",
  "transfer-encoding",
  "cache-control",
  "date",
  "vary",
]);

/** Lines that are remembered, and the longest of them, in characters. */
const LINES_MAX = 256;
const LINE_LENGTH_MAX = 128;

const knownLines = new Map<string, Field>();

/** Takes a line of a head apart. @throws BadResponseError when it is no header field. */
function fieldOf(line: string): Field {
  const known = knownLines.get(line);
  if (known !== undefined) return known;
  if (!FIELD.test(line)) throw new BadResponseError("a header field is malformed");
  const colon = line.indexOf(":");
  const field = { name: line.slice(0, colon).toLowerCase(), value: line.slice(colon + 1).trim() };
  if (line.length > LINE_LENGTH_MAX || !REPEATED.has(field.name)) return field;
  if (knownLines.size === LINES_MAX) knownLines.clear();
  // copied: a part of a text keeps all of it
  const own = Buffer.from(line, "latin1").toString("latin1");
  const kept = { name: own.slice(0, colon).toLowerCase(), value: own.slice(colon + 1).trim() };
  knownLines.set(own, kept);
  return kept;
}

/**
 * What fields are put into. It inherits nothing, since a field may be called "constructor"; and unlike an object without
 * a prototype, which V8 makes a hash table, it has a shape, which answers of one server share.
 */
const Fields = makeFields();

function makeFields(): new () => Record<string, string> {
  class Empty {}
  Object.setPrototypeOf(Empty.prototype, null);
  Reflect.deleteProperty(Empty.prototype, "constructor");
  return Empty as new () => Record<string, string>;
}

/** Whether a list field holds a token; the field is in lower case. */
function hasToken(field: string, token: string): boolean {
  if (field === token) return true;
  return field.includes(token) && field.split(",").some((part) => part.trim() === token);
}

/** `Keep-Alive: timeout=5` → 5000. */
function hintOf(field: string | undefined): number {
  const seconds = field === undefined ? undefined : /(?:^|[,; ])timeout=(\d{1,6})(?:$|[,; ])/i.exec(field)?.[1];
  return seconds === undefined ? Number.NaN : Number(seconds) * 1000;
}
