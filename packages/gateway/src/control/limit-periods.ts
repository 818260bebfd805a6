/**
 * What happens to limits by the clock: days and months begin (UTC), what was spent is kept so that a restart does not
 * forget it, and windows of idle rows are swept. A store that fails costs what was spent since the last save, if the
 * process ends meanwhile, and nothing else.
 */

import { beginPeriod, spentUsd, sweepWindows } from "@zml/engine";
import type { StoredSpend } from "../store/spend-operations.ts";
import type { StoreClient } from "../store/store.ts";
import type { LimitOwner, LimitRows } from "./limit-rows.ts";

/** A crash loses what callers with a budget spent in this time, ms. A new day is noticed within it, too. */
const LOOK_EVERY_MS = 1_000;
const SAVE_EVERY_MS = 10_000;
/** Without a budget spending is for reports: a minute is soon enough, and lets the store's thread rest. */
const SAVE_ALL_EVERY_MS = 60_000;
/** Laps of a window come again after 34 minutes. */
const SWEEP_EVERY_MS = 60_000;
/** Rows of one message to the store: copying as many takes some 10 ms. */
const SAVED_PART = 2_048;
/** How long spending is kept, months: a year, and the one that runs. */
const KEPT_MONTHS = 13;

export interface LimitPeriodsOptions {
  /** Null: nothing outlives the process. */
  readonly store: StoreClient | null;
  /** Unix ms. */
  readonly unixMs: () => number;
  /** Engine clock, ms. */
  readonly nowMs: () => number;
}

export class LimitPeriods {
  readonly #options: LimitPeriodsOptions;
  #rows: LimitRows | null = null;
  #day: string;
  #month: string;
  /** What was spent before this process, by period and owner; rows take it when they are given out. */
  #before = new Map<string, number>();
  /** `spentUsd` of each row as it is in the store. */
  #saved: number[] = [];
  #savedAtMs = 0;
  #savedAllAtMs = 0;
  #sweptAtMs = 0;
  #timer: NodeJS.Timeout | null = null;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: LimitPeriodsOptions) {
    this.#options = options;
    this.#day = dayOf(options.unixMs());
    this.#month = monthOf(options.unixMs());
  }

  /** Brings back what was spent in the day and the month that run. Never rejects: the store has said what is wrong. */
  async load(): Promise<void> {
    const { store } = this.#options;
    if (store === null) return;
    try {
      const spends = await store.call("spend.load", { periods: [this.#day, this.#month] });
      this.#before = new Map(spends.map((spend) => [spendKey(spend.period, spend), spend.usd]));
    } catch {
      // budgets begin anew
    }
  }

  /** Begins to look at the clock. */
  start(rows: LimitRows): void {
    this.#rows = rows;
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS);
    this.#timer.unref();
  }

  /** A row was given out: it goes on with what its owner has spent. */
  take(rows: LimitRows, row: number, owner: LimitOwner): void {
    beginPeriod(rows.table, row, "day", this.#before.get(spendKey(this.#day, owner)) ?? 0);
    beginPeriod(rows.table, row, "month", this.#before.get(spendKey(this.#month, owner)) ?? 0);
    this.#saved[row] = spentUsd(rows.table, row);
  }

  /** One look at the clock. */
  look(): void {
    const rows = this.#rows;
    if (rows === null) return;
    const unixMs = this.#options.unixMs();
    const nowMs = this.#options.nowMs();
    if (dayOf(unixMs) !== this.#day) this.#turn(rows, unixMs);
    if (nowMs - this.#sweptAtMs >= SWEEP_EVERY_MS) {
      this.#sweptAtMs = nowMs;
      sweepWindows(rows.table, rows.used, nowMs);
    }
    if (nowMs - this.#savedAtMs < SAVE_EVERY_MS) return;
    this.#savedAtMs = nowMs;
    const isAllDue = nowMs - this.#savedAllAtMs >= SAVE_ALL_EVERY_MS;
    if (isAllDue) this.#savedAllAtMs = nowMs;
    void this.save({ onlyBudgets: !isAllDue });
  }

  /** Writes what was spent since the last time. Never rejects: the store has said what is wrong. */
  save({ onlyBudgets = false } = {}): Promise<void> {
    const changed = this.#changed(onlyBudgets);
    if (changed.spends.length === 0) return this.#saving;
    this.#saving = this.#saving.then(() => this.#write(changed)).catch(() => undefined);
    return this.#saving;
  }

  /** Ends the looks and writes once more. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.save();
  }

  /** A day ended, and perhaps a month. What it cost is written first. */
  #turn(rows: LimitRows, unixMs: number): void {
    void this.save();
    const month = monthOf(unixMs);
    for (let row = 0; row < rows.used; row++) {
      beginPeriod(rows.table, row, "day");
      if (month !== this.#month) beginPeriod(rows.table, row, "month");
    }
    this.#day = dayOf(unixMs);
    this.#month = month;
    this.#before.clear();
  }

  #changed(onlyBudgets: boolean): ChangedSpend {
    const spends: StoredSpend[] = [];
    const saved: [number, number][] = [];
    const rows = this.#rows;
    if (rows === null || this.#options.store === null) return { spends, saved };
    const { dayBaseUsd, monthBaseUsd, dayBudgetUsd, monthBudgetUsd } = rows.table;
    for (const [row, owner] of rows.entries()) {
      const spent = spentUsd(rows.table, row);
      if (spent === this.#saved[row]) continue;
      const hasBudget = (dayBudgetUsd[row] as number) >= 0 || (monthBudgetUsd[row] as number) >= 0;
      if (onlyBudgets && !hasBudget) continue;
      spends.push({ ...owner, period: this.#day, usd: spent - (dayBaseUsd[row] as number) });
      spends.push({ ...owner, period: this.#month, usd: spent - (monthBaseUsd[row] as number) });
      saved.push([row, spent]);
    }
    return { spends, saved };
  }

  async #write({ spends, saved }: ChangedSpend): Promise<void> {
    const { store } = this.#options;
    if (store === null) return;
    const forgetBefore = monthOf(monthsBefore(this.#options.unixMs(), KEPT_MONTHS));
    for (let from = 0; from < spends.length; from += SAVED_PART) {
      await store.call("spend.save", { spends: spends.slice(from, from + SAVED_PART), forgetBefore });
    }
    for (const [row, usd] of saved) this.#saved[row] = usd;
  }
}

/** What the store has to hear, and what it then has of each row. */
interface ChangedSpend {
  readonly spends: StoredSpend[];
  readonly saved: [row: number, usd: number][];
}

function dayOf(unixMs: number): string {
  return new Date(unixMs).toISOString().slice(0, 10);
}

function monthOf(unixMs: number): string {
  return new Date(unixMs).toISOString().slice(0, 7);
}

function monthsBefore(unixMs: number, months: number): number {
  const now = new Date(unixMs);
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 1);
}

function spendKey(period: string, { account, key }: LimitOwner): string {
  // names hold no NUL
  return `${period}\u0000${account}\u0000${key}`;
}
