/** Cooldowns: what a failed attempt does to its node. Deadlines only move later. */

import { extend, tickAfter } from "../deadline.ts";
import { type FleetTable, forgetCache } from "../fleet-table.ts";
import { ENDPOINTS } from "../reasons.ts";

/** Doublings of a cooldown: 2^20 times a millisecond is far above what may be configured. */
const DOUBLINGS_MAX = 20;

/** Later than every good poll. */
const NO_POLL_HELPS = 2 ** 31 - 1;

/**
 * Starts (or restarts, after a failed trial) the cooldown of a node. An attempt that was sent before the present
 * cooldown began neither extends nor ends it, and a cooldown is present until a trial has passed. One tick is one
 * moment: what was sent in the tick in which the cooldown began was sent before.
 *
 * Each further one without an answer that passed in between lasts twice as long, up to `cooldownMaxMs`: a trial costs a
 * caller the time that the node takes to fail, up to a whole first-token time-out. A failure that may be the request's
 * own lengthens nothing.
 *
 * @param failure `sentAtTick` when the attempt was sent; `isSuspect` the request failed with a 5xx on another node
 *   before, so the fault may be its own and a good poll is enough for a trial; `isNodes` the node's own words say that it
 *   is the node, whatever its health page says, so that no good poll is enough.
 */
export function startCooldown(
  table: FleetTable,
  row: number,
  failure: { nowMs: number; nowTick: number; sentAtTick: number; isSuspect: boolean; isNodes: boolean },
): void {
  const isPresent = Atomics.load(table.cooldownUntil, row) !== 0;
  if (isPresent && failure.sentAtTick <= Atomics.load(table.cooldownFrom, row)) return;
  const before = Math.min(Atomics.load(table.failuresInRow, row), DOUBLINGS_MAX);
  const grownMs = (table.cooldownMs[row] as number) * 2 ** (failure.isSuspect ? 0 : before);
  const lengthMs = Math.max(table.cooldownMs[row] as number, Math.min(grownMs, table.cooldownMaxMs[row] as number));
  const untilTick = tickAfter(failure.nowMs + lengthMs);
  const failedAtPoll = failure.isNodes ? NO_POLL_HELPS : Atomics.load(table.goodPolls, row) + 1;
  if (untilTick <= Atomics.load(table.cooldownUntil, row)) {
    // an early trial failed: without this each further request would be the next one, good poll or not
    extend(table.failedAtPoll, row, failedAtPoll);
    return;
  }
  // the end is what others act on, so it comes last: who sees it also sees since when and why, and a trial that passes
  // in between finds a start after its own sending, or an end that is no longer the one it read
  extend(table.cooldownFrom, row, failure.nowTick);
  // a node that comes back from this has mostly been started anew
  if (!failure.isSuspect) forgetCache(table, row);
  Atomics.store(table.failedAtPoll, row, failedAtPoll);
  if (!failure.isSuspect) Atomics.store(table.failuresInRow, row, before + 1);
  Atomics.store(table.isSuspectFailure, row, failure.isSuspect ? 1 : 0);
  extend(table.cooldownUntil, row, untilTick);
}

/** Takes an overloaded node out for as long as it asked (at most its cooldown), or ranks it last until its next poll. */
export function backOff(table: FleetTable, row: number, overload: { nowMs: number; retryAfterMs: number }): void {
  if (overload.retryAfterMs > 0) {
    const waitMs = Math.min(overload.retryAfterMs, table.cooldownMs[row] as number);
    extend(table.backoffUntil, row, tickAfter(overload.nowMs + waitMs));
    return;
  }
  Atomics.store(table.overloadedAtPoll, row, Atomics.load(table.goodPolls, row) + 1);
}

/** Takes a node out for one model. */
export function blockPlacement(table: FleetTable, row: number, placement: number, nowMs: number): void {
  extend(table.misconfiguredUntil, placement, tickAfter(nowMs + (table.cooldownMs[row] as number)));
}

/** Takes a node out for one endpoint. */
export function blockEndpoint(table: FleetTable, row: number, endpoint: number, nowMs: number): void {
  const cell = row * ENDPOINTS.length + endpoint;
  extend(table.endpointUntil, cell, tickAfter(nowMs + (table.cooldownMs[row] as number)));
}

/** A poll shows the model served: a refusal by 404 is over. */
export function unblockPlacement(table: FleetTable, placement: number): void {
  Atomics.store(table.misconfiguredUntil, placement, 0);
}

/**
 * An operator takes a node out for a while. As after a failure a cooldown only moves later, and its end brings a trial; no
 * good poll brings that forward, and it counts as no failure.
 *
 * @returns whether it ends later than before.
 */
export function coolDownNow(
  table: FleetTable,
  row: number,
  cooldown: { nowMs: number; nowTick: number; lengthMs: number },
): boolean {
  const untilTick = tickAfter(cooldown.nowMs + cooldown.lengthMs);
  if (untilTick <= Atomics.load(table.cooldownUntil, row)) return false;
  // in the order of `startCooldown`: the end comes last
  extend(table.cooldownFrom, row, cooldown.nowTick);
  Atomics.store(table.failedAtPoll, row, NO_POLL_HELPS);
  Atomics.store(table.isSuspectFailure, row, 0);
  return extend(table.cooldownUntil, row, untilTick);
}

/**
 * An operator vouches for a node: its cooldown, the lease of its trial and a back-off that it asked for end now, and its
 * failures are forgotten. A failure that comes in meanwhile may start a new cooldown, which stays.
 */
export function clearCooldown(table: FleetTable, row: number): void {
  Atomics.store(table.failuresInRow, row, 0);
  Atomics.store(table.overloadedAtPoll, row, 0);
  Atomics.store(table.backoffUntil, row, 0);
  Atomics.store(table.trialUntil, row, 0);
  Atomics.store(table.cooldownUntil, row, 0);
}
