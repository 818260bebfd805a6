/** The provider cost table as JSON, for the admin API. Unknown numbers are null; no text holds a secret. */

import { parsePriceReference } from "@zml/protocol";
import type { FeedReportJson, PriceReportJson, PricesReportJson } from "@zml/protocol/admin";
import type { FeedState, PriceBook } from "./price-book.ts";

export type { PricesReportJson } from "@zml/protocol/admin";

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
