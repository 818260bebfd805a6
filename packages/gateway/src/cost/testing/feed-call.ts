/** One fetch of one feed, for tests. */

import type { FeedConfig, PriceProvider } from "@zml/protocol";
import { configured } from "../../control/testing/configured.ts";
import type { FeedContext } from "../feed-context.ts";
import { FEEDS } from "../feeds/index.ts";
import type { Quote } from "../quote.ts";
import { SECRET } from "./provider-cases.ts";

/** The complete form of a feed `f` whose further keys are given as YAML in one line, and its key. */
export function feedOf(provider: PriceProvider, yaml: string): { config: FeedConfig; apiKey: FeedContext["apiKey"] } {
  const text = `prices:\n  feeds:\n    - { name: f, provider: ${provider}, ${yaml} }\n`;
  const { config, secrets } = configured(text, { PRICE_KEY: SECRET });
  const [feed] = config.prices.feeds;
  if (feed === undefined) throw new Error("the configuration has one feed");
  return { config: feed, apiKey: secrets.feeds.get("f") ?? null };
}

export interface FetchedOnce {
  readonly quotes: readonly Quote[];
  /** Key without the feed's name → USD per GPU-hour. */
  readonly prices: Readonly<Record<string, number>>;
  readonly notes: readonly string[];
}

/** Fetches once. */
export async function fetchOnce(
  provider: PriceProvider,
  yaml: string,
  { unixMs = Date.parse("2026-05-28T12:00:00Z"), signal = AbortSignal.timeout(20_000) } = {},
): Promise<FetchedOnce> {
  const notes: string[] = [];
  const context = { ...feedOf(provider, yaml), signal, unixMs, note: (text: string) => notes.push(text) };
  const quotes = await FEEDS[provider].fetchPrices(context);
  const prices = quotes.map(
    ({ region, instanceType, market, usdPerGpuHour }) =>
      [`${region}/${instanceType}/${market}`, usdPerGpuHour] as const,
  );
  return { quotes, prices: Object.fromEntries(prices), notes };
}
