/**
 * The GGUF container, version 3, as llama.cpp reads it: a head (magic, version, counts), the metadata, one entry per
 * tensor with its offset, then the tensors' data, each aligned. Only what a small float32 model needs.
 * Source: the GGUF specification in the ggml repository (docs/gguf.md).
 */
import assert from "node:assert/strict";
import { endianness } from "node:os";

/** Every tensor starts at a multiple of this, counted from the start of the data section. GGUF's default. */
export const ggufAlignmentBytes = 32;

const version = 3;
const tensorTypeFloat32 = 0;
const valueType = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const;

export type GgufValue =
  | { kind: "uint32" | "float32"; value: number }
  | { kind: "bool"; value: boolean }
  | { kind: "string"; value: string }
  | { kind: "strings"; value: readonly string[] }
  | { kind: "int32s" | "float32s"; value: readonly number[] };

/** A matrix of `rows` × `columns` values in row-major order; a vector has one row and says `rows: null`. */
export type GgufTensor = { name: string; rows: number | null; columns: number; data: Float32Array };

/** Encodes a model as the parts of its file, in order; no part is a copy of a tensor. Cost: O(metadata). */
export function encodeGguf(metadata: ReadonlyMap<string, GgufValue>, tensors: readonly GgufTensor[]): Uint8Array[] {
  // The format is little-endian and the tensors are written as they lie in memory.
  assert.equal(endianness(), "LE", "GGUF files are only written on little-endian machines");
  const head: Buffer[] = [Buffer.from("GGUF"), uint32(version), uint64(tensors.length), uint64(metadata.size)];
  for (const [key, value] of metadata) head.push(string(key), encodeValue(value));

  const data: Uint8Array[] = [];
  let offset = 0;
  for (const { name, rows, columns, data: values } of tensors) {
    assert.equal(values.length, (rows ?? 1) * columns, `tensor ${name} has the number of values that its shape says`);
    // GGUF lists dimensions from the fastest-running one.
    const dimensions = rows === null ? [columns] : [columns, rows];
    head.push(string(name), uint32(dimensions.length), ...dimensions.map(uint64));
    head.push(uint32(tensorTypeFloat32), uint64(offset));
    const padding = paddingAfter(values.byteLength);
    data.push(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), padding);
    offset += values.byteLength + padding.length;
  }

  const headBytes = Buffer.concat(head);
  return [headBytes, paddingAfter(headBytes.length), ...data];
}

function encodeValue(entry: GgufValue): Buffer {
  switch (entry.kind) {
    case "uint32":
      return Buffer.concat([uint32(valueType.uint32), uint32(entry.value)]);
    case "float32":
      return Buffer.concat([uint32(valueType.float32), float32(entry.value)]);
    case "bool":
      return Buffer.concat([uint32(valueType.bool), Buffer.from([entry.value ? 1 : 0])]);
    case "string":
      return Buffer.concat([uint32(valueType.string), string(entry.value)]);
    case "strings":
      return array(valueType.string, entry.value.map(string));
    case "int32s":
      return array(valueType.int32, entry.value.map(int32));
    case "float32s":
      return array(valueType.float32, entry.value.map(float32));
  }
}

function array(itemType: number, items: readonly Buffer[]): Buffer {
  return Buffer.concat([uint32(valueType.array), uint32(itemType), uint64(items.length), ...items]);
}

function string(value: string): Buffer {
  const bytes = Buffer.from(value, "utf8");
  return Buffer.concat([uint64(bytes.length), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function float32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function paddingAfter(bytes: number): Buffer {
  return Buffer.alloc((ggufAlignmentBytes - (bytes % ggufAlignmentBytes)) % ggufAlignmentBytes);
}
