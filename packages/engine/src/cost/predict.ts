/**
 * What a request would meet on a node, and what it would do to those who run there: the node model of continuous batching,
 * with coefficients that were learned (`learning/timing-learner.ts`).
 *
 *   step       = base + perRequest × B + perKvToken × K             one token for every sequence of the batch
 *   first      = firstBase + wait for the present step + max(step, perToken × own fresh prompt + perAhead × tokens ahead)
 *                + perSquare × (own² − cached²)
 *   token time = step + perPromptToken × prompt tokens of others computed per step
 *
 * with B sequences and K tokens in the KV cache, this request's included; fresh is what of a prompt does not stand in the
 * prefix cache, which is all that has to be computed of it. The prompts of others are what keeps up the present
 * company (each request that leaves makes room for one whose prompt is computed beside the rest), or what waits now, if
 * that is more: a burst is seen when it is booked, not when it is over. All coefficients are 0 or more, so that nothing
 * gets faster by more load.
 */

import { DEFAULT_PROMPT_TOKENS } from "../bounds.ts";
import type { Model } from "../directory.ts";
import type { FleetTable } from "../fleet-table.ts";

/** A request, as a prediction takes it. */
export interface Ask {
  promptTokens: number;
  /** Expected output, at least 1. */
  outputTokens: number;
  /** Mean prompt of the model, for what others sent. */
  meanPromptTokens: number;
  /** Share of prompts that is not found in a prefix cache, of the model's requests. */
  freshShare: number;
  /** Prompt tokens that nodes are believed to have in their prefix cache, by row; null: none has any. */
  warmTokens: Float64Array | null;
  /** True: predicts as if every node had been sent the whole prompt before, as the next request of a conversation finds it. */
  isNext: boolean;
}

/**
 * Share of a warm prompt that counts as cached where no answer has told yet whether the node keeps what it was sent: as
 * much as nobody knows. It is enough for a warm node to be preferred, and to be believed or not some answers later.
 */
export const CACHE_HITS_UNKNOWN = 0.5;

/** Cells of a prediction, side by side for each candidate: candidate × `PREDICTION_CELLS` + cell. */
export const P = {
  /** Requests on the node, whoever sent them. */
  depth: 0,
  /** First token, ms. */
  firstMs: 1,
  /** Time per further token, ms. */
  tokenMs: 2,
  /** Time per token of those who run there already, ms. */
  residentMs: 3,
  /** The same without this request. */
  beforeMs: 4,
  /** Its own prompt alone, ms. */
  prefillMs: 5,
  /** By how much it makes the node busy for longer, ms: its prompt, and what it is expected to outlast the others by. */
  nodeMs: 6,
  /** KV tokens in use with it. */
  kvTokens: 7,
} as const;
export const PREDICTION_CELLS = 8;

/** Nodes to predict for. */
export interface Asked {
  /** Positions in the lists of the model. */
  readonly index: Int32Array;
  readonly count: number;
}

/** Predicts for one table. What it makes stands in `cells` until the next call. */
export interface Predictor {
  /** By candidate and `P`. */
  readonly cells: Float64Array;
  /** Predicts for a request on nodes as they are now. O(candidates), allocates nothing per node. */
  predict(ask: Ask, model: Pick<Model, "rows" | "placements">, candidates: Asked, startShareOf: StartShare): void;
  /** Prompt tokens that are expected to be found in the prefix cache of a node; fewer than the prompt has. */
  cachedTokens(ask: Ask, row: number, placement: number): number;
}

/** Share of its speed with which a node in its slow start counts, 0.1 to 1. */
export type StartShare = (row: number) => number;

const predictors = new WeakMap<FleetTable, Predictor>();

/** The predictor of a table; a thread has one table. */
export function predictorOf(table: FleetTable): Predictor {
  let predictor = predictors.get(table);
  if (predictor === undefined) {
    predictor = createPredictor(table);
    predictors.set(table, predictor);
  }
  return predictor;
}

/** Prompt of the model's requests, tokens. */
export function meanPromptOf(table: FleetTable, model: number): number {
  const mean = table.meanPromptTokens[model] as number;
  return mean > 0 ? mean : DEFAULT_PROMPT_TOKENS;
}

/** Share of the model's prompt tokens that no prefix cache was expected to hold. */
export function freshShareOf(table: FleetTable, model: number): number {
  const share = table.freshShare[model] as number;
  return share >= 0 ? share : 1;
}

/**
 * Closes over the columns, as the pass of availability does: a table has too many of them for quick look-ups by name. One
 * pass over all candidates with the request's numbers in locals takes half the time of a call for each.
 */
function createPredictor(table: FleetTable): Predictor {
  const { stepBaseMs, stepPerRequestMs, stepPerKvTokenMs, stepPerPromptTokenMs } = table;
  const { firstBaseMs, firstPerTokenMs, firstPerAheadMs, firstPerSquareMs } = table;
  const { foreign, elsewhere, concurrencyLimit, warmUntil, cacheHits } = table;
  const { inFlight, kvTokens, promptTokens: waitingTokens, plainPromptTokens } = table.total;
  let cells = new Float64Array(64 * PREDICTION_CELLS);

  function cachedTokens({ promptTokens, warmTokens, isNext }: Ask, row: number, placement: number): number {
    const believed = isNext ? promptTokens : warmTokens === null ? 0 : (warmTokens[row] as number);
    if (believed === 0) return 0;
    const hits = cacheHits[placement] as number;
    // the first token comes out of a prompt token that is computed
    return Math.min(promptTokens - 1, believed * (hits >= 0 ? hits : CACHE_HITS_UNKNOWN));
  }

  function predict(
    ask: Ask,
    { rows, placements }: Pick<Model, "rows" | "placements">,
    { index: indexes, count }: Asked,
    startShareOf: StartShare,
  ): void {
    const { promptTokens, outputTokens, meanPromptTokens, freshShare } = ask;
    const isAnyWarm = ask.warmTokens !== null || ask.isNext;
    if (cells.length < count * PREDICTION_CELLS) cells = new Float64Array(2 * count * PREDICTION_CELLS);
    let freshTokens = promptTokens;
    let squareTokens = promptTokens * promptTokens;
    const ownKvTokens = promptTokens + outputTokens / 2;
    const perOutput = 1 / outputTokens;
    for (let candidate = 0; candidate < count; candidate++) {
      const index = indexes[candidate] as number;
      const row = rows[index] as number;
      const placement = placements[index] as number;
      if (isAnyWarm) {
        const found = cachedTokens(ask, row, placement);
        freshTokens = promptTokens - found;
        squareTokens = freshTokens * (promptTokens + found);
      }
      const others = foreign[row] as number;
      // below 0 for a moment, while a dead worker's share is taken out
      const counted = inFlight[row] as number;
      const own = counted > 0 ? counted : 0;
      const strangers = (others > 0 ? others : 0) + (elsewhere[row] as number);
      const depth = own + strangers;
      const strangeTokens = strangers * meanPromptTokens;
      // bookings count whole outputs; on the way half of them stand in memory
      const ownPrompts = (kvTokens[row] as number) - own * outputTokens;
      const prompts = (ownPrompts > 0 ? ownPrompts : 0) + strangeTokens;
      const cached = prompts + (depth * outputTokens) / 2 + ownKvTokens;
      const perRequestMs = stepPerRequestMs[placement] as number;
      const perKvTokenMs = stepPerKvTokenMs[placement] as number;
      const stepMs = (stepBaseMs[placement] as number) + perRequestMs * (depth + 1) + perKvTokenMs * cached;
      const decodingMs = outputTokens * stepMs;
      const squareMs = (firstPerSquareMs[placement] as number) * squareTokens;
      const ownComputeMs = (firstPerTokenMs[placement] as number) * freshTokens;
      const prefillMs = ownComputeMs + squareMs;
      const prefillShare = prefillMs / (prefillMs + decodingMs);
      // of answers that do not stream, and of those of others, the share of their time that prompts take is taken to wait
      const unseen = (plainPromptTokens[row] as number) + strangeTokens * freshShare;
      const ahead = (waitingTokens[row] as number) + unseen * prefillShare;
      const computeMs = ownComputeMs + (firstPerAheadMs[placement] as number) * ahead;
      let firstMs = (firstBaseMs[placement] as number) + (computeMs > stepMs ? computeMs : stepMs) + squareMs;
      if (depth > 0) firstMs += stepMs / 2;
      // beyond its batch a node answers one after the other
      const limit = concurrencyLimit[row] as number;
      if (depth >= limit) firstMs += ((depth - limit + 1) * decodingMs) / limit;
      // those who stay for as long as the prompts ahead take come no faster for it
      const kept = prompts * freshShare * (1 - prefillShare);
      const besideMs = (stepPerPromptTokenMs[placement] as number) * perOutput;
      let tokenMs = stepMs + besideMs * (kept > ahead ? kept : ahead);
      let residentMs = tokenMs + besideMs * freshTokens;
      const beforeMs = tokenMs - perRequestMs - perKvTokenMs * ownKvTokens;
      // alone on it a request is as fast as ever: only company waits until the node is warm
      if (warmUntil[row] !== 0 && depth > 0) {
        const share = startShareOf(row);
        firstMs /= share;
        tokenMs /= share;
        residentMs /= share;
      }
      const at = candidate * PREDICTION_CELLS;
      cells[at + P.depth] = depth;
      cells[at + P.firstMs] = firstMs;
      cells[at + P.tokenMs] = tokenMs;
      cells[at + P.residentMs] = residentMs;
      cells[at + P.beforeMs] = beforeMs;
      cells[at + P.prefillMs] = prefillMs;
      cells[at + P.nodeMs] = prefillMs + decodingMs / (depth + 1);
      cells[at + P.kvTokens] = cached;
    }
  }

  return {
    get cells() {
      return cells;
    },
    predict,
    cachedTokens,
  };
}
