/**
 * One decision, steps 1–4, in their order: admission → availability → cost → dispatch. The only file that knows it.
 * Reads the fleet table and its arguments; writes the booking and the decision.
 */

import { announceRoom, headsBefore } from "./admission/saturation-queue.ts";
import { type AvailabilityContext, CANDIDATE, exclusionOf, queryAvailability } from "./availability/query.ts";
import { isOnlyCooling, judgeNoNode } from "./availability/saturation.ts";
import { BOOKING_TRIES_MAX } from "./bounds.ts";
import { choose } from "./cost/choose.ts";
import { type Estimator, expectedTokens } from "./cost/estimate.ts";
import { tickOf } from "./deadline.ts";
import type { Decision } from "./decision.ts";
import type { Directory } from "./directory.ts";
import {
  type Booking,
  type BookingVector,
  completeBooking,
  takePlace,
  targetClassOf,
  undoPlace,
} from "./dispatch/booking.ts";
import { takeTrials } from "./dispatch/trial.ts";
import type { FleetTable } from "./fleet-table.ts";
import { depthOf } from "./load.ts";
import type { RouteRequest } from "./route-request.ts";

export { admit } from "./admission/admit.ts";

/** What a worker decides with. */
export interface Decider {
  readonly table: FleetTable;
  readonly worker: number;
  readonly directory: Directory;
  readonly estimator: Estimator;
}

/**
 * Steps 2–4 for an admitted request. Chooses a node and books a place on it in one step, so nothing may be sent before
 * this returns `chosen`, and whoever gets `chosen` must release the booking.
 *
 * @param nowMs engine clock, ms. @param draw seeded number in [0, 1) for the last tie.
 * @param decision filled with the choice and its evidence; valid until the next call with it.
 * @returns the booking, or null: `decision.kind` says `saturated` (a node may take it later) or `exhausted` (every node
 *   left has failed this request). O(rows of the model).
 */
export function decide(
  decider: Decider,
  request: RouteRequest,
  nowMs: number,
  draw: number,
  decision: Decision,
): Booking | null {
  const { table, estimator } = decider;
  const nowTick = tickOf(nowMs);
  decision.directoryVersion = decider.directory.version;
  decision.bookingRaces = 0;
  request.expectedTokens = expectedTokens(table, request);
  for (let tries = 0; ; tries++) {
    begin(decision);
    const heads = headsBefore(table, decider.directory, request.ticket);
    const context = { nowTick, heads, draw, mayTryCooling: false };
    queryAvailability(table, request, context, decision);
    if (decision.candidates.count === 0 && isOnlyCooling(decision)) {
      context.mayTryCooling = true;
      queryAvailability(table, request, context, decision);
    }
    if (!choose(table, request, { estimator, draw }, decision)) {
      judgeNoNode(table, request, nowTick, decision);
      return null;
    }
    const booking = book(decider, request, decision, context, tries);
    if (booking !== null) {
      decision.kind = "chosen";
      decision.dataAgeMs = nowMs - (table.polledAtMs[decision.row] as number);
      return booking;
    }
    decision.bookingRaces += 1;
  }
}

/** Nothing of an earlier decision or try stays. */
function begin(decision: Decision): void {
  decision.row = -1;
  decision.placement = -1;
  decision.position = -1;
  decision.family = -1;
  decision.reason = 0;
  decision.depth = Number.NaN;
  decision.estimateMs = Number.NaN;
  decision.costUsd = Number.NaN;
  decision.trial.node = 0;
  decision.trial.placement = 0;
  decision.trial.endpoint = 0;
  decision.dataAgeMs = Number.NaN;
  decision.retryAfterMs = Number.NaN;
}

/**
 * Takes the chosen place, or returns null when another worker was first: more stands on the node than was decided on
 * (at most `BOOKING_TRIES_MAX` times), the node can no longer take the request, or its trial went to another one.
 */
function book(
  { table, worker }: Decider,
  request: RouteRequest,
  decision: Decision,
  context: AvailabilityContext,
  tries: number,
): Booking | null {
  const { row, placement } = decision;
  const others = depthOf(table, row) - (table.total.inFlight[row] as number);
  const depth = others + takePlace(table, worker, row);
  const isRaced = depth > decision.depth && tries < BOOKING_TRIES_MAX;
  // asked again for this one row, so that a cooldown or drain that began meanwhile is not passed over
  const isOut = exclusionOf(table, request, context, row, placement, depth) !== CANDIDATE;
  if (isRaced || isOut || !takeTrials(table, request, decision, context.nowTick)) {
    undoPlace(table, worker, row);
    announceRoom(table);
    return null;
  }
  decision.depth = depth;
  return completeBooking(table, worker, row, vectorOf(request));
}

/**
 * Books the same node again for a request whose connection carried nothing; not a new decision, so nothing is weighed
 * and the limit is not asked: the place was this request's a moment ago.
 */
export function bookAgain({ table, worker }: Decider, request: RouteRequest, row: number): Booking {
  takePlace(table, worker, row);
  return completeBooking(table, worker, row, vectorOf(request));
}

function vectorOf(request: RouteRequest): BookingVector {
  return {
    promptTokens: request.promptTokens,
    kvTokens: request.promptTokens + request.expectedTokens,
    targetClass: targetClassOf(request.policy.latencyTargetMs),
  };
}
