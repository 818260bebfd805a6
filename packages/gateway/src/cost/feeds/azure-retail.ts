/**
 * Azure: the public retail price list, one query per region. No credentials.
 *
 * One SKU comes back as several rows: Windows rows hold a licence, Spot and Low Priority rows are told by their text
 * only. Prices are per virtual machine.
 */

import { z } from "zod";
import { askJson, breathe } from "../ask.ts";
import { type FeedContext, FeedError, median, perRegion, quoteOf, typeNamed } from "../feed-context.ts";
import type { Quote } from "../quote.ts";

const ENDPOINT = "https://prices.azure.com";
const PATH = "/api/retail/prices";
/** Filter values are case-sensitive since this version. */
const API_VERSION = "2023-01-01-preview";
/** Pages of 1,000 rows. */
const PAGES_MAX = 50;
/** SKUs per query, so that the address stays below 4 KB. */
const SKUS_PER_QUERY = 15;

const pageSchema = z.object({
  Items: z.array(z.unknown()),
  NextPageLink: z.string().nullish(),
});

const itemSchema = z.object({
  currencyCode: z.string(),
  retailPrice: z.number(),
  armRegionName: z.string(),
  armSkuName: z.string(),
  skuName: z.string(),
  meterName: z.string(),
  productName: z.string(),
  unitOfMeasure: z.string(),
  type: z.string(),
  effectiveStartDate: z.string(),
});
type Item = z.output<typeof itemSchema>;

/** Prices of every region of the feed. */
export async function fetchPrices(context: FeedContext): Promise<Quote[]> {
  const names = context.config.instanceTypes.map(({ name }) => name);
  return perRegion(context, async (region) => {
    const quotes: Quote[] = [];
    for (let start = 0; start < names.length; start += SKUS_PER_QUERY) {
      const items = await regionItems(context, region, names.slice(start, start + SKUS_PER_QUERY));
      quotes.push(...regionQuotes(context, region, items));
    }
    return quotes;
  });
}

async function regionItems(context: FeedContext, region: string, skus: readonly string[]): Promise<Item[]> {
  const filter =
    `serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq ${literal(region)} and ` +
    `(${skus.map((sku) => `armSkuName eq ${literal(sku)}`).join(" or ")})`;
  const base = `${context.config.endpoint ?? ENDPOINT}${PATH}`;
  const first = new URLSearchParams({ "api-version": API_VERSION, currencyCode: "'USD'", $filter: filter });
  const items: Item[] = [];
  let query = `?${first.toString()}`;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const { Items, NextPageLink } = await askJson(context, { url: `${base}${query}` }, pageSchema);
    let unreadable = 0;
    for (const row of Items) {
      const parsed = itemSchema.safeParse(row);
      if (parsed.success) items.push(parsed.data);
      else unreadable += 1;
    }
    if (unreadable > 0) context.note(`${region}: ${unreadable} of ${Items.length} rows have an unknown shape`);
    if (NextPageLink == null || NextPageLink === "") return items;
    // only the link's query is used: a link to another host is not followed, and a proxy stays in between
    query = searchOf(NextPageLink);
    await breathe(context.signal);
  }
  throw new FeedError(`Azure has more than ${PAGES_MAX} pages for ${region}: name fewer instance types`);
}

function regionQuotes(context: FeedContext, region: string, items: readonly Item[]): Quote[] {
  const quotes: Quote[] = [];
  const current = items.filter((item) => item.armRegionName === region && isPlainLinux(item));
  const groups = Map.groupBy(current, (item) => JSON.stringify([item.armSkuName, marketOf(item)]));
  for (const rows of groups.values()) {
    const [row] = rows;
    const gpus = row === undefined ? null : (typeNamed(context, row.armSkuName)?.gpus ?? null);
    if (row === undefined || gpus === null) continue;
    const label = `${region} ${row.armSkuName}`;
    const strange = rows.find(
      ({ currencyCode, unitOfMeasure }) => currencyCode !== "USD" || unitOfMeasure !== "1 Hour",
    );
    if (strange !== undefined) {
      const { currencyCode, unitOfMeasure } = strange;
      context.note(`${label}: USD per 1 Hour was expected, got ${short(currencyCode)} per ${short(unitOfMeasure)}`);
      continue;
    }
    const latest = inForce(rows, context.unixMs);
    if (latest === null) {
      context.note(`${label}: no row is in force yet`);
      continue;
    }
    const price = { region, instanceType: row.armSkuName, gpus, market: marketOf(row), ...latest };
    quotes.push(quoteOf(context, price));
  }
  return quotes;
}

/** Low Priority is neither market; Cloud Services and dedicated hosts are other products under the same SKU. */
function isPlainLinux({ productName, skuName, meterName, type }: Item): boolean {
  const text = `${productName} ${skuName} ${meterName}`;
  return type === "Consumption" && !/windows|low priority|cloud ?services|dedicated host/i.test(text);
}

function marketOf({ skuName, meterName }: Item): "spot" | "on_demand" {
  return /\bspot\b/i.test(`${skuName} ${meterName}`) ? "spot" : "on_demand";
}

/** The rows that came into force last; the list shows coming prices too. */
function inForce(rows: readonly Item[], unixMs: number): { usdPerHour: number; observedAtMs: number } | null {
  const dated = rows.map((row) => ({ usdPerHour: row.retailPrice, observedAtMs: Date.parse(row.effectiveStartDate) }));
  const started = dated.filter(({ observedAtMs }) => observedAtMs <= unixMs);
  if (started.length === 0) return null;
  const observedAtMs = Math.max(...started.map((row) => row.observedAtMs));
  const last = started.filter((row) => row.observedAtMs === observedAtMs);
  return { usdPerHour: median(last.map(({ usdPerHour }) => usdPerHour)), observedAtMs };
}

/** An OData literal: quotes inside are doubled. */
function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function searchOf(link: string): string {
  if (!URL.canParse(link, ENDPOINT)) throw new FeedError("Azure's link to the next page can't be read");
  return new URL(link, ENDPOINT).search;
}

function short(text: string): string {
  return JSON.stringify(text.slice(0, 16));
}
