/** What a request costs a node that is full: the measure of capacity, and of offline plans. */

import type { NodeConstants } from "../step-model.ts";
import { MAX_SEQUENCES } from "./virtual-gateway.ts";
import type { Workload } from "./workload.ts";

/** Mean lengths of some requests. */
export interface RequestShape {
  readonly promptTokens: number;
  readonly squaredPromptTokens: number;
  readonly outputTokens: number;
}

/** Mean lengths of the requests that `isMeant` picks by index, 1 where there are none; and how many they are. */
export function shapeOf(
  workload: Workload,
  isMeant: (request: number) => boolean,
): RequestShape & { readonly requests: number } {
  let requests = 0;
  let promptTokens = 0;
  let squaredPromptTokens = 0;
  let outputTokens = 0;
  for (let request = 0; request < workload.count; request++) {
    if (!isMeant(request)) continue;
    const tokens = workload.promptTokens[request] as number;
    requests += 1;
    promptTokens += tokens;
    squaredPromptTokens += tokens * tokens;
    outputTokens += workload.outputTokens[request] as number;
  }
  const mean = (sum: number) => (requests === 0 ? 1 : sum / requests);
  return {
    requests,
    promptTokens: mean(promptTokens),
    squaredPromptTokens: mean(squaredPromptTokens),
    outputTokens: mean(outputTokens),
  };
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
