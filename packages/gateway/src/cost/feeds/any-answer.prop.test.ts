/** Whatever an interface answers, a feed gives prices or says in its own words why not. */

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { acceptQuotes } from "../accept-quotes.ts";
import { FeedError } from "../feed-context.ts";
import { type FetchedOnce, fetchOnce } from "../testing/feed-call.ts";
import { type Answer, priceServer } from "../testing/price-server.ts";
import { PROVIDER_CASES, SECRET } from "../testing/provider-cases.ts";

process.env["AWS_ACCESS_KEY_ID"] = "AKIAIOSFODNN7EXAMPLE";
process.env["AWS_SECRET_ACCESS_KEY"] = SECRET;
process.env["AWS_EC2_METADATA_DISABLED"] = "true";

const RUNS = 60;

/** A good answer in which some pieces are cut out, doubled or replaced. */
const damage = fc.array(
  fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.integer({ min: 0, max: 40 }),
    insert: fc.oneof(
      fc.string({ maxLength: 8 }),
      fc.constantFrom("null", "-1", "1e999", "[]", "{}", '"', "<x>", "\u0000", "NaN", ",,", "__proto__", "\n"),
    ),
  }),
  { minLength: 1, maxLength: 3 },
);

function damaged(text: string, pieces: readonly { at: number; length: number; insert: string }[]): string {
  let out = text;
  for (const { at, length, insert } of pieces) {
    const start = Math.floor(at * out.length);
    out = out.slice(0, start) + insert + out.slice(start + length);
  }
  return out;
}

for (const one of PROVIDER_CASES) {
  test(`${one.provider}: a damaged answer gives prices that can count, or an error of the feed`, async (t) => {
    const asked = { method: "GET", url: new URL("http://prices.test/"), headers: {}, body: "" };
    const good = one.answer(2, asked);
    assert.ok(typeof good !== "function");
    let answer: Answer = good;
    const server = await priceServer(t, () => answer);
    await fc.assert(
      fc.asyncProperty(damage, async (pieces) => {
        answer = { ...good, body: damaged(String(good.body), pieces) };
        let fetched: FetchedOnce;
        try {
          fetched = await fetchOnce(one.provider, one.yaml(server.url));
        } catch (error) {
          assert.ok(error instanceof FeedError, String(error));
          assert.ok(!error.message.includes(SECRET));
          return;
        }
        const rules = { maxChange: 100, canBeFree: one.canBeFree, fetchedAtMs: Date.now(), source: "" };
        for (const { usdPerGpuHour } of acceptQuotes(fetched.quotes, rules, () => undefined, new Map()).good.values()) {
          assert.ok(usdPerGpuHour >= 0 && usdPerGpuHour <= 100_000);
        }
      }),
      { numRuns: RUNS },
    );
  });
}
