/** 1 for the bytes that end a plain run inside a JSON string: quote, backslash, control characters. */
const ENDS_RUN = Uint8Array.from({ length: 256 }, (_, byte) => (byte < 0x20 || byte === 0x22 || byte === 0x5c ? 1 : 0));

/** Most strings of a body are keys and short values: those are done before the word loop would pay. */
const SHORT_RUN_BYTES = 12;

/** The 32-bit view of the memory that was looked at last: pushing slices of one block makes it once. */
let wordsOf: ArrayBufferLike | null = null;
const NO_WORDS = new Int32Array(0);
let words: Int32Array = NO_WORDS;

/** Lets go of the memory that was looked at last. */
export function forgetWords(): void {
  wordsOf = null;
  words = NO_WORDS;
}

/** Index of the first quote, backslash or control character of bytes[from, end), or end. */
export function skipStringBody(bytes: Buffer, from: number, end: number): number {
  let at = from;
  const shortEnd = Math.min(end, from + SHORT_RUN_BYTES);
  while (at < shortEnd) {
    if (ENDS_RUN[bytes[at] as number] === 1) return at;
    at++;
  }
  if (end - at >= 16) at = skipWords(bytes, at, end);
  while (at < end && ENDS_RUN[bytes[at] as number] === 0) at++;
  return at;
}

/** 1 for the bytes that may follow a backslash, but for u. */
const SIMPLE_ESCAPES = new Uint8Array(256);
for (const byte of Buffer.from('"\\/bfnrt')) SIMPLE_ESCAPES[byte] = 1;

/** The same, passing over escapes of one letter too, where their text is not needed: source code is full of them. */
export function skipStringWithEscapes(bytes: Buffer, from: number, end: number): number {
  let at = from;
  for (;;) {
    const shortEnd = Math.min(end, at + SHORT_RUN_BYTES);
    while (at < shortEnd && ENDS_RUN[bytes[at] as number] === 0) at++;
    if (at === shortEnd) at = skipStringBody(bytes, at, end);
    if (at + 1 >= end || bytes[at] !== 0x5c || SIMPLE_ESCAPES[bytes[at + 1] as number] === 0) return at;
    at += 2;
  }
}

/**
 * Four bytes at a time (SWAR): a byte b of a word has a borrow into its top bit in (word - 0x20202020) when b < 0x20,
 * and in ((word ^ 0x22222222) - 0x01010101) when b is a quote; `& ~word` drops bytes above 0x7f. A borrow can also
 * mark the byte after a real hit, never a word without one, and the caller looks at the bytes again.
 */
function skipWords(bytes: Buffer, from: number, end: number): number {
  if (wordsOf !== bytes.buffer) {
    wordsOf = bytes.buffer;
    words = new Int32Array(bytes.buffer, 0, bytes.buffer.byteLength >> 2);
  }
  const view = words;
  const offset = bytes.byteOffset;
  let word = (offset + from + 3) >> 2;
  const stop = (offset + end) >> 2;
  // The up to three bytes before the first whole word.
  for (let at = from; at < word * 4 - offset; at++) if (ENDS_RUN[bytes[at] as number] === 1) return at;
  while (word < stop) {
    const four = view[word] as number;
    const quote = (four ^ 0x22222222) - 0x01010101;
    const backslash = (four ^ 0x5c5c5c5c) - 0x01010101;
    if (((quote | backslash | (four - 0x20202020)) & ~four & 0x80808080) !== 0) break;
    word++;
  }
  return Math.max(from, word * 4 - offset);
}
