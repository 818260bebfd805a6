/** What a request costs a node that is full: the measure of capacity, and of offline plans. */

import type { NodeConstants } from "../step-model.ts";
import { MAX_SEQUENCES } from "./virtual-gateway.ts";

/** Mean lengths of some requests. */
export interface RequestShape {
  readonly promptTokens: number;
  readonly squaredPromptTokens: number;
  readonly outputTokens: number;
}

/**
 * Time of a node that one request takes, ms: its prompt, and its share of the steps of the largest batch whose token time
 * meets the target and whose cache fits the memory. In a steady state each sequence that ends makes room for a prompt, so
 * that while one sequence decodes, each of the others has one prompt computed:
 *
 *   token time = step(B) + B × prompt time ÷ output tokens
 *
 * Infinity: not even a batch of one meets it. NaN target: any.
 */
export function workMs(constants: NodeConstants, shape: RequestShape, tokenTargetMs: number): number {
  const held = shape.promptTokens + shape.outputTokens / 2;
  const promptMs =
    (constants.usPerPrefillToken * shape.promptTokens) / 1e3 +
    (constants.nsPerSquaredPrefillToken * shape.squaredPromptTokens) / 1e6;
  const perSequenceMs = constants.usPerSequence / 1e3 + (constants.nsPerCachedToken * held) / 1e6;
  const growthMs = perSequenceMs + promptMs / shape.outputTokens;
  const byTarget = Number.isNaN(tokenTargetMs)
    ? MAX_SEQUENCES
    : Math.floor((tokenTargetMs - constants.baseMs) / growthMs);
  const batch = Math.min(MAX_SEQUENCES, byTarget, Math.max(1, Math.floor(constants.kvCapacityTokens / held)));
  if (batch < 1) return Number.POSITIVE_INFINITY;
  return promptMs + (shape.outputTokens * (constants.baseMs + perSequenceMs * batch)) / batch;
}
