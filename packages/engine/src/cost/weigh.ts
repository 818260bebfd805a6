/**
 * What the predicted choice weighs: each candidate's response, marginal cost, and whether the request and those who run
 * there meet their targets.
 *
 * Costs are marginal: what the request adds to the time for which the node is busy, or the share that it takes of what the
 * node can hold at its tightest promise, if that is more. An idle node costs all of its time, a busy one a part of a step;
 * a tight request on a node full of loose ones costs what they have to leave.
 */

import { CHAIN_FAMILIES_MAX } from "../bounds.ts";
import type { Decision } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { isRankedLast } from "../load.ts";
import type { WarmNodes } from "../prefix-table.ts";
import type { RouteRequest } from "../route-request.ts";
import { isPromptOnly, promptTokensOf } from "./estimate.ts";
import { type MissChances, missChancesOf, type Targets } from "./miss-chance.ts";
import {
  type Ask,
  freshShareOf,
  meanPromptOf,
  P,
  PREDICTION_CELLS,
  type Predictor,
  predictorOf,
  type StartShare,
} from "./predict.ts";

/** Predictions of a model that are off by more than this, as |ln|, are not used: a factor of 2 tells no target. */
const UNTRUSTED = Math.log(2);
/** Outcomes before which a family's error says nothing. */
const SAMPLES_MIN = 50;

/** How far a node may be filled where no target says it: to twice its idle step, where half of its time is requests' own. */
const UNSAID_STEPS = 2;

/** Requests of others that are expected to have a promise from which on one of them is taken to be there. */
const OTHERS_MIN = 0.5;

const HOURS_PER_MS = 1 / 3_600_000;

/** Cells of what a pass found out about all candidates. */
export const F = {
  /** Least cost on a node that is full of such requests, USD: what a miss is measured in. Infinity: no price is known. */
  fairUsd: 0,
  /** Least predicted response, ms. */
  fairMs: 1,
  /** The candidate that costs least, whether or not it meets the targets; in `latency` none. */
  cheapest: 4,
  /** Candidates whose predictions are not to be trusted. */
  untrusted: 2,
  /** Candidates of unknown price; in `latency` not counted. */
  unpriced: 3,
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
   * Fills `isFeasible`, `responseMs` and, but in `latency`, what the request costs at least (`costUsd`) of all candidates,
   * `found`, and the evidence of each family: its best feasible candidate, or its best one. O(candidates).
   */
  weigh(request: RouteRequest, decision: Decision, startShareOf: StartShare, warm: WarmNodes | null): void;
  /**
   * Cost on a candidate that was weighed, USD. Worked out where the least that it can be does not settle the matter: most
   * of a large fleet costs more than what was found already. The highest known price stands for one that is not known.
   */
  costOf(request: RouteRequest, index: number, candidate: number): number;
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
  const { kvCapacityTokens, predictionError, predictorSamples, priceUsdPerHour, tightestUs } = table;
  const { foreign, elsewhere, othersTightestUs, othersTightShare } = table;
  const predictor = predictorOf(table);
  const ask: Ask = {
    promptTokens: 0,
    outputTokens: 1,
    meanPromptTokens: 0,
    freshShare: 1,
    warmTokens: null,
    isNext: false,
  };
  const targets: Targets = { firstMs: 0, tokenMs: 0, responseMs: 0 };
  const found = new Float64Array(5);
  /** By position in the chain: the best candidate so far meets the targets. */
  const isBestFit = new Uint8Array(CHAIN_FAMILIES_MAX);
  let promiseMs = 0;
  let usualKvTokens = 0;
  let promptsPerOutput = 0;
  let unknownUsd = 1;

  function prepare(request: RouteRequest): void {
    const { policy, isStream } = request;
    ask.promptTokens = Math.max(1, promptTokensOf(table, request));
    ask.outputTokens = isPromptOnly(request.endpoint) ? 1 : Math.max(1, request.expectedTokens);
    ask.meanPromptTokens = meanPromptOf(table, request.model.index);
    ask.freshShare = freshShareOf(table, request.model.index);
    targets.firstMs = isStream ? orNone(policy.ttftTargetMs) : Number.POSITIVE_INFINITY;
    targets.tokenMs = isStream ? orNone(policy.tokenTargetMs) : Number.POSITIVE_INFINITY;
    targets.responseMs = orNone(policy.latencyTargetMs);
    promiseMs = Math.min(targets.tokenMs, targets.responseMs / ask.outputTokens);
    usualKvTokens = ask.meanPromptTokens + ask.outputTokens / 2;
    promptsPerOutput = ask.meanPromptTokens / ask.outputTokens;
  }

  function weigh(
    request: RouteRequest,
    { candidates, evidence, families: positions }: Decision,
    startShareOf: StartShare,
    warm: WarmNodes | null,
  ): void {
    prepare(request);
    ask.warmTokens = warm === null ? null : warm.tokens;
    predictor.predict(ask, request.model, candidates, startShareOf);
    const { cells } = predictor;
    const { index: indexes, isFeasible, responseMs, costUsd, count, rankedLast } = candidates;
    const { best, rank: ranks, depth: depths, estimateMs: estimates, costUsd: costs } = evidence;
    const { rows, placements, families } = request.model;
    const { positionOfFamily } = request.policy;
    const isCostWeighed = request.policy.costPriority !== "latency";
    for (let position = 0; position < positions; position++) {
      ranks[position] = Number.POSITIVE_INFINITY;
      isBestFit[position] = 0;
    }
    if (isCostWeighed) notePrices(request, candidates);
    const { outputTokens } = ask;
    const { firstMs: firstTargetMs, tokenMs: tokenTargetMs, responseMs: responseTargetMs } = targets;
    const isUnsaid = promiseMs === Number.POSITIVE_INFINITY;
    const skipsOverloaded = rankedLast > 0 && rankedLast < count;
    let cheapest = 0;
    let leastUsd = Number.POSITIVE_INFINITY;
    let untrusted = 0;
    let fairUsd = Number.POSITIVE_INFINITY;
    let fairMs = Number.POSITIVE_INFINITY;
    for (let candidate = 0; candidate < count; candidate++) {
      const index = indexes[candidate] as number;
      const row = rows[index] as number;
      const placement = placements[index] as number;
      const at = candidate * PREDICTION_CELLS;
      const depth = cells[at + P.depth] as number;
      const firstMs = cells[at + P.firstMs] as number;
      const tokenMs = cells[at + P.tokenMs] as number;
      const response = firstMs + (outputTokens - 1) * tokenMs;
      responseMs[candidate] = response;
      if (response < fairMs) fairMs = response;
      const firstFactor = firstSpread[placement] as number;
      const tokenFactor = tokenSpread[placement] as number;
      const responseFactor = firstFactor > tokenFactor ? firstFactor : tokenFactor;
      // as numbers, since half of the nodes fail one or the other, and a branch that is guessed wrong costs more than all
      let isFit =
        Number(firstMs * firstFactor <= firstTargetMs) &
        Number(tokenMs * tokenFactor <= tokenTargetMs) &
        Number(response * responseFactor <= responseTargetMs) &
        Number(!((cells[at + P.kvTokens] as number) > (kvCapacityTokens[placement] as number)));
      if (depth > 0) {
        const residentMs = cells[at + P.residentMs] as number;
        const heldUs = heldUsOn(row);
        if (heldUs !== 0) isFit &= Number(residentMs * tokenFactor * 1000 <= heldUs);
        if (isUnsaid) isFit &= Number(residentMs <= UNSAID_STEPS * (stepBaseMs[placement] as number));
      }
      if (skipsOverloaded && isRankedLast(table, row)) isFit = 0;
      isFeasible[candidate] = isFit;
      if ((predictionError[placement] as number) > UNTRUSTED && (predictorSamples[placement] as number) > SAMPLES_MIN) {
        untrusted += 1;
      }
      const position = positionOfFamily[families[index] as number] as number;
      // what meets the targets is ahead of all that does not; among its like the score tells
      const ahead = isFit - (isBestFit[position] as number);
      let score = response;
      if (isCostWeighed) {
        const price = priceUsdPerHour[row] as number;
        const usdPerMs = (price >= 0 ? price : unknownUsd) * HOURS_PER_MS;
        const least = usdPerMs * (cells[at + P.nodeMs] as number);
        costUsd[candidate] = least;
        if (least >= leastUsd && (ahead < 0 || (ahead === 0 && least >= (ranks[position] as number)))) continue;
        score = usdPerMs * chargedMs(candidate, row, placement);
        const fullMs =
          (cells[at + P.prefillMs] as number) +
          outputTokens * fullShareMs(placement, promiseMs, freshPart(row, placement));
        if (price > 0 && usdPerMs * fullMs < fairUsd) fairUsd = usdPerMs * fullMs;
        if (score < leastUsd) {
          leastUsd = score;
          cheapest = candidate;
        }
      }
      if (ahead > 0 || (ahead === 0 && score < (ranks[position] as number))) {
        ranks[position] = score;
        isBestFit[position] = isFit;
        best[position] = index;
        depths[position] = depth;
        estimates[position] = response;
        // evidence says that a price is unknown
        if (isCostWeighed) costs[position] = (priceUsdPerHour[row] as number) >= 0 ? score : Number.NaN;
      }
    }
    found[F.fairUsd] = fairUsd;
    found[F.fairMs] = fairMs;
    found[F.untrusted] = untrusted;
    found[F.cheapest] = cheapest;
  }

  /** The highest known price stands for those that are not known; where none is, the time of nodes compares. */
  function notePrices({ model }: RouteRequest, { index: indexes, count }: Decision["candidates"]): void {
    let unpriced = 0;
    let highestUsd = -1;
    for (let candidate = 0; candidate < count; candidate++) {
      const price = priceUsdPerHour[model.rows[indexes[candidate] as number] as number] as number;
      if (price > highestUsd) highestUsd = price;
      else if (!(price >= 0)) unpriced += 1;
    }
    unknownUsd = highestUsd >= 0 ? highestUsd : 1;
    found[F.unpriced] = unpriced;
  }

  /** Tightest promise on a node, µs: of our own requests, or of those of others as they are taken to be; 0: none. */
  function heldUsOn(row: number): number {
    const ownUs = tightestUs[row] as number;
    const others = (foreign[row] as number) + (elsewhere[row] as number);
    // unknown load, or nothing seen of promises: not so
    if (!(others * (othersTightShare[row] as number) >= OTHERS_MIN)) return ownUs;
    const theirUs = othersTightestUs[row] as number;
    return ownUs === 0 || theirUs < ownUs ? theirUs : ownUs;
  }

  /** The part of the request's prompt that has to be computed on a node. */
  function freshPart(row: number, placement: number): number {
    if (ask.warmTokens === null) return 1;
    return 1 - predictor.cachedTokens(ask, row, placement) / ask.promptTokens;
  }

  /** What each request of the model's usual size, of whose prompts as much is fresh, adds to a step, ms. */
  function slopeOf(placement: number, fresh: number): number {
    return (
      (stepPerRequestMs[placement] as number) +
      (stepPerKvTokenMs[placement] as number) * usualKvTokens +
      (stepPerPromptTokenMs[placement] as number) * promptsPerOutput * fresh
    );
  }

  /** Share of a step of one among so many requests as fill the node up to `stepMs`, ms per token. */
  function fullShareMs(placement: number, stepMs: number, fresh: number): number {
    const certainMs = stepMs / (tokenSpread[placement] as number);
    return shareOf(certainMs, stepBaseMs[placement] as number, slopeOf(placement, fresh));
  }

  /** Time of the node that a candidate is charged for, ms: at least its `nodeMs`. */
  function chargedMs(candidate: number, row: number, placement: number): number {
    const { cells } = predictor;
    const depth = cells[candidate * PREDICTION_CELLS + P.depth] as number;
    const nodeMs = cells[candidate * PREDICTION_CELLS + P.nodeMs] as number;
    const fresh = freshPart(row, placement);
    const ownMs = fullShareMs(placement, promiseMs, fresh);
    const heldUs = heldUsOn(row);
    const heldMs = heldUs === 0 ? Number.POSITIVE_INFINITY : heldUs / 1000;
    const heldShareMs = depth > 0 && heldMs !== promiseMs ? fullShareMs(placement, heldMs, fresh) : ownMs;
    const takenMs = ask.outputTokens * (heldMs < promiseMs ? heldShareMs : ownMs);
    // a tight request among loose ones pays for those who have to leave
    const conversionMs = heldMs > promiseMs && heldShareMs < ownMs ? depth * (ownMs - heldShareMs) : 0;
    return (nodeMs > takenMs ? nodeMs : takenMs) + ask.outputTokens * conversionMs;
  }

  function costOf({ model }: RouteRequest, index: number, candidate: number): number {
    const row = model.rows[index] as number;
    const price = priceUsdPerHour[row] as number;
    const ms = chargedMs(candidate, row, model.placements[index] as number);
    return (price >= 0 ? price : unknownUsd) * HOURS_PER_MS * ms;
  }

  return { ask, targets, predictor, chances: missChancesOf(table), found, weigh, costOf };
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
