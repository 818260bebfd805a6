/** The flat numbers in which a worker reports what ended, as objects. Pure. */

import type { AttemptSample, AttemptTiming } from "@zml/engine";
import { BOOKING_TOKENS_MAX, OUTCOMES } from "@zml/engine";
import { SAMPLE_FIELDS, TIMING_FIELDS } from "../thread-messages.ts";

/** A sample as it came: what it says about a row holds for the node that had the row then. */
export interface ReportedSample extends AttemptSample {
  /** Index of that node's identity. */
  readonly identity: number;
}

const FIELDS = SAMPLE_FIELDS.length;
const AT = Object.fromEntries(SAMPLE_FIELDS.map((name, index) => [name, index])) as Readonly<
  Record<(typeof SAMPLE_FIELDS)[number], number>
>;

/** @param atMs engine clock, ms: when they arrived, which is at most one message later than they ended. */
export function readSamples(flat: Float64Array, atMs: number): ReportedSample[] {
  const samples: ReportedSample[] = [];
  for (let start = 0; start + FIELDS <= flat.length; start += FIELDS) {
    const at = (name: (typeof SAMPLE_FIELDS)[number]) => flat[start + AT[name]] as number;
    const outcome = OUTCOMES[at("outcome")];
    if (outcome === undefined) continue;
    samples.push({
      row: at("row"),
      identity: at("identity"),
      placement: at("placement"),
      model: at("model"),
      outcome,
      promptTokens: tokensOf(at("promptTokens")),
      outputTokens: tokensOf(at("outputTokens")),
      cachedTokens: tokensOf(at("cachedTokens")),
      firstTokenMs: at("firstTokenMs"),
      durationMs: at("durationMs"),
      atMs,
      timing: readTiming(flat, start + FIELDS - TIMING_FIELDS.length),
    });
  }
  return samples;
}

function readTiming(flat: Float64Array, start: number): AttemptTiming {
  const at = (name: (typeof TIMING_FIELDS)[number]) => flat[start + TIMING_FIELDS.indexOf(name)] as number;
  return {
    depth: at("depth"),
    own: at("own"),
    kvTokens: at("kvTokens"),
    aheadTokens: at("aheadTokens"),
    plainTokens: at("plainTokens"),
    warmTokens: at("warmTokens"),
    firstMs: at("firstMs"),
    tokenMs: at("tokenMs"),
    promisedMs: at("promisedMs"),
    outputTokens: at("outputTokens"),
    meanDepth: at("meanDepth"),
    meanKvTokens: at("meanKvTokens"),
    prefilledTokens: at("prefilledTokens"),
    isPromptOnly: at("isPromptOnly") === 1,
    bookedPromptTokens: at("bookedPromptTokens"),
    freshTokens: at("freshTokens"),
  };
}

/** The node tells it: what no request has is unknown, since the mean output of a model is that of all its nodes. */
function tokensOf(count: number): number {
  return count >= 0 && count <= BOOKING_TOKENS_MAX ? count : Number.NaN;
}
