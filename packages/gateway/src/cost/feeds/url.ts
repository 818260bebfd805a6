/** A price list behind an address. */

import { ask, bearer, placeOf } from "../ask.ts";
import type { FeedContext } from "../feed-context.ts";
import { readPriceList } from "../price-list.ts";
import type { Quote } from "../quote.ts";

/** Every price of the list. */
export async function fetchPrices(context: FeedContext): Promise<Quote[]> {
  const url = context.config.url ?? "";
  const { chunks } = await ask(context, { url, headers: await bearer(context) });
  return readPriceList(context, chunks, placeOf(url));
}
