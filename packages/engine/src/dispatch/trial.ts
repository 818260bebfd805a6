/**
 * Trials: after a cooldown (or the like of it for a model or an endpoint on a node) exactly one request goes there and
 * decides, at its commit point, whether traffic returns. The right to be that request is a lease with a deadline, so
 * that a trial that ends in no verdict, or with its thread, blocks nobody.
 */

import { TICK_MS } from "../bounds.ts";
import { takeLease } from "../deadline.ts";
import type { TrialLeases } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { ENDPOINTS } from "../reasons.ts";

/** What trial leases hang on. */
export interface TrialPlace {
  row: number;
  placement: number;
  /** Index into `ENDPOINTS`. */
  endpoint: number;
}

/** Takes every trial lease that an attempt at a place needs; false, with none taken, if one is held. */
export function takeTrials(table: FleetTable, place: TrialPlace, trial: TrialLeases, nowTick: number): boolean {
  const { row, placement } = place;
  const untilTick = nowTick + Math.max(1, Math.ceil((table.cooldownMs[row] as number) / TICK_MS));
  const lease = { nowTick, untilTick };
  trial.node = 0;
  trial.placement = 0;
  trial.endpoint = 0;
  if (Atomics.load(table.cooldownUntil, row) !== 0) {
    if (!takeLease(table.trialUntil, row, lease)) return false;
    trial.node = untilTick;
  }
  if (Atomics.load(table.misconfiguredUntil, placement) !== 0) {
    if (!takeLease(table.misconfiguredUntil, placement, lease)) return giveUp(table, place, trial);
    trial.placement = untilTick;
  }
  const cell = row * ENDPOINTS.length + place.endpoint;
  if (Atomics.load(table.endpointUntil, cell) !== 0) {
    if (!takeLease(table.endpointUntil, cell, lease)) return giveUp(table, place, trial);
    trial.endpoint = untilTick;
  }
  return true;
}

function giveUp(table: FleetTable, place: TrialPlace, trial: TrialLeases): false {
  returnTrials(table, place, trial);
  return false;
}

/** Hands leases back without a verdict: the next request may be the trial. */
export function returnTrials(table: FleetTable, place: TrialPlace, trial: TrialLeases): void {
  if (trial.node !== 0) Atomics.compareExchange(table.trialUntil, place.row, trial.node, 0);
  if (trial.placement !== 0)
    Atomics.compareExchange(table.misconfiguredUntil, place.placement, trial.placement, EXPIRED);
  if (trial.endpoint !== 0) {
    const cell = place.row * ENDPOINTS.length + place.endpoint;
    Atomics.compareExchange(table.endpointUntil, cell, trial.endpoint, EXPIRED);
  }
  trial.node = 0;
  trial.placement = 0;
  trial.endpoint = 0;
}

/** A deadline that is past and still asks for a trial. */
const EXPIRED = 1;

/**
 * The trial succeeded: traffic returns. Returns whether that ended the node's cooldown. A cooldown that began after the trial was sent, or in its tick, stays.
 */
export function passTrials(
  table: FleetTable,
  place: TrialPlace,
  attempt: { trial: TrialLeases; sentAtTick: number },
): boolean {
  const { trial } = attempt;
  let isBack = false;
  if (trial.node !== 0) {
    // the end first, as a cooldown writes it last; what else it wrote is read only while there is an end, so it can stay
    const until = Atomics.load(table.cooldownUntil, place.row);
    const isNewer = Atomics.load(table.cooldownFrom, place.row) >= attempt.sentAtTick;
    if (!isNewer && Atomics.compareExchange(table.cooldownUntil, place.row, until, 0) === until) {
      Atomics.store(table.failuresInRow, place.row, 0);
      isBack = true;
    }
  }
  if (trial.placement !== 0) Atomics.compareExchange(table.misconfiguredUntil, place.placement, trial.placement, 0);
  if (trial.endpoint !== 0) {
    const cell = place.row * ENDPOINTS.length + place.endpoint;
    Atomics.compareExchange(table.endpointUntil, cell, trial.endpoint, 0);
  }
  returnTrials(table, place, trial);
  return isBack;
}
