/** Everything that `/metrics` tells, collected on the control thread and written when it is asked for. */

import type { FleetReportJson } from "../control/fleet-report.ts";
import { fleetMetrics } from "./fleet-metrics.ts";
import type { MetricFamily } from "./metric-family.ts";
import { processMetrics } from "./process-metrics.ts";
import { RequestMetrics, type RequestMetricsOptions } from "./request-metrics.ts";
import { writeMetrics } from "./write-metrics.ts";

export interface TelemetryOptions extends RequestMetricsOptions {
  readonly fleet: () => FleetReportJson;
  /** Reloads that were applied, and those that were refused, since the start. */
  readonly reloads: () => { readonly applied: number; readonly refused: number };
  readonly busySeconds: () => readonly { readonly worker: number; readonly seconds: number }[];
  readonly unixStartMs: number;
}

export class Telemetry {
  readonly #options: TelemetryOptions;
  readonly requests: RequestMetrics;

  constructor(options: TelemetryOptions) {
    this.#options = options;
    this.requests = new RequestMetrics(options);
  }

  /** The whole page in Prometheus's text format 0.0.4. O(nodes + series). */
  page(): string {
    const { fleet, reloads, busySeconds, unixStartMs } = this.#options;
    const { applied, refused } = reloads();
    const reloaded: MetricFamily = {
      name: "zml_configuration_reloads_total",
      help: "Reloads of the configuration.",
      type: "counter",
      values: [
        { labels: { result: "applied" }, value: applied },
        { labels: { result: "refused" }, value: refused },
      ],
    };
    const control = performance.eventLoopUtilization().active / 1000;
    const busy: MetricFamily = {
      name: "zml_thread_busy_seconds_total",
      help: "Time that a thread's event loop was at work.",
      type: "counter",
      values: [
        { labels: { thread: "control" }, value: control },
        ...busySeconds().map(({ worker, seconds }) => ({ labels: { thread: `worker-${worker}` }, value: seconds })),
      ],
    };
    return writeMetrics([
      busy,

      ...this.requests.families(),
      ...fleetMetrics(fleet()),
      reloaded,
      ...processMetrics(unixStartMs),
    ]);
  }
}
