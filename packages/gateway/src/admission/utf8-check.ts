import { isUtf8 } from "node:buffer";

/** Length of the sequence that a lead byte opens; 0 for a byte that opens none. */
function sequenceLength(lead: number): number {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

/** What `Utf8Check.push` returns for a chunk in which nothing is wrong. */
export const UTF8_OK = Number.NEGATIVE_INFINITY;

/**
 * Validates UTF-8 over chunks that may end inside a character. The check itself is the runtime's vectorised one; only
 * the up to three bytes at a seam are handled here.
 */
export class Utf8Check {
  /** Made when first needed: most bodies come in one chunk. */
  #seam: Buffer | null = null;
  #seamLength = 0;

  /** Bytes of an unfinished character at the end of what was pushed so far. */
  get pendingBytes(): number {
    return this.#seamLength;
  }

  /**
   * Offset of the first invalid sequence, relative to the chunk's start (negative when it began in an earlier chunk),
   * or UTF8_OK. The same bytes give the same absolute offset however they are cut.
   */
  push(chunk: Buffer): number {
    let from = 0;
    const seam = this.#seam;
    if (seam !== null && this.#seamLength > 0) {
      const began = -this.#seamLength;
      const wanted = sequenceLength(seam[0] as number);
      while (this.#seamLength < wanted && from < chunk.length) {
        const byte = chunk[from] as number;
        if ((byte & 0xc0) !== 0x80) return began;
        seam[this.#seamLength++] = byte;
        from++;
      }
      if (this.#seamLength < wanted) return UTF8_OK;
      if (!isUtf8(seam.subarray(0, wanted))) return began;
      this.#seamLength = 0;
    }
    const to = unfinishedTail(chunk, from);
    const whole = from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to);
    if (!isUtf8(whole)) return from + firstInvalid(whole);
    if (to < chunk.length) {
      this.#seam ??= Buffer.alloc(4);
      this.#seamLength = chunk.copy(this.#seam, 0, to);
    }
    return UTF8_OK;
  }
}

/** Where an unfinished character at the chunk's end starts; the chunk's length when there is none. */
function unfinishedTail(chunk: Buffer, from: number): number {
  const end = chunk.length;
  for (let back = 1; back <= 3 && end - back >= from; back++) {
    const byte = chunk[end - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    return sequenceLength(byte) > back ? end - back : end;
  }
  return end;
}

/** Start of the first invalid sequence of bytes that are known to hold one. */
function firstInvalid(bytes: Buffer): number {
  let at = 0;
  while (at < bytes.length) {
    const length = sequenceLength(bytes[at] as number);
    if (length === 0 || at + length > bytes.length) return at;
    if (length > 1 && !isUtf8(bytes.subarray(at, at + length))) return at;
    at += length;
  }
  return at;
}
