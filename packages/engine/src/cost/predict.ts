/**
 * What a request would meet on a node, and what it would do to those who run there: the node model of continuous batching,
 * with coefficients that were learned (`learning/timing-learner.ts`).
 *
 *   step       = base + perRequest × B + perKvToken × K             one token for every sequence of the batch
 *   first      = firstBase + wait for the present step + max(step, perToken × own prompt + perAhead × prompt tokens ahead) + perSquare × own²
 *   token time = step + perPromptToken × prompt tokens of others computed per step
 *
 * with B sequences and K cached tokens, this request's included. The prompts of others are what keeps up the present
 * company (each request that leaves makes room for one whose prompt is computed beside the rest), or what waits now, if
 * that is more: a burst is seen when it is booked, not when it is over. All coefficients are 0 or more, so that nothing
 * gets faster by more load.
 */

import { DEFAULT_PROMPT_TOKENS } from "../bounds.ts";
import type { FleetTable } from "../fleet-table.ts";

/** What is predicted for one request on one node. Written in place. */
export interface Prediction {
  /** First token, ms. */
  firstMs: number;
  /** Time per further token, ms. */
  tokenMs: number;
  /** Time per token of those who run there already, ms. */
  residentMs: number;
  /** The same without this request. */
  beforeMs: number;
  /** Its own prompt alone, ms. */
  prefillMs: number;
  /** By how much it makes the node busy for longer, ms: its prompt, and what it is expected to outlast the others by. */
  nodeMs: number;
  /** KV tokens in use with it. */
  kvTokens: number;
}

/** An empty prediction. */
export function createPrediction(): Prediction {
  return { firstMs: 0, tokenMs: 0, residentMs: 0, beforeMs: 0, prefillMs: 0, nodeMs: 0, kvTokens: 0 };
}

/** Load of one node, as a prediction takes it. */
export interface NodeLoad {
  /** Requests on it, whoever sent them. */
  depth: number;
  /** Our own among them. */
  own: number;
  /** Prompt and expected output of our own, tokens. */
  kvTokens: number;
  /** Prompt tokens waiting to be computed, of answers that stream. */
  aheadTokens: number;
  /** Prompt tokens of answers that do not. */
  plainTokens: number;
}

/** A request, as a prediction takes it. */
export interface Ask {
  promptTokens: number;
  /** Expected output, at least 1. */
  outputTokens: number;
  /** Mean prompt of the model, for what others sent. */
  meanPromptTokens: number;
}

/** Prompt of the model's requests, tokens. */
export function meanPromptOf(table: FleetTable, model: number): number {
  const mean = table.meanPromptTokens[model] as number;
  return mean > 0 ? mean : DEFAULT_PROMPT_TOKENS;
}

/** Fills `into`. O(1), allocates nothing. */
export function predict(
  table: FleetTable,
  placement: number,
  load: NodeLoad,
  ask: Ask,
  concurrencyLimit: number,
  into: Prediction,
): void {
  const { promptTokens, outputTokens } = ask;
  const { depth, own } = load;
  const foreign = depth > own ? depth - own : 0;
  const perToken = table.firstPerTokenMs[placement] as number;
  // bookings count whole outputs; on the way half of them stand in memory
  const ownPrompts = load.kvTokens - own * outputTokens;
  const prompts = (ownPrompts > 0 ? ownPrompts : 0) + foreign * ask.meanPromptTokens;
  const cached = prompts + (depth * outputTokens) / 2 + promptTokens + outputTokens / 2;
  const decodeMs =
    (table.stepBaseMs[placement] as number) +
    (table.stepPerRequestMs[placement] as number) * (depth + 1) +
    (table.stepPerKvTokenMs[placement] as number) * cached;
  const decodingMs = outputTokens * decodeMs;
  const ownPrefillMs =
    perToken * promptTokens + (table.firstPerSquareMs[placement] as number) * promptTokens * promptTokens;
  // of answers that do not stream, and of those of others, the share of their time that prompts take is taken to wait
  const unseen = load.plainTokens + foreign * ask.meanPromptTokens;
  const ahead = load.aheadTokens + (unseen > 0 ? (unseen * ownPrefillMs) / (ownPrefillMs + decodingMs) : 0);
  const computeMs = perToken * promptTokens + (table.firstPerAheadMs[placement] as number) * ahead;
  let firstMs =
    (table.firstBaseMs[placement] as number) +
    (depth > 0 ? decodeMs / 2 : 0) +
    (computeMs > decodeMs ? computeMs : decodeMs) +
    ownPrefillMs -
    perToken * promptTokens;
  // beyond its batch a node answers one after the other
  if (depth >= concurrencyLimit) firstMs += ((depth - concurrencyLimit + 1) * decodingMs) / concurrencyLimit;
  const perPrompt = table.stepPerPromptTokenMs[placement] as number;
  // those who stay for as long as the prompts ahead take come no faster for it
  const kept = (prompts * decodingMs) / (decodingMs + ownPrefillMs);
  const others = (kept > ahead ? kept : ahead) / outputTokens;
  into.firstMs = firstMs;
  into.tokenMs = decodeMs + perPrompt * others;
  into.residentMs = decodeMs + perPrompt * (others + promptTokens / outputTokens);
  into.beforeMs =
    into.tokenMs -
    (table.stepPerRequestMs[placement] as number) -
    (table.stepPerKvTokenMs[placement] as number) * (promptTokens + outputTokens / 2);
  into.prefillMs = ownPrefillMs;
  into.nodeMs = ownPrefillMs + decodingMs / (depth + 1);
  into.kvTokens = cached;
}
