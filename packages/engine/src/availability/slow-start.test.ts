import assert from "node:assert/strict";
import { test } from "node:test";
import { TICK_MS } from "../bounds.ts";
import { tickOf } from "../deadline.ts";
import { decide } from "../decide.ts";
import { createDecision } from "../decision.ts";
import { createRetryBudget } from "../failover/retry-budget.ts";
import { settle } from "../settle.ts";
import { attemptOf, buildFleet, type Fleet } from "../testing/fleet.ts";
import { beginSlowStart, slowStartShare } from "./slow-start.ts";

const LENGTH_MS = 16_000;
const NOW_MS = 160_000;

/** Rows of the next `count` requests, none of which ends. */
function send(fleet: Fleet, nowMs: number, count: number): number[] {
  const decision = createDecision();
  return Array.from({ length: count }, () => {
    const booking = decide(fleet.decider(), fleet.request(), nowMs, 0, decision);
    assert.ok(booking !== null, "a slow start is the cause of no refusal");
    return booking.row;
  });
}

const pair = () =>
  buildFleet({
    nodes: [
      { family: "A", slowStartMs: LENGTH_MS },
      { family: "A", slowStartMs: LENGTH_MS },
    ],
  });

test("the share grows in tenths from the first to the whole, and stays", () => {
  const { table } = pair();
  assert.equal(slowStartShare(table, 0, tickOf(NOW_MS)), 1, "none has begun");
  beginSlowStart(table, 0, NOW_MS);
  const shares = Array.from({ length: 12 }, (_, step) =>
    slowStartShare(table, 0, tickOf(NOW_MS + (step * LENGTH_MS) / 10 + TICK_MS)),
  );
  assert.deepEqual(shares, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1]);
});

test("of 110 requests that a node shares with a warm one it holds its share, whatever the moment", () => {
  for (const [step, share] of [
    [0, 0.1],
    [4, 0.5],
    [9, 1],
  ] as const) {
    const fleet = pair();
    beginSlowStart(fleet.table, 1, NOW_MS);
    const rows = send(fleet, NOW_MS + (step * LENGTH_MS) / 10 + TICK_MS, 110);
    const expected = (110 * share) / (1 + share);
    const mine = rows.filter((row) => row === 1).length;
    assert.ok(Math.abs(mine - expected) <= 1, `${mine} of ${expected} at ${share}`);
  }
});

test("a lone node, and one beside full nodes, takes whatever comes", () => {
  const lone = buildFleet({ nodes: [{ family: "A", slowStartMs: LENGTH_MS, maxInFlight: 50 }] });
  beginSlowStart(lone.table, 0, NOW_MS);
  assert.equal(send(lone, NOW_MS, 50).length, 50);
  const beside = buildFleet({
    nodes: [
      { family: "A", inFlight: 5, maxInFlight: 5 },
      { family: "A", slowStartMs: LENGTH_MS, maxInFlight: 50 },
    ],
  });
  beginSlowStart(beside.table, 1, NOW_MS);
  assert.deepEqual(send(beside, NOW_MS, 50), Array(50).fill(1));
});

test("nodes that start together share evenly", () => {
  const fleet = pair();
  for (const row of [0, 1]) beginSlowStart(fleet.table, row, NOW_MS + row * TICK_MS);
  const rows = send(fleet, NOW_MS + LENGTH_MS / 2 + 10 * TICK_MS, 100);
  assert.equal(rows.filter((row) => row === 0).length, 50);
});

test("a slow start that is shortened, or turned off, while it runs is never more than the whole or less than a tenth", () => {
  const { table } = pair();
  beginSlowStart(table, 0, NOW_MS);
  for (const lengthMs of [0, 1, 1_000, 3_600_000]) {
    table.slowStartMs[0] = lengthMs;
    for (const atMs of [NOW_MS, NOW_MS + LENGTH_MS / 2, NOW_MS + LENGTH_MS - TICK_MS]) {
      const share = slowStartShare(table, 0, tickOf(atMs));
      assert.ok(share >= 0.1 && share <= 1, `${share} of ${lengthMs} ms`);
    }
  }
});

test("a node whose trial passed starts slowly, at 0 ms all at once, and one that never failed not at all", () => {
  for (const [slowStartMs, share] of [
    [LENGTH_MS, 0.1],
    [0, 1],
  ] as const) {
    const fleet = buildFleet({ nodes: [{ family: "A", slowStartMs, cooldownUntilMs: NOW_MS - 16_000 }] });
    const settler = {
      table: fleet.table,
      worker: 0,
      limits: { maxAttempts: 3, windowMs: 30_000 },
      budget: createRetryBudget(0.2, 1),
    };
    const ask = (nowMs: number) => {
      const decision = createDecision();
      const request = fleet.request();
      const booking = decide(fleet.decider(), request, nowMs, 0, decision);
      assert.ok(booking !== null);
      const attempt = attemptOf(booking, decision, {
        sentAtMs: nowMs,
        endpoint: request.endpoint,
        isFreshConnection: false,
      });
      settle(
        settler,
        request,
        attempt,
        { kind: "answer", status: 200, verdict: null, retryAfterMs: Number.NaN },
        nowMs,
      );
    };
    ask(NOW_MS);
    assert.equal(slowStartShare(fleet.table, 0, tickOf(NOW_MS + TICK_MS)), share);
    const until = fleet.table.warmUntil[0];
    ask(NOW_MS + 800);
    assert.equal(fleet.table.warmUntil[0], until, "an answer that is no trial's changes nothing");
  }
});
