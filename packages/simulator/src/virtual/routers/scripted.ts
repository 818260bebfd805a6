/** Rules that know families, times, prefixes or targets (§4.6 of the routing benchmark). */

import { weightedLoad } from "./classical.ts";
import { type Prediction, predict } from "./predict.ts";
import { leastOf, type RoutedRequest, type Router, type RouterView } from "./router.ts";

/** Requests in flight up to which a family is taken. */
const CHAIN_IN_FLIGHT = 48;

/** CHAIN: the first family (in the order of the fleet) whose least loaded node is under 48 in flight; else WLR. */
export function scriptedChain(): Router {
  return {
    pick(view) {
      let families = 0;
      for (let row = 0; row < view.rows; row++) families = Math.max(families, (view.family[row] as number) + 1);
      for (let family = 0; family < families; family++) {
        const row = leastOf(view, (other) =>
          view.family[other] === family ? (view.inFlight[other] as number) : Number.POSITIVE_INFINITY,
        );
        if (view.family[row] === family && (view.inFlight[row] as number) < CHAIN_IN_FLIGHT) return row;
      }
      return leastOf(view, (row) => weightedLoad(view, row));
    },
  };
}

/** SPL: least predicted time of the whole answer. */
export function shortestPredictedLatency(): Router {
  const prediction: Prediction = { ttftMs: 0, tokenMs: 0 };
  return {
    pick: (view, request) =>
      leastOf(view, (row) => {
        predict(view, request, row, prediction);
        return prediction.ttftMs + request.expectedTokens * prediction.tokenMs;
      }),
  };
}

/**
 * BF: of the nodes that are predicted to meet the request's own targets the one with the least headroom; if none does,
 * the one that misses by least. Headroom is the smaller of what is left of the first token's and the token time's target,
 * as shares of them.
 */
export function bestFit(): Router {
  const prediction: Prediction = { ttftMs: 0, tokenMs: 0 };
  return {
    pick: (view, request) =>
      leastOf(view, (row) => {
        predict(view, request, row, prediction);
        const headroom = headroomOf(prediction, request);
        // misses stand behind every fit, the smallest first
        return headroom >= 0 ? headroom : 1e6 - headroom;
      }),
  };
}

function headroomOf({ ttftMs, tokenMs }: Prediction, request: RoutedRequest): number {
  const left = (targetMs: number, predictedMs: number) =>
    Number.isNaN(targetMs) ? 1 : (targetMs - predictedMs) / targetMs;
  return Math.min(
    left(request.ttftTargetMs, ttftMs),
    left(request.tokenTargetMs, tokenMs),
    left(request.responseTargetMs, ttftMs + request.expectedTokens * tokenMs),
  );
}

/** A node is warm for a prompt when it holds so much of it. */
const WARM_SHARE = 0.8;
/** Work that a warm node may be ahead of the others, seconds at its peak prefill rate. */
const WARM_LEAD_S = 5;

/** PFX: the warm node, until its lead in uncached tokens in flight exceeds five seconds of work; then fewest such tokens. */
export function prefixAffinity(): Router {
  return {
    pick(view, request) {
      const ahead = (row: number) => view.uncachedTokens[row] as number;
      const isWarm = (row: number) => view.cachedTokens(row, request.blocks) >= WARM_SHARE * request.promptTokens;
      const coolest = leastOf(view, ahead);
      const warm = leastOf(view, (row) => (isWarm(row) ? ahead(row) : Number.POSITIVE_INFINITY));
      if (warm >= 0 && isWarm(warm)) {
        const tokensPerSecond = 1e6 / (view.believed[warm]?.usPerPrefillToken ?? 1);
        if (ahead(warm) - ahead(coolest) <= tokensPerSecond * WARM_LEAD_S) return warm;
      }
      return leastOf(view, (row) => ahead(row) + request.promptTokens - view.cachedTokens(row, request.blocks));
    },
  };
}

/** LMX (LMetric): least (uncached prompt tokens waiting + own) × (in flight + 1). */
export function newTokensTimesBatch(): Router {
  return {
    pick: (view, request) =>
      leastOf(view, (row) => {
        const own = request.promptTokens - view.cachedTokens(row, request.blocks);
        return ((view.uncachedTokens[row] as number) + own) * ((view.inFlight[row] as number) + 1);
      }),
  };
}

/** Where a bucket of requests goes: family by class and bucket of prompt lengths. */
export interface BucketPlan {
  /** Upper ends of the buckets, tokens; the last is Infinity. */
  readonly bounds: readonly number[];
  /** class × buckets + bucket → family. */
  readonly families: Int32Array;
}

/** MEL: each length goes to the family that an offline plan gave it; inside the family WLR. No such node left: WLR over all. */
export function plannedBuckets(plan: BucketPlan): Router {
  return {
    pick(view, request) {
      const bucket = plan.bounds.findIndex((bound) => request.promptTokens <= bound);
      const family = plan.families[request.klass * plan.bounds.length + bucket];
      const row = leastOf(view, (other) =>
        view.family[other] === family ? weightedLoad(view, other) : Number.POSITIVE_INFINITY,
      );
      return view.family[row] === family ? row : leastOf(view, (other) => weightedLoad(view, other));
    },
  };
}

/** Follows a given assignment: what a search in hindsight tries. A node that cannot take its request gives way to WLR. */
export function assigned(rowOf: Int16Array): Router {
  return {
    pick(view: RouterView, request) {
      const row = rowOf[request.index] ?? -1;
      return row >= 0 && view.isUsable[row] === 1 ? row : leastOf(view, (other) => weightedLoad(view, other));
    },
  };
}
