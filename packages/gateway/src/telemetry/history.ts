/** The last hour in steps of five seconds, for charts of a page that was opened just now. Bounded; nothing is kept on disk. */

import type { HistoryJson } from "@zml/protocol/admin";

/** Distance of two samples, ms. */
export const HISTORY_STEP_MS = 5_000;
/** An hour. */
const SAMPLES_MAX = 720;

/** What is sampled: counts since the start, and numbers as they are. */
export interface HistorySample {
  readonly requests: number;
  readonly judged: number;
  readonly withinTarget: number;
  readonly outputTokens: number;
  readonly redispatches: number;
  readonly failed: number;
  readonly parked: number;
  readonly depth: number;
  readonly healthyNodes: number;
  readonly priceUsdPerHour: number | null;
  /** Since the start, USD, as are the two below. */
  readonly costUsd: number;
  readonly failedUsd: number;
  readonly comparedUsd: number;
  readonly baselineUsd: number;
}

interface Step extends HistorySample {
  readonly atMs: number;
  readonly clockMs: number;
}

export class History {
  readonly #steps: Step[] = [];

  /** @param clockMs monotonic: a wall clock that is set must not turn a rate around. */
  add(sample: HistorySample, { unixMs, clockMs }: { unixMs: number; clockMs: number }): void {
    this.#steps.push({ ...sample, atMs: unixMs, clockMs });
    // one more than is told: a rate needs the step before
    if (this.#steps.length > SAMPLES_MAX + 1) this.#steps.shift();
  }

  toJson(): HistoryJson {
    const pairs = this.#steps.slice(1).map((step, index) => ({ step, before: this.#steps[index] as Step }));
    const rate = (of: (step: Step) => number): number[] =>
      pairs.map(({ step, before }) => {
        const seconds = (step.clockMs - before.clockMs) / 1000;
        return seconds > 0 ? Math.round(((of(step) - of(before)) / seconds) * 1000) / 1000 : 0;
      });
    const perHour = (of: (step: Step) => number): number[] =>
      pairs.map(({ step, before }) => {
        const hours = (step.clockMs - before.clockMs) / 3.6e6;
        return hours > 0 ? Math.round(((of(step) - of(before)) / hours) * 1e6) / 1e6 : 0;
      });
    const now = <T>(of: (step: Step) => T): T[] => pairs.map(({ step }) => of(step));
    return {
      step_ms: HISTORY_STEP_MS,
      at_ms: now(({ atMs }) => atMs),
      requests_per_second: rate(({ requests }) => requests),
      attainment: pairs.map(({ step, before }) => {
        const judged = step.judged - before.judged;
        return judged > 0 ? Math.round(((step.withinTarget - before.withinTarget) / judged) * 1e4) / 1e4 : null;
      }),
      output_tokens_per_second: rate(({ outputTokens }) => outputTokens),
      redispatches_per_second: rate(({ redispatches }) => redispatches),
      failed_per_second: rate(({ failed }) => failed),
      parked: now(({ parked }) => parked),
      depth: now(({ depth }) => depth),
      healthy_nodes: now(({ healthyNodes }) => healthyNodes),
      price_usd_per_hour: now(({ priceUsdPerHour }) => priceUsdPerHour),
      cost_usd_per_hour: perHour(({ costUsd }) => costUsd),
      failed_cost_usd_per_hour: perHour(({ failedUsd }) => failedUsd),
      savings_usd_per_hour: perHour(({ baselineUsd, comparedUsd }) => baselineUsd - comparedUsd),
    };
  }
}
