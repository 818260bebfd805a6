/** What an attempt cost after all: the formula of the estimate, with what was used in the place of what is expected. */

import { BOOKING_TOKENS_MAX } from "../bounds.ts";
import type { FleetTable } from "../fleet-table.ts";
import { isPromptOnly } from "./estimate.ts";

/** What is known of an attempt that ended. Tokens as reported, NaN: not. */
export interface AttemptUsage {
  readonly placement: number;
  /** Index into `ENDPOINTS`. */
  readonly endpoint: number;
  /** Prompt, tokens, estimated. */
  readonly estimatedPromptTokens: number;
  readonly outputTokens: number;
  /** From dispatch, ms; NaN: none came. */
  readonly firstTokenMs: number;
  readonly durationMs: number;
  /** What it was expected to generate, tokens. */
  readonly expectedTokens: number;
}

/**
 * Tokens that an attempt made a node work for: the output that it reported; where it reported none, what a stream of this
 * node generates in the time since its first token, but no more than was expected. An attempt without a token has 0. For
 * embeddings and rerank the prompt's.
 *
 * @param isAnswered its caller has an answer of it, or left while the node worked on one that comes whole
 */
export function workedTokens(table: FleetTable, usage: AttemptUsage, isAnswered: boolean): number {
  if (isPromptOnly(usage.endpoint)) return isAnswered ? Math.max(1, usage.estimatedPromptTokens) : 0;
  // the node tells it: what no answer has is no report, and must not empty a budget
  if (usage.outputTokens >= 0 && usage.outputTokens <= BOOKING_TOKENS_MAX) return usage.outputTokens;
  const since = Number.isNaN(usage.firstTokenMs) ? 0 : usage.firstTokenMs;
  if (!isAnswered && Number.isNaN(usage.firstTokenMs)) return 0;
  const rate = table.streamTokensPerSecond[usage.placement] as number;
  const generated = ((usage.durationMs - since) / 1000) * rate;
  return Math.max(0, Math.min(generated, usage.expectedTokens));
}

/** USD of so many tokens on a node, by its capacity as it is now. NaN: the price is unknown. */
export function spendUsd(table: FleetTable, row: number, placement: number, tokens: number): number {
  return usdOf(table.priceUsdPerHour[row] as number, tokens, table.tokensPerSecond[placement] as number);
}

/** Price per hour × the share of an hour of the node that the tokens take (tokens ÷ tokens/s). */
export function usdOf(usdPerHour: number, tokens: number, tokensPerSecond: number): number {
  return usdPerHour * (tokens / tokensPerSecond / 3600);
}
