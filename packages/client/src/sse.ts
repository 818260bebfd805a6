/**
 * Server-sent events, incrementally: bytes in, the data of whole events out. Each byte is looked at a bounded number of
 * times however the network cuts the stream, so that time is linear in its length.
 */

/** The largest event, in UTF-16 units: some hundred times what an engine sends, and a bound for one that never ends. */
const MAX_EVENT_LENGTH = 16 * 1024 * 1024;

/** An event with data. */
export interface SseEvent {
  /** The field `event`, when it is there and not `message`. */
  readonly name: string | undefined;
  readonly data: string;
}

/** An event is larger than any that makes sense. */
export class EventTooLargeError extends Error {
  override name = "EventTooLargeError";
  readonly limit = MAX_EVENT_LENGTH;
}

export class SseParser {
  readonly #utf8 = new SplitUtf8();
  #isAtStart = true;
  /** A line feed that follows belongs to the carriage return before it. */
  #isAfterCarriageReturn = false;
  /** Pieces of the line that has not ended yet, and their length. */
  #line: string[] = [];
  #lineLength = 0;
  /** Data lines of the event that has not ended yet; `undefined` when it has none. */
  #data: string | undefined;
  #name: string | undefined;

  /**
   * Takes the next bytes, and appends the events that they complete to `out`.
   * @throws EventTooLargeError
   */
  push(bytes: Uint8Array, out: SseEvent[]): void {
    this.#take(this.#utf8.decode(bytes), out);
  }

  /** The bytes have ended: takes what is left as if its last line and its event had ended too. */
  end(out: SseEvent[]): void {
    this.#take(`${this.#utf8.end()}\n\n`, out);
  }

  #take(decoded: string, out: SseEvent[]): void {
    let text = decoded;
    if (text.length === 0) return;
    if (this.#isAtStart) {
      this.#isAtStart = false;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    if (this.#isAfterCarriageReturn) {
      this.#isAfterCarriageReturn = false;
      if (text.charCodeAt(0) === 10) text = text.slice(1);
    }
    // one form of line end: engines send line feeds, so that this search is all that most streams pay for the others
    if (text.includes("\r")) {
      this.#isAfterCarriageReturn = text.endsWith("\r");
      text = text.replace(/\r\n?/g, "\n");
    }
    let start = 0;
    for (;;) {
      const end = text.indexOf("\n", start);
      if (end < 0) break;
      if (this.#lineLength > 0) {
        this.#line.push(text.slice(start, end));
        const line = this.#line.join("");
        this.#line = [];
        this.#lineLength = 0;
        this.#takeLine(line, 0, line.length, out);
      } else {
        this.#takeLine(text, start, end, out);
      }
      start = end + 1;
    }
    if (start === text.length) return;
    this.#line.push(start === 0 ? text : text.slice(start));
    this.#lineLength += text.length - start;
    if (this.#lineLength > MAX_EVENT_LENGTH) throw new EventTooLargeError();
  }

  /** Takes the line `text[start…end)`. */
  #takeLine(text: string, start: number, end: number, out: SseEvent[]): void {
    if (start === end) {
      // an event without data is none
      if (this.#data !== undefined && this.#data !== "") out.push({ name: this.#name, data: this.#data });
      this.#data = undefined;
      this.#name = undefined;
      return;
    }
    if (text.startsWith("data:", start)) {
      const from = start + (text.charCodeAt(start + 5) === 32 && start + 5 < end ? 6 : 5);
      const value = text.slice(from, end);
      if (this.#data === undefined) {
        this.#data = value;
      } else {
        if (this.#data.length + value.length > MAX_EVENT_LENGTH) throw new EventTooLargeError();
        this.#data += `\n${value}`;
      }
    } else if (text.startsWith("event:", start)) {
      const value = text.slice(start + 6, end);
      const name = value.startsWith(" ") ? value.slice(1) : value;
      this.#name = name === "" || name === "message" ? undefined : name;
    } else if (end - start === 4 && text.startsWith("data", start)) {
      this.#data = this.#data === undefined ? "" : `${this.#data}\n`;
    }
    // comments, `id`, `retry` and unknown fields say nothing to us
  }
}

/**
 * UTF-8 in pieces. A TextDecoder that is told `stream: true` leaves the fast path of Node for good, so that the few bytes
 * of a character that was cut are held back here instead.
 */
class SplitUtf8 {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #held: Uint8Array | null = null;

  decode(bytes: Uint8Array): string {
    let all = bytes;
    if (this.#held !== null) {
      all = new Uint8Array(this.#held.length + bytes.length);
      all.set(this.#held);
      all.set(bytes, this.#held.length);
      this.#held = null;
    }
    const whole = all.length - cutLength(all);
    if (whole === all.length) return this.#decoder.decode(all);
    // a copy: the platform may use its buffer again
    this.#held = all.slice(whole);
    return this.#decoder.decode(all.subarray(0, whole));
  }

  end(): string {
    const held = this.#held;
    this.#held = null;
    return held === null ? "" : this.#decoder.decode(held);
  }
}

/** How many bytes at the end belong to a character that is not complete: 0 to 3. */
function cutLength(bytes: Uint8Array): number {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return needed > back ? back : 0;
  }
  return 0;
}
