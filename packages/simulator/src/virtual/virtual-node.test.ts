import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NodeConstants } from "../step-model.ts";
import { VirtualNode } from "./virtual-node.ts";

/** A step of 10 ms + 1 ms per sequence + 1 ms per 1,000 cached tokens; a prompt at 0.1 ms per token. */
const ROUND: NodeConstants = {
  baseMs: 10,
  usPerSequence: 1_000,
  nsPerCachedToken: 1_000,
  usPerPrefillToken: 100,
  nsPerSquaredPrefillToken: 0,
  kvCapacityTokens: 100_000,
};

function nodeOf(constants: Partial<NodeConstants> = {}, maxSequences = 256) {
  const log: string[] = [];
  const node = new VirtualNode({
    constants: { ...ROUND, ...constants },
    maxSequences,
    stepTokenBudget: 2_048,
    onFirstToken: (id, atMs) => log.push(`first ${id} ${atMs.toFixed(3)}`),
    onFinished: (id, atMs) => log.push(`end ${id} ${atMs.toFixed(3)}`),
  });
  const drain = () => {
    while (node.nextEventMs < Infinity) node.advance(node.nextEventMs);
  };
  return { node, log, drain };
}

const plain = (id: number, promptTokens: number, outputTokens: number) => ({
  id,
  promptTokens,
  outputTokens,
  blocks: null,
});

describe("a virtual node", () => {
  it("computes a prompt alone, then one token per step, as worked out by hand", () => {
    const { node, log, drain } = nodeOf();
    node.enqueue(plain(1, 1_000, 3), 0);
    drain();
    // prompt: max(10, 100) = 100 ms, and the first token with it; then 10 + 1 + 1.001 and 10 + 1 + 1.002
    assert.deepEqual(log, ["first 1 100.000", "end 1 124.003"]);
    assert.deepEqual(node.busy, [0, node.busy[1]]);
  });

  it("splits a prompt over the step's budget, and lets decoding ones go on in the same steps", () => {
    const { node, log, drain } = nodeOf();
    node.enqueue(plain(1, 1_000, 4), 0);
    node.enqueue(plain(2, 3_000, 1), 105);
    drain();
    // 0–100 prompt 1; 100–112.001 decode (2 came in it); then steps of 2,047 + 1 and 953 + 1 tokens:
    // 204.8 + 1.002 → 317.803, and 95.4 + 1.003 → 414.206
    assert.deepEqual(log, ["first 1 100.000", "end 1 414.206", "first 2 414.206", "end 2 414.206"]);
  });

  it("ends a jump at the step in which a request came, and not before", () => {
    const { node, log, drain } = nodeOf({ nsPerCachedToken: 0 });
    node.enqueue(plain(1, 100, 100), 0);
    // prompt 10 ms (10 + 0 sequences, 10 of compute), then steps of 11 ms: 21, 32, 43 …
    node.enqueue(plain(2, 100, 1), 33);
    drain();
    // step 3 ends at 43; the next has 100 prompt tokens and one decoding: max(11, 10.1) = 11 ms
    assert.equal(log[1], "first 2 54.000");
    assert.equal(log.at(-1), `end 1 ${(10 + 99 * 11).toFixed(3)}`);
  });

  it("computes only what the prefix cache does not hold", () => {
    const { node, log, drain } = nodeOf({ nsPerCachedToken: 0 });
    const blocks = Int32Array.of(1, 2);
    node.enqueue({ id: 1, promptTokens: 1_124, outputTokens: 1, blocks }, 0);
    drain();
    node.enqueue({ id: 2, promptTokens: 1_224, outputTokens: 1, blocks }, 1_000);
    drain();
    // 1,124 tokens: 112.4 ms; then 1,224 − 1,024 = 200 tokens: 20 ms
    assert.deepEqual(log, ["first 1 112.400", "end 1 112.400", "first 2 1020.000", "end 2 1020.000"]);
    assert.equal(node.totals.prefixTokens, 1_024);
  });

  it("computes the last block again when the whole prompt is in the cache", () => {
    const { node, log, drain } = nodeOf({ nsPerCachedToken: 0 });
    const blocks = Int32Array.of(1, 2);
    node.enqueue({ id: 1, promptTokens: 1_024, outputTokens: 1, blocks }, 0);
    drain();
    node.enqueue({ id: 2, promptTokens: 1_024, outputTokens: 1, blocks }, 1_000);
    drain();
    assert.equal(log.at(-1), "end 2 1051.200");
  });

  it("evicts the least recently used blocks when sequences need their room", () => {
    const { node, drain } = nodeOf({ nsPerCachedToken: 0, kvCapacityTokens: 2_048 });
    const of = (id: number, first: number, atMs: number) => {
      node.enqueue({ id, promptTokens: 1_025, outputTokens: 1, blocks: Int32Array.of(first, first + 1) }, atMs);
      drain();
    };
    of(1, 10, 0);
    of(2, 20, 1_000);
    of(3, 30, 2_000);
    const before = node.totals.prefixTokens;
    of(4, 10, 3_000);
    assert.equal(node.totals.prefixTokens, before, "the blocks of the first prompt gave way to the third's");
    of(5, 30, 4_000);
    assert.ok(node.totals.prefixTokens > before);
  });

  it("takes three times as long from the step on in which it fell ill", () => {
    const { node, log, drain } = nodeOf({ nsPerCachedToken: 0 });
    node.enqueue(plain(1, 100, 5), 0);
    node.setSlowness(3, 25);
    drain();
    // 10 prompt, steps end at 21 and 32, then 33 ms each
    assert.equal(log.at(-1), "end 1 98.000");
  });

  it("loses everything when it goes down, and says how far each came", () => {
    const { node, log } = nodeOf({ nsPerCachedToken: 0 }, 1);
    node.enqueue(plain(1, 100, 50), 0);
    node.enqueue(plain(2, 100, 50), 5);
    const lost = node.drop(40);
    assert.deepEqual(lost, [
      { id: 1, emittedTokens: 3 },
      { id: 2, emittedTokens: 0 },
    ]);
    assert.deepEqual(log, ["first 1 10.000"]);
    assert.equal(node.nextEventMs, Number.POSITIVE_INFINITY);
    assert.deepEqual(node.busy, [0, 40]);
    assert.equal(node.usedTokens, 0);
  });

  it("tells the tokens that came so far inside a jump", () => {
    const { node } = nodeOf({ nsPerCachedToken: 0 });
    node.enqueue(plain(1, 100, 50), 0);
    node.advance(10);
    assert.equal(node.outputTokensAt(10), 1);
    assert.equal(node.outputTokensAt(20.9), 1);
    assert.equal(node.outputTokensAt(32.1), 3);
  });

  it("is refused without a place or a budget", () => {
    assert.throws(() => nodeOf({}, 0), /maxSequences is 0: it must be 1 or more/);
  });
});
