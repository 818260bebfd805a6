/**
 * One decision, steps 1–4, in their order: admission → availability → cost → dispatch. The only file that knows it.
 * Reads the fleet table and its arguments; writes the booking and the decision.
 */

import { announceRoom, headsBefore, parkedFor } from "./admission/saturation-queue.ts";
import { assert } from "./assert.ts";
import {
  type AvailabilityContext,
  CANDIDATE,
  exclusionOf,
  largestContext,
  queryAvailability,
} from "./availability/query.ts";
import { isAnyTooSmall, isOnlyCooling, judgeNoNode } from "./availability/saturation.ts";
import { slowStartShare } from "./availability/slow-start.ts";
import { findWarmNodes } from "./availability/warm-nodes.ts";
import { BOOKING_RACES_MAX, BOOKING_TRIES_MAX } from "./bounds.ts";
import { choose } from "./cost/choose.ts";
import { type Estimator, expectedTokens, promiseOf, promptTokensOf } from "./cost/estimate.ts";
import { tickOf } from "./deadline.ts";
import type { Decision, TrialLeases } from "./decision.ts";
import { type Directory, presentModel } from "./directory.ts";
import { type Booking, type BookingVector, completeBooking, takePlace, undoPlace } from "./dispatch/booking.ts";
import { notePrompt } from "./dispatch/note-prompt.ts";
import { type TrialPlace, takeTrials } from "./dispatch/trial.ts";
import type { FleetTable } from "./fleet-table.ts";
import { depthWith } from "./load.ts";
import type { PrefixTable, WarmNodes } from "./prefix-table.ts";
import type { RouteRequest } from "./route-request.ts";

export { admit } from "./admission/admit.ts";

/** What a worker decides with. */
export interface Decider {
  readonly table: FleetTable;
  readonly worker: number;
  readonly directory: Directory;
  readonly estimator: Estimator;
  /** What was sent where; null: nobody asks which node is warm. */
  readonly prefixes: PrefixTable | null;
  /** Called where availability ends and cost begins, for whoever has a clock. */
  readonly onCandidates?: (() => void) | null;
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
  request.model = presentModel(decider.directory, request.model);
  request.expectedTokens = expectedTokens(table, request);
  const startShareOf = (row: number): number => slowStartShare(table, row, nowTick);
  for (let tries = 0; ; tries++) {
    begin(decision);
    const heads = headsBefore(table, decider.directory, request.ticket);
    const context = { nowTick, heads, draw, mayTryCooling: false, contextFloor: request.contextLikely };
    queryAvailability(table, request, context, decision);
    if (decision.candidates.count === 0 && isOnlyCooling(table, request, decision)) {
      context.mayTryCooling = true;
      queryAvailability(table, request, context, decision);
    }
    if (decision.candidates.count === 0 && isAnyTooSmall(decision)) {
      // its size is a rough estimate: the largest node that is there gets the request, and says what it makes of it
      context.contextFloor = largestContext(table, request, context);
      if (context.contextFloor > 0) queryAvailability(table, request, context, decision);
    }
    decider.onCandidates?.();
    const warm = warmNodes(decider, request, nowTick);
    if (!choose(table, request, { estimator, draw, startShareOf, warm }, decision)) {
      judgeNoNode(table, request, { nowTick, parked: parkedFor(table, request.model) }, decision);
      return null;
    }
    const booking = book(decider, request, decision, { context, tries, nowMs });
    if (booking !== null) {
      decision.kind = "chosen";
      decision.dataAgeMs = nowMs - (table.polledAtMs[decision.row] as number);
      return booking;
    }
    decision.bookingRaces += 1;
    // each lost race means that another worker won a place; so many in a row mean that something disagrees with itself
    assert(decision.bookingRaces < BOOKING_RACES_MAX, "a decision ends");
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
  decision.promptTokens = Number.NaN;
  decision.warmTokens = 0;
  decision.cachedTokens = 0;
  decision.firstMs = Number.NaN;
  decision.tokenMs = Number.NaN;
  decision.promisedTokenMs = Number.NaN;
  decision.chance = Number.NaN;
  decision.trial.node = 0;
  decision.trial.placement = 0;
  decision.trial.endpoint = 0;
  decision.dataAgeMs = Number.NaN;
  decision.retryAfterMs = Number.NaN;
  decision.lacking = -1;
}

/**
 * Takes the chosen place, or returns null when another worker was first: more stands on the node than was decided on
 * (at most `BOOKING_TRIES_MAX` times), the node can no longer take the request, or its trial went to another one.
 */
function book(
  decider: Decider,
  request: RouteRequest,
  decision: Decision,
  { context, tries, nowMs }: { context: AvailabilityContext; tries: number; nowMs: number },
): Booking | null {
  const { table, worker } = decider;
  const { row, placement } = decision;
  const place = { row, placement, endpoint: request.endpoint };
  const depthMax = tries < BOOKING_TRIES_MAX ? decision.depth : Number.POSITIVE_INFINITY;
  const depth = takeCheckedPlace(decider, request, place, { context, depthMax, trial: decision.trial });
  if (depth === null) return null;
  decision.depth = depth;
  const { firstMs, tokenMs, promisedTokenMs, warmTokens, cachedTokens } = decision;
  const tokenTargetMs = Number.isNaN(tokenMs) ? promiseOf(request) : promisedTokenMs;
  const vector = vectorOf(table, request, { tokenTargetMs, cachedTokens });
  if (decider.prefixes !== null) notePrompt(decider.prefixes, table, request, { row, nowTick: context.nowTick });
  return completeBooking(table, worker, row, vector, {
    nowMs,
    depth,
    warmTokens,
    firstMs,
    tokenMs,
    outputTokens: request.expectedTokens,
  });
}

/**
 * Books the same node again for a request whose connection carried nothing. No new decision, so nothing is weighed and
 * no parked request comes first: the place was this request's a moment ago. But a node that has left service or filled
 * up since is not booked, and what was a trial is one again.
 *
 * @param trial the attempt's leases, which `settle` handed back; filled again.
 * @returns null when the node no longer takes the request: decide anew. O(1).
 */
export function bookAgain(
  decider: Decider,
  request: RouteRequest,
  { row, placement }: { row: number; placement: number },
  trial: TrialLeases,
  nowMs: number,
): Booking | null {
  const place = { row, placement, endpoint: request.endpoint };
  const context = { nowTick: tickOf(nowMs), heads: [], draw: 0, mayTryCooling: false, contextFloor: 0 };
  const depth = takeCheckedPlace(decider, request, place, { context, depthMax: Number.POSITIVE_INFINITY, trial });
  if (depth === null) return null;
  const vector = vectorOf(decider.table, request, { tokenTargetMs: promiseOf(request), cachedTokens: 0 });
  return completeBooking(decider.table, decider.worker, row, vector, {
    nowMs,
    depth,
    warmTokens: 0,
    firstMs: Number.NaN,
    tokenMs: Number.NaN,
    outputTokens: request.expectedTokens,
  });
}

/**
 * Takes a place and the trial leases that it needs. Asks once more about this one row, so that a cooldown or drain that
 * began since the node was found is not passed over.
 *
 * @returns depth before this request; null, with nothing taken, when the node does not take it or is deeper than allowed.
 */
function takeCheckedPlace(
  { table, worker }: Decider,
  request: RouteRequest,
  place: TrialPlace,
  { context, depthMax, trial }: { context: AvailabilityContext; depthMax: number; trial: TrialLeases },
): number | null {
  const { row, placement } = place;
  const depth = depthWith(table, row, takePlace(table, worker, row));
  const isOut = exclusionOf(table, request, context, row, placement, depth) !== CANDIDATE;
  if (depth <= depthMax && !isOut && takeTrials(table, place, trial, context.nowTick)) return depth;
  undoPlace(table, worker, row);
  announceRoom(table);
  return null;
}

/** The nodes that hold a beginning of the prompt; null: none does, or the policy's estimates do not ask. */
function warmNodes({ prefixes, table }: Decider, request: RouteRequest, nowTick: number): WarmNodes | null {
  if (prefixes === null || request.marks === null || request.policy.estimator !== "predictive") return null;
  return findWarmNodes(prefixes, table, request, { promptTokens: promptTokensOf(table, request), nowTick });
}

function vectorOf(
  table: FleetTable,
  request: RouteRequest,
  { tokenTargetMs, cachedTokens }: { tokenTargetMs: number; cachedTokens: number },
): BookingVector {
  const promptTokens = promptTokensOf(table, request);
  return {
    promptTokens,
    freshTokens: promptTokens - cachedTokens,
    kvTokens: promptTokens + request.expectedTokens,
    tokenTargetMs,
    isStream: request.isStream,
  };
}
