/** Step 5: what follows after an attempt ended. */

import { FAILED_NODES_MAX } from "../bounds.ts";
import type { NoNodeReason, Outcome } from "../reasons.ts";
import type { RouteRequest } from "../route-request.ts";
import { type AttemptEnd, isFailedConnect } from "./outcome.ts";
import { type RetryBudget, takeRetry } from "./retry-budget.ts";

/** Limits of re-dispatch (`failover` in the configuration). */
export interface FailoverLimits {
  maxAttempts: number;
  /** Re-dispatches start at most this long after the request's first failure, ms. */
  windowMs: number;
}

/** What the gateway does next. */
export type Move =
  /** The answer is the caller's. */
  | { kind: "deliver" }
  /** Decide again, from step 2. */
  | { kind: "redispatch" }
  /** The same node once more, on a fresh connection: the last one carried nothing. */
  | { kind: "retry_connection" }
  /** Nothing more is tried: the last answer as it is, or an error. */
  | { kind: "give_up"; reason: NoNodeReason }
  /** Nobody is left to answer. */
  | { kind: "abandon" };

/**
 * The next move after an outcome. `settle` has already noted the failure in the request.
 *
 * @param attempt `isFreshConnection`: this attempt was already the second one on a fresh connection.
 */
export function nextMove(
  request: RouteRequest,
  end: AttemptEnd,
  outcome: Outcome,
  context: { nowMs: number; limits: FailoverLimits; budget: RetryBudget; isFreshConnection: boolean },
): Move {
  switch (outcome) {
    case "success":
    case "caller_error":
    case "interrupted":
      return { kind: "deliver" };
    case "cancelled":
      return { kind: "abandon" };
    case "unsent":
      if (!context.isFreshConnection) return { kind: "retry_connection" };
      break;
    default:
      break;
  }
  const isWindowOver = context.nowMs - request.firstFailureAtMs > context.limits.windowMs;
  if (isWindowOver) return { kind: "give_up", reason: "window_exhausted" };
  if (request.attempts >= context.limits.maxAttempts) return { kind: "give_up", reason: "attempts_exhausted" };
  if (request.failedCount >= FAILED_NODES_MAX) return { kind: "give_up", reason: "nodes_exhausted" };
  if (isFailedConnect(end)) return { kind: "redispatch" };
  if (outcome === "failure" && request.freeRetries === 0) {
    request.freeRetries += 1;
    return { kind: "redispatch" };
  }
  if (takeRetry(context.budget, context.nowMs)) return { kind: "redispatch" };
  return { kind: "give_up", reason: "retry_budget_exhausted" };
}
