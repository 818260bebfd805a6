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
    if (this.#text === "") {
      const end = this.#readWholeHead(block, from, length);
      if (end > 0) return end;
    }
    // the end mark may be split over two reads: three characters of the text before are searched again
    const known = this.#text.length;
    this.#text += block.toString("latin1", from, Math.min(length, from + this.#headBytesMax + 4));
    const end = this.#text.indexOf("\r\n\r\n", Math.max(0, known - 3));
    if (end < 0) {
      // all of its end mark but the last byte may be here
      if (this.#text.length > this.#headBytesMax + 3) throw new HeadTooLargeError("the head is too large");
      return length;
    }
    if (end > this.#headBytesMax) throw new HeadTooLargeError("the head is too large");
    const head = this.#text.slice(0, end);
    this.#text = "";
    this.#takeHeadText(head);
    return from + end + 4 - known;
  }

  /**
   * A head that one read brought whole, which nearly every one is: line by line off its bytes, so that of lines that
   * servers repeat no text is made. 0: it is not whole, too large or malformed, and is read as text.
   */
  #readWholeHead(block: Buffer, from: number, length: number): number {
    const headers: Record<string, string> = new Fields();
    let start: StatusLine | null = null;
    for (let at = from; at < length; ) {
      const lineAt = at;
      let hash = 0;
      for (; at < length && block[at] !== CR; at++) hash = (Math.imul(hash, 31) + (block[at] as number)) | 0;
      if (at + 1 >= length || block[at + 1] !== LF || at - from > this.#headBytesMax) return 0;
      if (start === null) {
        start = statusLines.read(block, lineAt, at, hash);
        if (start === null) return 0;
      } else if (at > lineAt) {
        const field = fieldLines.read(block, lineAt, at, hash);
        if (field === null) return 0;
        addField(headers, field);
      } else {
        this.#takeHead(start, headers);
        return at + 2;
      }
      at += 2;
    }
    return 0;
  }

  #takeHeadText(head: string): void {
    const lineEnd = head.indexOf("\r\n");
    const statusLine = statusLineOf(lineEnd < 0 ? head : head.slice(0, lineEnd));
    if (statusLine === null) throw new BadResponseError("no HTTP/1.1 status line");
    this.#takeHead(statusLine, lineEnd < 0 ? fieldsOf("") : fieldsOf(head.slice(lineEnd + 2)));
  }

  #takeHead({ status, isHttp11 }: StatusLine, headers: Record<string, string>): void {
    if (status < 200) {
      if (status === 101) throw new BadResponseError("a switch of protocols that nobody asked for");
      return;
    }
    this.#frame(status, isHttp11, headers);
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
    const field = fieldOf(section.slice(at, end));
    if (field === null) throw new BadResponseError("a header field is malformed");
    addField(headers, field);
    at = end + 2;
    if (at === section.length) throw new BadResponseError("a header field is malformed");
  }
  return headers;
}

interface Field {
  readonly name: string;
  readonly value: string;
}

interface StatusLine {
  readonly status: number;
  readonly isHttp11: boolean;
}

function addField(headers: Record<string, string>, { name, value }: Field): void {
  const first = headers[name];
  headers[name] = first === undefined ? value : `${first}, ${value}`;
}

/** Takes a line of a head apart. Null: it is no header field. */
function fieldOf(line: string): Field | null {
  if (!FIELD.test(line)) return null;
  const colon = line.indexOf(":");
  return { name: line.slice(0, colon).toLowerCase(), value: line.slice(colon + 1).trim() };
}

/** Takes the first line of a head apart. Null: it is no status line. */
function statusLineOf(line: string): StatusLine | null {
  const match = STATUS_LINE.exec(line);
  return match === null ? null : { status: Number(match[2]), isHttp11: match[1] === "1" };
}

/** Lines that are remembered of all nodes, by the low bits of their hash, and the longest of them, bytes. */
const LINES_MAX = 256;
const LINE_BYTES_MAX = 128;

/** Lines that servers write alike into nearly all of their answers: each is taken apart once. */
class RepeatedLines<Meaning> {
  readonly #known: ({ readonly bytes: Uint8Array; readonly meaning: Meaning } | null)[] = new Array(LINES_MAX).fill(
    null,
  );
  readonly #read: (line: string) => Meaning | null;
  readonly #isRepeated: (meaning: Meaning) => boolean;

  /** @param read takes a line apart; null: it is malformed. @param isRepeated whether it is worth remembering. */
  constructor(read: (line: string) => Meaning | null, isRepeated: (meaning: Meaning) => boolean) {
    this.#read = read;
    this.#isRepeated = isRepeated;
  }

  /** What the line `block[from, end)` says. @param hash of its bytes. */
  read(block: Buffer, from: number, end: number, hash: number): Meaning | null {
    const place = hash & (LINES_MAX - 1);
    const known = this.#known[place] ?? null;
    if (known !== null && isSame(known.bytes, block, from, end)) return known.meaning;
    const meaning = this.#read(block.toString("latin1", from, end));
    if (meaning !== null && end - from <= LINE_BYTES_MAX && this.#isRepeated(meaning)) {
      this.#known[place] = { bytes: new Uint8Array(block.subarray(from, end)), meaning };
    }
    return meaning;
  }
}

const REPEATED = new Set([
  "content-type",
  "server",
  "connection",
  "keep-alive",
  "transfer-encoding",
  "cache-control",
  "date",
  "vary",
]);

const statusLines = new RepeatedLines(statusLineOf, () => true);
const fieldLines = new RepeatedLines(fieldOf, ({ name }) => REPEATED.has(name));

function isSame(bytes: Uint8Array, block: Buffer, from: number, end: number): boolean {
  if (bytes.length !== end - from) return false;
  for (let index = 0; index < bytes.length; index++) if (bytes[index] !== block[from + index]) return false;
  return true;
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
