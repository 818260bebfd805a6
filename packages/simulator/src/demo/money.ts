/**
 * Dollars of the demo. The same formula as the engine's cost step: price × the share of an hour of the node that an
 * answer uses, tokens ÷ capacity. Of the three meters of routing benchmarks this is the capacity meter, per answer: what
 * the tokens would cost on nodes that are kept busy. It is neither the busy meter (a node that works on one answer alone
 * is paid in full by it) nor the provisioned one (idle time is paid too): both measure how full the fleet is, which the
 * demo's traffic decides, and not where the answers went.
 */

const SECONDS_PER_HOUR = 3600;
const TOKENS_PER_MILLION = 1e6;

/** What an answer was made on. Unknown is NaN. */
export type NodeRate = {
  /** All GPUs of the node. */
  readonly usdPerHour: number;
  /** Output tokens per second of the whole node when busy, as the gateway knows it. */
  readonly tokensPerSecond: number;
  /** How much faster than a real node it is: its second stands for this many seconds of a rented one. */
  readonly speedUp: number;
};

/** Cost of an answer of `tokens` output tokens, USD; NaN when price or capacity are unknown. */
export function answerUsd(tokens: number, { usdPerHour, tokensPerSecond, speedUp }: NodeRate): number {
  if (!(tokensPerSecond > 0)) return Number.NaN;
  return (usdPerHour * speedUp * tokens) / tokensPerSecond / SECONDS_PER_HOUR;
}

/** Sums of the answers whose cost is known. */
export class Spending {
  #usd = 0;
  #tokens = 0;

  /** Adds an answer; one of unknown cost is left out whole. */
  add(usd: number, tokens: number): void {
    if (Number.isNaN(usd)) return;
    this.#usd += usd;
    this.#tokens += tokens;
  }

  /** NaN before the first answer of known cost. */
  get usdPerMillionTokens(): number {
    return this.#tokens === 0 ? Number.NaN : (this.#usd / this.#tokens) * TOKENS_PER_MILLION;
  }
}
