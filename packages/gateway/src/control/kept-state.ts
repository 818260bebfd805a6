/**
 * What outlives the process: numbers and timings learned from traffic, and prices. Written behind the traffic's back; a store that
 * fails costs the numbers of a restart and nothing else.
 */

import type { Config } from "@zml/protocol";
import type { PriceHistory } from "../cost/index.ts";
import type { LearnedNumber, StoredPrice } from "../store/operations.ts";
import type { StoreClient } from "../store/store.ts";
import type { StoredTiming } from "../store/timing-operations.ts";
import type { GatewayLog } from "./gateway-log.ts";

/** A crash loses what was learned in this time, ms. Each save reads every row that changed. */
const SAVE_EVERY_MS = 60_000;
/** Price changes that wait for a store that fails; older ones are dropped. */
const PRICES_WAITING_MAX = 10_000;
/** Learned numbers that are brought back: those of 16,384 nodes with two models each, and some 50 MB. */
const LEARNED_MAX = 131_072;
/** Timings that are brought back, some 1.5 KB each: 500 models on four families. */
const TIMINGS_MAX = 2_048;
/** And at once. */
const LEARNED_PART = 8_192;
/** Rows of one message to the store: copying as many takes some 10 ms, in which the control thread does nothing else. */
const SAVED_PART = 2_048;
const DAY_MS = 86_400_000;

export interface KeptStateOptions {
  readonly store: StoreClient;
  readonly log: GatewayLog;
  /** Unix ms. */
  readonly nowMs: () => number;
  readonly retention: () => Config["store"];
  readonly exportLearned: () => LearnedNumber[];
  readonly exportTimings: () => StoredTiming[];
}

export class KeptState implements PriceHistory {
  readonly #options: KeptStateOptions;
  readonly #timer: NodeJS.Timeout;
  #prices: StoredPrice[] = [];
  #dropped = 0;
  /** `updatedAtMs` up to which rows are in the store. */
  #savedUpToMs = Number.NEGATIVE_INFINITY;
  #timingsSavedUpToMs = Number.NEGATIVE_INFINITY;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: KeptStateOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.save(), SAVE_EVERY_MS);
    this.#timer.unref();
  }

  /** What the last process learned; none when the store can't tell. */
  async loadLearned(): Promise<readonly LearnedNumber[]> {
    const numbers: LearnedNumber[] = [];
    try {
      while (numbers.length < LEARNED_MAX) {
        const part = await this.#options.store.call("learned.load", { skip: numbers.length, limit: LEARNED_PART });
        numbers.push(...part);
        if (part.length < LEARNED_PART) break;
      }
    } catch {
      // the store has said what is wrong
    }
    return numbers;
  }

  /** One key's prices since a time, oldest first, of more than `limit` the newest; null: the store can't tell. */
  async priceHistory(key: string, sinceMs: number, limit: number): Promise<readonly StoredPrice[] | null> {
    try {
      return await this.#options.store.call("prices.history", { key, sinceMs, limit });
    } catch {
      return null;
    }
  }

  /** What the last process knew of timings; none when the store can't tell. */
  async loadTimings(): Promise<readonly StoredTiming[]> {
    try {
      return await this.#options.store.call("timings.load", { limit: TIMINGS_MAX });
    } catch {
      return [];
    }
  }

  loadLatest(): Promise<readonly StoredPrice[]> {
    return this.#options.store.call("prices.latest", null);
  }

  append(points: readonly StoredPrice[]): void {
    this.#prices.push(...points);
    const beyond = this.#prices.length - PRICES_WAITING_MAX;
    if (beyond > 0) {
      this.#prices.splice(0, beyond);
      this.#dropped += beyond;
    }
    void this.#inTurn(() => this.#savePrices());
  }

  /** Writes what changed since the last time. Never rejects: the store has said what is wrong. */
  save(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#savePrices();
      await this.#saveLearned();
      await this.#saveTimings();
    });
  }

  /** Ends the timer and writes once more. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.save();
  }

  #inTurn(write: () => Promise<void>): Promise<void> {
    this.#saving = this.#saving.then(write).catch(() => undefined);
    return this.#saving;
  }

  async #savePrices(): Promise<void> {
    const { store, nowMs, retention, log } = this.#options;
    const prices = this.#prices;
    if (prices.length === 0) return;
    this.#prices = [];
    try {
      await store.call("prices.append", { prices, forgetBeforeMs: nowMs() - retention().priceDays * DAY_MS });
    } catch (error) {
      this.#prices = [...prices, ...this.#prices].slice(-PRICES_WAITING_MAX);
      throw error;
    }
    if (this.#dropped > 0) log.warn({ dropped: this.#dropped }, "price changes were lost while the store failed");
    this.#dropped = 0;
  }

  /** Reads every row of the table: once a minute, and not with each price. */
  async #saveLearned(): Promise<void> {
    const { store, nowMs, retention, exportLearned } = this.#options;
    const now = nowMs();
    const { learnedDays } = retention();
    const numbers = exportLearned().filter(({ updatedAtMs }) => updatedAtMs > this.#savedUpToMs);
    for (let from = 0; from < numbers.length; from += SAVED_PART) {
      const part = numbers.slice(from, from + SAVED_PART);
      await store.call("learned.save", { numbers: part, forgetBeforeMs: now - learnedDays * DAY_MS });
    }
    this.#savedUpToMs = newestOf(numbers, this.#savedUpToMs);
  }

  async #saveTimings(): Promise<void> {
    const { store, nowMs, retention, exportTimings } = this.#options;
    const timings = exportTimings().filter(({ updatedAtMs }) => updatedAtMs > this.#timingsSavedUpToMs);
    if (timings.length === 0) return;
    await store.call("timings.save", { timings, forgetBeforeMs: nowMs() - retention().learnedDays * DAY_MS });
    this.#timingsSavedUpToMs = newestOf(timings, this.#timingsSavedUpToMs);
  }
}

function newestOf(rows: readonly { updatedAtMs: number }[], fromMs: number): number {
  return rows.reduce((newest, { updatedAtMs }) => Math.max(newest, updatedAtMs), fromMs);
}
