/**
 * Step 3: which of the candidates. Each family is represented by its best-ranked node with room; the policy's
 * `cost_priority` says how families compare.
 */

import { unreachable } from "../assert.ts";
import type { Decision } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { depthOf, isRankedLast } from "../load.ts";
import type { WarmNodes } from "../prefix-table.ts";
import { type ChoiceReason, HINT_USES, REASONS } from "../reasons.ts";
import type { RouteRequest } from "../route-request.ts";
import { choosePredicted } from "./choose-predicted.ts";
import { costUsd, type Estimator, meetsTargets } from "./estimate.ts";
import type { StartShare } from "./predict.ts";

/** Fills the choice of `decision` (row, placement, reason, estimate, cost). Returns false when there is no candidate. */
export function choose(
  table: FleetTable,
  request: RouteRequest,
  options: { estimator: Estimator; draw: number; startShareOf: StartShare; warm: WarmNodes | null },
  decision: Decision,
): boolean {
  decision.hint = HINT_USES.indexOf(request.hintFamily < 0 ? "none" : "unused");
  decision.arePricesUnknown = false;
  if (decision.candidates.count === 0) return false;
  if (request.policy.estimator === "predictive") return choosePredicted(table, request, options, decision);
  estimateFamilies(table, request, options.estimator, decision);
  const scale = costScaleOf(decision);
  // in `latency` no cost was asked for, so none is missing
  decision.arePricesUnknown = request.policy.costPriority !== "latency" && Number.isNaN(scale.highestUsd);
  const weighing: Weighing = { table, request, decision, scale, ...options };
  if (takeHint(weighing)) return true;
  switch (request.policy.costPriority) {
    case "cost":
      return takeCheapest(weighing);
    case "balanced":
      return takeBestBalance(weighing);
    case "latency":
      return takeFirstAcceptable(weighing);
    default:
      return unreachable(request.policy.costPriority);
  }
}

interface Weighing {
  table: FleetTable;
  request: RouteRequest;
  decision: Decision;
  scale: CostScale;
  estimator: Estimator;
  draw: number;
}

function estimateFamilies(table: FleetTable, request: RouteRequest, estimator: Estimator, decision: Decision): void {
  const { evidence } = decision;
  const isCostWeighed = request.policy.costPriority !== "latency";
  for (let position = 0; position < decision.families; position++) {
    const index = evidence.best[position] as number;
    if (index < 0) continue;
    const row = request.model.rows[index] as number;
    const placement = request.model.placements[index] as number;
    const depth = evidence.depth[position] as number;
    evidence.estimateMs[position] = estimator.responseMs(table, request, placement, depth);
    if (isCostWeighed) evidence.costUsd[position] = costUsd(table, request, row, placement);
  }
}

/** The hinted family wins in every mode if it is in the chain and its best node is good enough. */
function takeHint(weighing: Weighing): boolean {
  const { request, decision } = weighing;
  if (request.hintFamily < 0) return false;
  const position = request.policy.positionOfFamily[request.hintFamily] ?? -1;
  if (position < 0) return false;
  const { best, bestAcceptable } = decision.evidence;
  const isLatency = request.policy.costPriority === "latency";
  const index = (isLatency ? bestAcceptable[position] : best[position]) as number;
  if (index < 0 || (!isLatency && !isWithinTarget(weighing, position))) return false;
  decision.hint = HINT_USES.indexOf("used");
  return take(weighing, position, index, "hinted");
}

function takeCheapest(weighing: Weighing): boolean {
  const cheapest = firstBy(weighing, byCost);
  if (isWithinTarget(weighing, cheapest)) return takeBest(weighing, cheapest, "cheapest");
  const next = firstBy(
    weighing,
    (a, b) => byTier(weighing, a, b) || byCost(a, b, weighing),
    (position) => isWithinTarget(weighing, position),
  );
  if (next >= 0) return takeBest(weighing, next, "next_in_chain");
  return takeLeastEstimate(weighing, "target_missed");
}

function takeBestBalance(weighing: Weighing): boolean {
  const { scale } = weighing;
  const { evidence } = weighing.decision;
  const { latencyTargetMs } = weighing.request.policy;
  const divisorMs = Number.isNaN(latencyTargetMs) ? leastEstimateMs(weighing) : latencyTargetMs;
  const balance = (position: number): number =>
    costTerm(evidence.costUsd[position] as number, scale) + (evidence.estimateMs[position] as number) / divisorMs;
  const best = firstBy(
    weighing,
    (a, b) => balance(a) - balance(b) || byKnownPrice(weighing, a, b) || byTier(weighing, a, b),
    (position) => isWithinTarget(weighing, position),
  );
  if (best >= 0) return takeBest(weighing, best, "best_balance");
  return takeLeastEstimate(weighing, "target_missed");
}

function takeFirstAcceptable(weighing: Weighing): boolean {
  const { acceptableRank, bestAcceptable } = weighing.decision.evidence;
  const winner = firstBy(
    weighing,
    (a, b) => byTier(weighing, a, b) || (acceptableRank[a] as number) - (acceptableRank[b] as number),
    (position) => (bestAcceptable[position] as number) >= 0,
  );
  if (winner < 0) return takeLeastEstimate(weighing, "least_estimate");
  return take(weighing, winner, bestAcceptable[winner] as number, "first_acceptable");
}

/**
 * The candidate node of any family with the least estimate. Nodes that said they are overloaded come behind every
 * other. Equal ones, which are common since an idle node answers no faster than its stream: the earlier tier, then the
 * better rank, then the first from where the draw starts.
 */
function takeLeastEstimate(weighing: Weighing, reason: ChoiceReason): boolean {
  const { table, request, decision, estimator } = weighing;
  const { candidates } = decision;
  const { families } = request.model;
  const { positionOfFamily, chainTiers } = request.policy;
  if (candidates.rankedLast > 0 && candidates.rankedLast < candidates.count) dropRankedLast(weighing);
  estimator.keepLeast(table, request, candidates);
  const { index: indexes, rank: ranks } = candidates;
  let bestIndex = -1;
  let bestTier = Number.POSITIVE_INFINITY;
  let bestRank = Number.POSITIVE_INFINITY;
  for (let candidate = 0; candidate < candidates.count; candidate++) {
    const index = indexes[candidate] as number;
    const tier = chainTiers[positionOfFamily[families[index] as number] as number] as number;
    const rank = ranks[candidate] as number;
    if (tier < bestTier || (tier === bestTier && rank < bestRank)) {
      bestTier = tier;
      bestRank = rank;
      bestIndex = index;
    }
  }
  return take(weighing, positionOfFamily[families[bestIndex] as number] as number, bestIndex, reason);
}

/** Drops the candidates that said they are overloaded. */
function dropRankedLast({ table, request, decision }: Weighing): void {
  const { candidates } = decision;
  const { rows } = request.model;
  let kept = 0;
  for (let candidate = 0; candidate < candidates.count; candidate++) {
    const index = candidates.index[candidate] as number;
    if (isRankedLast(table, rows[index] as number)) continue;
    candidates.index[kept] = index;
    candidates.rank[kept] = candidates.rank[candidate] as number;
    kept += 1;
  }
  // other workers may have called the rest overloaded since the pass: then all are alike, and nothing was moved
  if (kept > 0) candidates.count = kept;
}

/** What unknown prices stand for among the families of one decision. */
interface CostScale {
  /** Highest known cost, USD. NaN: none known. */
  highestUsd: number;
  /** Least known cost above 0, USD. NaN: none. */
  leastPaidUsd: number;
}

function costScaleOf(decision: Decision): CostScale {
  let highestUsd = Number.NaN;
  let leastPaidUsd = Number.NaN;
  for (let position = 0; position < decision.families; position++) {
    const cost = decision.evidence.costUsd[position] as number;
    if ((decision.evidence.best[position] as number) < 0 || Number.isNaN(cost)) continue;
    if (!(cost <= highestUsd)) highestUsd = cost;
    if (cost > 0 && !(cost >= leastPaidUsd)) leastPaidUsd = cost;
  }
  return { highestUsd, leastPaidUsd };
}

/** Cost relative to the cheapest paid family: 0 for free ones, 1 for all when no price is known. */
function costTerm(cost: number, scale: CostScale): number {
  if (Number.isNaN(scale.highestUsd)) return 1;
  const usd = Number.isNaN(cost) ? scale.highestUsd : cost;
  return usd === 0 ? 0 : usd / scale.leastPaidUsd;
}

type Compare = (a: number, b: number, weighing: Weighing) => number;

/** Cheapest first; an unknown price counts as the highest known one and loses ties; then the order of the chain. */
function byCost(a: number, b: number, weighing: Weighing): number {
  const { scale } = weighing;
  const { costUsd: costs } = weighing.decision.evidence;
  return (
    costTerm(costs[a] as number, scale) - costTerm(costs[b] as number, scale) ||
    byKnownPrice(weighing, a, b) ||
    byTier(weighing, a, b)
  );
}

function byKnownPrice({ decision }: Weighing, a: number, b: number): number {
  const { costUsd: costs } = decision.evidence;
  return Number(Number.isNaN(costs[a] as number)) - Number(Number.isNaN(costs[b] as number));
}

function byTier({ decision }: Weighing, a: number, b: number): number {
  return (decision.evidence.tier[a] as number) - (decision.evidence.tier[b] as number);
}

/** The first family in an order among those with a candidate; ties go to the first from where the draw starts; -1: none. */
function firstBy(weighing: Weighing, compare: Compare, isEligible: (position: number) => boolean = () => true): number {
  const { decision, draw } = weighing;
  const count = decision.families;
  const start = Math.min(count - 1, Math.floor(draw * count));
  let winner = -1;
  for (let step = 0; step < count; step++) {
    const position = (start + step) % count;
    if ((decision.evidence.best[position] as number) < 0 || !isEligible(position)) continue;
    if (winner < 0 || compare(position, winner, weighing) < 0) winner = position;
  }
  return winner;
}

function leastEstimateMs({ decision }: Weighing): number {
  let least = Number.POSITIVE_INFINITY;
  for (let position = 0; position < decision.families; position++) {
    const estimate = decision.evidence.estimateMs[position] as number;
    if (estimate < least) least = estimate;
  }
  return least;
}

function isWithinTarget({ table, request, decision, estimator }: Weighing, position: number): boolean {
  const index = decision.evidence.best[position] as number;
  return meetsTargets(table, request, estimator, {
    placement: request.model.placements[index] as number,
    depth: decision.evidence.depth[position] as number,
    responseMs: decision.evidence.estimateMs[position] as number,
  });
}

function takeBest(weighing: Weighing, position: number, reason: ChoiceReason): boolean {
  return take(weighing, position, weighing.decision.evidence.best[position] as number, reason);
}

function take(weighing: Weighing, position: number, index: number, reason: ChoiceReason): boolean {
  const { table, request, decision, estimator } = weighing;
  const row = request.model.rows[index] as number;
  const placement = request.model.placements[index] as number;
  const isCostWeighed = request.policy.costPriority !== "latency";
  decision.row = row;
  decision.placement = placement;
  decision.position = position;
  decision.family = request.model.families[index] as number;
  decision.reason = REASONS.indexOf(reason);
  decision.depth = depthOf(table, row);
  decision.estimateMs = estimator.responseMs(table, request, placement, decision.depth);
  decision.costUsd = isCostWeighed ? costUsd(table, request, row, placement) : Number.NaN;
  return true;
}
