import { unescapeJson } from "../request-body/routing-fields.ts";

/** A string of base64 is longer than this; shorter ones count as text, whatever they hold. */
const TEXT_BYTES = 1024;

/** So many bytes from there on are looked at. Text has a space, an escape or a byte above ASCII among them; base64 has none. */
const SAMPLE_BYTES = 256;

/** 1 for the bytes of base64, in both alphabets. */
const BASE64 = new Uint8Array(256);
for (const byte of Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")) BASE64[byte] = 1;

/** Types of a content part that is an image: of OpenAI's chat and Responses interfaces, and of Anthropic's. */
const IMAGE_TYPES: readonly string[] = ["image_url", "input_image", "image"];

/** One byte of text takes at most six in JSON (`\u0061`): what is longer than this is no word that is looked for. */
const WORD_BYTES = 6 * Math.max(...IMAGE_TYPES.map((type) => type.length));

const NOTHING = Buffer.alloc(0);

/**
 * What the strings of a body's nested members hold, found while they are scanned: how many images, how much text, how much
 * that is no text. Told each string as it begins, goes on and ends; offsets are bytes of the whole body, so that nothing
 * depends on how it is cut into chunks. Keeps a few bytes of a string at most.
 */
export class PromptContents {
  /** Content parts that are images. */
  images = 0;
  /** Bytes of the strings of a prompt, as they stand in the body; without base64. */
  textBytes = 0;
  /** Bytes of base64 (images, sound, files), wherever it stands. */
  opaqueBytes = 0;
  /** The strings that come are part of a prompt. */
  isPrompt = false;

  /** First byte of the string that is read. */
  #start = 0;
  #hasEscape = false;
  /** Bytes of the sample that are base64; more than there can be once one was not. */
  #sampled = 0;
  /** What of the string stood in earlier chunks, while it may still be a word. */
  #head: Buffer = NOTHING;
  /** The value that comes belongs to a key "type". */
  #isType = false;

  /** A string begins at this offset, behind its quote. */
  begin(offset: number): void {
    this.#start = offset;
    this.#head = NOTHING;
    this.#sampled = 0;
    this.#hasEscape = false;
  }

  /** It had an escape. */
  noteEscape(): void {
    this.#hasEscape = true;
  }

  /** It went on in bytes[from, to), which begin at the offset `base` of the body. Samples what is due of them. */
  goOn(bytes: Buffer, from: number, to: number, base: number): void {
    const sampleFrom = this.#start + TEXT_BYTES - base;
    if (to <= sampleFrom || this.#sampled >= SAMPLE_BYTES) return;
    const end = Math.min(to, sampleFrom + SAMPLE_BYTES);
    for (let at = Math.max(from, sampleFrom); at < end; at++) {
      if (BASE64[bytes[at] as number] === 0) {
        this.#sampled = SAMPLE_BYTES + 1;
        return;
      }
      this.#sampled++;
    }
  }

  /** The chunk ends inside of it. */
  keep(bytes: Buffer, end: number, base: number): void {
    if (!this.isPrompt || base + end - this.#start > WORD_BYTES) return;
    this.#head = Buffer.concat([this.#head, bytes.subarray(Math.max(0, this.#start - base), end)]);
  }

  /** It was a key and ends before bytes[at]. */
  endKey(bytes: Buffer, at: number, base: number): void {
    if (!this.isPrompt) return;
    const length = base + at - this.#start;
    const from = this.#start - base;
    if (length < 4 || length > 24) {
      this.#isType = false;
    } else if (from >= 0 && !this.#hasEscape) {
      this.#isType = length === 4 && isTypeAt(bytes, from);
    } else {
      this.#isType = this.#text(bytes, at, base) === "type";
    }
  }

  /**
   * It was a value and ends before bytes[at].
   *
   * @param isOfPart it is a member of an object that is an element of an array, as content parts are.
   */
  endValue(bytes: Buffer, at: number, base: number, isOfPart: boolean): void {
    const length = base + at - this.#start;
    if (this.#sampled === SAMPLE_BYTES) this.opaqueBytes += length;
    else if (this.isPrompt) {
      this.textBytes += length;
      const isWord = isOfPart && this.#isType && length <= WORD_BYTES;
      if (isWord && IMAGE_TYPES.includes(this.#text(bytes, at, base))) this.images++;
    }
  }

  #text(bytes: Buffer, at: number, base: number): string {
    const from = this.#start - base;
    const raw = from >= 0 ? bytes.subarray(from, at) : Buffer.concat([this.#head, bytes.subarray(0, at)]);
    return this.#hasEscape ? unescapeJson(raw) : raw.toString("latin1");
  }
}

function isTypeAt(bytes: Buffer, at: number): boolean {
  return bytes[at] === 0x74 && bytes[at + 1] === 0x79 && bytes[at + 2] === 0x70 && bytes[at + 3] === 0x65;
}
