/** What attempts showed, collected for the control thread, which learns from it (throughput, error rate, output). */

import { type AttemptTiming, OUTCOMES, type Outcome } from "@zml/engine";
import { SAMPLE_FIELDS } from "../thread-messages.ts";

/** Samples leave at this pace, ms: fast enough to learn from, slow enough to cost nothing per request. */
const FLUSH_MS = 250;

/** Samples that are kept between two flushes; what comes beyond is not learned from. */
const SAMPLES_MAX = 16_384;

/** One finished attempt. Tokens as reported, NaN: unknown; times from dispatch, ms. */
export interface OutcomeSample {
  row: number;
  /** Whose row it was when the attempt began (index of names): the row may be another node's once the sample is read. */
  identity: number;
  placement: number;
  model: number;
  outcome: Outcome;
  promptTokens: number;
  outputTokens: number;
  /** Of the prompt, found in the node's prefix cache. */
  cachedTokens: number;
  firstTokenMs: number;
  durationMs: number;
  /** Index of the policy that chose the node, and of the node's family. */
  policy: number;
  family: number;
  /** What it took of its node, USD; NaN: the price is unknown. */
  usd: number;
  /** Tokens that it made the node work for. */
  workedTokens: number;
  /** The load of its time. */
  timing: AttemptTiming;
}

export class OutcomeSamples {
  /** Grows by doubling, so that a quiet worker holds little. */
  #values = new Float64Array(64 * SAMPLE_FIELDS.length);
  #length = 0;
  #timer: NodeJS.Timeout | null = null;
  readonly #send: (samples: Float64Array) => void;

  constructor(send: (samples: Float64Array) => void) {
    this.#send = send;
  }

  add(sample: OutcomeSample): void {
    const at = this.#length;
    if (at >= SAMPLES_MAX * SAMPLE_FIELDS.length) return;
    if (at === this.#values.length) {
      const grown = new Float64Array(2 * at);
      grown.set(this.#values);
      this.#values = grown;
    }
    const values = this.#values;
    values[at] = sample.row;
    values[at + 1] = sample.identity;
    values[at + 2] = sample.placement;
    values[at + 3] = sample.model;
    values[at + 4] = OUTCOMES.indexOf(sample.outcome);
    values[at + 5] = sample.promptTokens;
    values[at + 6] = sample.outputTokens;
    values[at + 7] = sample.cachedTokens;
    values[at + 8] = sample.firstTokenMs;
    values[at + 9] = sample.durationMs;
    values[at + 10] = sample.policy;
    values[at + 11] = sample.family;
    values[at + 12] = sample.usd;
    values[at + 13] = sample.workedTokens;
    const { timing } = sample;
    values[at + 14] = timing.depth;
    values[at + 15] = timing.own;
    values[at + 16] = timing.kvTokens;
    values[at + 17] = timing.aheadTokens;
    values[at + 18] = timing.plainTokens;
    values[at + 19] = timing.warmTokens;
    values[at + 20] = timing.firstMs;
    values[at + 21] = timing.tokenMs;
    values[at + 22] = timing.promisedMs;
    values[at + 23] = timing.outputTokens;
    values[at + 24] = timing.meanDepth;
    values[at + 25] = timing.meanKvTokens;
    values[at + 26] = timing.prefilledTokens;
    values[at + 27] = timing.isPromptOnly ? 1 : 0;
    values[at + 28] = timing.bookedPromptTokens;
    values[at + 29] = timing.freshTokens;
    this.#length = at + SAMPLE_FIELDS.length;
    this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS).unref();
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#length === 0) return;
    this.#send(this.#values.slice(0, this.#length));
    this.#length = 0;
  }
}
