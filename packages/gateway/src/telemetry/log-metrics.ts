/** What the log did not get. */

import type { MetricFamily } from "./metric-family.ts";

export function logMetrics({ unread, repeated }: { unread: number; repeated: number }): MetricFamily[] {
  return [
    {
      name: "zml_log_lines_left_out_total",
      help: "Lines that were not written: nobody read the log, or they repeated others.",
      type: "counter",
      values: [
        { labels: { cause: "unread" }, value: unread },
        { labels: { cause: "repeated" }, value: repeated },
      ],
    },
  ];
}
