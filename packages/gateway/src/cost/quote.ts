/** What a feed delivers, and under which key the table keeps it. */

import { type FeedConfig, formatPriceReference, type Market } from "@zml/protocol";

/** One price as a provider states it, already per GPU. */
export interface Quote {
  /** Name of the feed. */
  readonly feed: string;
  /** Label of the cloud account. */
  readonly account: string;
  readonly region: string;
  readonly instanceType: string;
  /** GPUs of one instance; the instance's price is this many times `usdPerGpuHour`. */
  readonly gpus: number;
  readonly market: Market;
  readonly usdPerGpuHour: number;
  /** Since when the provider asks this price, Unix ms: spot markets report changes only, so it may be days ago. */
  readonly observedAtMs: number;
}

/** `FEED/REGION/INSTANCE_TYPE/MARKET`: what a node's `cost.price` names. */
export function keyOf({ feed, region, instanceType, market }: Quote): string {
  return formatPriceReference({ feed, region, instanceType, market });
}

/** Where the prices of a feed come from: those of another provider or account are not its own, whatever their keys. */
export function sourceOf({ provider, cloudAccount }: FeedConfig): string {
  return `${provider} ${cloudAccount}`;
}

/** A price at a moment, as history and store keep it. */
export interface PricePoint {
  readonly key: string;
  readonly usdPerGpuHour: number;
  /** Since when the provider asks it, Unix ms. */
  readonly observedAtMs: number;
  /** When it was fetched, Unix ms. */
  readonly fetchedAtMs: number;
  /** Provider and account that it is from (`sourceOf`); "": a record that does not say. */
  readonly source: string;
}

/**
 * The next price of a key, dated so that records stay in the order of their dates: a list may keep its old date, a zone may
 * have taken the newest date along, and the wall clock may have been set back.
 */
export function datedAfter(before: PricePoint, next: PricePoint): PricePoint {
  const { observedAtMs, fetchedAtMs, usdPerGpuHour } = next;
  if (observedAtMs > before.observedAtMs) return next;
  const isChange = usdPerGpuHour !== before.usdPerGpuHour;
  return { ...next, observedAtMs: isChange ? Math.max(fetchedAtMs, before.observedAtMs + 1) : before.observedAtMs };
}
