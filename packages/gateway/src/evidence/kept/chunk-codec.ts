/**
 * A chunk of records as bytes: the head as JSON, then the columns, deflated. Columns of one kind lie together, most of
 * their cells repeat, and a fast deflate makes 5 to 10 % of them.
 */

import { constants, deflateRawSync, inflateRawSync } from "node:zlib";
import type { ChunkHead, DecisionColumns } from "./decision-columns.ts";

/** What a chunk may inflate to, bytes: some ten times what the largest one holds. */
const INFLATED_MAX = 64 * 1024 * 1024;

/** Bytes of the length that stands first. */
const LENGTH_BYTES = 8;

/** @returns the chunk as it is stored. O(cells). */
export function encodeChunk(columns: DecisionColumns): Uint8Array {
  const head = Buffer.from(JSON.stringify(columns.head));
  // so that the first column is aligned for eight-byte numbers
  const headBytes = Math.ceil(head.length / 8) * 8;
  const parts: ArrayBufferView[] = [
    ...columns.numbers,
    ...columns.familyNumbers,
    columns.sequences,
    ...columns.integers,
    ...columns.familyIntegers,
    columns.excluded,
  ];
  const bytes = parts.reduce((sum, part) => sum + part.byteLength, LENGTH_BYTES + headBytes);
  const whole = Buffer.alloc(bytes, " ");
  whole.writeUInt32LE(headBytes, 0);
  head.copy(whole, LENGTH_BYTES);
  let at = LENGTH_BYTES + headBytes;
  for (const { buffer, byteOffset, byteLength } of parts) {
    whole.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += byteLength;
  }
  return deflateRawSync(whole, { level: constants.Z_BEST_SPEED });
}

/** @throws Error when the bytes are no chunk. */
export function decodeChunk(stored: Uint8Array): DecisionColumns {
  const inflated = inflateRawSync(stored, { maxOutputLength: INFLATED_MAX });
  // pooled memory may begin anywhere
  const bytes = inflated.byteOffset % 8 === 0 ? inflated : Buffer.from(new Uint8Array(inflated).buffer);
  const headBytes = bytes.readUInt32LE(0);
  const head = JSON.parse(bytes.toString("utf8", LENGTH_BYTES, LENGTH_BYTES + headBytes)) as ChunkHead;
  const { count, families } = head;
  let at = bytes.byteOffset + LENGTH_BYTES + headBytes;
  const floats = (cells: number) => {
    const column = new Float64Array(bytes.buffer, at, cells);
    at += column.byteLength;
    return column;
  };
  const ints = (cells: number) => {
    const column = new Int32Array(bytes.buffer, at, cells);
    at += column.byteLength;
    return column;
  };
  return {
    head,
    numbers: head.numbers.map(() => floats(count)),
    familyNumbers: head.familyNumbers.map(() => floats(families)),
    sequences: ints(count),
    integers: head.integers.map(() => ints(count)),
    familyIntegers: head.familyIntegers.map(() => ints(families)),
    excluded: new Uint16Array(bytes.buffer, at, families * head.lists.exclusions.length),
  };
}
