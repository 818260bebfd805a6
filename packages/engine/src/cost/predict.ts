/**
 * What a request would meet on a node, and what it would do to those who run there: the node model of continuous batching,
 * with coefficients that were learned (`learning/timing-learner.ts`).
 *
 *   step       = base + perRequest × B + perKvToken × K             one token for every sequence of the batch
 *   first      = firstBase + wait for the present step + max(step, perToken × own prompt + perAhead × prompt tokens ahead)
 *                + perSquare × own²
 *   token time = step + perPromptToken × prompt tokens of others computed per step
 *
 * with B sequences and K cached tokens, this request's included. The prompts of others are what keeps up the present
 * company (each request that leaves makes room for one whose prompt is computed beside the rest), or what waits now, if
 * that is more: a burst is seen when it is booked, not when it is over. All coefficients are 0 or more, so that nothing
 * gets faster by more load.
 */

import { DEFAULT_PROMPT_TOKENS } from "../bounds.ts";
import type { FleetTable } from "../fleet-table.ts";

/** A request, as a prediction takes it. */
export interface Ask {
  promptTokens: number;
  /** Expected output, at least 1. */
  outputTokens: number;
  /** Mean prompt of the model, for what others sent. */
  meanPromptTokens: number;
}

/** Cells of a prediction. */
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

/** Predicts for one table. What it makes stands in `cells` until the next call. */
export interface Predictor {
  readonly cells: Float64Array;
  /** Predicts for a request on a node as it is now. O(1), allocates nothing. */
  predict(ask: Ask, row: number, placement: number): void;
}

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

/** Closes over the columns, as the pass of availability does: a table has too many of them for quick look-ups by name. */
function createPredictor(table: FleetTable): Predictor {
  const { stepBaseMs, stepPerRequestMs, stepPerKvTokenMs, stepPerPromptTokenMs } = table;
  const { firstBaseMs, firstPerTokenMs, firstPerAheadMs, firstPerSquareMs } = table;
  const { foreign, elsewhere, concurrencyLimit } = table;
  const { inFlight, kvTokens, promptTokens: waitingTokens, plainPromptTokens } = table.total;
  const cells = new Float64Array(8);
  return {
    cells,
    predict(ask, row, placement) {
      const { promptTokens, outputTokens, meanPromptTokens } = ask;
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
      const cached = prompts + (depth * outputTokens) / 2 + promptTokens + outputTokens / 2;
      const perRequestMs = stepPerRequestMs[placement] as number;
      const perKvTokenMs = stepPerKvTokenMs[placement] as number;
      const stepMs = (stepBaseMs[placement] as number) + perRequestMs * (depth + 1) + perKvTokenMs * cached;
      const decodingMs = outputTokens * stepMs;
      const squareMs = (firstPerSquareMs[placement] as number) * promptTokens * promptTokens;
      const ownComputeMs = (firstPerTokenMs[placement] as number) * promptTokens;
      const prefillMs = ownComputeMs + squareMs;
      // of answers that do not stream, and of those of others, the share of their time that prompts take is taken to wait
      const unseen = (plainPromptTokens[row] as number) + strangeTokens;
      let ahead = waitingTokens[row] as number;
      if (unseen > 0) ahead += (unseen * prefillMs) / (prefillMs + decodingMs);
      const computeMs = ownComputeMs + (firstPerAheadMs[placement] as number) * ahead;
      let firstMs = (firstBaseMs[placement] as number) + (computeMs > stepMs ? computeMs : stepMs) + squareMs;
      if (depth > 0) firstMs += stepMs / 2;
      // beyond its batch a node answers one after the other
      const limit = concurrencyLimit[row] as number;
      if (depth >= limit) firstMs += ((depth - limit + 1) * decodingMs) / limit;
      const perPromptMs = stepPerPromptTokenMs[placement] as number;
      // those who stay for as long as the prompts ahead take come no faster for it
      const kept = (prompts * decodingMs) / (decodingMs + prefillMs);
      const beside = perPromptMs / outputTokens;
      const tokenMs = stepMs + beside * (kept > ahead ? kept : ahead);
      cells[P.depth] = depth;
      cells[P.firstMs] = firstMs;
      cells[P.tokenMs] = tokenMs;
      cells[P.residentMs] = tokenMs + beside * promptTokens;
      cells[P.beforeMs] = tokenMs - perRequestMs - perKvTokenMs * (promptTokens + outputTokens / 2);
      cells[P.prefillMs] = prefillMs;
      cells[P.nodeMs] = prefillMs + decodingMs / (depth + 1);
      cells[P.kvTokens] = cached;
    },
  };
}
