import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Accepted, acceptQuotes } from "./accept-quotes.ts";
import { keyOf, type Quote } from "./quote.ts";

const NOW = 1_000_000;
const RULES = { maxChange: 100, canBeFree: false, fetchedAtMs: NOW, source: "lambda default" };

const quote = (usdPerGpuHour: number, more: Partial<Quote> = {}): Quote => ({
  feed: "f",
  account: "default",
  region: "r",
  instanceType: "t",
  gpus: 8,
  market: "spot",
  usdPerGpuHour,
  observedAtMs: NOW - 5,
  ...more,
});
const KEY = keyOf(quote(1));
const none = () => undefined;
const NOTHING_HELD: ReadonlyMap<string, number> = new Map();

function accept(quotes: readonly Quote[], last?: number, held: Accepted["held"] = NOTHING_HELD, rules = RULES) {
  return acceptQuotes(quotes, rules, () => last, held);
}

test("a price that is no number, negative, 0 on a market or beyond any price is refused, each with its reason", () => {
  const wrong = [Number.NaN, Number.POSITIVE_INFINITY, -0.01, 0, 100_001];
  for (const value of wrong) {
    const { good, problems } = accept([quote(value)]);
    assert.equal(good.size, 0, String(value));
    assert.equal(problems.size, 1, String(value));
  }
  assert.match(accept([quote(-1)]).problems.get(KEY) ?? "", /negative: -1/);
  assert.match(accept([quote(1, { gpus: 0 })]).problems.get(KEY) ?? "", /0 GPUs/);
});

test("an operator's own list may say free", () => {
  const { good } = accept([quote(0)], undefined, NOTHING_HELD, { ...RULES, canBeFree: true });
  assert.equal(good.get(KEY)?.usdPerGpuHour, 0);
});

test("two prices for one key are none, the same price twice is one", () => {
  assert.match(accept([quote(1), quote(2)]).problems.get(KEY) ?? "", /2 different prices/);
  assert.equal(accept([quote(1), quote(1)]).good.size, 1);
});

test("a name that no node could write is refused, and shown cut", () => {
  for (const region of ["a/b", "", " a", "x".repeat(5000), "a\u0007"]) {
    const { good, problems } = accept([quote(1, { region })]);
    assert.equal(good.size, 0);
    const [[shown, text] = ["", ""]] = problems;
    assert.match(text, /no node can name it/);
    assert.ok(shown.length < 80);
  }
});

test("a jump counts when the next answer says it again, up and down", () => {
  for (const [last, jump] of [
    [2, 201],
    [2, 0.019],
  ] as const) {
    const first = accept([quote(jump)], last);
    assert.equal(first.good.size, 0);
    assert.match(first.problems.get(KEY) ?? "", /more than max_change \(100\) times/);
    const second = accept([quote(jump * 1.2)], last, first.held);
    assert.equal(second.good.get(KEY)?.usdPerGpuHour, jump * 1.2);
    assert.equal(second.held.size, 0);
  }
  assert.equal(accept([quote(200)], 2).good.size, 1, "exactly the factor is no jump");
});

test("a source that says something else each time never gets a jump through", () => {
  let held = NOTHING_HELD;
  for (const jump of [1000, 5000, 900, 0.001, 0.009]) {
    const accepted = accept([quote(jump)], 2, held);
    assert.equal(accepted.good.size, 0, String(jump));
    held = accepted.held;
  }
});

test("a jump that an answer in between took back starts anew", () => {
  const first = accept([quote(1000)], 2);
  const between = accept([quote(2.1)], 2, first.held);
  assert.equal(between.good.size, 1);
  assert.equal(accept([quote(1000)], 2.1, between.held).good.size, 0);
});

test("a list that goes from free to a price, and back, is a jump", () => {
  const free = { ...RULES, canBeFree: true };
  assert.equal(accept([quote(2)], 0, NOTHING_HELD, free).good.size, 0);
  const first = accept([quote(0)], 2, NOTHING_HELD, free);
  assert.equal(first.good.size, 0);
  assert.equal(accept([quote(0)], 2, first.held, free).good.size, 1);
});

test("a time of the future, or none, is the time of the fetch", () => {
  for (const observedAtMs of [NOW + 1e9, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.equal(accept([quote(1, { observedAtMs })]).good.get(KEY)?.observedAtMs, NOW);
  }
});

test("whatever an answer holds, what counts is a price between 0 and the limit, and near the last or seen before", () => {
  const value = fc.oneof(fc.double(), fc.double({ min: -10, max: 200_000, noNaN: true }));
  const quotes = fc.array(
    fc.record({ value, gpus: fc.integer({ min: -1, max: 9 }), region: fc.constantFrom("a", "b") }),
  );
  const last = fc.option(fc.double({ min: 0.01, max: 1000, noNaN: true }), { nil: undefined });
  fc.assert(
    fc.property(quotes, last, (rows, before) => {
      const all = rows.map(({ value: usd, gpus, region }) => quote(usd, { gpus, region }));
      const { good, held, problems } = acceptQuotes(all, RULES, () => before, NOTHING_HELD);
      for (const { usdPerGpuHour } of good.values()) {
        assert.ok(usdPerGpuHour > 0 && usdPerGpuHour <= 100_000);
        if (before !== undefined) assert.ok(usdPerGpuHour <= before * 100 && before <= usdPerGpuHour * 100);
      }
      const keys = new Set(all.map(keyOf));
      assert.equal(good.size + problems.size, keys.size, "each key is good or has its reason");
      for (const key of held.keys()) assert.ok(problems.has(key));
    }),
  );
  assert.deepEqual(acceptQuotes([], RULES, none, NOTHING_HELD).good.size, 0);
});
