/**
 * Vast.ai: the offers of its market. A price is the median over the verified, rentable, reliable offers of a GPU; the
 * cheapest offers are those that nobody keeps. On demand is the asked price, spot the least bid that wins now.
 */

import { z } from "zod";
import { askJson, bearer } from "../ask.ts";
import { ANY_REGION, type FeedContext, median, quoteOf } from "../feed-context.ts";
import type { Quote } from "../quote.ts";

const ENDPOINT = "https://console.vast.ai";
/** Offers per question, the most reliable ones first: cheapest first would bend the median. */
const OFFERS_MAX = 1000;
/** Share of the time that a host was up. */
const RELIABILITY_MIN = 0.95;

const answerSchema = z.object({ offers: z.array(z.unknown()) });
const offerSchema = z.object({
  gpu_name: z.string(),
  num_gpus: z.int().min(1),
  dph_total: z.number(),
  geolocation: z.string().nullish(),
});
type Offer = z.output<typeof offerSchema>;

/** Prices per GPU name: over all places under `any`, and per country code of `regions`. */
export async function fetchPrices(context: FeedContext): Promise<Quote[]> {
  const { config } = context;
  const url = `${config.endpoint ?? ENDPOINT}/api/v0/bundles/`;
  const headers = await bearer(context);
  const quotes: Quote[] = [];
  for (const { name, gpus } of config.instanceTypes) {
    for (const market of ["on_demand", "spot"] as const) {
      const body = {
        gpu_name: { eq: name },
        ...(gpus === null ? {} : { num_gpus: { eq: gpus } }),
        verified: { eq: true },
        rentable: { eq: true },
        reliability: { gte: RELIABILITY_MIN },
        type: market === "spot" ? "bid" : "ondemand",
        order: [["reliability", "desc"]],
        limit: OFFERS_MAX,
      };
      const answer = await askJson(context, { url, method: "POST", headers, body }, answerSchema);
      const offers = readOffers(context, answer.offers).filter((offer) => offer.gpu_name === name);
      for (const region of [ANY_REGION, ...config.regions]) {
        const there = offers.filter((offer) => region === ANY_REGION || countryOf(offer) === region);
        if (there.length === 0) continue;
        const usdPerHour = median(there.map((offer) => offer.dph_total / offer.num_gpus)) * (gpus ?? 1);
        quotes.push(quoteOf(context, { region, instanceType: name, gpus: gpus ?? 1, market, usdPerHour }));
      }
    }
  }
  return quotes;
}

function readOffers(context: FeedContext, rows: readonly unknown[]): Offer[] {
  const offers: Offer[] = [];
  let [unreadable, worthless] = [0, 0];
  for (const row of rows.slice(0, OFFERS_MAX)) {
    const parsed = offerSchema.safeParse(row);
    if (!parsed.success) unreadable += 1;
    // one of these in the middle would be taken for the price
    else if (parsed.data.dph_total <= 0) worthless += 1;
    else offers.push(parsed.data);
  }
  if (unreadable > 0) context.note(`${unreadable} of ${rows.length} offers have an unknown shape`);
  if (worthless > 0) context.note(`${worthless} of ${rows.length} offers cost nothing or less`);
  return offers;
}

/** `SE` of `Sweden, SE`. */
function countryOf({ geolocation }: Offer): string {
  return (geolocation ?? "").split(",").at(-1)?.trim() ?? "";
}
