/** What a feed delivers, and under which key the table keeps it. */

import { formatPriceReference, type Market } from "@zml/protocol";

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

/** A price at a moment, as history and store keep it. */
export interface PricePoint {
  readonly key: string;
  readonly usdPerGpuHour: number;
  /** Since when the provider asks it, Unix ms. */
  readonly observedAtMs: number;
  /** When it was fetched, Unix ms. */
  readonly fetchedAtMs: number;
}
