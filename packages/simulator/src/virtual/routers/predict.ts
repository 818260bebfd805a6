/** The node model of §1.4 as a router's prediction: closed form, no price, blind to bursts of prompts. */

import type { RoutedRequest, RouterView } from "./router.ts";

/** What a request would see on a node. */
export interface Prediction {
  ttftMs: number;
  tokenMs: number;
}

/** Share of time that prompts of others may take in a prediction: above it the formula has no meaning. */
const PREFILL_SHARE_MAX = 0.9;
const STEP_TOKEN_BUDGET = 2_048;

/**
 * TTFT = the chunk steps of all prompts ahead and its own, beside the sequences that decode; token time = the step with
 * it in the batch, over the share of time that prompts leave.
 */
export function predict(view: RouterView, request: RoutedRequest, row: number, into: Prediction): void {
  const constants = view.believed[row];
  if (constants === undefined) throw new Error(`no row ${row}`);
  const { promptTokens, expectedTokens } = request;
  const inFlight = view.inFlight[row] as number;
  const prefilling = Math.min(inFlight, view.prefilling[row] as number);
  const decoding = inFlight - prefilling;
  // own requests are half way through on average; of others only the count is known
  const own = view.kvTokens[row] as number;
  const cached = Math.max(0, own - (inFlight * expectedTokens) / 2);
  const uncached = promptTokens - view.cachedTokens(row, request.blocks);
  const work = (view.uncachedTokens[row] as number) + uncached;
  const steps = Math.max(1, Math.ceil(work / Math.max(1, STEP_TOKEN_BUDGET - decoding)));
  const cacheMs = (constants.nsPerCachedToken * cached) / 1e6;
  const decodeMs = constants.baseMs + (constants.usPerSequence * decoding) / 1e3;
  const computeMs = (constants.usPerPrefillToken * (work + steps * decoding)) / 1e3;
  const squareMs = (constants.nsPerSquaredPrefillToken * promptTokens * promptTokens) / 1e6;
  // on average it comes in the middle of a step
  const residualMs = inFlight > 0 ? (decodeMs + cacheMs) / 2 : 0;
  into.ttftMs =
    REQUEST_OVERHEAD_MS +
    (view.networkMs[row] as number) +
    residualMs +
    Math.max(steps * decodeMs, computeMs) +
    steps * cacheMs +
    squareMs;
  const share = Math.min(PREFILL_SHARE_MAX, (view.promptRate(row) * constants.usPerPrefillToken) / 1e6);
  const stepMs =
    constants.baseMs +
    (constants.usPerSequence * (inFlight + 1)) / 1e3 +
    (constants.nsPerCachedToken * (cached + promptTokens)) / 1e6;
  into.tokenMs = stepMs / (1 - share);
}

/** Queueing and HTTP around a request (§2.1). */
export const REQUEST_OVERHEAD_MS = 15;
