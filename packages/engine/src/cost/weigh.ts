/**
 * What the predicted choice weighs: each candidate's response, marginal cost, and whether the request and those who run
 * there meet their targets.
 *
 * Costs are marginal: what the request adds to the time for which the node is busy, or the share that it takes of what the
 * node can hold at its tightest promise, if that is more. An idle node costs all of its time, a busy one a part of a step;
 * a tight request on a node full of loose ones costs what they have to leave.
 */

import type { Decision } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { isRankedLast } from "../load.ts";
import type { RouteRequest } from "../route-request.ts";
import { isPromptOnly, promptTokensOf } from "./estimate.ts";
import { type MissChances, missChancesOf, type Targets } from "./miss-chance.ts";
import { type Ask, meanPromptOf, P, type Predictor, predictorOf } from "./predict.ts";

/** Predictions of a model that are off by more than this, as |ln|, are not used: a factor of 2 tells no target. */
const UNTRUSTED = Math.log(2);
/** Outcomes before which a family's error says nothing. */
const SAMPLES_MIN = 50;

/** How far a node may be filled where no target says it: to twice its idle step, where half of its time is requests' own. */
const UNSAID_STEPS = 2;

/** Added to the rank of what does not meet the targets: behind all that does, and still in order. */
const INFEASIBLE = 1e9;

const HOURS_PER_MS = 1 / 3_600_000;

/** Share of its speed with which a node in its slow start counts, 0.1 to 1. */
export type StartShare = (row: number) => number;

/** Cells of what a pass found out about all candidates. */
export const F = {
  /** Least cost on a node that is full of such requests, USD: what a miss is measured in. Infinity: no price is known. */
  fairUsd: 0,
  /** Least predicted response, ms. */
  fairMs: 1,
  /** Candidates whose predictions are not to be trusted. */
  untrusted: 2,
  /** Candidates of unknown price. */
  unpriced: 3,
  /** Highest known price, USD per hour; NaN: none. */
  highestUsd: 4,
  /** The candidate that costs least, whether or not it meets the targets. */
  cheapest: 5,
} as const;

/** The weigher of one table. Its scratch is that of the request weighed last. */
export interface Weigher {
  readonly ask: Ask;
  readonly targets: Targets;
  readonly predictor: Predictor;
  readonly chances: MissChances;
  /** By `F`. */
  readonly found: Float64Array;
  /**
   * Fills `isFeasible`, `responseMs` and `costUsd` of all candidates, `found`, and the evidence of each family: its best
   * feasible candidate, or its best one. O(candidates).
   */
  weigh(request: RouteRequest, decision: Decision, startShareOf: StartShare): void;
  /** Predicts on one node anew; `predictor.cells` hold it. */
  predictOn(row: number, placement: number, startShareOf: StartShare): void;
}

const weighers = new WeakMap<FleetTable, Weigher>();

/** The weigher of a table; a thread has one table. */
export function weigherOf(table: FleetTable): Weigher {
  let weigher = weighers.get(table);
  if (weigher === undefined) {
    weigher = createWeigher(table);
    weighers.set(table, weigher);
  }
  return weigher;
}

/** Closes over the columns, as the pass of availability does. */
function createWeigher(table: FleetTable): Weigher {
  const { stepBaseMs, stepPerRequestMs, stepPerKvTokenMs, stepPerPromptTokenMs, firstSpread, tokenSpread } = table;
  const { kvCapacityTokens, predictionError, predictorSamples, priceUsdPerHour, tightestUs, warmUntil } = table;
  const predictor = predictorOf(table);
  const { cells } = predictor;
  const ask: Ask = { promptTokens: 0, outputTokens: 1, meanPromptTokens: 0 };
  const targets: Targets = { firstMs: 0, tokenMs: 0, responseMs: 0 };
  const found = new Float64Array(6);

  function prepare(request: RouteRequest): void {
    const { policy, isStream } = request;
    ask.promptTokens = Math.max(1, promptTokensOf(table, request));
    ask.outputTokens = isPromptOnly(request.endpoint) ? 1 : Math.max(1, request.expectedTokens);
    ask.meanPromptTokens = meanPromptOf(table, request.model.index);
    targets.firstMs = isStream ? orNone(policy.ttftTargetMs) : Number.POSITIVE_INFINITY;
    targets.tokenMs = isStream ? orNone(policy.tokenTargetMs) : Number.POSITIVE_INFINITY;
    targets.responseMs = orNone(policy.latencyTargetMs);
  }

  function predictOn(row: number, placement: number, startShareOf: StartShare): void {
    predictor.predict(ask, row, placement);
    // alone on it a request is as fast as ever: only company waits until the node is warm
    if (warmUntil[row] === 0 || cells[P.depth] === 0) return;
    const share = startShareOf(row);
    for (const cell of [P.firstMs, P.tokenMs, P.residentMs]) cells[cell] = (cells[cell] as number) / share;
  }

  function weigh(
    request: RouteRequest,
    { candidates, evidence, families: positions }: Decision,
    startShareOf: StartShare,
  ): void {
    prepare(request);
    const { index: indexes, isFeasible, responseMs, costUsd, count, rankedLast } = candidates;
    const { best, rank: ranks, depth: depths, estimateMs: estimates, costUsd: costs } = evidence;
    const { rows, placements, families } = request.model;
    const { positionOfFamily } = request.policy;
    const isCostWeighed = request.policy.costPriority !== "latency";
    for (let position = 0; position < positions; position++) ranks[position] = Number.POSITIVE_INFINITY;
    const { outputTokens, meanPromptTokens } = ask;
    const { firstMs: firstTargetMs, tokenMs: tokenTargetMs, responseMs: responseTargetMs } = targets;
    const promiseMs = Math.min(tokenTargetMs, responseTargetMs / outputTokens);
    const isUnsaid = promiseMs === Number.POSITIVE_INFINITY;
    const skipsOverloaded = rankedLast > 0 && rankedLast < count;
    const promptsPerOutput = meanPromptTokens / outputTokens;
    const contextTokens = meanPromptTokens + outputTokens / 2;
    let cheapest = 0;
    let leastUsd = Number.POSITIVE_INFINITY;
    let untrusted = 0;
    let unpriced = 0;
    let highestUsd = Number.NaN;
    let fairUsd = Number.POSITIVE_INFINITY;
    let fairMs = Number.POSITIVE_INFINITY;
    for (let candidate = 0; candidate < count; candidate++) {
      const index = indexes[candidate] as number;
      const row = rows[index] as number;
      const placement = placements[index] as number;
      predictOn(row, placement, startShareOf);
      const depth = cells[P.depth] as number;
      const firstMs = cells[P.firstMs] as number;
      const tokenMs = cells[P.tokenMs] as number;
      const residentMs = cells[P.residentMs] as number;
      const response = firstMs + (outputTokens - 1) * tokenMs;
      responseMs[candidate] = response;
      if (response < fairMs) fairMs = response;
      const firstFactor = firstSpread[placement] as number;
      const tokenFactor = tokenSpread[placement] as number;
      const baseMs = stepBaseMs[placement] as number;
      // a request on a node that is full: its share of the step there
      const slopeMs =
        (stepPerRequestMs[placement] as number) +
        (stepPerKvTokenMs[placement] as number) * contextTokens +
        (stepPerPromptTokenMs[placement] as number) * promptsPerOutput;
      const certainty = 1 / tokenFactor;
      const ownMs = shareOf(promiseMs * certainty, baseMs, slopeMs);
      const heldUs = tightestUs[row] as number;
      let shareMs = ownMs;
      let conversionMs = 0;
      if (depth > 0 && heldUs !== 0 && heldUs < promiseMs * 1000) {
        shareMs = shareOf(heldUs * 0.001 * certainty, baseMs, slopeMs);
      } else if (depth > 0 && heldUs !== promiseMs * 1000) {
        const heldMs = heldUs === 0 ? Number.POSITIVE_INFINITY : heldUs * 0.001;
        const looseMs = shareOf(heldMs * certainty, baseMs, slopeMs);
        if (looseMs < ownMs) conversionMs = depth * (ownMs - looseMs);
      }
      const nodeMs = cells[P.nodeMs] as number;
      const takenMs = outputTokens * shareMs;
      const hours = ((nodeMs > takenMs ? nodeMs : takenMs) + outputTokens * conversionMs) * HOURS_PER_MS;
      const price = priceUsdPerHour[row] as number;
      // below 0 until the highest known price stands for the unknown
      const usd = price >= 0 ? price * hours : -hours;
      costUsd[candidate] = usd;
      if (usd < leastUsd) {
        leastUsd = usd;
        cheapest = candidate;
      }
      if (price >= 0) {
        if (!(price <= highestUsd)) highestUsd = price;
        const fair = price * ((cells[P.prefillMs] as number) + outputTokens * ownMs) * HOURS_PER_MS;
        if (fair > 0 && fair < fairUsd) fairUsd = fair;
      } else unpriced += 1;
      const responseFactor = firstFactor > tokenFactor ? firstFactor : tokenFactor;
      const isWithin =
        firstMs * firstFactor <= firstTargetMs &&
        tokenMs * tokenFactor <= tokenTargetMs &&
        response * responseFactor <= responseTargetMs &&
        !(depth > 0 && heldUs !== 0 && residentMs * tokenFactor * 1000 > heldUs) &&
        !(depth > 0 && isUnsaid && residentMs > UNSAID_STEPS * baseMs) &&
        !((cells[P.kvTokens] as number) > (kvCapacityTokens[placement] as number));
      const isFit = isWithin && !(skipsOverloaded && isRankedLast(table, row));
      isFeasible[candidate] = isFit ? 1 : 0;
      const position = positionOfFamily[families[index] as number] as number;
      const score = isCostWeighed ? usd : response;
      const rank = isFit ? score : score + INFEASIBLE;
      if (rank < (ranks[position] as number)) {
        ranks[position] = rank;
        best[position] = index;
        depths[position] = depth;
        estimates[position] = response;
        if (isCostWeighed) costs[position] = usd;
      }
      if ((predictionError[placement] as number) > UNTRUSTED && (predictorSamples[placement] as number) > SAMPLES_MIN) {
        untrusted += 1;
      }
    }
    if (unpriced > 0) {
      const usdPerHour = Number.isNaN(highestUsd) ? 1 : highestUsd;
      for (let candidate = 0; candidate < count; candidate++) {
        if ((costUsd[candidate] as number) < 0) costUsd[candidate] = -(costUsd[candidate] as number) * usdPerHour;
        if ((costUsd[candidate] as number) < (costUsd[cheapest] as number)) cheapest = candidate;
      }
      for (let position = 0; position < positions; position++) {
        // evidence says that a price is unknown
        if ((costs[position] as number) < 0) costs[position] = Number.NaN;
      }
    }
    found[F.fairUsd] = fairUsd;
    found[F.fairMs] = fairMs;
    found[F.untrusted] = untrusted;
    found[F.unpriced] = unpriced;
    found[F.highestUsd] = highestUsd;
    found[F.cheapest] = cheapest;
  }

  return { ask, targets, predictor, chances: missChancesOf(table), found, weigh, predictOn };
}

/** Part of a step that one of the requests takes which fill a node up to a step of `stepMs`, ms. */
function shareOf(stepMs: number, baseMs: number, slopeMs: number): number {
  const fullMs = stepMs < Number.POSITIVE_INFINITY ? stepMs : UNSAID_STEPS * baseMs;
  const roomMs = fullMs - baseMs;
  // alone on it, where it is not even met by one
  if (roomMs <= slopeMs) return fullMs > baseMs ? fullMs : baseMs;
  return (fullMs * slopeMs) / roomMs;
}

function orNone(targetMs: number): number {
  return Number.isNaN(targetMs) ? Number.POSITIVE_INFINITY : targetMs;
}
