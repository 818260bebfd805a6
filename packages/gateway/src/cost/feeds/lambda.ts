/** Lambda: its instance types, in cents per hour of the whole instance, the same in every region. No spot market. */

import { z } from "zod";
import { askJson, bearer } from "../ask.ts";
import { ANY_REGION, type FeedContext, isWanted, quoteOf, typeNamed } from "../feed-context.ts";
import type { Quote } from "../quote.ts";

const ENDPOINT = "https://cloud.lambda.ai";

const answerSchema = z.object({ data: z.record(z.string(), z.unknown()) });
const entrySchema = z.object({
  instance_type: z.object({
    name: z.string(),
    price_cents_per_hour: z.int(),
    specs: z.object({ gpus: z.int().min(0) }),
  }),
});

/** Prices of the feed's instance types, all when it names none: under `any` and under each of `regions`. */
export async function fetchPrices(context: FeedContext): Promise<Quote[]> {
  const { config } = context;
  const url = `${config.endpoint ?? ENDPOINT}/api/v1/instance-types`;
  const { data } = await askJson(context, { url, headers: await bearer(context) }, answerSchema);
  const names = config.instanceTypes.map(({ name }) => name);
  const quotes: Quote[] = [];
  let unreadable = 0;
  for (const row of Object.values(data)) {
    const parsed = entrySchema.safeParse(row);
    if (!parsed.success) {
      unreadable += 1;
      continue;
    }
    const { name, price_cents_per_hour: cents, specs } = parsed.data.instance_type;
    const gpus = typeNamed(context, name)?.gpus ?? specs.gpus;
    if (!isWanted(names, name) || gpus === 0) continue;
    for (const region of [ANY_REGION, ...config.regions]) {
      quotes.push(quoteOf(context, { region, instanceType: name, gpus, market: "on_demand", usdPerHour: cents / 100 }));
    }
  }
  if (unreadable > 0) context.note(`${unreadable} instance types have an unknown shape`);
  return quotes;
}
