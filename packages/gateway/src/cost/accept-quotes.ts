/** Which prices of an answer count: a pure function of the answer and of what was good before. */

import { parsePriceReference } from "@zml/protocol";
import { keyOf, type PricePoint, type Quote } from "./quote.ts";

/** No GPU-hour costs more, USD; the configuration has the same limit. */
const USD_PER_GPU_HOUR_MAX = 100_000;
/** How much of a key is shown that no node can name. */
const SHOWN_CHARACTERS = 64;
/** Two sightings of a large change are the same price when they differ by no more than this factor. */
const SAME_PRICE_FACTOR = 1.5;

/** What an acceptance works with. */
export interface AcceptRules {
  /** A larger change, as a factor up or down, has to be seen twice. */
  readonly maxChange: number;
  /** Whether a price of 0 can be meant: an operator's own list may say free, a market doesn't. */
  readonly canBeFree: boolean;
  /** Unix ms of the fetch. */
  readonly fetchedAtMs: number;
  /** Of the feed (`sourceOf`). */
  readonly source: string;
}

/** What became of an answer. */
export interface Accepted {
  /** Prices that count, one per key. */
  readonly good: ReadonlyMap<string, PricePoint & { readonly gpus: number }>;
  /** Large changes that wait for their second sighting: key → USD per GPU-hour. */
  readonly held: ReadonlyMap<string, number>;
  /** One text per key that was refused or is held back. */
  readonly problems: ReadonlyMap<string, string>;
}

/**
 * Sorts the quotes of one answer.
 *
 * @param last the last good price of a key; undefined: none.
 * @param heldBefore what the previous answer left waiting.
 */
export function acceptQuotes(
  quotes: readonly Quote[],
  rules: AcceptRules,
  last: (key: string) => number | undefined,
  heldBefore: ReadonlyMap<string, number>,
): Accepted {
  const good = new Map<string, PricePoint & { gpus: number }>();
  const held = new Map<string, number>();
  const problems = new Map<string, string>();
  for (const [key, same] of Map.groupBy(quotes, keyOf)) {
    const [quote] = same;
    if (quote === undefined) continue;
    if (parsePriceReference(key) === null) {
      problems.set(
        `${key.slice(0, SHOWN_CHARACTERS)}…`,
        "no node can name it: its parts hold a slash, or are too long",
      );
      continue;
    }
    const { usdPerGpuHour, gpus, observedAtMs } = quote;
    if (same.some((other) => other.usdPerGpuHour !== usdPerGpuHour)) {
      problems.set(key, `${same.length} different prices for one key`);
      continue;
    }
    const problem = whyNotPrice(usdPerGpuHour, rules) ?? whyNotGpus(gpus);
    if (problem !== null) {
      problems.set(key, problem);
      continue;
    }
    const before = last(key);
    if (before !== undefined && isFarFrom(usdPerGpuHour, before, rules.maxChange)) {
      const seen = heldBefore.get(key);
      if (seen === undefined || isFarFrom(usdPerGpuHour, seen, SAME_PRICE_FACTOR)) {
        held.set(key, usdPerGpuHour);
        problems.set(
          key,
          `moved from ${before} to ${usdPerGpuHour}, more than max_change (${rules.maxChange}) times: ` +
            "counts when the next fetch says it again",
        );
        continue;
      }
    }
    // a provider's clock that runs ahead must not make a price younger than its fetch
    const observed = Number.isFinite(observedAtMs) ? Math.min(observedAtMs, rules.fetchedAtMs) : rules.fetchedAtMs;
    const { fetchedAtMs, source } = rules;
    good.set(key, { key, usdPerGpuHour, observedAtMs: observed, fetchedAtMs, source, gpus });
  }
  return { good, held, problems };
}

function whyNotPrice(usdPerGpuHour: number, { canBeFree }: AcceptRules): string | null {
  if (!Number.isFinite(usdPerGpuHour)) return "no number";
  if (usdPerGpuHour < 0) return `negative: ${usdPerGpuHour}`;
  if (usdPerGpuHour === 0 && !canBeFree) return "0, which no market asks";
  if (usdPerGpuHour > USD_PER_GPU_HOUR_MAX) return `${usdPerGpuHour}, more than ${USD_PER_GPU_HOUR_MAX} per GPU-hour`;
  return null;
}

function whyNotGpus(gpus: number): string | null {
  return Number.isInteger(gpus) && gpus >= 1 && gpus <= 65_536 ? null : `${gpus} GPUs`;
}

function isFarFrom(value: number, other: number, factor: number): boolean {
  if (value === other) return false;
  const [low, high] = value < other ? [value, other] : [other, value];
  return high > low * factor;
}
