/** Dollars of node time: counted from what workers report, told as counters, totals and sums of windows. */

import type { FleetTable } from "@zml/engine";
import type { MoneyJson } from "@zml/protocol/admin";
import type { CompiledDirectory } from "../control/compile-directory.ts";
import type { NameRegistry } from "../control/name-registry.ts";
import { BaselineRates } from "./baseline-rates.ts";
import type { MetricFamily } from "./metric-family.ts";
import { MONEY_AT, MONEY_WIDTH, type MoneyColumn, MoneyLedger } from "./money-ledger.ts";
import { moneyMetrics } from "./money-metrics.ts";
import { type MoneyQuestion, moneyReport } from "./money-report.ts";
import { MoneyWindows } from "./money-windows.ts";

export interface MoneyOptions {
  readonly table: FleetTable;
  readonly names: NameRegistry;
  /** The one in force. */
  readonly directory: () => CompiledDirectory;
  /** Combinations of policy, model and family whose dollars are kept apart. */
  readonly moneyRowsMax: () => number;
  /** Series of one metric that are kept. */
  readonly seriesMax: () => number;
  /** Monotonic, ms. */
  readonly nowMs: () => number;
}

/** Since the start, USD. */
export interface MoneyTotals {
  readonly costUsd: number;
  /** Of it, attempts that failed. */
  readonly failedUsd: number;
  /** Of it, what a baseline is known for, and that baseline. */
  readonly comparedUsd: number;
  readonly baselineUsd: number;
}

export class Money {
  readonly #options: MoneyOptions;
  readonly #ledger: MoneyLedger;
  readonly #windows: MoneyWindows;

  constructor(options: MoneyOptions) {
    this.#options = options;
    const rates = new BaselineRates(options);
    this.#ledger = new MoneyLedger({
      baseline: (policy, model) => rates.rateOf(policy, model),
      rowsMax: options.moneyRowsMax,
    });
    this.#windows = new MoneyWindows(options.nowMs());
  }

  /** @param flat `SAMPLE_FIELDS` per attempt that ended. */
  takeAttempts(flat: Float64Array): void {
    this.#ledger.take(flat);
  }

  /** Called every few seconds. */
  noteStep(): void {
    this.#windows.note(this.#ledger, this.#options.nowMs());
  }

  /** O(lines). */
  totals(): MoneyTotals {
    const { values } = this.#ledger;
    const sum = (column: MoneyColumn): number => {
      let all = 0;
      for (let at = MONEY_AT[column]; at < values.length; at += MONEY_WIDTH) all += values[at] as number;
      return all;
    };
    return {
      costUsd: sum("deliveredUsd") + sum("failedUsd") + sum("cancelledUsd"),
      failedUsd: sum("failedUsd"),
      comparedUsd: sum("comparedUsd"),
      baselineUsd: sum("baselineUsd"),
    };
  }

  report(question: MoneyQuestion, fleetUsdPerHour: number | null): MoneyJson {
    const { names, nowMs } = this.#options;
    const { subjects, values } = this.#ledger;
    const before = this.#windows.before(question.window, nowMs());
    const times = { nowMs: nowMs(), unixMs: Date.now() };
    return moneyReport(question, { subjects, values, before, names, ...times, fleetUsdPerHour });
  }

  families(): MetricFamily[] {
    const { names, seriesMax } = this.#options;
    const { subjects, values } = this.#ledger;
    return moneyMetrics({ subjects, values, names, seriesMax: seriesMax() });
  }
}
