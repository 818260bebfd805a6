/**
 * The retry budget: re-dispatches as a share of traffic, so that an outage does not multiply load. Two half-windows of
 * five seconds; one worker's share of the process-wide allowance.
 */

const HALF_WINDOW_MS = 5_000;

/** Re-dispatches per second that are always allowed, all workers together. */
const ALWAYS_ALLOWED_PER_SECOND = 10;

/** State of one worker's budget. */
export interface RetryBudget {
  readonly share: number;
  readonly alwaysPerWindow: number;
  windowStartMs: number;
  requests: number;
  requestsBefore: number;
  retries: number;
  retriesBefore: number;
}

/** @param share re-dispatches ÷ requests that are allowed (`failover.retry_budget`). */
export function createRetryBudget(share: number, workers: number): RetryBudget {
  const alwaysPerWindow = Math.ceil((ALWAYS_ALLOWED_PER_SECOND * 2 * HALF_WINDOW_MS) / 1000 / workers);
  return { share, alwaysPerWindow, windowStartMs: 0, requests: 0, requestsBefore: 0, retries: 0, retriesBefore: 0 };
}

function turn(budget: RetryBudget, nowMs: number): void {
  const elapsedMs = nowMs - budget.windowStartMs;
  if (elapsedMs < HALF_WINDOW_MS) return;
  const isAdjacent = elapsedMs < 2 * HALF_WINDOW_MS;
  budget.requestsBefore = isAdjacent ? budget.requests : 0;
  budget.retriesBefore = isAdjacent ? budget.retries : 0;
  budget.requests = 0;
  budget.retries = 0;
  budget.windowStartMs = nowMs;
}

/** Counts a request that came in. */
export function noteRequest(budget: RetryBudget, nowMs: number): void {
  turn(budget, nowMs);
  budget.requests += 1;
}

/** Takes one re-dispatch out of the budget; false: it is used up. */
export function takeRetry(budget: RetryBudget, nowMs: number): boolean {
  turn(budget, nowMs);
  const allowed = Math.max(budget.alwaysPerWindow, budget.share * (budget.requests + budget.requestsBefore));
  if (budget.retries + budget.retriesBefore + 1 > allowed) return false;
  budget.retries += 1;
  return true;
}
