/** Counts of values by upper bound. */

import type { MetricSample } from "./metric-family.ts";

export class Histogram {
  readonly #bounds: readonly number[];
  /** One per bound and one for what is above all of them. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** @param bounds rising, in the metric's unit. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** NaN and negative values are no measurement and are left out. */
  add(value: number): void {
    if (!(value >= 0)) return;
    let at = 0;
    while (at < this.#bounds.length && value > (this.#bounds[at] as number)) at += 1;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += value;
  }

  get isEmpty(): boolean {
    return this.#counts.every((count) => count === 0);
  }

  /** The series of one set of labels: cumulative buckets, sum and count. */
  samples(name: string, labels: Readonly<Record<string, string>>): MetricSample[] {
    const samples: MetricSample[] = [];
    let cumulative = 0;
    this.#counts.forEach((count, at) => {
      cumulative += count;
      const le = at < this.#bounds.length ? String(this.#bounds[at]) : "+Inf";
      samples.push({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: cumulative });
    });
    samples.push({ metricName: `${name}_sum`, labels, value: this.#sum });
    samples.push({ metricName: `${name}_count`, labels, value: cumulative });
    return samples;
  }
}
