import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { requestOf, viewOf } from "../testing/view.ts";
import { predict } from "./predict.ts";
import {
  assigned,
  bestFit,
  newTokensTimesBatch,
  plannedBuckets,
  prefixAffinity,
  scriptedChain,
  shortestPredictedLatency,
} from "./scripted.ts";

describe("the prediction by the node model, worked out by hand", () => {
  it("of an idle node is its overhead, the prompt's compute and an empty step", () => {
    const into = { ttftMs: 0, tokenMs: 0 };
    predict(viewOf([{}]), requestOf(), 0, into);
    // 15 + 1,000 × 0.1; 10 + 1 sequence + 1,000 tokens × 1 µs
    assert.deepEqual(into, { ttftMs: 115, tokenMs: 12 });
  });

  it("counts the prompts ahead, the batch beside, its cache, and the time that prompts of others take", () => {
    const into = { ttftMs: 0, tokenMs: 0 };
    const node = { inFlight: 11, prefilling: 1, uncached: 3_000, kv: 10_550, promptRate: 2_000 };
    predict(viewOf([node]), requestOf(), 0, into);
    // 10 decode, cache 10,550 − 11 × 50 = 10,000 tokens: 10 ms a step; work 4,000 in ⌈4,000 ÷ 2,038⌉ = 2 steps
    // 15 + (20 + 10) ÷ 2 + max(2 × 20, 0.1 × (4,000 + 2 × 10)) + 2 × 10 = 452
    assert.equal(into.ttftMs, 452);
    // (10 + 12 + 11) ÷ (1 − 2,000 × 0.1 ms ÷ 1 s)
    assert.ok(Math.abs(into.tokenMs - 33 / 0.8) < 1e-9);
  });
});

describe("scripted baselines, worked out by hand", () => {
  it("CHAIN fills the first family to 48 in flight on each node, then the next, then goes by WLR", () => {
    const of = (a: number, b: number, c: number) =>
      scriptedChain().pick(
        viewOf([{ inFlight: a }, { inFlight: b }, { inFlight: c, family: 1, constants: { baseMs: 30 } }]),
        requestOf(),
      );
    assert.equal(of(47, 12, 0), 1);
    assert.equal(of(47, 48, 0), 0);
    assert.equal(of(48, 48, 0), 2);
    assert.equal(of(48, 60, 48), 0, "49 × 10 is less than 61 × 10 and 49 × 30");
  });

  it("SPL takes the least predicted end, however dear", () => {
    // idle: 115 + 100 × 12 = 1,315; the fast one with 10 in flight: 15 + 7.5 + max(15, 21) + … is still less
    const fast = {
      inFlight: 10,
      kv: 11_000,
      constants: { baseMs: 5, usPerSequence: 0, nsPerCachedToken: 0, usPerPrefillToken: 20 },
    };
    assert.equal(shortestPredictedLatency().pick(viewOf([{}, fast]), requestOf()), 1);
    assert.equal(shortestPredictedLatency().pick(viewOf([{}, { ...fast, promptRate: 45_000 }]), requestOf()), 0);
  });

  it("BF takes the node that just fits, and where none fits the smallest miss", () => {
    // token times 12, 20 and 30 ms against 25: headroom 0.52, 0.2, −0.2
    const slow = (baseMs: number) => ({ constants: { baseMs } });
    assert.equal(bestFit().pick(viewOf([slow(10), slow(18), slow(28)]), requestOf()), 1);
    assert.equal(bestFit().pick(viewOf([slow(40), slow(28), slow(60)]), requestOf()), 1);
  });

  it("PFX stays on the warm node until its lead is five seconds of its work", () => {
    // 100 µs per token: 10,000 tokens/s, so 50,000 tokens of lead
    const warm = (uncached: number) => viewOf([{ cached: 800, uncached }, { uncached: 1_000 }, { uncached: 3_000 }]);
    assert.equal(prefixAffinity().pick(warm(51_000), requestOf()), 0);
    assert.equal(prefixAffinity().pick(warm(51_001), requestOf()), 1);
    assert.equal(
      prefixAffinity().pick(viewOf([{ cached: 700, uncached: 900 }, { uncached: 100 }]), requestOf()),
      1,
      "700 of 1,000 is not warm: 1,200 against 1,100",
    );
  });

  it("LMX takes the least product of new tokens and batch", () => {
    // (500 + 1,000) × 5 = 7,500; (0 + 1,000) × 8 = 8,000; (2,000 + 100) × 3 = 6,300
    const view = viewOf([
      { uncached: 500, inFlight: 4 },
      { inFlight: 7 },
      { uncached: 2_000, inFlight: 2, cached: 900 },
    ]);
    assert.equal(newTokensTimesBatch().pick(view, requestOf()), 2);
  });

  it("MEL sends a length to its family, by WLR inside it, and elsewhere only when it has no node", () => {
    const router = plannedBuckets({ bounds: [512, Number.POSITIVE_INFINITY], families: Int32Array.of(1, 0, 0, 0) });
    const nodes = [{ inFlight: 0 }, { inFlight: 9, family: 1 }, { inFlight: 8, family: 1 }];
    assert.equal(router.pick(viewOf(nodes), requestOf({ promptTokens: 512 })), 2);
    assert.equal(router.pick(viewOf(nodes), requestOf({ promptTokens: 513 })), 0);
    assert.equal(router.pick(viewOf(nodes), requestOf({ promptTokens: 512, klass: 1 })), 0);
    const gone = nodes.map((node) => ({ ...node, isUsable: node.family !== 1 }));
    assert.equal(router.pick(viewOf(gone), requestOf({ promptTokens: 5 })), 0);
  });

  it("an assignment is followed where its node can take the request", () => {
    const router = assigned(Int16Array.of(1, 0));
    assert.equal(router.pick(viewOf([{}, { inFlight: 99 }]), requestOf({ index: 0 })), 1);
    assert.equal(router.pick(viewOf([{}, { isUsable: false }]), requestOf({ index: 0 })), 0);
  });
});
