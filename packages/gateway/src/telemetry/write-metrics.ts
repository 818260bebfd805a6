/**
 * Prometheus's text format 0.0.4. Written here and not by prom-client, which takes ten times as long for a fleet of 1,000
 * nodes and holds the control thread meanwhile (docs/decisions, metrics); `promtool check metrics` is its judge.
 */

import type { MetricFamily, MetricSample } from "./metric-family.ts";

/** Families without a series are left out. O(series). */
export function writeMetrics(families: readonly MetricFamily[]): string {
  // all gauges of a node have the same labels
  const texts = new Map<MetricSample["labels"], string>();
  let page = "";
  for (const { name, help, type, values } of families) {
    if (values.length === 0) continue;
    page += `# HELP ${name} ${escaped(help, /[\\\n]/g)}\n# TYPE ${name} ${type}\n`;
    for (const { metricName = name, labels, value } of values) {
      let text = texts.get(labels);
      if (text === undefined) {
        text = labelsText(labels);
        texts.set(labels, text);
      }
      page += `${metricName}${text} ${numberText(value)}\n`;
    }
  }
  return page;
}

function labelsText(labels: MetricSample["labels"]): string {
  const parts = Object.entries(labels).map(([label, value]) => `${label}="${escaped(value, /[\\\n"]/g)}"`);
  return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}

function escaped(text: string, what: RegExp): string {
  return text.replace(what, (character) => (character === "\n" ? "\\n" : `\\${character}`));
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}
