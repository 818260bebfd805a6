/**
 * Constants of one node: how long one engine step takes (units in the names).
 * Rows of `data/node-params.csv`, see the README there.
 */
export type NodeConstants = {
  readonly baseMs: number;
  readonly usPerSequence: number;
  readonly nsPerCachedToken: number;
  readonly usPerPrefillToken: number;
  readonly nsPerSquaredPrefillToken: number;
  readonly kvCapacityTokens: number;
};

/** A chunk of a prompt in a step: tokens computed now, and tokens of the same prompt that are already in the cache. */
export type PrefillChunk = { readonly newTokens: number; readonly doneTokens: number };

/** What one engine step computes. `cachedTokens` is the context summed over the decoding sequences. */
export type StepWork = {
  readonly decodeSequences: number;
  readonly cachedTokens: number;
  readonly prefills: readonly PrefillChunk[];
};

/**
 * Duration of one engine step in ms:
 * max(a0 + a1·B, p1·(P + B)) + a2·K + p2·Σ(P² + 2·P·C), and a0 + a1·B + a2·K without prefill.
 * An empty step takes 0 ms. It never falls when any part of the work grows.
 */
export function stepMs(constants: NodeConstants, work: StepWork): number {
  const decode = constants.baseMs + (constants.usPerSequence * work.decodeSequences) / 1e3;
  const cache = (constants.nsPerCachedToken * work.cachedTokens) / 1e6;
  let prefillTokens = 0;
  let squares = 0;
  for (const { newTokens, doneTokens } of work.prefills) {
    prefillTokens += newTokens;
    squares += newTokens * newTokens + 2 * newTokens * doneTokens;
  }
  if (prefillTokens === 0) return work.decodeSequences === 0 ? 0 : decode + cache;
  const compute = (constants.usPerPrefillToken * (prefillTokens + work.decodeSequences)) / 1e3;
  return Math.max(decode, compute) + cache + (constants.nsPerSquaredPrefillToken * squares) / 1e6;
}

/**
 * Duration in ms of `steps` pure decode steps in a row from a batch of `sequences` with `cachedTokens`:
 * the closed form of the sum, k·(a0 + a1·B) + a2·(k·K + B·k·(k − 1)/2).
 */
export function decodeRunMs(
  constants: NodeConstants,
  run: { readonly sequences: number; readonly cachedTokens: number; readonly steps: number },
): number {
  const { sequences, cachedTokens, steps } = run;
  if (sequences === 0) return 0;
  const perStep = constants.baseMs + (constants.usPerSequence * sequences) / 1e3;
  const tokenSteps = steps * cachedTokens + (sequences * steps * (steps - 1)) / 2;
  return steps * perStep + (constants.nsPerCachedToken * tokenSteps) / 1e6;
}
