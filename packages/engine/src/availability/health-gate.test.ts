import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { afterFailedPoll, afterGoodPoll, type FailedPoll, FRESH_GATE, type HealthGate } from "./health-gate.ts";

const UNHEALTHY_AFTER = 2;
const HEALTHY_AFTER = 3;

const failed = (gate: HealthGate, poll: Partial<FailedPoll> = {}) =>
  afterFailedPoll(gate, { startMs: 100, isRefused: false, lastTrafficAtMs: Number.NaN, ...poll }, UNHEALTHY_AFTER);
const good = (gate: HealthGate) => afterGoodPoll(gate, HEALTHY_AFTER);

test("failed polls in a row take a node out, and good ones in a row bring it back", () => {
  const one = failed(FRESH_GATE);
  assert.equal(one.isOut, false);
  const out = failed(one, { startMs: 200 });
  assert.equal(out.isOut, true);
  assert.equal(good(good(out)).isOut, true);
  assert.equal(good(good(good(out))).isOut, false);
});

test("a good poll between failed ones begins their count anew, and a failed one that of good ones", () => {
  assert.equal(failed(good(failed(FRESH_GATE))).isOut, false);
  const out = failed(failed(FRESH_GATE));
  assert.equal(good(failed(good(good(out)))).isOut, true);
});

test("answers that came through since the failures began excuse a poll that failed", () => {
  const one = failed(FRESH_GATE, { startMs: 100, lastTrafficAtMs: 99 });
  assert.equal(one.failedInRow, 1, "traffic before it excuses nothing");
  const excused = failed(one, { startMs: 200, lastTrafficAtMs: 150 });
  assert.deepEqual([excused.isOut, excused.failedInRow], [false, 0]);
  assert.equal(failed(excused, { startMs: 300, lastTrafficAtMs: 150 }).isOut, false, "the run begins anew");
});

test("a refused poll is never excused", () => {
  const one = failed(FRESH_GATE, { isRefused: true, lastTrafficAtMs: 1_000 });
  assert.equal(failed(one, { isRefused: true, lastTrafficAtMs: 1_000 }).isOut, true);
});

test("an excused poll brings no node back that is out", () => {
  const out = failed(failed(FRESH_GATE));
  assert.equal(failed(out, { startMs: 300, lastTrafficAtMs: 400 }).isOut, true);
});

test("whatever the polls were, enough good ones bring a node back and enough refused ones take it out", () => {
  const poll = fc.option(
    fc.record({ startMs: fc.nat(9), isRefused: fc.boolean(), lastTrafficAtMs: fc.oneof(fc.nat(9), fc.constant(NaN)) }),
  );
  fc.assert(
    fc.property(fc.array(poll), fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 }), (polls, down, up) => {
      let gate = FRESH_GATE;
      for (const entry of polls) gate = entry === null ? afterGoodPoll(gate, up) : afterFailedPoll(gate, entry, down);
      let [back, out] = [gate, gate];
      for (let i = 0; i < up; i++) back = afterGoodPoll(back, up);
      const refused = { startMs: 10, isRefused: true, lastTrafficAtMs: 10 };
      for (let i = 0; i < down; i++) out = afterFailedPoll(out, refused, down);
      assert.deepEqual([back.isOut, out.isOut], [false, true]);
    }),
  );
});
