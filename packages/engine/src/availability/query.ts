/**
 * Step 2: which nodes can take the request, why the others cannot, and the best-ranked node of each family. One pass
 * over the rows that serve the model, reading the table only.
 */

import { contextBit, lacksEndpoint, lacksImages } from "../capabilities.ts";
import { canUse, type WaitingHead } from "../claims.ts";
import { type Decision, reserveCandidates } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { depthOf, isRankedLast } from "../load.ts";
import { ENDPOINTS, EXCLUSIONS, type Exclusion } from "../reasons.ts";
import { hasFailedOn, type RouteRequest } from "../route-request.ts";
import { slowStartShare } from "./slow-start.ts";

const EXCLUSION_COUNT = EXCLUSIONS.length;
const ENDPOINT_COUNT = ENDPOINTS.length;
const INDEX = Object.freeze(Object.fromEntries(EXCLUSIONS.map((name, index) => [name, index]))) as Readonly<
  Record<Exclusion, number>
>;

/** Returned by `exclusionOf` for a node that can take the request. */
export const CANDIDATE = -1;

/** Added to the rank of a node that said it is overloaded, s per token: behind every other, and still in order. */
const RANKED_LAST = 1e9;

/** What a query depends on besides the table and the request. */
export interface AvailabilityContext {
  nowTick: number;
  /** Parked heads that come before this request. */
  heads: readonly WaitingHead[];
  /** 0 ≤ draw < 1: where in the list the pass starts, so that equal nodes share. */
  draw: number;
  /** True when every node of the model cools: one whose poll succeeded since its failure may then be tried. */
  mayTryCooling: boolean;
  /** Nodes whose context is known to be smaller are left out, tokens: the rough estimate, while a node can hold that. */
  contextFloor: number;
}

/** Fills the evidence columns of `decision` for each family of the policy's chain. O(rows of the model). */
export function queryAvailability(
  table: FleetTable,
  request: RouteRequest,
  context: AvailabilityContext,
  decision: Decision,
): void {
  let pass = passes.get(table);
  if (pass === undefined) {
    pass = createPass(table);
    passes.set(table, pass);
  }
  resetEvidence(decision, request);
  pass(request, context, decision);
}

type Pass = (request: RouteRequest, context: AvailabilityContext, decision: Decision) => void;

/** The pass over each table; a thread has one table. */
const passes = new WeakMap<FleetTable, Pass>();

/**
 * The pass over the rows of one table. It closes over the columns: where there is one table, as in every thread of the
 * product, the compiler can take them for constants, which it does where the pass is called often rather than long.
 *
 * Nearly every row of a fleet is ordinary: live, polled, with no deadline set. The pass asks for that with one branch,
 * and goes into `exclusionOf` only for the others.
 */
function createPass(table: FleetTable): Pass {
  const { foreign, waiting, concurrencyLimit, tokensPerSecond, elsewhere, maxInFlight, goodPolls } = table;
  const { isLive, isDraining, isUnhealthy, cooldownUntil, backoffUntil, overloadedAtPoll, warmUntil } = table;
  const { misconfiguredUntil, endpointUntil, lacks } = table;
  const { inFlight } = table.total;
  return (request, context, decision) => {
    const { policy, model, endpoint } = request;
    const needs = request.needs | contextBit(context.contextFloor);
    const { rows, placements, families } = model;
    const { positionOfFamily, acceptableWaiting } = policy;
    const { rank: ranks, best, depth: depths, bestAcceptable, acceptableRank, excluded } = decision.evidence;
    const count = rows.length;
    reserveCandidates(decision.candidates, count);
    const { index: candidates, rank: candidateRanks } = decision.candidates;
    const isPlainRequest =
      request.failedCount === 0 && context.heads.length === 0 && Number.isNaN(request.contextAboveTokens);
    const isAcceptableAsked = policy.costPriority === "latency";
    const start = Math.min(count - 1, Math.floor(context.draw * count));
    let candidateCount = 0;
    let rankedLast = 0;
    for (let step = 0; step < count; step++) {
      const index = start + step < count ? start + step : start + step - count;
      const row = rows[index] as number;
      const family = families[index] as number;
      const position = family < positionOfFamily.length ? (positionOfFamily[family] as number) : -1;
      if (position < 0) continue;
      const placement = placements[index] as number;
      const others = foreign[row] as number;
      // asked this way since it is nearly always false: `others > 0` is a coin flip where half the nodes are idle, and
      // guessing it wrong costs a fifth of the pass
      const depth = (Number.isNaN(others) ? 0 : others) + (inFlight[row] as number) + (elsewhere[row] as number);
      const oddities =
        ((isLive[row] as number) ^ 1) |
        (isDraining[row] as number) |
        (isUnhealthy[row] as number) |
        (cooldownUntil[row] as number) |
        (backoffUntil[row] as number) |
        (misconfiguredUntil[placement] as number) |
        (endpointUntil[row * ENDPOINT_COUNT + endpoint] as number) |
        ((lacks[placement] as number) & needs);
      const isOrdinary =
        oddities === 0 && isPlainRequest && (goodPolls[row] as number) !== 0 && depth < (maxInFlight[row] as number);
      if (!isOrdinary) {
        const exclusion = exclusionOf(table, request, context, row, placement, depth);
        if (exclusion !== CANDIDATE) {
          const cell = position * EXCLUSION_COUNT + exclusion;
          excluded[cell] = (excluded[cell] as number) + 1;
          continue;
        }
      }
      candidates[candidateCount] = index;
      let rank = (depth + 1) / (tokensPerSecond[placement] as number);
      candidateRanks[candidateCount] = rank;
      candidateCount += 1;
      if (((overloadedAtPoll[row] as number) | (warmUntil[row] as number)) !== 0) {
        rank /= slowStartShare(table, row, context.nowTick);
        if (isRankedLast(table, row)) {
          rank += RANKED_LAST;
          rankedLast += 1;
        }
      }
      if (rank < (ranks[position] as number)) {
        ranks[position] = rank;
        best[position] = index;
        depths[position] = depth;
      }
      if (
        isAcceptableAsked &&
        rank < (acceptableRank[position] as number) &&
        !((waiting[row] as number) > acceptableWaiting) &&
        !(depth - (concurrencyLimit[row] as number) > acceptableWaiting)
      ) {
        acceptableRank[position] = rank;
        bestAcceptable[position] = index;
      }
    }
    decision.candidates.count = candidateCount;
    decision.candidates.rankedLast = rankedLast;
  };
}

function resetEvidence(decision: Decision, request: RouteRequest): void {
  const { evidence } = decision;
  const { chainFamilies, chainTiers } = request.policy;
  const { nodesOfFamily, rows, adapterMissing } = request.model;
  let inChain = 0;
  decision.families = chainFamilies.length;
  decision.candidates.count = 0;
  for (let position = 0; position < chainFamilies.length; position++) {
    const family = chainFamilies[position] as number;
    const nodes = nodesOfFamily[family] ?? 0;
    inChain += nodes;
    evidence.family[position] = family;
    evidence.tier[position] = chainTiers[position] as number;
    evidence.nodes[position] = nodes;
    evidence.best[position] = -1;
    evidence.bestAcceptable[position] = -1;
    evidence.depth[position] = Number.NaN;
    evidence.rank[position] = Number.POSITIVE_INFINITY;
    evidence.acceptableRank[position] = Number.POSITIVE_INFINITY;
    evidence.estimateMs[position] = Number.NaN;
    evidence.costUsd[position] = Number.NaN;
  }
  decision.outsideChain = rows.length - inChain;
  evidence.excluded.fill(0, 0, chainFamilies.length * EXCLUSION_COUNT);
  if (adapterMissing === undefined) return;
  for (let position = 0; position < chainFamilies.length; position++) {
    const count = adapterMissing[chainFamilies[position] as number] ?? 0;
    evidence.excluded[position * EXCLUSION_COUNT + INDEX.adapter_missing] = count;
  }
}

/**
 * Why a node cannot take the request: an index into `EXCLUSIONS`, or `CANDIDATE`. Numbers are passed one by one, since
 * an object per node would be garbage per node.
 */
export function exclusionOf(
  table: FleetTable,
  request: RouteRequest,
  context: AvailabilityContext,
  row: number,
  placement: number,
  depth: number,
): number {
  const { nowTick } = context;
  if (request.failedCount > 0 && hasFailedOn(request, row)) return INDEX.failed_this_request;
  if (table.isLive[row] !== 1 || table.isDraining[row] === 1) return INDEX.draining;
  if (table.isUnhealthy[row] === 1) return INDEX.unhealthy;
  if (table.goodPolls[row] === 0) return INDEX.not_polled;
  const cooldownUntil = table.cooldownUntil[row] as number;
  if (cooldownUntil !== 0) {
    if (cooldownUntil > nowTick && !mayTryEarly(table, row, context)) return INDEX.cooling_down;
    if ((table.trialUntil[row] as number) > nowTick) return INDEX.trial_running;
  }
  if ((table.backoffUntil[row] as number) > nowTick) return INDEX.backing_off;
  if ((table.misconfiguredUntil[placement] as number) > nowTick) return INDEX.misconfigured;
  const lack = lackOf(table, request, nowTick, row, placement);
  if (lack !== CANDIDATE) return lack;
  const contextTokens = table.contextTokens[placement] as number;
  if (!Number.isNaN(request.contextAboveTokens) && !(contextTokens > request.contextAboveTokens)) {
    return INDEX.context_too_small;
  }
  if (depth >= (table.maxInFlight[row] as number)) return INDEX.at_capacity;
  if (context.heads.length > 0 && isReserved(table, context.heads, row)) return INDEX.reserved_for_queue;
  // asked last: who is left out for this can take the request, if no other node with a larger context does
  if (contextTokens < context.contextFloor) return INDEX.context_too_small;
  return CANDIDATE;
}

/**
 * What a node lacks of what the request needs, whether or not it can take one now: an index into `EXCLUSIONS`, or
 * `CANDIDATE` for nothing that is known.
 */
export function lackOf(
  table: FleetTable,
  request: RouteRequest,
  nowTick: number,
  row: number,
  placement: number,
): number {
  const lacks = (table.lacks[placement] as number) & request.needs;
  const isEndpointOut = (table.endpointUntil[row * ENDPOINT_COUNT + request.endpoint] as number) > nowTick;
  if (isEndpointOut || lacksEndpoint(lacks, request.endpoint)) return INDEX.endpoint_unsupported;
  if (lacksImages(lacks, request.needs)) return INDEX.images_unsupported;
  return (table.contextTokens[placement] as number) < request.contextAtLeast ? INDEX.context_too_small : CANDIDATE;
}

/**
 * The largest context among the nodes that could take the request if its estimated size were no matter, tokens. 0: there
 * is none, or none whose context is known. O(rows of the model), for requests that found no node only.
 */
export function largestContext(table: FleetTable, request: RouteRequest, context: AvailabilityContext): number {
  const { rows, placements, families } = request.model;
  const anySize = { ...context, contextFloor: 0 };
  let largest = 0;
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index] as number;
    const placement = placements[index] as number;
    const contextTokens = table.contextTokens[placement] as number;
    if ((request.policy.positionOfFamily[families[index] as number] ?? -1) < 0 || !(contextTokens > largest)) continue;
    const exclusion = exclusionOf(table, request, anySize, row, placement, depthOf(table, row));
    if (exclusion === CANDIDATE) largest = contextTokens;
  }
  return largest;
}

/** A cooling node may be tried before its time when a good poll came after a failure that may not be its own. */
function mayTryEarly(table: FleetTable, row: number, context: AvailabilityContext): boolean {
  const hasRecovered = (table.goodPolls[row] as number) + 1 > (table.failedAtPoll[row] as number);
  return hasRecovered && (context.mayTryCooling || table.isSuspectFailure[row] === 1);
}

function isReserved(table: FleetTable, heads: readonly WaitingHead[], row: number): boolean {
  const family = table.family[row] as number;
  for (const head of heads) {
    if (canUse(head, row, family)) return true;
  }
  return false;
}
