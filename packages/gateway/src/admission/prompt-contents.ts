import { unescapeJson } from "../request-body/routing-fields.ts";

/** A string of base64 is longer than this; shorter ones count as text, whatever they hold. */
export const TEXT_BYTES = 1024;

/** So many bytes from there on are looked at. Text has a space, an escape or a byte above ASCII among them; base64 has none. */
const SAMPLE_BYTES = 256;

/** 1 for the bytes of base64, in both alphabets. */
const BASE64 = new Uint8Array(256);
for (const byte of Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")) BASE64[byte] = 1;

const TYPE_KEY = Buffer.from("type");
/** Types of a content part that is an image: of OpenAI's chat and Responses interfaces, and of Anthropic's. */
const IMAGE_TYPES: readonly Buffer[] = ["image_url", "input_image", "image"].map((type) => Buffer.from(type));

/** One byte of text takes at most six in JSON (`\u0061`): what is longer than this is no word that is looked for. */
const WORD_BYTES = 6 * Math.max(...IMAGE_TYPES.map((type) => type.length));

const NOTHING = Buffer.alloc(0);

/** A string as it ends: it began at the offset `start` of the body and ends before bytes[at], which is `base + at`. */
export interface StringEnd {
  readonly bytes: Buffer;
  readonly at: number;
  readonly base: number;
  readonly start: number;
  /** It may hold an escape of the form \u…. */
  readonly hasEscape: boolean;
}

/**
 * What the strings of a body's nested members hold: how many images, how much text, how much that is no text. The scanner
 * counts the plain ones as it goes; here is what it asks of the others. All depends on offsets in the body, and nothing
 * on how it is cut into chunks. Keeps a few bytes of a string at most.
 */
export class PromptContents {
  /** Content parts that are images. */
  images = 0;
  /** Bytes of the strings of a prompt, as they stand in the body; without base64. */
  textBytes = 0;
  /** Bytes of base64 (images, sound, files), wherever it stands. */
  opaqueBytes = 0;

  /** Bytes of the present string's sample that are base64; more than there can be once one was not. */
  #sampled = 0;
  /** What of the present string stood in earlier chunks, while it may still be a word. */
  #head: Buffer = NOTHING;

  /** Samples what is due of a string that began at `start` and has grown beyond `TEXT_BYTES`, to bytes[from, to). */
  sample(bytes: Buffer, from: number, to: number, sampleFrom: number): void {
    if (this.#sampled >= SAMPLE_BYTES) return;
    const end = Math.min(to, sampleFrom + SAMPLE_BYTES);
    for (let at = Math.max(from, sampleFrom); at < end; at++) {
      if (BASE64[bytes[at] as number] === 0) {
        this.#sampled = SAMPLE_BYTES + 1;
        return;
      }
      this.#sampled++;
    }
  }

  /** Whether the string that grew beyond `TEXT_BYTES` was base64. Call once, at its end. */
  endSample(): boolean {
    const isBase64 = this.#sampled === SAMPLE_BYTES;
    this.#sampled = 0;
    return isBase64;
  }

  /** The chunk ends inside of a string that began at the offset `start`. */
  keep(bytes: Buffer, end: number, base: number, start: number): void {
    if (base + end - start > WORD_BYTES) return;
    const isBegun = start < base;
    const piece = bytes.subarray(isBegun ? 0 : start - base, end);
    this.#head = isBegun ? Buffer.concat([this.#head, piece]) : Buffer.from(piece);
  }

  /** Whether a key that ends is "type". */
  isTypeKey(end: StringEnd): boolean {
    return isWord(this.#wordOf(end), TYPE_KEY);
  }

  /** Whether a value that ends is the type of an image. */
  isImageType(end: StringEnd): boolean {
    const word = this.#wordOf(end);
    for (const type of IMAGE_TYPES) if (isWord(word, type)) return true;
    return false;
  }

  /** The text of a short string; empty for a longer one. */
  #wordOf({ bytes, at, base, start, hasEscape }: StringEnd): Buffer {
    if (base + at - start > WORD_BYTES) return NOTHING;
    const raw = start >= base ? bytes.subarray(start - base, at) : Buffer.concat([this.#head, bytes.subarray(0, at)]);
    return hasEscape ? Buffer.from(unescapeJson(raw)) : raw;
  }
}

function isWord(text: Buffer, word: Buffer): boolean {
  return text.length === word.length && text.equals(word);
}
