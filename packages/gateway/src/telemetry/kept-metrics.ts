/** Kept decisions as metrics. Without `evidence.keep` there are no series. */

import type { KeptStatus } from "../evidence/kept/kept-decisions.ts";
import type { MetricFamily } from "./metric-family.ts";

export function keptMetrics(status: KeptStatus): MetricFamily[] {
  const isOn = status.keep !== null;
  const single = (value: number) => (isOn ? [{ labels: {}, value }] : []);
  return [
    {
      name: "zml_decisions_kept_total",
      help: "Decision records that were written to the store.",
      type: "counter",
      values: single(status.kept),
    },
    {
      name: "zml_decisions_dropped_total",
      help: "Decision records that were overwritten before they were written to the store.",
      type: "counter",
      values: isOn
        ? [
            { labels: { reason: "overwritten" }, value: status.overwritten },
            { labels: { reason: "store" }, value: status.lostToStore },
          ]
        : [],
    },
    {
      name: "zml_decisions_stored_bytes",
      help: "Size of the kept decisions.",
      type: "gauge",
      values: single(status.bytes),
    },
    {
      name: "zml_decisions_keeper_degraded",
      help: "1 while kept decisions can't be written.",
      type: "gauge",
      values: single(status.state === "degraded" ? 1 : 0),
    },
  ];
}
