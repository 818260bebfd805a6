import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Batch } from "../batch.ts";
import { nodeConstants } from "../node-constants.ts";
import { VirtualNode } from "./virtual-node.ts";

const CONSTANTS = nodeConstants("H100-SXM-80GB/llama-3-8b/bf16/1");

interface Arrival {
  readonly gapMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

const arrivals: fc.Arbitrary<Arrival[]> = fc.array(
  fc.record({
    gapMs: fc.double({ min: 0.001, max: 400, noNaN: true }),
    promptTokens: fc.integer({ min: 1, max: 6000 }),
    outputTokens: fc.integer({ min: 1, max: 80 }),
  }),
  { minLength: 1, maxLength: 30 },
);
const limits = fc.record({
  maxSequences: fc.integer({ min: 1, max: 8 }),
  stepTokenBudget: fc.integer({ min: 1, max: 2048 }),
  kvCapacityTokens: fc.integer({ min: 6100, max: 20_000 }),
});

type Times = Map<number, { firstMs: number; endMs: number; firsts: number; ends: number }>;

function note(times: Times, id: number, kind: "first" | "end", atMs: number): void {
  const entry = times.get(id) ?? { firstMs: Number.NaN, endMs: Number.NaN, firsts: 0, ends: 0 };
  if (kind === "first") {
    entry.firstMs = atMs;
    entry.firsts += 1;
  } else {
    entry.endMs = atMs;
    entry.ends += 1;
  }
  times.set(id, entry);
}

test("a virtual node gives every token at the time at which the batch of the fake engines gives it", () => {
  fc.assert(
    fc.property(limits, arrivals, (limit, list) => {
      const constants = { ...CONSTANTS, kvCapacityTokens: limit.kvCapacityTokens };
      const ofBatch: Times = new Map();
      const batch = new Batch({ ...limit, constants });
      const onEvent: Parameters<Batch["advance"]>[1] = (event) => {
        if (event.kind === "token" && event.index === 0) note(ofBatch, event.id, "first", event.atMs);
        if (event.kind === "finished") note(ofBatch, event.id, "end", event.atMs);
      };
      const ofNode: Times = new Map();
      const node = new VirtualNode({
        ...limit,
        constants,
        onFirstToken: (id, atMs) => note(ofNode, id, "first", atMs),
        onFinished: (id, atMs) => note(ofNode, id, "end", atMs),
      });
      let nowMs = 0;
      for (const [id, { gapMs, promptTokens, outputTokens }] of list.entries()) {
        nowMs += gapMs;
        batch.advance(nowMs, onEvent);
        batch.enqueue({ id, promptTokens, outputTokens }, nowMs);
        node.enqueue({ id, promptTokens, outputTokens, blocks: null }, nowMs);
        assert.equal(node.runningCount, batch.runningCount);
        assert.equal(node.waitingCount, batch.waitingCount);
      }
      while (batch.nextEventMs < Infinity) batch.advance(batch.nextEventMs, onEvent);
      while (node.nextEventMs < Infinity) node.advance(node.nextEventMs);
      for (const id of list.keys()) {
        const [a, b] = [ofBatch.get(id), ofNode.get(id)];
        assert.ok(a !== undefined && b !== undefined);
        assert.deepEqual([b.firsts, b.ends], [1, 1], "one first token and one end");
        assert.ok(Math.abs(a.firstMs - b.firstMs) < 1e-6, `first token ${a.firstMs} ${b.firstMs}`);
        assert.ok(Math.abs(a.endMs - b.endMs) < 1e-6, `end ${a.endMs} ${b.endMs}`);
      }
      assert.equal(node.totals.outputTokens, batch.totals.outputTokens);
      assert.equal(node.totals.promptTokens, batch.totals.promptTokens);
      assert.equal(node.totals.preemptions, batch.totals.preemptions);
      assert.equal(node.usedTokens, 0);
      assert.equal(node.busy.length % 2, 0);
    }),
    { numRuns: 300 },
  );
});

test("with prefixes nothing is lost, memory comes back, and what was found was not computed", () => {
  const prompt = fc.record({
    gapMs: fc.double({ min: 0.001, max: 400, noNaN: true }),
    promptTokens: fc.integer({ min: 1, max: 6000 }),
    outputTokens: fc.integer({ min: 1, max: 80 }),
    family: fc.integer({ min: 0, max: 2 }),
    shared: fc.integer({ min: 0, max: 12 }),
  });
  fc.assert(
    fc.property(limits, fc.array(prompt, { minLength: 1, maxLength: 30 }), (limit, list) => {
      const ends: number[] = [];
      const node = new VirtualNode({
        ...limit,
        constants: { ...CONSTANTS, kvCapacityTokens: limit.kvCapacityTokens },
        onFirstToken: () => undefined,
        onFinished: (id) => ends.push(id),
      });
      let nowMs = 0;
      for (const [id, { gapMs, promptTokens, outputTokens, family, shared }] of list.entries()) {
        nowMs += gapMs;
        const full = Math.floor(promptTokens / 512);
        // the first blocks are those of the family, the rest its own
        const blocks = Int32Array.from({ length: full }, (_, k) =>
          k < shared ? family * 100 + k : 1000 + id * 20 + k,
        );
        node.enqueue({ id, promptTokens, outputTokens, blocks }, nowMs);
        assert.ok(node.runningCount === 1 || node.usedTokens <= limit.kvCapacityTokens);
      }
      while (node.nextEventMs < Infinity) node.advance(node.nextEventMs);
      assert.deepEqual(
        ends.toSorted((a, b) => a - b),
        [...list.keys()],
      );
      assert.equal(node.usedTokens, 0);
      const asked = list.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
      assert.ok(node.totals.promptTokens + node.totals.prefixTokens >= asked);
      if (node.totals.preemptions === 0) assert.equal(node.totals.promptTokens + node.totals.prefixTokens, asked);
    }),
    { numRuns: 200 },
  );
});
