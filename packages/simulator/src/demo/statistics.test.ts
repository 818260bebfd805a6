import assert from "node:assert/strict";
import { test } from "node:test";
import type { CallResult } from "./statistics.ts";
import { quantile, Statistics } from "./statistics.ts";

const good: CallResult = {
  policy: "chat",
  isGood: true,
  error: "",
  routing: { node: "a", family: "H100", attempt: 1 },
  durationMs: 100,
  outputTokens: 10,
  usd: 0.00001,
};

test("a quantile is the value at its rank, and unknown of nothing", () => {
  const values = Array.from({ length: 100 }, (_, index) => 100 - index);
  assert.equal(quantile(values, 0.5), 50);
  assert.equal(quantile(values, 0.95), 95);
  assert.equal(quantile([3], 0.95), 3);
  assert.ok(Number.isNaN(quantile([], 0.5)));
});

test("a call over its target and a failed call are not attained", () => {
  const statistics = new Statistics(new Map([["chat", 200]]));
  const chat = statistics.policies.get("chat");
  assert.ok(Number.isNaN(chat?.attainment));
  for (const durationMs of [100, 200, 201]) statistics.add({ ...good, durationMs });
  statistics.add({ ...good, isGood: false, error: "status 503" });
  assert.equal(chat?.attainment, 0.5);
  assert.equal(statistics.ended, 4);
  assert.equal(statistics.failed, 1);
  assert.deepEqual(statistics.errors, ["status 503"]);
});

test("a failed call counts neither for times nor for dollars", () => {
  const statistics = new Statistics(new Map([["chat", 200]]));
  statistics.add(good);
  statistics.add({ ...good, isGood: false, durationMs: 1e6, usd: 1 });
  const chat = statistics.policies.get("chat");
  assert.equal(chat?.durationMs(0.95), 100);
  assert.ok(Math.abs((chat?.usdPerMillionTokens ?? 0) - 1) < 1e-9);
});

test("re-dispatches are the attempts beyond the first, of failed calls too", () => {
  const statistics = new Statistics(new Map([["chat", 200]]));
  statistics.add({ ...good, routing: { node: "a", attempt: 3 } });
  statistics.add({ ...good, routing: { node: "a", attempt: 2 }, isGood: false });
  statistics.add({ ...good, routing: null });
  assert.equal(statistics.redispatched, 3);
});

test("shares of traffic follow the latest 200 answers", () => {
  const statistics = new Statistics(new Map([["chat", 200]]));
  assert.ok(Number.isNaN(statistics.shareOf("a")));
  for (let i = 0; i < 300; i += 1) statistics.add(good);
  for (let i = 0; i < 50; i += 1) statistics.add({ ...good, routing: { node: "b" } });
  assert.equal(statistics.shareOf("a"), 0.75);
  assert.equal(statistics.shareOf("b"), 0.25);
});
