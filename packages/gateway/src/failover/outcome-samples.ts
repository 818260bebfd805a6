/** What attempts showed, collected for the control thread, which learns from it (throughput, error rate, output). */

import { type AttemptTiming, OUTCOMES, type Outcome } from "@zml/engine";
import { SAMPLE_FIELDS, TIMING_FIELDS } from "../thread-messages.ts";

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
  firstTokenMs: number;
  durationMs: number;
  /** The load of its time. */
  timing: AttemptTiming;
}

export class OutcomeSamples {
  #values: number[] = [];
  #timer: NodeJS.Timeout | null = null;
  readonly #send: (samples: Float64Array) => void;

  constructor(send: (samples: Float64Array) => void) {
    this.#send = send;
  }

  add(sample: OutcomeSample): void {
    if (this.#values.length >= SAMPLES_MAX * SAMPLE_FIELDS.length) return;
    this.#values.push(
      sample.row,
      sample.identity,
      sample.placement,
      sample.model,
      OUTCOMES.indexOf(sample.outcome),
      sample.promptTokens,
      sample.outputTokens,
      sample.firstTokenMs,
      sample.durationMs,
      ...TIMING_FIELDS.map((name) => Number(sample.timing[name])),
    );
    this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS).unref();
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#values.length === 0) return;
    this.#send(Float64Array.from(this.#values));
    this.#values = [];
  }
}
