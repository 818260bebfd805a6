/**
 * By what a prompt is known: hashes of its beginnings, so that a request which goes on with a prompt, or shares its head,
 * can be sent to the node that has computed that head already (`limits.prefixes`). Bytes are hashed as they stand in the
 * body: what a caller sends again it writes the same way again. Nothing of the prompt can be read out of the hashes, which
 * never leave the process and are keyed once more where they are kept.
 */

import { nextMark, PROMPT_MARKS_MAX, type PromptMarks } from "@zml/engine";
import { HEAD_KEYS, type HeadKey } from "../request-body/routing-fields.ts";

/** Where a member of the body stands that the prompt is made of; offsets are bytes from the start of the decoded body. */
export interface PromptPart {
  readonly key: HeadKey;
  readonly start: number;
  readonly end: number;
}

/** Bytes of a block, some 256 tokens: what is shorter is computed in the time of a step or two. */
const BLOCK_BYTES = 1024;

/** So many bytes of a prompt are hashed, a quarter of a million tokens: half a millisecond of work. */
const HASHED_BYTES_MAX = 1024 * BLOCK_BYTES;

/** Engines put these in front of the conversation, in this order or another, which is always the same. */
const IN_FRONT: readonly HeadKey[] = ["tools", "system", "instructions"];

const block = Buffer.alloc(BLOCK_BYTES);

/**
 * Marks of a prompt; null for one that is too short to have any.
 *
 * @param chunks the body. @param parts what the scanner found of it. Linear in the prompt's bytes, up to 1 MiB of them.
 */
export function promptMarksOf(chunks: readonly Buffer[], parts: readonly PromptPart[]): PromptMarks | null {
  const conversation = parts.findLast(({ key }) => !IN_FRONT.includes(key));
  if (conversation === undefined || conversation.end - conversation.start < BLOCK_BYTES) return null;
  const reader = new BlockReader(chunks);
  let hash = HEAD_KEYS.indexOf(conversation.key);
  for (const front of IN_FRONT) {
    const part = parts.findLast(({ key }) => key === front);
    if (part === undefined) continue;
    const end = Math.min(part.end, part.start + HASHED_BYTES_MAX);
    for (let at = part.start; at < end; at += BLOCK_BYTES)
      hash = reader.hash(at, Math.min(end, at + BLOCK_BYTES), hash);
  }
  const bytes = conversation.end - conversation.start;
  const blocks = Math.floor(Math.min(bytes, HASHED_BYTES_MAX) / BLOCK_BYTES);
  const hashes: number[] = [];
  const shares: number[] = [];
  let mark = 1;
  for (let count = 1; count <= blocks && hashes.length < PROMPT_MARKS_MAX; count++) {
    const end = conversation.start + count * BLOCK_BYTES;
    hash = reader.hash(end - BLOCK_BYTES, end, hash);
    if (count < mark) continue;
    hashes.push(hash);
    shares.push((count * BLOCK_BYTES) / bytes);
    mark = nextMark(count);
  }
  return { hashes: Int32Array.from(hashes), shares: Float64Array.from(shares) };
}

/** Hashes stretches of a body that lie in any chunks, as if it were in one piece. Stretches come in any order. */
class BlockReader {
  readonly #chunks: readonly Buffer[];
  #index = 0;
  /** Offset in the body of the present chunk. */
  #base = 0;

  constructor(chunks: readonly Buffer[]) {
    this.#chunks = chunks;
  }

  /** @param start with `end` a stretch of at most a block. */
  hash(start: number, end: number, seed: number): number {
    this.#seek(start);
    const chunk = this.#chunks[this.#index];
    if (chunk !== undefined && end <= this.#base + chunk.length) {
      return hashBytes(chunk, start - this.#base, end - this.#base, seed);
    }
    let at = start;
    while (at < end) {
      this.#seek(at);
      const here = this.#chunks[this.#index];
      if (here === undefined) break;
      const to = Math.min(end, this.#base + here.length);
      here.copy(block, at - start, at - this.#base, to - this.#base);
      at = to;
    }
    return hashBytes(block, 0, at - start, seed);
  }

  #seek(offset: number): void {
    while (this.#index > 0 && offset < this.#base) {
      this.#index -= 1;
      this.#base -= (this.#chunks[this.#index] as Buffer).length;
    }
    for (let chunk = this.#chunks[this.#index]; chunk !== undefined; chunk = this.#chunks[this.#index]) {
      if (offset < this.#base + chunk.length) return;
      this.#base += chunk.length;
      this.#index += 1;
    }
  }
}

/** Four bytes at a time; half a nanosecond a byte. */
function hashBytes(bytes: Buffer, from: number, to: number, seed: number): number {
  let hash = Math.imul(seed ^ (to - from), 0x9e3779b1);
  let at = from;
  for (; at + 4 <= to; at += 4) {
    const four =
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    hash = Math.imul(hash ^ four, 0x85ebca6b);
    hash ^= hash >>> 15;
  }
  for (; at < to; at++) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0xc2b2ae35);
  return hash ^ (hash >>> 13);
}
