import assert from "node:assert/strict";
import { test } from "node:test";
import { tickOf } from "../deadline.ts";
import { passTrials } from "../dispatch/trial.ts";
import type { FleetTable } from "../fleet-table.ts";
import { buildFleet } from "../testing/fleet.ts";
import { startCooldown } from "./cooldown.ts";

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
  for (let step = 1; step <= 5; step++) {
    // the first cooldown is over, and a trial runs
    const { table } = buildFleet({ nodes: [{ family: "A", cooldownUntilMs: 1_600 }] });
    const trial = { node: 1, placement: 0, endpoint: 0 };
    const failure = { nowMs: FAILED_MS, nowTick: tickOf(FAILED_MS), sentAtTick: tickOf(2_400), isSuspect: false };
    afterWrites(
      step,
      () => passTrials(table, PLACE, { trial, sentAtTick: tickOf(TRIAL_SENT_MS) }),
      () => startCooldown(table, 0, failure),
    );
    assert.equal(coolsAt(table, FAILED_MS), true, `after write ${step}`);
    assert.equal(table.failedAtPoll[0], 2, `after write ${step}`);
  }
});
