import assert from "node:assert/strict";
import { test } from "node:test";
import { PRICE_CHANGES_MAX, priceHistory } from "./price-history-report.ts";

const DAY_MS = 86_400_000;

function point(atMs: number, usdPerGpuHour = 1) {
  return { key: "k", usdPerGpuHour, observedAtMs: atMs, fetchedAtMs: atMs, source: "" };
}

test("price history: a month of changes each minute is bounded, and the newest are told", async () => {
  const month = Array.from({ length: 30 * 24 * 60 }, (_, minute) => point(minute * 60_000, minute));
  const kept = {
    priceHistory: async (_key: string, sinceMs: number, limit: number) =>
      month.filter(({ observedAtMs }) => observedAtMs >= sinceMs).slice(-limit),
  };
  const json = await priceHistory({ key: "k", sinceMs: 0 }, { book: { changesOf: () => [] }, kept });
  assert.equal(json.at_ms.length, PRICE_CHANGES_MAX);
  assert.equal(json.usd_per_gpu_hour.at(-1), month.length - 1);
  assert.deepEqual([json.is_cut, json.is_kept], [true, true]);
  assert.ok(JSON.stringify(json).length < 150_000);
});

test("price history: without a store, or with one that can't tell, what is remembered is told", async () => {
  const book = { changesOf: () => [point(DAY_MS), point(3 * DAY_MS, 2)] };
  for (const kept of [null, { priceHistory: async () => null }]) {
    const json = await priceHistory({ key: "k", sinceMs: 2 * DAY_MS }, { book, kept });
    assert.deepEqual([json.at_ms, json.usd_per_gpu_hour], [[3 * DAY_MS], [2]]);
    assert.deepEqual([json.is_cut, json.is_kept], [false, false]);
  }
});
