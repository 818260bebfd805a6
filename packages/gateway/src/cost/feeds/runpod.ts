/**
 * RunPod: the catalogue of its REST interface, USD per GPU-hour. Its two clouds are the regions `secure` and
 * `community`. Whether one more could be rented now (availability) says nothing about the price of the one that runs.
 */

import { z } from "zod";
import { askJson, bearer } from "../ask.ts";
import { type FeedContext, isWanted, quoteOf } from "../feed-context.ts";
import type { Quote } from "../quote.ts";

const ENDPOINT = "https://api.runpod.io";

const answerSchema = z.object({ gpus: z.array(z.unknown()) });
const gpuSchema = z.object({
  id: z.string(),
  secure: z.boolean(),
  community: z.boolean(),
  price: z.object({ secure: z.number().nullish(), community: z.number().nullish() }),
});

/** Prices of the feed's GPU types, all when it names none. */
export async function fetchPrices(context: FeedContext): Promise<Quote[]> {
  const { config } = context;
  const url = `${config.endpoint ?? ENDPOINT}/v2/catalog/gpus`;
  const { gpus } = await askJson(context, { url, headers: await bearer(context) }, answerSchema);
  const names = config.instanceTypes.map(({ name }) => name);
  const quotes: Quote[] = [];
  let unreadable = 0;
  for (const row of gpus) {
    const parsed = gpuSchema.safeParse(row);
    if (!parsed.success) {
      unreadable += 1;
      continue;
    }
    const { id, price } = parsed.data;
    if (!isWanted(names, id)) continue;
    for (const region of ["secure", "community"] as const) {
      const usdPerHour = price[region];
      // the catalogue fills in prices for clouds that a type is not on
      if (!parsed.data[region] || usdPerHour == null) continue;
      quotes.push(quoteOf(context, { region, instanceType: id, gpus: 1, market: "on_demand", usdPerHour }));
    }
  }
  if (unreadable > 0) context.note(`${unreadable} of ${gpus.length} GPU types have an unknown shape`);
  return quotes;
}
