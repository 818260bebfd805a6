/**
 * Step 3 with the predictor: of all candidates the nodes on which the request, and those who run there already, meet their
 * targets with the stated probability and in the memory there is; among them what the policy's `cost_priority` asks for.
 * Where there is none, the node on which the fewest requests are expected to miss.
 *
 * Costs are marginal: what the request adds to the time for which the node is busy, or the share that it takes of what the
 * node can hold at its tightest promise, if that is more. An idle node costs all of its time, a busy one a part of a step;
 * a tight request on a node full of loose ones costs what they have to leave. Every expected miss, its own or a
 * resident's, costs as much as `MISS_WORTH` requests.
 */

import type { Decision } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { depthOf, isRankedLast } from "../load.ts";
import { type ChoiceReason, HINT_USES, REASONS } from "../reasons.ts";
import type { RouteRequest } from "../route-request.ts";
import { isPromptOnly, promptTokensOf } from "./estimate.ts";
import { ownMissChance, residentMisses, type Targets } from "./miss-chance.ts";
import { type Ask, createPrediction, meanPromptOf, type NodeLoad, type Prediction, predict } from "./predict.ts";

/** Predictions of a model that are off by more than this, as |ln|, are not used: a factor of 2 tells no target. */
const UNTRUSTED = Math.log(2);
/** Outcomes before which a family's error says nothing. */
const SAMPLES_MIN = 50;

/** Outcomes up to which a family counts as not measured. */
const MEASURED_SAMPLES = 32;
/** Share of decisions that go to a family nobody has measured, one request at a time. */
const EXPLORED_SHARE = 0.01;

/** Requests that a miss is worth: who wants 99 % of them within their targets trades one miss against a hundred. */
const MISS_WORTH = 100;

/** How far a node may be filled where no target says it: to twice its idle step, where half of its time is requests' own. */
const UNSAID_STEPS = 2;

const load: NodeLoad = { depth: 0, own: 0, kvTokens: 0, aheadTokens: 0, plainTokens: 0 };
const ask: Ask = { promptTokens: 0, outputTokens: 1, meanPromptTokens: 0 };
const prediction: Prediction = createPrediction();
const targets: Targets = { firstMs: 0, tokenMs: 0, responseMs: 0 };
/** Time per token that the request is promised, ms. */
let promiseMs = Number.POSITIVE_INFINITY;
/** Least cost and response of the request on a node that is full of its like: what a miss is measured in. */
let fairUsd = 0;
let fairMs = 0;

/**
 * Fills the choice of `decision`, which has candidates. Where predictions of the model have missed calibration they choose
 * no node: the least loaded one for its speed does, and predictions are made and checked until they are right again.
 * O(candidates), allocates nothing per node.
 */
export function choosePredicted(
  table: FleetTable,
  request: RouteRequest,
  { draw, startShareOf }: { draw: number; startShareOf: StartShare },
  decision: Decision,
): true {
  prepare(table, request);
  startShare = startShareOf;
  if (!weighCandidates(table, request, decision)) {
    return take(table, request, decision, leastLoaded(table, request, decision), "least_estimate");
  }
  const explored = exploredOf(table, request, draw, decision);
  if (explored >= 0) return take(table, request, decision, explored, "least_estimate");
  if (request.hintFamily >= 0) {
    const hinted = bestOf(table, request, decision, { family: request.hintFamily, isInOrder: false });
    if (hinted >= 0) {
      decision.hint = HINT_USES.indexOf("used");
      return take(table, request, decision, hinted, "hinted");
    }
  }
  const { costPriority } = request.policy;
  const best = bestOf(table, request, decision, { family: -1, isInOrder: costPriority === "latency" });
  if (best < 0) {
    const least = leastHarm(table, request, decision);
    return take(table, request, decision, least, costPriority === "latency" ? "least_estimate" : "target_missed");
  }
  if (costPriority === "latency") return take(table, request, decision, best, "first_acceptable");
  if (costPriority === "balanced") return take(table, request, decision, best, "best_balance");
  if (familyOf(request, decision, best) === cheapestFamily(request, decision)) {
    return take(table, request, decision, best, "cheapest");
  }
  const next = hasTiers(request) ? bestOf(table, request, decision, { family: -1, isInOrder: true }) : best;
  return take(table, request, decision, next, "next_in_chain");
}

function prepare(table: FleetTable, request: RouteRequest): void {
  const { policy, isStream } = request;
  ask.promptTokens = Math.max(1, promptTokensOf(table, request));
  ask.outputTokens = isPromptOnly(request.endpoint) ? 1 : Math.max(1, request.expectedTokens);
  ask.meanPromptTokens = meanPromptOf(table, request.model.index);
  targets.firstMs = isStream ? orNone(policy.ttftTargetMs) : Number.POSITIVE_INFINITY;
  targets.tokenMs = isStream ? orNone(policy.tokenTargetMs) : Number.POSITIVE_INFINITY;
  targets.responseMs = orNone(policy.latencyTargetMs);
  promiseMs = Math.min(targets.tokenMs, targets.responseMs / ask.outputTokens);
}

/** Predicts for every candidate. False: most of them are not to be trusted. */
function weighCandidates(table: FleetTable, request: RouteRequest, decision: Decision): boolean {
  const { index: indexes, isFeasible, responseMs, costUsd, count, rankedLast } = decision.candidates;
  const { rows, placements } = request.model;
  const skipsOverloaded = rankedLast > 0 && rankedLast < count;
  let untrusted = 0;
  let unpriced = 0;
  let highestUsd = Number.NaN;
  fairUsd = Number.POSITIVE_INFINITY;
  fairMs = Number.POSITIVE_INFINITY;
  for (let candidate = 0; candidate < count; candidate++) {
    const index = indexes[candidate] as number;
    const row = rows[index] as number;
    const placement = placements[index] as number;
    const error = table.predictionError[placement] as number;
    if (error > UNTRUSTED && (table.predictorSamples[placement] as number) > SAMPLES_MIN) untrusted += 1;
    predictOn(table, row, placement);
    const response = prediction.firstMs + (ask.outputTokens - 1) * prediction.tokenMs;
    const price = table.priceUsdPerHour[row] as number;
    const nodeHours = nodeHoursOf(table, row, placement);
    if (Number.isNaN(price)) unpriced += 1;
    else if (!(price <= highestUsd)) highestUsd = price;
    // NaN until the highest known price stands for the unknown
    costUsd[candidate] = Number.isNaN(price) ? -nodeHours : price * nodeHours;
    responseMs[candidate] = response;
    if (response < fairMs) fairMs = response;
    if (price > 0 && price * fairHours < fairUsd) fairUsd = price * fairHours;
    isFeasible[candidate] =
      isWithin(table, row, placement, response) && !(skipsOverloaded && isRankedLast(table, row)) ? 1 : 0;
  }
  decision.arePricesUnknown = request.policy.costPriority !== "latency" && unpriced === count;
  if (unpriced > 0) priceUnknown(decision, Number.isNaN(highestUsd) ? 1 : highestUsd);
  return untrusted * 2 <= count;
}

/** Nodes of unknown price cost as the dearest known one; if none is known, their time compares. */
function priceUnknown({ candidates }: Decision, usdPerHour: number): void {
  for (let candidate = 0; candidate < candidates.count; candidate++) {
    const usd = candidates.costUsd[candidate] as number;
    if (usd < 0) candidates.costUsd[candidate] = -usd * usdPerHour;
  }
}

/** Fills `prediction` for the request on a node as it is now. */
function predictOn(table: FleetTable, row: number, placement: number): void {
  const { total } = table;
  const others = table.foreign[row] as number;
  // below 0 for a moment, while a dead worker's share is taken out
  load.own = Math.max(0, total.inFlight[row] as number);
  load.depth = load.own + (others > 0 ? others : 0) + (table.elsewhere[row] as number);
  load.kvTokens = total.kvTokens[row] as number;
  load.aheadTokens = total.promptTokens[row] as number;
  load.plainTokens = total.plainPromptTokens[row] as number;
  predict(table, placement, load, ask, table.concurrencyLimit[row] as number, prediction);
  // alone on it a request is as fast as ever: only company waits until the node is warm
  if (table.warmUntil[row] !== 0 && load.depth > 0) slowDown(startShare(row));
}

function slowDown(share: number): void {
  prediction.firstMs /= share;
  prediction.tokenMs /= share;
  prediction.residentMs /= share;
}

/** Share of its speed with which a node in its slow start counts, 0.1 to 1. */
export type StartShare = (row: number) => number;
let startShare: StartShare = () => 1;

/** Set by `nodeHoursOf`: the request's share of a node that is full of its like, hours. */
let fairHours = 0;

/** Hours of the node that the request of `prediction` costs (see the head of this file). */
function nodeHoursOf(table: FleetTable, row: number, placement: number): number {
  const { outputTokens, meanPromptTokens } = ask;
  const baseMs = table.stepBaseMs[placement] as number;
  const slopeMs =
    (table.stepPerRequestMs[placement] as number) +
    (table.stepPerKvTokenMs[placement] as number) * (meanPromptTokens + outputTokens / 2) +
    ((table.stepPerPromptTokenMs[placement] as number) * meanPromptTokens) / outputTokens;
  const spread = table.tokenSpread[placement] as number;
  const tightestUs = table.tightestUs[row] as number;
  const heldMs = tightestUs > 0 ? tightestUs / 1000 : Number.POSITIVE_INFINITY;
  const ownMs = shareOf(promiseMs / spread, baseMs, slopeMs);
  let shareMs = ownMs;
  let conversionMs = 0;
  if (load.depth > 0) {
    if (heldMs < promiseMs) shareMs = shareOf(heldMs / spread, baseMs, slopeMs);
    else conversionMs = load.depth * Math.max(0, ownMs - shareOf(heldMs / spread, baseMs, slopeMs));
  }
  const { prefillMs, nodeMs } = prediction;
  fairHours = (prefillMs + outputTokens * ownMs) / 3_600_000;
  return (Math.max(nodeMs, outputTokens * shareMs) + outputTokens * conversionMs) / 3_600_000;
}

/** Part of a step that one of the requests takes which fill a node up to a step of `stepMs`, ms. */
function shareOf(stepMs: number, baseMs: number, slopeMs: number): number {
  const fullMs = stepMs < Number.POSITIVE_INFINITY ? stepMs : UNSAID_STEPS * baseMs;
  const fits = (fullMs - baseMs) / slopeMs;
  return fits > 1 ? fullMs / fits : Math.max(fullMs, baseMs);
}

function isWithin(table: FleetTable, row: number, placement: number, response: number): boolean {
  const firstSpread = table.firstSpread[placement] as number;
  const tokenSpread = table.tokenSpread[placement] as number;
  if (prediction.firstMs * firstSpread > targets.firstMs) return false;
  if (prediction.tokenMs * tokenSpread > targets.tokenMs) return false;
  if (response * (firstSpread > tokenSpread ? firstSpread : tokenSpread) > targets.responseMs) return false;
  const tightestUs = table.tightestUs[row] as number;
  if (tightestUs > 0 && load.depth > 0 && prediction.residentMs * tokenSpread * 1000 > tightestUs) return false;
  const isUnsaid = promiseMs === Number.POSITIVE_INFINITY && load.depth > 0;
  if (isUnsaid && prediction.residentMs > UNSAID_STEPS * (table.stepBaseMs[placement] as number)) return false;
  return !(prediction.kvTokens > (table.kvCapacityTokens[placement] as number));
}

/**
 * The best feasible candidate by the policy's priority; -1: none.
 *
 * @param among one family, or (-1) all; in the order of the chain's tiers or not.
 */
function bestOf(
  table: FleetTable,
  request: RouteRequest,
  decision: Decision,
  among: { family: number; isInOrder: boolean },
): number {
  const { index: indexes, isFeasible, responseMs, costUsd, count } = decision.candidates;
  const { rows, placements, families } = request.model;
  const { positionOfFamily, chainTiers, costPriority } = request.policy;
  const isLatency = costPriority === "latency";
  const isBalanced = costPriority === "balanced";
  // where nothing has a price the time of nodes compares, in any unit
  const unitUsd = fairUsd < Number.POSITIVE_INFINITY ? fairUsd : 1;
  const worth = MISS_WORTH * (isLatency ? fairMs : isBalanced ? 1 : unitUsd);
  let best = -1;
  let bestTier = Number.POSITIVE_INFINITY;
  let bestScore = Number.POSITIVE_INFINITY;
  for (let candidate = 0; candidate < count; candidate++) {
    if (isFeasible[candidate] === 0) continue;
    const index = indexes[candidate] as number;
    const of = families[index] as number;
    if (among.family >= 0 && of !== among.family) continue;
    const tier = among.isInOrder ? (chainTiers[positionOfFamily[of] as number] as number) : 0;
    const ms = responseMs[candidate] as number;
    const usd = costUsd[candidate] as number;
    let score = isLatency ? ms : usd;
    if (isBalanced) score = usd / unitUsd + latenessOf(ms);
    if (tier > bestTier || (tier === bestTier && score >= bestScore)) continue;
    const row = rows[index] as number;
    const placement = placements[index] as number;
    predictOn(table, row, placement);
    score += worth * harmOn(table, row, placement, ms);
    if (tier === bestTier && score >= bestScore) continue;
    best = candidate;
    bestTier = tier;
    bestScore = score;
  }
  return best;
}

function hasTiers({ policy }: RouteRequest): boolean {
  return policy.chainTiers.length > 1 && policy.chainTiers[policy.chainTiers.length - 1] !== 0;
}

/** The response as a share of what the targets leave it. */
function latenessOf(ms: number): number {
  const targetMs = Math.min(targets.responseMs, targets.firstMs + ask.outputTokens * targets.tokenMs);
  return targetMs < Number.POSITIVE_INFINITY ? ms / targetMs : ms / fairMs;
}

/** The family of the candidate that costs least, whether or not it meets the targets. */
function cheapestFamily(request: RouteRequest, decision: Decision): number {
  const { costUsd, count } = decision.candidates;
  let least = 0;
  for (let candidate = 1; candidate < count; candidate++) {
    if ((costUsd[candidate] as number) < (costUsd[least] as number)) least = candidate;
  }
  return familyOf(request, decision, least);
}

function familyOf(request: RouteRequest, { candidates }: Decision, candidate: number): number {
  return request.model.families[candidates.index[candidate] as number] as number;
}

/** An idle node of a family that nobody has measured, now and then; -1: none, or not now. */
function exploredOf(table: FleetTable, request: RouteRequest, draw: number, decision: Decision): number {
  // digits of the draw that the last tie does not look at
  if ((draw * 1009) % 1 >= EXPLORED_SHARE) return -1;
  const { index: indexes, count } = decision.candidates;
  for (let candidate = 0; candidate < count; candidate++) {
    const index = indexes[candidate] as number;
    const samples = table.predictorSamples[request.model.placements[index] as number] as number;
    if (samples < MEASURED_SAMPLES && table.total.inFlight[request.model.rows[index] as number] === 0) return candidate;
  }
  return -1;
}

/** The candidate on which the fewest requests are expected to miss for this one; ties by the least response. */
function leastHarm(table: FleetTable, request: RouteRequest, decision: Decision): number {
  const { index: indexes, responseMs, count, rankedLast } = decision.candidates;
  const skipsOverloaded = rankedLast > 0 && rankedLast < count;
  let best = 0;
  let bestHarm = Number.POSITIVE_INFINITY;
  for (let candidate = 0; candidate < count; candidate++) {
    const index = indexes[candidate] as number;
    const row = request.model.rows[index] as number;
    const placement = request.model.placements[index] as number;
    if (skipsOverloaded && isRankedLast(table, row)) continue;
    const ms = responseMs[candidate] as number;
    predictOn(table, row, placement);
    const harm = harmOn(table, row, placement, ms);
    if (harm > bestHarm || (harm === bestHarm && ms >= (responseMs[best] as number))) continue;
    best = candidate;
    bestHarm = harm;
  }
  return best;
}

/** The candidate with the least (requests + 1) × step: speed-weighted least request, in the first tier that has one. */
function leastLoaded(table: FleetTable, request: RouteRequest, decision: Decision): number {
  const { index: indexes, count, rankedLast } = decision.candidates;
  const { rows, placements, families } = request.model;
  const { positionOfFamily, chainTiers, costPriority } = request.policy;
  const skipsOverloaded = rankedLast > 0 && rankedLast < count;
  let best = 0;
  let bestTier = Number.POSITIVE_INFINITY;
  let leastMs = Number.POSITIVE_INFINITY;
  for (let candidate = 0; candidate < count; candidate++) {
    const index = indexes[candidate] as number;
    const row = rows[index] as number;
    if (skipsOverloaded && isRankedLast(table, row)) continue;
    const tier =
      costPriority === "latency" ? (chainTiers[positionOfFamily[families[index] as number] as number] as number) : 0;
    const ms = (depthOf(table, row) + 1) * (table.stepBaseMs[placements[index] as number] as number);
    if (tier > bestTier || (tier === bestTier && ms >= leastMs)) continue;
    best = candidate;
    bestTier = tier;
    leastMs = ms;
  }
  return best;
}

/** Expected misses that the request of `prediction` brings. */
function harmOn(table: FleetTable, row: number, placement: number, response: number): number {
  const own = ownMissChance(table, placement, prediction, response, targets);
  return own + residentMisses(table, row, placement, prediction);
}

function orNone(targetMs: number): number {
  return Number.isNaN(targetMs) ? Number.POSITIVE_INFINITY : targetMs;
}

/** Writes the choice, and for each family the node that stands for it: the chosen one, or its best. */
function take(
  table: FleetTable,
  request: RouteRequest,
  decision: Decision,
  candidate: number,
  reason: ChoiceReason,
): true {
  const { candidates, evidence } = decision;
  const { rows, placements, families } = request.model;
  const { positionOfFamily } = request.policy;
  const isCostWeighed = request.policy.costPriority !== "latency";
  for (let position = 0; position < decision.families; position++) evidence.rank[position] = Number.POSITIVE_INFINITY;
  for (let other = 0; other < candidates.count; other++) {
    const position = positionOfFamily[families[candidates.index[other] as number] as number] as number;
    const score = (isCostWeighed ? candidates.costUsd[other] : candidates.responseMs[other]) as number;
    // feasible ones stand before all others
    const rank = candidates.isFeasible[other] === 1 ? score : score + 1e9;
    if (other !== candidate && !(rank < (evidence.rank[position] as number))) continue;
    evidence.rank[position] = other === candidate ? Number.NEGATIVE_INFINITY : rank;
    evidence.best[position] = candidates.index[other] as number;
    evidence.estimateMs[position] = candidates.responseMs[other] as number;
    if (isCostWeighed) evidence.costUsd[position] = candidates.costUsd[other] as number;
  }
  const index = candidates.index[candidate] as number;
  const row = rows[index] as number;
  const placement = placements[index] as number;
  predictOn(table, row, placement);
  const response = candidates.responseMs[candidate] as number;
  decision.row = row;
  decision.placement = placement;
  decision.family = families[index] as number;
  decision.position = positionOfFamily[decision.family] as number;
  decision.reason = REASONS.indexOf(reason);
  decision.depth = load.depth;
  decision.estimateMs = response;
  decision.costUsd = isCostWeighed ? (candidates.costUsd[candidate] as number) : Number.NaN;
  decision.firstMs = prediction.firstMs;
  decision.tokenMs = prediction.tokenMs;
  decision.chance = 1 - ownMissChance(table, placement, prediction, response, targets);
  // who is lost already holds nobody back
  const promisedMs = Math.min(targets.tokenMs, (targets.responseMs - prediction.firstMs) / ask.outputTokens);
  decision.promisedTokenMs =
    promisedMs < Number.POSITIVE_INFINITY && prediction.tokenMs <= promisedMs ? promisedMs : Number.NaN;
  return true;
}
