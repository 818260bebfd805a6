/** No candidate: whether that is saturation, what the caller is told, and how long it should wait. */

import { RETRY_AFTER_MAX_MS, RETRY_AFTER_MIN_MS } from "../bounds.ts";
import { msOfTick } from "../deadline.ts";
import { type Decision, excludedCount } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { EXCLUSIONS, type Exclusion, type NoNodeReason, REASONS } from "../reasons.ts";
import type { RouteRequest } from "../route-request.ts";
import { CANDIDATE, lackOf } from "./query.ts";

/** Exclusions of nodes that are well and have no room now. */
const FULL: readonly Exclusion[] = ["at_capacity", "reserved_for_queue", "backing_off"];
/** Exclusions of nodes that do not cool and serve others. */
const WELL: readonly Exclusion[] = [
  ...FULL,
  "misconfigured",
  "endpoint_unsupported",
  "images_unsupported",
  "context_too_small",
];
/** Exclusions that end by themselves, with a trial or a poll. */
const RECOVERING: readonly Exclusion[] = ["cooling_down", "trial_running", "not_polled"];

/**
 * True when every node of the chain cools (those apart that are out for everybody): then a cooling one that answers
 * polls again may be tried. A node that failed this request without a cooldown is well, and so is one that only lacks
 * what this request needs.
 */
export function isOnlyCooling(table: FleetTable, request: RouteRequest, decision: Decision): boolean {
  return (
    countOf(decision, ["cooling_down"]) > 0 && countOf(decision, WELL) === 0 && !hasFailedOnWellNode(table, request)
  );
}

function hasFailedOnWellNode(table: FleetTable, request: RouteRequest): boolean {
  for (let index = 0; index < request.failedCount; index++) {
    const row = request.failedRows[index] as number;
    const isOut = table.isLive[row] !== 1 || table.isDraining[row] === 1 || table.isUnhealthy[row] === 1;
    if (isOut || table.goodPolls[row] === 0 || table.cooldownUntil[row] !== 0) continue;
    const position = request.policy.positionOfFamily[table.family[row] as number] ?? -1;
    if (position >= 0 && request.model.rowSet.has(row)) return true;
  }
  return false;
}

/** True when a node was left out for its context. */
export function isAnyTooSmall(decision: Decision): boolean {
  return countOf(decision, ["context_too_small"]) > 0;
}

/**
 * Fills kind, reason, `retryAfterMs` and `lacking` of a decision without a candidate.
 *
 * @param when `parked` the requests that wait for this model.
 */
export function judgeNoNode(
  table: FleetTable,
  request: RouteRequest,
  { nowTick, parked }: { nowTick: number; parked: number },
  decision: Decision,
): void {
  decision.lacking = request.failedCount > 0 ? -1 : commonLack(table, request, nowTick);
  if (decision.lacking >= 0) {
    settleAs(decision, "incapable", "no_capable_node");
    return;
  }
  if (countOf(decision, FULL) > 0) {
    settleAs(decision, "saturated", "queue_saturated");
    decision.retryAfterMs = clampRetryAfter(drainWaitMs(table, request, parked));
    return;
  }
  const needsLarger = !Number.isNaN(request.contextAboveTokens);
  const isOfThisRequest = countOf(decision, ["failed_this_request"]) > 0 || (needsLarger && isAnyTooSmall(decision));
  const isExhausted = isOfThisRequest && countOf(decision, RECOVERING) === 0;
  settleAs(decision, isExhausted ? "exhausted" : "saturated", isExhausted ? "nodes_exhausted" : "no_node_available");
  decision.retryAfterMs = clampRetryAfter(trialWaitMs(table, request, nowTick));
}

/**
 * What most nodes of the chain lack, where each lacks something that the request needs, however it is otherwise: waiting
 * would not help. An index into `EXCLUSIONS`; -1: some node lacks nothing that is known, or there is no node.
 */
function commonLack(table: FleetTable, request: RouteRequest, nowTick: number): number {
  const counts = new Int32Array(EXCLUSIONS.length);
  let most = -1;
  for (let index = 0; index < request.model.rows.length; index++) {
    if (!isInChain(request, index)) continue;
    const row = request.model.rows[index] as number;
    const lack = lackOf(table, request, nowTick, row, request.model.placements[index] as number);
    if (lack === CANDIDATE) return -1;
    const count = (counts[lack] as number) + 1;
    counts[lack] = count;
    if (most < 0 || count > (counts[most] as number)) most = lack;
  }
  return most;
}

function settleAs(decision: Decision, kind: "saturated" | "exhausted" | "incapable", reason: NoNodeReason): void {
  decision.kind = kind;
  decision.reason = REASONS.indexOf(reason);
}

function countOf(decision: Decision, exclusions: readonly Exclusion[]): number {
  let count = 0;
  for (let position = 0; position < decision.families; position++) {
    for (const exclusion of exclusions) count += excludedCount(decision, position, EXCLUSIONS.indexOf(exclusion));
  }
  return count;
}

/** Everybody parked for the model goes first: (parked + 1) ÷ requests that end per second on the nodes of the chain; NaN: unknown. */
function drainWaitMs(table: FleetTable, request: RouteRequest, parked: number): number {
  let drainPerSecond = 0;
  for (let index = 0; index < request.model.rows.length; index++) {
    if (!isInChain(request, index)) continue;
    const rate = table.drainPerSecond[request.model.rows[index] as number] as number;
    if (rate > 0) drainPerSecond += rate;
  }
  return drainPerSecond === 0 ? Number.NaN : ((parked + 1) / drainPerSecond) * 1000;
}

/** Time to the earliest trial of a node of the chain, ms; NaN: none cools. A node that drains or is down gets none. */
function trialWaitMs(table: FleetTable, request: RouteRequest, nowTick: number): number {
  let earliest = Number.POSITIVE_INFINITY;
  for (let index = 0; index < request.model.rows.length; index++) {
    const row = request.model.rows[index] as number;
    if (table.isLive[row] !== 1 || table.isDraining[row] === 1 || table.isUnhealthy[row] === 1) continue;
    const until = Math.max(table.cooldownUntil[row] as number, table.trialUntil[row] as number);
    if (isInChain(request, index) && until > nowTick) earliest = Math.min(earliest, until);
  }
  return earliest === Number.POSITIVE_INFINITY ? Number.NaN : msOfTick(earliest - nowTick);
}

function isInChain(request: RouteRequest, index: number): boolean {
  return (request.policy.positionOfFamily[request.model.families[index] as number] ?? -1) >= 0;
}

function clampRetryAfter(waitMs: number): number {
  if (Number.isNaN(waitMs)) return RETRY_AFTER_MIN_MS;
  return Math.min(RETRY_AFTER_MAX_MS, Math.max(RETRY_AFTER_MIN_MS, waitMs));
}
