/**
 * The end of an attempt: step 5. Gives the booking back, writes what the outcome says about the node, and returns what
 * follows. Called exactly once for every booking.
 */

import { announceRoom } from "./admission/saturation-queue.ts";
import { beginSlowStart } from "./availability/slow-start.ts";
import { tickOf } from "./deadline.ts";
import type { TrialLeases } from "./decision.ts";
import { type Booking, releaseBooking } from "./dispatch/booking.ts";
import { passTrials, returnTrials, type TrialPlace } from "./dispatch/trial.ts";
import { backOff, blockEndpoint, blockPlacement, startCooldown } from "./failover/cooldown.ts";
import { type FailoverLimits, type Move, nextMove } from "./failover/next-move.ts";
import { type AttemptEnd, classifyEnd, isFailedConnect } from "./failover/outcome.ts";
import type { RetryBudget } from "./failover/retry-budget.ts";
import type { FleetTable } from "./fleet-table.ts";
import type { Outcome } from "./reasons.ts";
import { noteFailedRow, type RouteRequest } from "./route-request.ts";

/** One dispatch of a request to a node. */
export interface Attempt {
  readonly booking: Booking;
  readonly placement: number;
  /** Index into `ENDPOINTS`. */
  readonly endpoint: number;
  /** Leases that make this attempt a trial; handed back by `settle`. */
  readonly trial: TrialLeases;
  /** Time of sending, engine clock ms. */
  readonly sentAtMs: number;
  /** True for the second try on the same node, on a fresh connection. */
  readonly isFreshConnection: boolean;
  /** True once the attempt's verdict has been written (at its commit point, or at its end). */
  isJudged: boolean;
}

/** What `settle` works with. */
export interface Settler {
  readonly table: FleetTable;
  readonly worker: number;
  readonly limits: FailoverLimits;
  readonly budget: RetryBudget;
}

/**
 * The attempt reached its commit point: its answer belongs to the caller, and a trial has passed. `settle` follows when
 * the answer has ended.
 */
export function noteCommit({ table }: Settler, attempt: Attempt, nowMs: number): void {
  if (attempt.isJudged) return;
  notePassed(table, attempt, nowMs);
  announceRoom(table);
}

/** A trial that passed brings its node back, slowly. */
function notePassed(table: FleetTable, attempt: Attempt, nowMs: number): void {
  attempt.isJudged = true;
  const passed = { trial: attempt.trial, sentAtTick: tickOf(attempt.sentAtMs) };
  if (passTrials(table, placeOf(attempt), passed)) beginSlowStart(table, attempt.booking.row, nowMs);
}

/**
 * Ends an attempt.
 *
 * @returns the outcome class and the next move. O(1).
 */
export function settle(
  settler: Settler,
  request: RouteRequest,
  attempt: Attempt,
  end: AttemptEnd,
  nowMs: number,
): { outcome: Outcome; move: Move } {
  const { table, worker, limits, budget } = settler;
  const outcome = outcomeOf(end, attempt);
  judge(table, request, attempt, { outcome, end, nowMs });
  returnTrials(table, placeOf(attempt), attempt.trial);
  releaseBooking(table, worker, attempt.booking, nowMs);
  announceRoom(table);
  if (!isFailedConnect(end) && outcome !== "unsent") request.attempts += 1;
  if (countsAsFailed(outcome)) {
    noteFailedRow(request, attempt.booking.row);
    if (Number.isNaN(request.firstFailureAtMs)) request.firstFailureAtMs = nowMs;
  }
  const context = { nowMs, limits, budget, isFreshConnection: attempt.isFreshConnection };
  return { outcome, move: nextMove(request, end, outcome, context) };
}

function placeOf(attempt: Attempt): TrialPlace {
  return { row: attempt.booking.row, placement: attempt.placement, endpoint: attempt.endpoint };
}

/** A node that carries nothing on a fresh connection either has failed. */
function outcomeOf(end: AttemptEnd, attempt: Attempt): Outcome {
  const outcome = classifyEnd(end);
  return outcome === "unsent" && attempt.isFreshConnection ? "failure" : outcome;
}

function countsAsFailed(outcome: Outcome): boolean {
  switch (outcome) {
    case "failure":
    case "overloaded":
    case "misconfigured":
    case "endpoint_unsupported":
    case "too_large":
      return true;
    default:
      return false;
  }
}

/** Writes what the outcome says about the node. */
function judge(
  table: FleetTable,
  request: RouteRequest,
  attempt: Attempt,
  { outcome, end, nowMs }: { outcome: Outcome; end: AttemptEnd; nowMs: number },
): void {
  const { row } = attempt.booking;
  const isServerError = end.kind === "answer" && end.status >= 500;
  // an adapter has a verdict on an error only where the engine's words say more than its status
  const isNodes = isServerError && end.verdict === "failure";
  switch (outcome) {
    case "failure":
    case "interrupted":
      // the limit is ours, and says nothing about what the node does with other requests
      if (end.kind === "fault" && end.fault === "head_too_large") break;
      if (isServerError) request.serverErrors += 1;
      startCooldown(table, row, {
        nowMs,
        nowTick: tickOf(nowMs),
        sentAtTick: tickOf(attempt.sentAtMs),
        isSuspect: isServerError && !isNodes && request.serverErrors >= 2,
        isNodes,
      });
      break;
    case "overloaded":
      backOff(table, row, { nowMs, retryAfterMs: end.kind === "answer" ? end.retryAfterMs : Number.NaN });
      break;
    case "misconfigured":
      blockPlacement(table, row, attempt.placement, nowMs);
      // the lease is this very deadline: handing it back would lift the block that a refused trial renews
      attempt.trial.placement = 0;
      break;
    case "endpoint_unsupported":
      blockEndpoint(table, row, attempt.endpoint, nowMs);
      attempt.trial.endpoint = 0;
      break;
    case "too_large":
      request.contextAboveTokens = limitThatWasTooSmall(table, attempt);
      break;
    case "success":
      if (!attempt.isJudged) notePassed(table, attempt, nowMs);
      break;
    default:
      break;
  }
}

/** The next node has to take more than this one does; where that is unknown, no node is known to take more. */
function limitThatWasTooSmall(table: FleetTable, attempt: Attempt): number {
  const limit = table.contextTokens[attempt.placement] as number;
  return Number.isNaN(limit) ? Number.POSITIVE_INFINITY : limit;
}
