/** What the data plane learned from attempts that ended, folded into the fleet table. */

import { foldMean } from "../availability/throughput.ts";
import type { AttemptTiming } from "../dispatch/booking.ts";
import { errorShareOf } from "../failover/outcome.ts";
import { type FleetTable, publish } from "../fleet-table.ts";
import type { Outcome } from "../reasons.ts";
import { learnPromise } from "./promise-mix.ts";
import type { TimingLearner } from "./timing-learner.ts";

/** Weight of the newest attempt: the last ten or so decide, so that a change shows within seconds under load. */
const SPEED_WEIGHT = 0.1;
/** Outputs vary more than speeds do: the last fifty decide. */
const OUTPUT_WEIGHT = 0.02;
/** The last twenty requests decide, ours and those of others alike. */
export const ERROR_WEIGHT = 0.05;
/** Shorter streams say more about the first token than about the speed. */
const STREAM_TOKENS_MIN = 4;

/** One attempt that ended. Numbers are NaN when unknown. */
export interface AttemptSample {
  readonly row: number;
  /** Placement row, -1: none. */
  readonly placement: number;
  /** Index of the model, -1: none. */
  readonly model: number;
  readonly outputTokens: number;
  readonly promptTokens: number;
  /** Prompt tokens that the node found in its prefix cache; NaN or absent: it does not tell. */
  readonly cachedTokens?: number;
  /** From sending to the end. */
  readonly durationMs: number;
  /** From sending to the first token; NaN for an answer that did not stream. */
  readonly firstTokenMs: number;
  /** Time of the end, engine clock. */
  readonly atMs: number;
  readonly outcome: Outcome;
  /** The load of its time; absent: not known, and nothing is learned about timing. */
  readonly timing?: AttemptTiming;
}

/**
 * Folds samples into stream speed, mean output, error rates and the time of the last success, and publishes them
 * together. Control thread only.
 */
export function applySamples(
  table: FleetTable,
  samples: readonly AttemptSample[],
  learner: TimingLearner | null = null,
): void {
  if (samples.length === 0) return;
  publish(table, () => {
    for (const sample of samples) {
      applySample(table, sample);
      learner?.learn(sample);
    }
  });
}

function applySample(table: FleetTable, sample: AttemptSample): void {
  const { row, placement, model } = sample;
  const error = errorShareOf(sample.outcome);
  table.errorRate[row] = foldMean(table.errorRate[row] as number, error, ERROR_WEIGHT);
  if (placement >= 0) {
    table.placementErrorRate[placement] = foldMean(table.placementErrorRate[placement] as number, error, ERROR_WEIGHT);
    if (!Number.isNaN(error)) {
      const samples = table.ownSamples[placement] as number;
      table.ownSamples[placement] = Number.isNaN(samples) ? 1 : samples + 1;
      table.ownSampledAtMs[placement] = sample.atMs;
    }
  }
  if (sample.outcome !== "success") return;
  if (sample.timing !== undefined) learnPromise(table, row, sample.timing.promisedMs);
  // samples of several workers come in any order
  const last = table.lastSuccessAtMs[row] as number;
  if (!(last >= sample.atMs)) table.lastSuccessAtMs[row] = sample.atMs;
  if (model >= 0 && sample.outputTokens > 0) {
    table.meanOutputTokens[model] = foldMean(
      table.meanOutputTokens[model] as number,
      sample.outputTokens,
      OUTPUT_WEIGHT,
    );
  }
  if (model >= 0 && sample.promptTokens > 0) {
    table.meanPromptTokens[model] = foldMean(
      table.meanPromptTokens[model] as number,
      sample.promptTokens,
      OUTPUT_WEIGHT,
    );
  }
  if (model >= 0) learnPromptRatio(table, sample);
  if (model >= 0 && sample.timing !== undefined) learnFreshShare(table, model, sample.timing);
  const rate = streamRateOf(sample);
  if (placement < 0 || Number.isNaN(rate)) return;
  // The mean is taken of the time per token, which is what estimates multiply: a short answer that was read in one
  // piece looks a hundred times as fast as the node is, and would rule a mean of rates.
  const before = table.measuredStreamTokensPerSecond[placement] as number;
  const measured = 1 / foldMean(1 / before, 1 / rate, SPEED_WEIGHT);
  table.measuredStreamTokensPerSecond[placement] = measured;
  table.streamTokensPerSecond[placement] = measured;
}

/**
 * How far prompts are from the estimates that were booked, which had been corrected already by what was known then: what is
 * left moves the correction on. It starts at 1, as one odd prompt must not rule.
 */
function learnPromptRatio(table: FleetTable, { model, promptTokens, timing }: AttemptSample): void {
  const left = promptTokens / (timing?.bookedPromptTokens ?? Number.NaN);
  if (!(left > 1 / PROMPT_RATIO_MAX && left < PROMPT_RATIO_MAX)) return;
  const known = table.promptRatio[model] as number;
  const ratio = Number.isNaN(known) ? 1 : known;
  const next = foldMean(ratio, ratio * left, OUTPUT_WEIGHT);
  table.promptRatio[model] = Math.max(1 / PROMPT_RATIO_MAX, Math.min(PROMPT_RATIO_MAX, next));
}

/** Means of tokens, not of shares: long prompts are what fills a node. */
function learnFreshShare(table: FleetTable, model: number, { freshTokens, bookedPromptTokens }: AttemptTiming): void {
  const mean = table.meanPromptTokens[model] as number;
  const share = freshTokens / bookedPromptTokens;
  if (!(share >= 0 && share <= 1) || !(mean > 0)) return;
  const weight = Math.min(1, (OUTPUT_WEIGHT * bookedPromptTokens) / mean);
  table.freshShare[model] = foldMean(table.freshShare[model] as number, share, weight);
}

/** No tokenizer makes tokens of half a byte or of forty. */
const PROMPT_RATIO_MAX = 10;

/** Speed of one stream after its first token, tokens/s; NaN: this attempt tells none. */
function streamRateOf(sample: AttemptSample): number {
  const decodeMs = sample.durationMs - sample.firstTokenMs;
  if (!(sample.outputTokens >= STREAM_TOKENS_MIN) || !(decodeMs > 0)) return Number.NaN;
  return ((sample.outputTokens - 1) / decodeMs) * 1000;
}
