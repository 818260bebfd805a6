/** The provider cost table as JSON, for the admin API. Unknown numbers are null; no text holds a secret. */

import { parsePriceReference } from "@zml/protocol";
import type { FeedState, PriceBook } from "./price-book.ts";

export interface FeedReportJson {
  readonly name: string;
  readonly provider: string;
  readonly cloud_account: string;
  /** `waiting`: not asked to the end yet. `degraded`: it answers, and a price that a node names has an alarm. */
  readonly state: "waiting" | "ok" | "degraded" | "failing";
  readonly last_success_age_ms: number | null;
  readonly last_attempt_age_ms: number | null;
  /** Null: a fetch runs. */
  readonly next_fetch_in_ms: number | null;
  readonly failures: number;
  /** Why the last fetch failed; null: it did not. */
  readonly error: string | null;
  /** Remarks on the last answer: what was left out. */
  readonly notes: readonly string[];
  /** Prices of the last answer that were refused or wait for a second one; the first of them. */
  readonly refused: readonly { readonly key: string; readonly text: string }[];
  readonly refused_total: number;
  readonly keys: number;
  readonly alarms: readonly { readonly kind: string; readonly key: string | null; readonly text: string }[];
}

export interface PriceReportJson {
  readonly key: string;
  readonly feed: string;
  /** Null: the feed has not delivered it. */
  readonly usd_per_gpu_hour: number | null;
  readonly gpus: number | null;
  /** Since when the provider asks this price, Unix ms. */
  readonly observed_at_ms: number | null;
  /** Time since a fetch confirmed it. */
  readonly age_ms: number | null;
  readonly is_stale: boolean;
  /** From before the last start, not confirmed since. */
  readonly is_restored: boolean;
  /** Ids of the nodes that name it. */
  readonly nodes: readonly string[];
  /** The last changes, oldest first; of prices that a node names. */
  readonly changes: readonly { readonly usd_per_gpu_hour: number; readonly fetched_at_ms: number }[];
}

export interface PricesReportJson {
  readonly feeds: readonly FeedReportJson[];
  /** Sorted by key. */
  readonly prices: readonly PriceReportJson[];
}

/** Refused prices that a report names. */
const REFUSED_MAX = 20;

/** Reads the whole table. */
export function pricesReport(book: PriceBook, nowMs: number): PricesReportJson {
  const keys = new Set([...book.entries.keys(), ...book.usedKeys]);
  const counts = new Map<string, number>();
  for (const { feed } of book.entries.values()) counts.set(feed, (counts.get(feed) ?? 0) + 1);
  return {
    feeds: [...book.feeds.values()].map((state) => feedReport(state, counts.get(state.config.name) ?? 0, nowMs)),
    prices: [...keys].sort().map((key) => priceReport(book, key)),
  };
}

function feedReport(state: FeedState, keys: number, nowMs: number): FeedReportJson {
  const { config, runner } = state;
  return {
    name: config.name,
    provider: config.provider,
    cloud_account: config.cloudAccount,
    state: stateOf(state),
    last_success_age_ms: known(nowMs - state.lastSuccessMs),
    last_attempt_age_ms: known(nowMs - state.lastAttemptMs),
    next_fetch_in_ms: known(Math.max(0, runner.nextAtMs - nowMs)),
    failures: runner.failures,
    error: state.error,
    notes: state.notes,
    refused: [...state.problems].slice(0, REFUSED_MAX).map(([key, text]) => ({ key, text })),
    refused_total: state.problems.size,
    keys,
    alarms: [...state.alarms.values()].map(({ kind, key, text }) => ({ kind, key, text })),
  };
}

function stateOf({ error, alarms, lastAttemptMs }: FeedState): FeedReportJson["state"] {
  if (error !== null) return "failing";
  if (Number.isNaN(lastAttemptMs)) return "waiting";
  return alarms.size > 0 ? "degraded" : "ok";
}

function priceReport(book: PriceBook, key: string): PriceReportJson {
  const entry = book.entries.get(key);
  const feed = entry?.feed ?? parsePriceReference(key)?.feed ?? "";
  const nodes = book.usersOf(key);
  const ageMs = book.ageMs(key);
  const staleAfterMs = book.feeds.get(feed)?.config.staleAfterMs ?? Number.POSITIVE_INFINITY;
  return {
    key,
    feed,
    usd_per_gpu_hour: entry?.point.usdPerGpuHour ?? null,
    gpus: entry?.gpus ?? null,
    observed_at_ms: entry?.point.observedAtMs ?? null,
    age_ms: known(ageMs),
    is_stale: ageMs > staleAfterMs,
    is_restored: entry?.isRestored ?? false,
    nodes,
    changes:
      nodes.length === 0
        ? []
        : book.changesOf(key).map(({ usdPerGpuHour, fetchedAtMs }) => ({
            usd_per_gpu_hour: usdPerGpuHour,
            fetched_at_ms: fetchedAtMs,
          })),
  };
}

function known(value: number): number | null {
  return Number.isFinite(value) ? Math.round(value) : null;
}
