import assert from "node:assert/strict";
import { test } from "node:test";
import { ENDPOINTS } from "../reasons.ts";
import { buildFleet } from "../testing/fleet.ts";
import { type AttemptUsage, spendUsd, workedTokens } from "./spend.ts";

const { table } = buildFleet({
  nodes: [{ family: "A", priceUsdPerHour: 3.6, tokensPerSecond: 100, streamTokensPerSecond: 10 }],
});
const usage: AttemptUsage = {
  placement: 0,
  endpoint: ENDPOINTS.indexOf("chat_completions"),
  estimatedPromptTokens: 30,
  outputTokens: 40,
  firstTokenMs: 100,
  durationMs: 2_100,
  expectedTokens: 256,
};

test("an attempt costs the share of its node's hour that its tokens take", () => {
  // 100 tokens/s are 360,000 an hour
  assert.ok(Math.abs(spendUsd(table, 0, 0, 100) - 0.001) < 1e-12);
});

test("output that a node reports counts; where it reports none, what a stream makes in its time", () => {
  assert.equal(workedTokens(table, usage, true), 40);
  assert.equal(workedTokens(table, { ...usage, outputTokens: Number.NaN }, true), 20);
  assert.equal(workedTokens(table, { ...usage, outputTokens: Number.NaN, expectedTokens: 8 }, true), 8);
});

test("a node that reports what no answer has is one that reports nothing: it can't empty a budget", () => {
  for (const outputTokens of [1e300, Number.POSITIVE_INFINITY, 2 ** 24, -5]) {
    assert.equal(workedTokens(table, { ...usage, outputTokens }, true), 20, String(outputTokens));
  }
});

test("an attempt without a token has worked for nothing, unless it is answered", () => {
  const silent = { ...usage, outputTokens: Number.NaN, firstTokenMs: Number.NaN };
  assert.equal(workedTokens(table, silent, false), 0);
  assert.equal(workedTokens(table, silent, true), 21);
});

test("embeddings cost their prompt, once they are answered", () => {
  const embeddings = { ...usage, endpoint: ENDPOINTS.indexOf("embeddings") };
  assert.deepEqual([workedTokens(table, embeddings, true), workedTokens(table, embeddings, false)], [30, 0]);
});
