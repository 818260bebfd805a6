import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { requestOf, viewOf } from "../testing/view.ts";
import {
  leastRequest,
  roundRobin,
  sessionAffinity,
  twoChoices,
  uniform,
  weightedLeastRequest,
  weightedLoad,
  weightedRoundRobin,
} from "./classical.ts";
import type { Router, RouterView } from "./router.ts";

const picks = (router: Router, view: RouterView, count: number) =>
  Array.from({ length: count }, () => router.pick(view, requestOf()));
const shares = (router: Router, view: RouterView, count = 3_000) => {
  const counts = new Array<number>(view.rows).fill(0);
  for (const row of picks(router, view, count)) counts[row] = (counts[row] ?? 0) + 1;
  return counts.map((value) => value / count);
};

describe("classical baselines, worked out by hand", () => {
  it("RR goes round the usable nodes in a fixed order", () => {
    const view = viewOf([{}, {}, { isUsable: false }, {}]);
    assert.deepEqual(picks(roundRobin(), view, 5), [0, 1, 3, 0, 1]);
  });

  it("RND takes each usable node as often", () => {
    const [a = 0, b, c = 0] = shares(uniform(), viewOf([{}, { isUsable: false }, {}]));
    assert.equal(b, 0);
    assert.ok(Math.abs(a - c) < 0.06, `${a} ${c}`);
  });

  it("WRR takes nodes as often as their prefill speed says, spread evenly", () => {
    // 100 and 50 µs per token: speeds 1 to 2
    const view = viewOf([{ constants: { usPerPrefillToken: 100 } }, { constants: { usPerPrefillToken: 50 } }]);
    assert.deepEqual(picks(weightedRoundRobin(), view, 6), [1, 0, 1, 1, 0, 1]);
  });

  it("LR takes the fewest in flight, and any of equal ones", () => {
    const router = leastRequest();
    assert.equal(
      router.pick(viewOf([{ inFlight: 3 }, { inFlight: 1 }, { inFlight: 0, isUsable: false }]), requestOf()),
      1,
    );
    const [a = 0, b = 0, c] = shares(router, viewOf([{ inFlight: 2 }, { inFlight: 2 }, { inFlight: 5 }]));
    assert.ok(Math.abs(a - b) < 0.06 && c === 0, `${a} ${b}`);
  });

  it("WLR weighs the load by the empty step: (3 + 1) × 6 is less than (0 + 1) × 25", () => {
    const view = viewOf([
      { inFlight: 3, constants: { baseMs: 6 } },
      { inFlight: 0, constants: { baseMs: 25 } },
    ]);
    assert.equal(weightedLeastRequest().pick(view, requestOf()), 0);
    const full = viewOf([
      { inFlight: 4, constants: { baseMs: 6 } },
      { inFlight: 0, constants: { baseMs: 25 } },
    ]);
    assert.equal(weightedLeastRequest().pick(full, requestOf()), 1);
  });

  it("P2C takes the better of two different nodes: never the worst of all, the best in two of three pairs", () => {
    const view = viewOf([{ inFlight: 1 }, { inFlight: 2 }, { inFlight: 3 }]);
    const [best = 0, middle = 0, worst] = shares(
      twoChoices((of, row) => of.inFlight[row] ?? 0),
      view,
    );
    assert.equal(worst, 0);
    assert.ok(Math.abs(best - 2 / 3) < 0.04 && Math.abs(middle - 1 / 3) < 0.04, `${best} ${middle}`);
    const one = viewOf([{ isUsable: false }, {}]);
    assert.equal(twoChoices(weightedLoad).pick(one, requestOf()), 1);
  });

  it("WP2C scores the two by WLR", () => {
    const view = viewOf([
      { inFlight: 3, constants: { baseMs: 6 } },
      { inFlight: 0, constants: { baseMs: 25 } },
    ]);
    assert.deepEqual(picks(twoChoices(weightedLoad), view, 5), [0, 0, 0, 0, 0]);
  });

  it("SA keeps a session where it is, spreads sessions, and leaves a node that is a quarter above the mean", () => {
    const router = sessionAffinity();
    const view = viewOf([{}, {}, {}, {}]);
    const home = Array.from({ length: 400 }, (_, session) => router.pick(view, requestOf({ session })));
    assert.deepEqual(
      home,
      Array.from({ length: 400 }, (_, session) => router.pick(view, requestOf({ session }))),
    );
    for (let row = 0; row < 4; row++) {
      const count = home.filter((other) => other === row).length;
      assert.ok(count > 50 && count < 180, `${count}`);
    }
    // bound: ⌈1.25 × (40 + 1) ÷ 4⌉ = 13
    const full = (inFlight: number) =>
      viewOf([0, 1, 2, 3].map((row) => ({ inFlight: row === home[0] ? inFlight : (40 - inFlight) / 3 })));
    assert.equal(router.pick(full(12), requestOf({ session: 0 })), home[0]);
    assert.notEqual(router.pick(full(13), requestOf({ session: 0 })), home[0]);
  });

  it("SA without a session is LR", () => {
    assert.equal(sessionAffinity().pick(viewOf([{ inFlight: 2 }, { inFlight: 1 }]), requestOf()), 1);
  });
});
