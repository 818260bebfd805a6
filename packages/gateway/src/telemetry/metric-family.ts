/** A metric with all its series, as Prometheus reads them. Names are in base units: seconds, bytes, ratios. */

/** One series now. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** Where it is not the family's: `_bucket`, `_sum`, `_count` of a histogram. */
  readonly metricName?: string;
}

export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly values: readonly MetricSample[];
}
