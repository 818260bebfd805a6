/** Everything that `/metrics` tells, collected on the control thread and written when it is asked for. */

import { performance } from "node:perf_hooks";
import type { Ending } from "@zml/engine";
import type { HistoryJson, MoneyJson } from "@zml/protocol/admin";
import type { FleetReportJson } from "../control/fleet-report.ts";
import type { FleetSample } from "../control/fleet-sample.ts";
import type { KeptStatus } from "../evidence/kept/kept-decisions.ts";
import { fleetMetrics } from "./fleet-metrics.ts";
import { History } from "./history.ts";
import { keptMetrics } from "./kept-metrics.ts";
import { LiveFeed, type LiveSources } from "./live-feed.ts";
import type { MetricFamily } from "./metric-family.ts";
import { Money, type MoneyOptions } from "./money.ts";
import type { MoneyQuestion } from "./money-report.ts";
import { processMetrics } from "./process-metrics.ts";
import { RequestMetrics, type RequestMetricsOptions } from "./request-metrics.ts";
import { writeMetrics } from "./write-metrics.ts";

export interface TelemetryOptions extends RequestMetricsOptions, MoneyOptions {
  readonly fleet: () => FleetReportJson;
  /** Reloads that were applied, and those that were refused, since the start. */
  readonly reloads: () => { readonly applied: number; readonly refused: number };
  readonly keptDecisions: () => KeptStatus;
  readonly busySeconds: () => readonly { readonly worker: number; readonly seconds: number }[];
  /** Of those who tell of requests one by one. */
  readonly beside?: () => readonly MetricFamily[];
  readonly unixStartMs: number;
  readonly sample: () => FleetSample;
  /** What the live feed reads of the fleet. */
  readonly live: Pick<LiveSources, "nodes" | "table" | "version" | "parked">;
}

/** Endings that callers did not ask for. */
const FAILED: readonly Ending[] = [
  "saturated",
  "parked_in_vain",
  "given_up",
  "interrupted",
  "over_time",
  "internal_error",
];

export class Telemetry {
  readonly #options: TelemetryOptions;
  readonly requests: RequestMetrics;
  readonly money: Money;
  /** What pages follow. */
  readonly live: LiveFeed;
  readonly #history = new History();

  constructor(options: TelemetryOptions) {
    this.#options = options;
    this.requests = new RequestMetrics(options);
    this.money = new Money(options);
    this.live = new LiveFeed({
      ...options.live,
      nowMs: options.nowMs,
      unixMs: () => Date.now(),
      totals: () => this.requests.totals(),
      money: () => this.money.totals(),
    });
  }

  /** Dollars of a window. O(nodes + lines). */
  moneyOf(question: MoneyQuestion): MoneyJson {
    return this.money.report(question, this.#options.sample().priceUsdPerHour);
  }

  history(): HistoryJson {
    return this.#history.toJson();
  }

  /** Takes a sample of the last hour's history; called each `HISTORY_STEP_MS`. */
  noteStep(): void {
    const { requests, judged, withinTarget, outputTokens, redispatches, endings } = this.requests.totals();
    const failed = FAILED.reduce((sum, ending) => sum + endings[ending], 0);
    const counts = { requests, judged, withinTarget, outputTokens, redispatches, failed };
    this.money.noteStep();
    const sample = { ...counts, ...this.money.totals(), ...this.#options.sample() };
    this.#history.add(sample, { unixMs: Date.now(), clockMs: this.#options.nowMs() });
  }

  /** The whole page in Prometheus's text format 0.0.4. O(nodes + series). */
  page(): string {
    return writeMetrics(this.families());
  }

  /** Everything that the page tells; families without a series included. */
  families(): MetricFamily[] {
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
    return [
      busy,
      ...this.requests.families(),
      ...this.money.families(),
      ...fleetMetrics(fleet()),
      ...keptMetrics(this.#options.keptDecisions()),
      reloaded,
      ...(this.#options.beside?.() ?? []),
      ...processMetrics(unixStartMs),
    ];
  }
}
