import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { answerUsd, Spending } from "./money.ts";

const close = (a: number, b: number) => assert.ok(Math.abs(a - b) <= 1e-9 * Math.abs(b), `${a} is not ${b}`);

test("an answer costs the price times the hours of the node that its tokens take", () => {
  // 3,600 tokens at 1,000 a second are 3.6 s, a thousandth of an hour
  close(answerUsd(3600, { usdPerHour: 2, tokensPerSecond: 1000, speedUp: 1 }), 0.002);
});

test("a node that is faster than a real one by some factor gives dollars of the real one", () => {
  const real = answerUsd(500, { usdPerHour: 2.99, tokensPerSecond: 800, speedUp: 1 });
  close(answerUsd(500, { usdPerHour: 2.99, tokensPerSecond: 8000, speedUp: 10 }), real);
});

test("an answer of unknown price or capacity has an unknown cost and changes no mean", () => {
  assert.ok(Number.isNaN(answerUsd(1, { usdPerHour: Number.NaN, tokensPerSecond: 1000, speedUp: 1 })));
  assert.ok(Number.isNaN(answerUsd(1, { usdPerHour: 1, tokensPerSecond: Number.NaN, speedUp: 1 })));
  assert.ok(Number.isNaN(answerUsd(1, { usdPerHour: 1, tokensPerSecond: 0, speedUp: 1 })));
  const spending = new Spending();
  assert.ok(Number.isNaN(spending.usdPerMillionTokens));
  spending.add(0.001, 1000);
  spending.add(Number.NaN, 1e9);
  close(spending.usdPerMillionTokens, 1);
});

test("dollars per million tokens lie between those of the dearest and the cheapest answer", () => {
  const answers = fc.array(fc.tuple(fc.double({ min: 1e-6, max: 1, noNaN: true }), fc.integer({ min: 1, max: 1000 })), {
    minLength: 1,
  });
  fc.assert(
    fc.property(answers, (list) => {
      const spending = new Spending();
      for (const [usd, tokens] of list) spending.add(usd, tokens);
      const each = list.map(([usd, tokens]) => (usd / tokens) * 1e6);
      const mean = spending.usdPerMillionTokens;
      assert.ok(mean >= Math.min(...each) * 0.999999 && mean <= Math.max(...each) * 1.000001);
    }),
  );
});
