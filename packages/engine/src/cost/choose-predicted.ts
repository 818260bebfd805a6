/**
 * Step 3 with the predictor: of all candidates the nodes on which the request, and those who run there already, meet their
 * targets with the stated probability and in the memory there is; among them what the policy's `cost_priority` asks for.
 * Where there is none, the node on which the fewest requests are expected to miss. Every expected miss, its own or a
 * resident's, weighs as much as `MISS_WORTH` requests do.
 */

import type { Decision } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { depthOf, isRankedLast } from "../load.ts";
import type { WarmNodes } from "../prefix-table.ts";
import { type ChoiceReason, HINT_USES, REASONS } from "../reasons.ts";
import type { RouteRequest } from "../route-request.ts";
import { P, PREDICTION_CELLS, type StartShare } from "./predict.ts";
import { F, type Weigher, weigherOf } from "./weigh.ts";

/** Outcomes up to which a family counts as not measured. */
const MEASURED_SAMPLES = 32;
/** Share of decisions that go to a family nobody has measured, one request at a time. */
const EXPLORED_SHARE = 0.01;

/** Requests that a miss is worth: who wants 99 % of them within their targets trades one miss against a hundred. */
const MISS_WORTH = 100;

/**
 * Nodes whose expected misses one decision works out: a tenth of a microsecond each. In larger fleets the pass begins at
 * another node each time, and the best of 256 is hardly worse than the best of all.
 */
const HARMS_MAX = 256;

/** What a predicted choice is made with. */
export interface PredictedOptions {
  draw: number;
  startShareOf: StartShare;
  /** Nodes with a beginning of the prompt in their cache; null: none. */
  warm: WarmNodes | null;
}

interface Choice {
  table: FleetTable;
  request: RouteRequest;
  decision: Decision;
  weigher: Weigher;
  startShareOf: StartShare;
}

/**
 * Fills the choice of `decision`, which has candidates. Where predictions of the model have missed calibration they choose
 * no node: the least loaded one for its speed does, and predictions are made and checked until they are right again. A
 * hinted family is taken before anything is explored. O(candidates), allocates nothing per node.
 */
export function choosePredicted(
  table: FleetTable,
  request: RouteRequest,
  { draw, startShareOf, warm }: PredictedOptions,
  decision: Decision,
): true {
  const weigher = weigherOf(table);
  const choice: Choice = { table, request, decision, weigher, startShareOf };
  const { count } = decision.candidates;
  const { costPriority } = request.policy;
  const { found } = weigher;
  weigher.weigh(request, decision, startShareOf, warm);
  decision.arePricesUnknown = costPriority !== "latency" && found[F.unpriced] === count;
  const isTrusted = (found[F.untrusted] as number) * 2 <= count;
  if (request.hintFamily >= 0) {
    // what is not to be trusted does not say that the family misses the targets
    const hinted = isTrusted ? bestOf(choice, request.hintFamily, false) : leastLoaded(choice, request.hintFamily);
    if (hinted >= 0) {
      decision.hint = HINT_USES.indexOf("used");
      return take(choice, hinted, "hinted");
    }
  }
  if (!isTrusted) return take(choice, leastLoaded(choice, -1), "least_loaded");
  const explored = exploredOf(choice, draw);
  if (explored >= 0) return take(choice, explored, "exploring");
  const best = bestOf(choice, -1, costPriority === "latency");
  if (best < 0) return take(choice, leastHarm(choice), costPriority === "latency" ? "least_estimate" : "target_missed");
  if (costPriority === "latency") return take(choice, best, "first_acceptable");
  if (costPriority === "balanced") return take(choice, best, "best_balance");
  if (familyOf(choice, best) === familyOf(choice, found[F.cheapest] as number)) return take(choice, best, "cheapest");
  return take(choice, hasTiers(request) ? bestOf(choice, -1, true) : best, "next_in_chain");
}

/**
 * The best feasible candidate by the policy's priority; -1: none.
 *
 * @param family one family, -1: all. @param isInOrder whether an earlier tier of the chain comes first.
 */
function bestOf(choice: Choice, family: number, isInOrder: boolean): number {
  const { request, weigher } = choice;
  const { index: indexes, isFeasible, responseMs, costUsd, count } = choice.decision.candidates;
  const { families } = request.model;
  const { positionOfFamily, chainTiers, costPriority } = request.policy;
  const isLatency = costPriority === "latency";
  const isBalanced = costPriority === "balanced";
  const fairMs = weigher.found[F.fairMs] as number;
  const fairUsd = weigher.found[F.fairUsd] as number;
  // where nothing has a price the time of nodes compares, in any unit
  const unitUsd = fairUsd < Number.POSITIVE_INFINITY ? fairUsd : 1;
  const worth = MISS_WORTH * (isLatency ? fairMs : isBalanced ? 1 : unitUsd);
  // both in units of the least there is: against a loose target no time would count, and balanced be as cost is
  const perMs = isLatency ? 1 : isBalanced ? 1 / fairMs : 0;
  const perUsd = isBalanced ? 1 / unitUsd : 1;
  // known before the pass, which may end before it has seen all candidates
  const onlyTier = isInOrder ? firstFeasibleTier(choice) : -1;
  let harms = HARMS_MAX;
  let best = -1;
  let bestScore = Number.POSITIVE_INFINITY;
  for (let candidate = 0; candidate < count && harms > 0; candidate++) {
    const index = indexes[candidate] as number;
    const of = families[index] as number;
    if (family >= 0 && of !== family) continue;
    if (onlyTier >= 0 && chainTiers[positionOfFamily[of] as number] !== onlyTier) continue;
    const ofTime = perMs * (responseMs[candidate] as number);
    const least = isLatency ? ofTime : ofTime + perUsd * (costUsd[candidate] as number);
    // asked before what half of the nodes fail: which half, nobody can guess
    if (best >= 0 && least >= bestScore) continue;
    if (isFeasible[candidate] === 0) continue;
    let score = isLatency ? ofTime : ofTime + perUsd * weigher.costOf(request, index, candidate);
    if (best >= 0 && score >= bestScore) continue;
    harms -= 1;
    score += worth * harmOf(choice, candidate);
    if (best >= 0 && score >= bestScore) continue;
    best = candidate;
    bestScore = score;
  }
  return best;
}

/** The first tier of the chain with a feasible candidate; -1: none. */
function firstFeasibleTier({ request, decision }: Choice): number {
  const { index: indexes, isFeasible, count } = decision.candidates;
  const { families } = request.model;
  const { positionOfFamily, chainTiers } = request.policy;
  let first = -1;
  for (let candidate = 0; candidate < count && first !== 0; candidate++) {
    if (isFeasible[candidate] === 0) continue;
    const position = positionOfFamily[families[indexes[candidate] as number] as number] as number;
    const tier = chainTiers[position] as number;
    if (first < 0 || tier < first) first = tier;
  }
  return first;
}

function hasTiers({ policy }: RouteRequest): boolean {
  return policy.chainTiers.length > 1 && policy.chainTiers[policy.chainTiers.length - 1] !== 0;
}

function familyOf({ request, decision }: Choice, candidate: number): number {
  return request.model.families[decision.candidates.index[candidate] as number] as number;
}

/**
 * An idle node of a family that nobody has measured, now and then; -1: none, or not now. Only where another family has been
 * measured: before, the first requests measure what the policy chooses, and nothing is known to be compared with.
 */
function exploredOf({ table, request, decision }: Choice, draw: number): number {
  // digits of the draw that the last tie does not look at
  if ((draw * 1009) % 1 < 1 - EXPLORED_SHARE) return -1;
  const { index: indexes, count, rankedLast } = decision.candidates;
  const skipsOverloaded = rankedLast > 0 && rankedLast < count;
  let explored = -1;
  let isAnyMeasured = false;
  for (let candidate = 0; candidate < count; candidate++) {
    const index = indexes[candidate] as number;
    const row = request.model.rows[index] as number;
    if ((table.predictorSamples[request.model.placements[index] as number] as number) >= MEASURED_SAMPLES) {
      isAnyMeasured = true;
    } else if (explored < 0 && table.total.inFlight[row] === 0 && !(skipsOverloaded && isRankedLast(table, row))) {
      explored = candidate;
    }
  }
  return isAnyMeasured ? explored : -1;
}

/**
 * The candidate on which the fewest requests are expected to miss for this one; ties by the least response. Of a prompt that
 * goes on the next request is weighed too, which finds the prompt in the cache of the node that gets this one: what misses
 * anyway moves to where the rest of its conversation does not.
 */
function leastHarm(choice: Choice): number {
  const { table, request, weigher } = choice;
  const { index: indexes, responseMs, count, rankedLast } = choice.decision.candidates;
  const skipsOverloaded = rankedLast > 0 && rankedLast < count;
  const nextMisses = weigher.ask.warmTokens === null ? null : nextMissesOf(choice);
  let harms = HARMS_MAX;
  let best = 0;
  let bestHarm = Number.POSITIVE_INFINITY;
  for (let candidate = 0; candidate < count && harms > 0; candidate++) {
    if (skipsOverloaded && isRankedLast(table, request.model.rows[indexes[candidate] as number] as number)) continue;
    harms -= 1;
    let harm = harmOf(choice, candidate);
    if (nextMisses !== null) harm += nextMisses[candidate] as number;
    const ms = responseMs[candidate] as number;
    if (harm > bestHarm || (harm === bestHarm && ms >= (responseMs[best] as number))) continue;
    best = candidate;
    bestHarm = harm;
  }
  return best;
}

let nextScratch = new Float64Array(64);

/** Chances that a request like it misses on a candidate that has its prompt in the cache. */
function nextMissesOf({ request, decision, weigher, startShareOf }: Choice): Float64Array {
  const { candidates } = decision;
  const { index: indexes, count } = candidates;
  const { ask, predictor, chances, targets } = weigher;
  if (nextScratch.length < count) nextScratch = new Float64Array(2 * count);
  ask.isNext = true;
  predictor.predict(ask, request.model, candidates, startShareOf);
  for (let candidate = 0; candidate < count; candidate++) {
    const at = candidate * PREDICTION_CELLS;
    const tokenMs = predictor.cells[at + P.tokenMs] as number;
    const ms = (predictor.cells[at + P.firstMs] as number) + (ask.outputTokens - 1) * tokenMs;
    const placement = request.model.placements[indexes[candidate] as number] as number;
    nextScratch[candidate] = chances.own(candidate, placement, ms, targets);
  }
  ask.isNext = false;
  predictor.predict(ask, request.model, candidates, startShareOf);
  return nextScratch;
}

/**
 * The candidate with the least (requests + 1) × step: speed-weighted least request; in `latency` of the first tier. -1: none.
 *
 * @param family one family, -1: all.
 */
function leastLoaded({ table, request, decision }: Choice, family: number): number {
  const { index: indexes, count, rankedLast } = decision.candidates;
  const { rows, placements, families } = request.model;
  const { positionOfFamily, chainTiers, costPriority } = request.policy;
  const skipsOverloaded = rankedLast > 0 && rankedLast < count;
  let best = -1;
  let bestTier = Number.POSITIVE_INFINITY;
  let leastMs = Number.POSITIVE_INFINITY;
  for (let candidate = 0; candidate < count; candidate++) {
    const index = indexes[candidate] as number;
    const row = rows[index] as number;
    const of = families[index] as number;
    if ((family >= 0 && of !== family) || (skipsOverloaded && isRankedLast(table, row))) continue;
    const position = positionOfFamily[of] as number;
    const tier = costPriority === "latency" ? (chainTiers[position] as number) : 0;
    const ms = (depthOf(table, row) + 1) * (table.stepBaseMs[placements[index] as number] as number);
    if (tier > bestTier || (tier === bestTier && ms >= leastMs)) continue;
    best = candidate;
    bestTier = tier;
    leastMs = ms;
  }
  return best;
}

/** Misses that the request is expected to bring on a candidate: its own, and those of residents. */
function harmOf({ request, decision, weigher }: Choice, candidate: number): number {
  const { index: indexes, responseMs } = decision.candidates;
  const index = indexes[candidate] as number;
  const row = request.model.rows[index] as number;
  const placement = request.model.placements[index] as number;
  const { chances, targets } = weigher;
  const own = chances.own(candidate, placement, responseMs[candidate] as number, targets);
  return own + chances.residents(candidate, row, placement);
}

/** Writes the choice; in the evidence the chosen node stands for its family. */
function take(choice: Choice, candidate: number, reason: ChoiceReason): true {
  const { request, decision, weigher } = choice;
  const { candidates, evidence } = decision;
  const { rows, placements, families } = request.model;
  const isCostWeighed = request.policy.costPriority !== "latency";
  const index = candidates.index[candidate] as number;
  const row = rows[index] as number;
  const placement = placements[index] as number;
  const response = candidates.responseMs[candidate] as number;
  const { cells } = weigher.predictor;
  const { targets, ask } = weigher;
  const at = candidate * PREDICTION_CELLS;
  const firstMs = cells[at + P.firstMs] as number;
  const tokenMs = cells[at + P.tokenMs] as number;
  decision.row = row;
  decision.placement = placement;
  decision.family = families[index] as number;
  decision.position = request.policy.positionOfFamily[decision.family] as number;
  decision.reason = REASONS.indexOf(reason);
  decision.depth = cells[at + P.depth] as number;
  decision.estimateMs = response;
  decision.costUsd = isCostWeighed ? weigher.costOf(request, index, candidate) : Number.NaN;
  evidence.best[decision.position] = index;
  evidence.depth[decision.position] = decision.depth;
  evidence.estimateMs[decision.position] = response;
  evidence.costUsd[decision.position] = decision.costUsd;
  decision.promptTokens = ask.promptTokens;
  decision.warmTokens = ask.warmTokens?.[row] ?? 0;
  decision.cachedTokens = weigher.predictor.cachedTokens(ask, row, placement);
  decision.firstMs = firstMs;
  decision.tokenMs = tokenMs;
  decision.chance = 1 - weigher.chances.own(candidate, placement, response, targets);
  // who is lost already holds nobody back
  const promisedMs = Math.min(targets.tokenMs, (targets.responseMs - firstMs) / ask.outputTokens);
  decision.promisedTokenMs = promisedMs < Number.POSITIVE_INFINITY && tokenMs <= promisedMs ? promisedMs : Number.NaN;
  return true;
}
