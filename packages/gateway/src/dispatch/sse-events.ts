/**
 * Splits server-sent events out of bytes (WHATWG HTML, 9.2.6), beside a relay that passes the bytes on untouched.
 *
 * Bytes are looked at as Latin-1 text: every byte is one character, so a chunk may end inside a UTF-8 character, and
 * searching runs in the runtime's vectorised routines. Field names, line ends and the parts that routing needs are
 * ASCII; text for people goes through `decodeSseText`.
 */

/** Larger events are skipped: nothing that the gateway reads is this big. */
const MAX_EVENT_BYTES = 1 << 20;

const LF = 10;
const COLON = 58;
const SPACE = 32;
const BYTE_ORDER_MARK = "\u00ef\u00bb\u00bf";

export interface SseHandler {
  /**
   * A complete event that has data (which may be empty). Both are Latin-1 views of the bytes; `eventName` is null
   * where the event doesn't name itself. Events without data lines, and comments, are not told.
   */
  onEvent(data: string, eventName: string | null): void;
  /** An event was larger than the bound and is left out. */
  onOversized(): void;
}

/** The UTF-8 text behind a Latin-1 view of bytes. */
export function decodeSseText(latin1: string): string {
  return Buffer.from(latin1, "latin1").toString("utf8");
}

/**
 * Incremental parser: LF, CR LF and CR end lines alike, also mixed and cut anywhere. Linear in the bytes; holds at most
 * one event of `maxEventBytes`.
 */
export class SseParser {
  readonly #handler: SseHandler;
  readonly #maxEventBytes: number;
  /** Pieces of a line whose end has not come yet; joined once, when it has. */
  #linePieces: string[] = [];
  #lineBytes = 0;
  #data: string | null = null;
  /** Further data lines of the event; joined once, when it is complete. */
  #moreData: string[] = [];
  #eventName: string | null = null;
  #eventBytes = 0;
  #isOversized = false;
  /** The last byte was a CR: an LF right after it belongs to the same line end. */
  #afterCr = false;
  #isFirstLine = true;

  constructor(handler: SseHandler, maxEventBytes: number = MAX_EVENT_BYTES) {
    this.#handler = handler;
    this.#maxEventBytes = maxEventBytes;
  }

  /** @param chunk bytes, or a Latin-1 view of them. */
  push(chunk: Buffer | string): void {
    if (chunk.length === 0) return;
    const text = typeof chunk === "string" ? chunk : chunk.toString("latin1");
    let from = this.#afterCr && text.charCodeAt(0) === LF ? 1 : 0;
    this.#afterCr = false;
    const length = text.length;
    // Each is searched again only once it has been passed, so the chunk is read once for LF and once for CR.
    let lf = text.indexOf("\n", from);
    let cr = text.indexOf("\r", from);
    while (lf >= 0 || cr >= 0) {
      const end = cr < 0 || (lf >= 0 && lf < cr) ? lf : cr;
      this.#endLine(text, from, end);
      from = end + 1;
      if (end === cr) {
        if (from === length) this.#afterCr = true;
        else if (text.charCodeAt(from) === LF) from++;
        cr = text.indexOf("\r", from);
        if (lf >= 0 && lf < from) lf = text.indexOf("\n", from);
      } else {
        lf = text.indexOf("\n", from);
      }
    }
    if (from < length) this.#holdLine(text, from);
  }

  /**
   * The data of an event that the stream left unfinished, its last line included, or null. By the standard it is not an
   * event; some servers close right behind their end marker.
   */
  get unfinishedData(): string | null {
    if (this.#lineBytes > 0 && !this.#isOversized) {
      const line = this.#linePieces.join("");
      this.#dropLine();
      this.#readLine(line, 0, line.length);
    }
    return this.#isOversized ? null : this.#joinedData();
  }

  /** Nothing of an event has come since the last one ended: another may follow without being glued to it. */
  get isBetweenEvents(): boolean {
    return this.#lineBytes === 0 && this.#data === null && this.#eventName === null && !this.#isOversized;
  }

  #holdLine(text: string, from: number): void {
    this.#lineBytes += text.length - from;
    if (this.#eventBytes + this.#lineBytes > this.#maxEventBytes) this.#skipEvent();
    // Slices of long texts keep the whole text alive: bounded, since it is one read of the socket.
    else if (!this.#isOversized) this.#linePieces.push(from === 0 ? text : text.slice(from));
  }

  #dropLine(): void {
    if (this.#linePieces.length > 0) this.#linePieces = [];
    this.#lineBytes = 0;
  }

  #endLine(text: string, from: number, end: number): void {
    if (this.#lineBytes === 0) {
      if (from === end) this.#endEvent();
      else this.#readLine(text, from, end);
      return;
    }
    this.#lineBytes += end - from;
    if (this.#eventBytes + this.#lineBytes > this.#maxEventBytes) this.#skipEvent();
    if (this.#isOversized) {
      this.#eventBytes = 0;
      this.#dropLine();
      return;
    }
    this.#linePieces.push(text.slice(from, end));
    const line = this.#linePieces.join("");
    this.#dropLine();
    this.#readLine(line, 0, line.length);
  }

  /** A line that is not empty, in text[from, end). */
  #readLine(text: string, from: number, end: number): void {
    const lineBytes = end - from;
    if (this.#eventBytes + lineBytes > this.#maxEventBytes) return this.#skipEvent();
    if (this.#isFirstLine) {
      this.#isFirstLine = false;
      if (text.startsWith(BYTE_ORDER_MARK, from)) {
        from += BYTE_ORDER_MARK.length;
        if (from === end) return this.#endEvent();
      }
    }
    if (this.#isOversized) return;
    // Only what is kept counts: hours of comments without a blank line are no large event.
    if (isField(text, from, end, "data")) {
      this.#eventBytes += lineBytes;
      const value = text.slice(valueStart(text, from + 4, end), end);
      if (this.#data === null) this.#data = value;
      else this.#moreData.push(value);
    } else if (isField(text, from, end, "event")) {
      this.#eventBytes += lineBytes;
      this.#eventName = text.slice(valueStart(text, from + 5, end), end);
    }
  }

  #endEvent(): void {
    this.#isFirstLine = false;
    const data = this.#joinedData();
    const eventName = this.#eventName === "" ? null : this.#eventName;
    const isTold = data !== null && !this.#isOversized;
    this.#data = null;
    this.#eventName = null;
    this.#eventBytes = 0;
    this.#isOversized = false;
    if (isTold) this.#handler.onEvent(data, eventName);
  }

  #joinedData(): string | null {
    if (this.#data === null || this.#moreData.length === 0) return this.#data;
    this.#data = [this.#data, ...this.#moreData].join("\n");
    this.#moreData = [];
    return this.#data;
  }

  #skipEvent(): void {
    if (this.#isOversized) return;
    this.#isOversized = true;
    this.#data = null;
    this.#moreData = [];
    this.#linePieces = [];
    this.#handler.onOversized();
  }
}

function isField(text: string, from: number, end: number, name: string): boolean {
  const after = from + name.length;
  return text.startsWith(name, from) && (after === end || (after < end && text.charCodeAt(after) === COLON));
}

/** Start of a field's value: behind the colon and one space; `end` for a field without a colon. */
function valueStart(text: string, afterName: number, end: number): number {
  if (afterName === end) return end;
  const start = afterName + 1;
  return start < end && text.charCodeAt(start) === SPACE ? start + 1 : start;
}

/**
 * True when an event says that the answer failed. `data` is the event's data (text or a Latin-1 view of it).
 * Known shapes: OpenAI, vLLM, llama.cpp `{"error": {...}}`; `{"object": "error"}`; TGI `{"error", "error_type"}` and
 * `{"error": {"message", "http_status_code"}}`; TensorRT-LLM `{"error": "..."}`; Anthropic `event: error` and
 * `{"type": "error"}`; the Responses API's `response.failed`.
 */
export function isErrorEvent(data: string, eventName: string | null = null): boolean {
  if (eventName === "error" || eventName === "response.failed") return true;
  if (!data.includes("error") && !data.includes("response.failed")) return false;
  const value = parseObject(data);
  return value !== null && isErrorValue(value);
}

/** The same for a parsed body or event. */
export function isErrorValue(value: Readonly<Record<string, unknown>>): boolean {
  if (value["object"] === "error" || value["type"] === "error" || value["type"] === "response.failed") return true;
  const error = value["error"];
  return error !== undefined && error !== null && error !== false && error !== "";
}

/** The object that a text holds; null for anything else. */
export function parseObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return null;
  }
}

/** The value as an object to read from; null for anything else. */
export function asObject(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}
