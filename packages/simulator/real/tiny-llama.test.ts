import assert from "node:assert/strict";
import { test } from "node:test";
import { ggufAlignmentBytes } from "./gguf-file.ts";
import { tinyLlama } from "./tiny-llama.ts";

const small = { dim: 16, layers: 1, heads: 2 };
const file = (options = {}) => Buffer.concat(tinyLlama({ ...small, ...options }));

test("the head tells what the file holds: magic, version 3, every tensor, every metadata entry", () => {
  const { version, tensors, metadata } = readGguf(file({ name: "named", contextTokens: 2_048 }));
  assert.equal(version, 3);
  assert.equal(tensors.length, 3 + 9);
  assert.equal(metadata.get("general.name"), "named");
  assert.equal(metadata.get("llama.context_length"), 2_048);
  assert.equal(metadata.get("llama.rope.dimension_count"), 8);
  const tokens = metadata.get("tokenizer.ggml.tokens");
  assert(Array.isArray(tokens));
  assert.equal(new Set(tokens).size, tokens.length, "no token appears twice");
  for (const key of ["tokenizer.ggml.scores", "tokenizer.ggml.token_type"]) {
    const column = metadata.get(key);
    assert(Array.isArray(column));
    assert.equal(column.length, tokens.length, key);
  }
  assert.equal(metadata.get("llama.vocab_size"), tokens.length);
});

test("tensors are aligned, follow each other without overlap, and fill the file to its end", () => {
  const bytes = file();
  const { tensors, dataStart } = readGguf(bytes);
  let expected = 0;
  for (const { name, offset, dimensions } of tensors) {
    assert.equal(offset, expected, name);
    assert.equal(offset % ggufAlignmentBytes, 0, name);
    const sizeBytes = 4 * dimensions.reduce((product, size) => product * size, 1);
    expected += Math.ceil(sizeBytes / ggufAlignmentBytes) * ggufAlignmentBytes;
  }
  assert.equal(dataStart % ggufAlignmentBytes, 0);
  assert.equal(dataStart + expected, bytes.length);
});

test("no layer writes to dimension 0, and only words are weighed up by it", () => {
  const bytes = file({ eosBias: -0.5 });
  const { tensors, dataStart, metadata } = readGguf(bytes);
  const value = (name: string, index: number) => {
    const tensor = tensors.find((candidate) => candidate.name === name);
    assert(tensor !== undefined, name);
    return bytes.readFloatLE(dataStart + tensor.offset + 4 * index);
  };
  for (let column = 0; column < small.dim; column += 1) assert.equal(value("blk.0.attn_output.weight", column), 0);
  for (let column = 0; column < 2 * small.dim; column += 1) assert.equal(value("blk.0.ffn_down.weight", column), 0);
  const tokens = metadata.get("tokenizer.ggml.tokens");
  assert(Array.isArray(tokens));
  const weight = (token: string) => value("output.weight", tokens.indexOf(token) * small.dim);
  assert.equal(weight("\u2581water"), 1);
  assert.equal(weight("\u2581wate"), -6);
  assert.equal(weight("<0x41>"), -6);
  assert.equal(weight("<|im_end|>"), -6);
  assert.equal(weight("</s>"), -0.5);
});

test("the same seed gives the same bytes, another seed other ones of the same length", () => {
  assert(file({ seed: 7 }).equals(file({ seed: 7 })));
  assert(!file({ seed: 7 }).equals(file({ seed: 8 })));
  assert.equal(file({ seed: 7 }).length, file({ seed: 8 }).length);
});

test("a width that the heads can't share in pairs is refused with the rule", () => {
  for (const options of [{ dim: 20, heads: 4 }, { dim: 0 }, { heads: 0 }, { dim: Number.NaN }]) {
    assert.throws(() => tinyLlama(options), /dim must be a multiple of 2 × heads/);
  }
});

type Metadata = string | number | boolean | (string | number | boolean)[];
type TensorEntry = { name: string; dimensions: number[]; offset: number };

/** An independent reader, as short as the format allows. */
function readGguf(bytes: Buffer) {
  let at = 0;
  const skip = (count: number) => {
    at += count;
    return at - count;
  };
  const uint32 = () => bytes.readUInt32LE(skip(4));
  const uint64 = () => Number(bytes.readBigUInt64LE(skip(8)));
  const string = () => {
    const length = uint64();
    return bytes.toString("utf8", skip(length), at);
  };
  const scalar = (type: number): string | number | boolean => {
    if (type === 4) return uint32();
    if (type === 5) return bytes.readInt32LE(skip(4));
    if (type === 6) return bytes.readFloatLE(skip(4));
    if (type === 7) return bytes.readUInt8(skip(1)) === 1;
    assert.equal(type, 8, "a known type");
    return string();
  };
  const repeat = <T>(count: number, read: () => T): T[] => Array.from({ length: count }, read);

  assert.equal(bytes.toString("latin1", skip(4), at), "GGUF");
  const version = uint32();
  const tensorCount = uint64();
  const metadataCount = uint64();
  const metadata = new Map<string, Metadata>();
  for (let index = 0; index < metadataCount; index += 1) {
    const key = string();
    const type = uint32();
    if (type !== 9) metadata.set(key, scalar(type));
    else {
      const itemType = uint32();
      metadata.set(
        key,
        repeat(uint64(), () => scalar(itemType)),
      );
    }
  }
  const tensors = repeat(tensorCount, (): TensorEntry => {
    const name = string();
    const dimensions = repeat(uint32(), uint64);
    assert.equal(uint32(), 0, `${name} is float32`);
    return { name, dimensions, offset: uint64() };
  });
  const dataStart = Math.ceil(at / ggufAlignmentBytes) * ggufAlignmentBytes;
  return { version, metadata, tensors, dataStart };
}
