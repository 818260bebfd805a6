/** What a baseline sees and answers. Baselines choose; booking, failover and learning are the engine's for all alike. */

import type { RandomSource } from "../../seeded-random.ts";
import type { NodeConstants } from "../../step-model.ts";

/** A request as a router sees it: its output is not known. */
export interface RoutedRequest {
  /** Index in the workload. */
  index: number;
  promptTokens: number;
  /** Expected output, tokens: the model's mean so far. */
  expectedTokens: number;
  /** Session, -1: none. */
  session: number;
  blocks: Int32Array | null;
  /** Index of the class. */
  klass: number;
  /** NaN: no target. */
  ttftTargetMs: number;
  /** NaN: no target. */
  tokenTargetMs: number;
  /** NaN: no target. */
  responseTargetMs: number;
}

/** The fleet as one gateway sees it. Columns by row. */
export interface RouterView {
  nowMs: number;
  readonly rows: number;
  /** 1: healthy, with room, and did not fail this request. */
  readonly isUsable: Uint8Array;
  usableCount: number;
  /** Dispatched and not finished: own, exact, and those of others as of the last poll. */
  readonly inFlight: Float64Array;
  /** Own requests whose first token has not come. */
  readonly prefilling: Int32Array;
  /** Prompt tokens of those, less what the router believes cached. */
  readonly uncachedTokens: Float64Array;
  /** Prompt and expected output of all own requests. */
  readonly kvTokens: Int32Array;
  /** Prompt tokens sent there per second, over the last four seconds or so. */
  promptRate(row: number): number;
  /** Leading prompt tokens that the router believes to stand in the node's cache. */
  cachedTokens(row: number, blocks: Int32Array | null): number;
  readonly family: Int32Array;
  readonly usdPerHour: Float64Array;
  readonly believed: readonly NodeConstants[];
  readonly networkMs: Float64Array;
  readonly random: RandomSource;
}

export interface Router {
  /** Row for the request; `view.usableCount` is 1 or more. */
  pick(view: RouterView, request: RoutedRequest): number;
  /** An attempt on a row is over, however it ended. */
  noteEnd?(row: number, request: RoutedRequest): void;
}

/** The usable row with the least score; among equal ones a random one. */
export function leastOf(view: RouterView, score: (row: number) => number): number {
  let best = -1;
  let least = Number.POSITIVE_INFINITY;
  let ties = 0;
  for (let row = 0; row < view.rows; row++) {
    if (view.isUsable[row] === 0) continue;
    const value = score(row);
    if (value < least || best < 0) {
      least = value;
      best = row;
      ties = 1;
    } else if (value === least) {
      ties += 1;
      if (view.random() * ties < 1) best = row;
    }
  }
  return best;
}

/** The usable row at a place among the usable ones. */
export function usableAt(view: RouterView, place: number): number {
  let left = place;
  for (let row = 0; row < view.rows; row++) {
    if (view.isUsable[row] === 0) continue;
    if (left === 0) return row;
    left -= 1;
  }
  return -1;
}
