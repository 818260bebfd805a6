import assert from "node:assert/strict";
import { test } from "node:test";
import type { Config } from "@zml/protocol";
import type { LearnedNumber } from "../store/operations.ts";
import type { StoreClient } from "../store/store.ts";
import { SILENT_LOG } from "./gateway-log.ts";
import { KeptState } from "./kept-state.ts";

const learned = (index: number): LearnedNumber => ({
  account: "default",
  node: `pod-${index}`,
  url: `http://pod-${index}.pods.example:8000`,
  family: "H100",
  model: "llama-3-70b-instruct",
  name: "tokens_per_second",
  value: 1,
  samples: 1,
  updatedAtMs: index,
});

test("what pods that come and go learned in weeks is brought back in parts, up to a bound", async () => {
  const asked: number[] = [];
  const store = {
    call: (_name: string, { skip, limit }: { skip: number; limit: number }) => {
      asked.push(limit);
      return Promise.resolve(Array.from({ length: limit }, (_, index) => learned(skip + index)));
    },
  } as unknown as StoreClient;
  const retention = () => ({ priceDays: 1, learnedDays: 1 }) as Config["store"];
  const kept = new KeptState({
    store,
    log: SILENT_LOG,
    nowMs: () => 0,
    retention,
    exportLearned: () => [],
    exportTimings: () => [],
  });
  const numbers = await kept.loadLearned();
  await kept.stop();
  assert.equal(numbers.length, 131_072);
  assert.equal(new Set(numbers.map(({ node }) => node)).size, numbers.length);
  assert.ok(Math.max(...asked) <= 10_000, "what the heap of the store's thread holds");
});

test("a large fleet is saved in messages that stall nobody, and again as a whole when one fails", async () => {
  const saved: (readonly LearnedNumber[])[] = [];
  let failAt = 2;
  const store = {
    call: (_name: string, args: unknown) => {
      if (saved.length === failAt) return Promise.reject(new Error("full"));
      saved.push((args as { numbers: readonly LearnedNumber[] }).numbers);
      return Promise.resolve(null);
    },
  } as unknown as StoreClient;
  const numbers = Array.from({ length: 10_000 }, (_, index) => learned(index));
  const retention = () => ({ priceDays: 1, learnedDays: 1 }) as Config["store"];
  const kept = new KeptState({
    store,
    log: SILENT_LOG,
    nowMs: () => 0,
    retention,
    exportLearned: () => numbers,
    exportTimings: () => [],
  });
  await kept.save();
  failAt = Number.POSITIVE_INFINITY;
  saved.length = 0;
  await kept.stop();
  assert.deepEqual(saved.flat(), numbers);
  assert.ok(Math.max(...saved.map(({ length }) => length)) <= 2_500);
});

test("what did not change since the last save is not written again", async () => {
  const saved: (readonly LearnedNumber[])[] = [];
  const store = {
    call: (_name: string, args: unknown) => {
      saved.push((args as { numbers: readonly LearnedNumber[] }).numbers);
      return Promise.resolve(null);
    },
  } as unknown as StoreClient;
  let numbers = [learned(1), learned(2)];
  const retention = () => ({ priceDays: 1, learnedDays: 1 }) as Config["store"];
  const kept = new KeptState({
    store,
    log: SILENT_LOG,
    nowMs: () => 0,
    retention,
    exportLearned: () => numbers,
    exportTimings: () => [],
  });
  await kept.save();
  numbers = [learned(1), learned(2), learned(3)];
  await kept.save();
  await kept.stop();
  assert.deepEqual(saved, [[learned(1), learned(2)], [learned(3)]]);
});

test("a price that changes is saved without a look at what was learned", async () => {
  const called: string[] = [];
  const store = {
    call: (name: string) => {
      called.push(name);
      return Promise.resolve(null);
    },
  } as unknown as StoreClient;
  let exports = 0;
  const exportLearned = () => {
    exports += 1;
    return [learned(1)];
  };
  const retention = () => ({ priceDays: 1, learnedDays: 1 }) as Config["store"];
  const kept = new KeptState({
    store,
    log: SILENT_LOG,
    nowMs: () => 0,
    retention,
    exportLearned,
    exportTimings: () => [],
  });
  const price = { key: "k", usdPerGpuHour: 1, observedAtMs: 0, fetchedAtMs: 0, source: "s" };
  for (let time = 0; time < 5; time++) kept.append([price]);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(exports, 0);
  assert.ok(called.length > 0 && called.every((name) => name === "prices.append"));
  await kept.stop();
  assert.equal(exports, 1);
});
