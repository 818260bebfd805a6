/** Columns of the live feed. Free of zod, for the page and for the feed itself. */
export const LIVE_COLUMNS = [
  "state",
  "depth",
  "in_flight",
  "waiting",
  "max_in_flight",
  "tokens_per_second",
  "health_score",
  "price_usd_per_hour",
  "polled_at_ms",
  "cooldown_until_ms",
  "attempts",
  "failed",
] as const;
export type LiveColumn = (typeof LIVE_COLUMNS)[number];
