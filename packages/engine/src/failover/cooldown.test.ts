import assert from "node:assert/strict";
import { test } from "node:test";
import { msOfTick, tickOf } from "../deadline.ts";
import { passTrials } from "../dispatch/trial.ts";
import type { FleetTable } from "../fleet-table.ts";
import { buildFleet } from "../testing/fleet.ts";
import { backOff, clearCooldown, coolDownNow, startCooldown } from "./cooldown.ts";

const TRIAL_SENT_MS = 1_600;
const FAILED_MS = 3_200;
const PLACE = { row: 0, placement: 0, endpoint: 0 };

/** Calls back once `count` Atomics operations that write have been made: the other thread runs right then. */
function afterWrites(count: number, other: () => void, run: () => void): void {
  const { store, compareExchange } = Atomics;
  let left = count;
  const wrote = <T>(result: T): T => {
    left -= 1;
    if (left === 0) other();
    return result;
  };
  const patched = Atomics as { store: unknown; compareExchange: unknown };
  patched.store = (...args: Parameters<typeof store>) => wrote(store(...args));
  patched.compareExchange = (...args: Parameters<typeof compareExchange>) => wrote(compareExchange(...args));
  try {
    run();
  } finally {
    Object.assign(Atomics, { store, compareExchange });
  }
}

function coolsAt(table: FleetTable, nowMs: number): boolean {
  return (table.cooldownUntil[0] ?? 0) > tickOf(nowMs);
}

test("a trial that passes in the middle of a new failure, at any step of it, never erases the new cooldown", () => {
  for (let step = 1; step <= 6; step++) {
    // the first cooldown is over, and a trial runs
    const { table } = buildFleet({ nodes: [{ family: "A", cooldownUntilMs: 1_600 }] });
    const trial = { node: 1, placement: 0, endpoint: 0 };
    const failure = {
      nowMs: FAILED_MS,
      nowTick: tickOf(FAILED_MS),
      sentAtTick: tickOf(2_400),
      isSuspect: false,
      isNodes: false,
    };
    afterWrites(
      step,
      () => passTrials(table, PLACE, { trial, sentAtTick: tickOf(TRIAL_SENT_MS) }),
      () => startCooldown(table, 0, failure),
    );
    assert.equal(coolsAt(table, FAILED_MS), true, `after write ${step}`);
    assert.equal(table.failedAtPoll[0], 2, `after write ${step}`);
  }
});

/** A node whose every trial fails: ends of its cooldowns, ms after each failure. */
function cooldownsOf(maxMs: number, failures: number, isSuspect = false): number[] {
  const { table } = buildFleet({ nodes: [{ family: "A" }] });
  table.cooldownMs[0] = 30_000;
  table.cooldownMaxMs[0] = maxMs;
  let nowMs = 1_000;
  return Array.from({ length: failures }, () => {
    startCooldown(table, 0, {
      nowMs,
      nowTick: tickOf(nowMs),
      sentAtTick: tickOf(nowMs - 1),
      isSuspect,
      isNodes: false,
    });
    const lengthMs = msOfTick(table.cooldownUntil[0] as number) - nowMs;
    nowMs += lengthMs + 10_000;
    return Math.round(lengthMs / 1_000) * 1_000;
  });
}

test("each further failure doubles the cooldown up to its maximum", () => {
  assert.deepEqual(cooldownsOf(300_000, 7), [30_000, 60_000, 120_000, 240_000, 300_000, 300_000, 300_000]);
});

test("a maximum at or below the cooldown keeps it as it is", () => {
  assert.deepEqual(cooldownsOf(30_000, 3), [30_000, 30_000, 30_000]);
  assert.deepEqual(cooldownsOf(1, 3), [30_000, 30_000, 30_000]);
});

test("failures that may be the request's own lengthen no cooldown", () => {
  assert.deepEqual(cooldownsOf(300_000, 3, true), [30_000, 30_000, 30_000]);
});

test("a trial that passes makes the next cooldown a first one", () => {
  const { table } = buildFleet({ nodes: [{ family: "A" }] });
  table.cooldownMs[0] = 30_000;
  table.cooldownMaxMs[0] = 300_000;
  const fail = (nowMs: number) =>
    startCooldown(table, 0, {
      nowMs,
      nowTick: tickOf(nowMs),
      sentAtTick: tickOf(nowMs - 1),
      isSuspect: false,
      isNodes: false,
    });
  fail(1_000);
  fail(40_000);
  assert.equal(table.failuresInRow[0], 2);
  const trial = { node: 1, placement: 0, endpoint: 0 };
  passTrials(table, PLACE, { trial, sentAtTick: tickOf(120_000) });
  assert.equal(table.cooldownUntil[0], 0);
  fail(200_000);
  assert.equal(Math.round((msOfTick(table.cooldownUntil[0] as number) - 200_000) / 1_000), 30);
});

test("no good poll shortens the cooldown of a node whose own words say that it is the node", () => {
  const { table } = buildFleet({ nodes: [{ family: "A" }] });
  startCooldown(table, 0, { nowMs: 1_000, nowTick: tickOf(1_000), sentAtTick: 0, isSuspect: false, isNodes: true });
  table.goodPolls[0] = 1_000_000;
  assert.ok((table.failedAtPoll[0] as number) > (table.goodPolls[0] as number));
});

test("an early trial that fails waits for another good poll, also where it makes the cooldown no longer", () => {
  const { table } = buildFleet({ nodes: [{ family: "A" }] });
  table.cooldownMs[0] = 30_000;
  table.cooldownMaxMs[0] = 300_000;
  const fail = (nowMs: number, isSuspect: boolean) =>
    startCooldown(table, 0, {
      nowMs,
      nowTick: tickOf(nowMs),
      sentAtTick: tickOf(nowMs - 1),
      isSuspect,
      isNodes: false,
    });
  fail(1_000, false);
  fail(40_000, false);
  fail(120_000, false);
  const until = table.cooldownUntil[0];
  table.goodPolls[0] = 50;
  fail(130_000, true);
  assert.equal(table.cooldownUntil[0], until, "it never ends earlier");
  assert.equal(table.failedAtPoll[0], 51);
});

test("an operator's cooldown only makes a cooldown longer, counts as no failure, and no good poll ends it early", () => {
  const { table } = buildFleet({ nodes: [{ family: "A" }] });
  const start = (nowMs: number, lengthMs: number) => coolDownNow(table, 0, { nowMs, nowTick: tickOf(nowMs), lengthMs });
  assert.equal(start(1_600, 60_000), true);
  assert.equal(coolsAt(table, 61_000), true);
  assert.equal(start(1_700, 1_000), false, "a shorter one");
  assert.equal(coolsAt(table, 61_000), true);
  assert.equal(table.failuresInRow[0], 0);
  assert.ok((table.failedAtPoll[0] ?? 0) > 1_000_000, "later than every poll");
  // an attempt that was sent before neither extends nor ends it
  const failure = { nowTick: tickOf(1_700), sentAtTick: tickOf(1_000), isSuspect: false, isNodes: false };
  startCooldown(table, 0, { ...failure, nowMs: 70_000 });
  assert.equal(coolsAt(table, 62_000), false);
});

test("a cleared cooldown is gone with its lease, its back-off and its count, and the next failure starts a new one", () => {
  const { table } = buildFleet({ nodes: [{ family: "A" }] });
  const failure = { nowMs: 1_600, nowTick: tickOf(1_600), sentAtTick: tickOf(800), isSuspect: false, isNodes: true };
  startCooldown(table, 0, failure);
  backOff(table, 0, { nowMs: 1_600, retryAfterMs: 5_000 });
  backOff(table, 0, { nowMs: 1_600, retryAfterMs: 0 });
  table.trialUntil[0] = tickOf(9_000);
  clearCooldown(table, 0);
  for (const name of ["cooldownUntil", "backoffUntil", "trialUntil", "overloadedAtPoll", "failuresInRow"] as const) {
    assert.equal(table[name][0], 0, name);
  }
  startCooldown(table, 0, { ...failure, nowMs: 3_200, nowTick: tickOf(3_200), sentAtTick: tickOf(2_400) });
  assert.equal(coolsAt(table, 3_200), true);
  assert.equal(table.failuresInRow[0], 1);
});
