/** Which requests wait for room, and which of those that wait have the same nodes to choose from. */

import type { Decision } from "../decision.ts";
import type { RouteRequest } from "../route-request.ts";

/**
 * Whether the policy lets a request that got no node wait for room, and there may be some.
 *
 * @param waitedMs what it has waited before, ms.
 */
export function mayPark({ policy, model }: RouteRequest, decision: Decision, waitedMs: number): boolean {
  const isWorthWaiting = policy.queueOnSaturation && decision.kind === "saturated" && model.rows.length > 0;
  return isWorthWaiting && waitedMs < policy.maxQueueMs;
}

/** True while nothing but model, policy and endpoint says which nodes the request can use. */
export function isPlain({ failedCount, contextAboveTokens, hasImages, contextAtLeast }: RouteRequest): boolean {
  return failedCount === 0 && Number.isNaN(contextAboveTokens) && !hasImages && contextAtLeast === 0;
}

/**
 * What beside model and policy says which nodes the request can use; it does not change while the request waits. What it
 * takes of context probably is not part of that: it only says which nodes come first.
 */
export function waitKindOf(request: RouteRequest): string {
  const { endpoint, needs, contextAtLeast, contextAboveTokens, failedRows, failedCount } = request;
  if (isPlain(request)) return String(endpoint);
  const failed = failedRows.slice(0, failedCount).sort().join(" ");
  return `${endpoint} ${needs} ${contextAtLeast} ${contextAboveTokens} ${failed}`;
}
