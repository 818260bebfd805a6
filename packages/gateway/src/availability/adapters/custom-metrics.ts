/** Reads the metrics of a home-made server by the mapping that the operator wrote. */

import type { CustomConfig, CustomMetric, MetricSelector } from "@zml/protocol";
import { foldSamples, type Metrics, parseMetrics, type RankFold } from "../metrics-text.ts";
import type { NodeReading } from "./adapter.ts";

type NumberField = { [K in keyof NodeReading]: NodeReading[K] extends number ? K : never }[keyof NodeReading];

/** What a configured name tells: the field of a reading, how its series make one number, and how many make one unit. */
const MEANING: Readonly<Record<CustomMetric, { field: NumberField; fold: RankFold; perUnit: number }>> = {
  running: { field: "running", fold: "sum", perUnit: 1 },
  waiting: { field: "waiting", fold: "sum", perUnit: 1 },
  concurrency_limit: { field: "concurrencyLimit", fold: "sum", perUnit: 1 },
  kv_use: { field: "kvUse", fold: "mean", perUnit: 1 },
  kv_use_percent: { field: "kvUse", fold: "mean", perUnit: 100 },
  kv_headroom_tokens: { field: "kvHeadroomTokens", fold: "sum", perUnit: 1 },
  generation_tokens_total: { field: "generationTokensTotal", fold: "sum", perUnit: 1 },
  prompt_tokens_total: { field: "promptTokensTotal", fold: "sum", perUnit: 1 },
  successes_total: { field: "successesTotal", fold: "sum", perUnit: 1 },
  errors_total: { field: "errorsTotal", fold: "sum", perUnit: 1 },
  free_memory_gib: { field: "freeMemoryGib", fold: "sum", perUnit: 1 },
  free_memory_mib: { field: "freeMemoryGib", fold: "sum", perUnit: 1024 },
  free_memory_bytes: { field: "freeMemoryGib", fold: "sum", perUnit: 2 ** 30 },
};

/** What a server's metrics tell of the mapped fields. A name that is not there is unknown. */
export type CustomMetricsReader = (text: string) => Partial<Record<NumberField, number>>;

/** The reader of a mapping. Made once per configuration, since the wanted names are prepared. */
export function customMetricsReader(mapping: CustomConfig["metrics"]): CustomMetricsReader {
  const entries = Object.entries(mapping) as [CustomMetric, MetricSelector][];
  const wanted = new Set(entries.map(([, { name }]) => name));
  return (text) => {
    const metrics = parseMetrics(text, wanted);
    return Object.fromEntries(
      entries.map(([metric, selector]) => {
        const { field, fold, perUnit } = MEANING[metric];
        return [field, foldedValue(metrics, selector, fold) / perUnit];
      }),
    );
  };
}

function foldedValue(metrics: Metrics, { name, labels }: MetricSelector, fold: RankFold): number {
  const conditions = Object.entries(labels);
  const samples = metrics.get(name) ?? [];
  return foldSamples(
    samples.filter((sample) => conditions.every(([label, value]) => sample.labels.get(label) === value)),
    fold,
  );
}
