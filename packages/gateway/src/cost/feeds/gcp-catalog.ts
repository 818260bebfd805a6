/**
 * Google Cloud: the SKUs of Compute Engine in the Cloud Billing catalogue, with an API key or with application default
 * credentials.
 *
 * A GPU's SKU is the GPU alone. An instance's price is gpus × GPU + vcpus × core + memory × RAM, each from its own SKU,
 * whose texts the configuration names; `gpu_only` leaves the rest out on purpose.
 */

import { z } from "zod";
import { apiKeyOf, askJson, breathe, codeOf } from "../ask.ts";
import { type FeedContext, FeedError, optionalPackage, quoteOf } from "../feed-context.ts";
import type { Quote } from "../quote.ts";

const ENDPOINT = "https://cloudbilling.googleapis.com";
/** Compute Engine. */
const PATH = "/v1/services/6F81-5844-456A/skus";
/** 5,000 are allowed; this thread also polls, and a page is parsed in one go. */
const PAGE_SIZE = 1000;
/** 200,000 SKUs: far more than there are, so that only a loop gets there. */
const PAGES_MAX = 200;
const SCOPE = "https://www.googleapis.com/auth/cloud-billing.readonly";

const pageSchema = z.object({ skus: z.array(z.unknown()).default([]), nextPageToken: z.string().optional() });

const skuSchema = z.object({
  description: z.string(),
  category: z.object({ usageType: z.string() }),
  serviceRegions: z.array(z.string()),
  pricingInfo: z
    .array(
      z.object({
        effectiveTime: z.string().optional(),
        pricingExpression: z.object({
          usageUnit: z.string(),
          tieredRates: z
            .array(
              z.object({
                unitPrice: z.object({
                  currencyCode: z.string(),
                  units: z.union([z.string(), z.number()]).default("0"),
                  nanos: z.number().default(0),
                }),
              }),
            )
            .min(1),
        }),
      }),
    )
    .min(1),
});
type Sku = z.output<typeof skuSchema>;

/** Prices of every region of the feed, on demand and spot. */
export async function fetchPrices(context: FeedContext): Promise<Quote[]> {
  const { config } = context;
  const texts = config.instanceTypes.flatMap(({ gpuSku, cpuSku, ramSku }) => [gpuSku, cpuSku, ramSku]);
  const rates = await catalogueRates(context, new Set(texts.filter((text) => text !== null)));
  const quotes: Quote[] = [];
  for (const region of config.regions) {
    for (const type of config.instanceTypes) {
      for (const market of ["on_demand", "spot"] as const) {
        const rate = (text: string, unit: string) => rates.get(rateKey(text, region, market, unit));
        const parts = [
          { text: type.gpuSku ?? "", unit: "h", count: type.gpus ?? Number.NaN },
          ...(type.cpuSku === null ? [] : [{ text: type.cpuSku, unit: "h", count: type.vcpus ?? Number.NaN }]),
          ...(type.ramSku === null ? [] : [{ text: type.ramSku, unit: "GiBy.h", count: type.memoryGib ?? Number.NaN }]),
        ];
        const found = parts.map(({ text, unit, count }) => ({ text, count, rate: rate(text, unit) }));
        const first = found[0]?.rate;
        // not sold that way, or not there
        if (first === undefined) continue;
        const missing = found.filter((part) => part.rate === undefined || part.rate.isAmbiguous);
        if (missing.length > 0) {
          const named = missing.map(({ text, rate: one }) => `${text} (${one === undefined ? "none" : "several"})`);
          context.note(`${region} ${type.name} ${market}: no single SKU for ${named.join(", ")}`);
          continue;
        }
        const usdPerHour = found.reduce((sum, part) => sum + part.count * (part.rate?.usd ?? Number.NaN), 0);
        const { observedAtMs } = first;
        const gpus = type.gpus ?? Number.NaN;
        quotes.push(quoteOf(context, { region, instanceType: type.name, gpus, market, usdPerHour, observedAtMs }));
      }
    }
  }
  return quotes;
}

interface Rate {
  readonly usd: number;
  readonly observedAtMs: number;
  /** Two SKUs with different prices fit the text. */
  readonly isAmbiguous: boolean;
}

/** Reads the catalogue page by page and keeps the rates of the SKUs that the configuration names. */
async function catalogueRates(context: FeedContext, texts: ReadonlySet<string>): Promise<Map<string, Rate>> {
  const headers = await credentials(context);
  const base = `${context.config.endpoint ?? ENDPOINT}${PATH}`;
  const rates = new Map<string, Rate>();
  let pageToken = "";
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const query = new URLSearchParams({ pageSize: String(PAGE_SIZE), currencyCode: "USD" });
    if (pageToken !== "") query.set("pageToken", pageToken);
    const answer = await askJson(context, { url: `${base}?${query.toString()}`, headers }, pageSchema);
    for (const row of answer.skus) keepRates(context, row, texts, rates);
    pageToken = answer.nextPageToken ?? "";
    if (pageToken === "") return rates;
    await breathe(context.signal);
  }
  throw new FeedError(`Google's catalogue has more than ${PAGES_MAX} pages`);
}

function keepRates(context: FeedContext, row: unknown, texts: ReadonlySet<string>, rates: Map<string, Rate>): void {
  const description = descriptionOf(row);
  const text = skuText(description);
  if (text === null || !texts.has(text)) return;
  const parsed = skuSchema.safeParse(row);
  if (!parsed.success) {
    context.note(`a SKU of ${text} has an unknown shape`);
    return;
  }
  const market = marketOf(parsed.data);
  if (market === null) return;
  const rate = rateOf(parsed.data);
  if (typeof rate === "string") {
    context.note(`a SKU of ${text} is left out: ${rate}`);
    return;
  }
  const { usageUnit } = (parsed.data.pricingInfo.at(-1) as Sku["pricingInfo"][number]).pricingExpression;
  for (const region of parsed.data.serviceRegions) {
    if (!context.config.regions.includes(region)) continue;
    const key = rateKey(text, region, market, usageUnit);
    const before = rates.get(key);
    const isAmbiguous = before !== undefined && (before.isAmbiguous || before.usd !== rate.usd);
    rates.set(key, { ...rate, isAmbiguous });
  }
}

function descriptionOf(row: unknown): string {
  const isNamed = typeof row === "object" && row !== null && "description" in row;
  return isNamed && typeof row.description === "string" ? row.description : "";
}

/**
 * What the SKU prices, without the way it is sold and the place: `Nvidia H100 80GB GPU` of `Nvidia H100 80GB GPU
 * attached to Spot Preemptible VMs running in Americas`. Other ways (DWS, Reserved, Commitment, Sole Tenancy) keep their
 * words, so that they never match. Null: no SKU of something that runs.
 */
function skuText(description: string): string | null {
  const match = /^(?:Spot Preemptible )?(.+?)(?: attached to Spot Preemptible VMs)? running in .+$/.exec(description);
  return match?.[1] ?? null;
}

/** Some spot SKUs (A4) say OnDemand in their category: the text decides. Null: a commitment or the like. */
function marketOf({ description, category }: Sku): "spot" | "on_demand" | null {
  if (category.usageType === "Preemptible" || description.includes("Spot Preemptible")) return "spot";
  return category.usageType === "OnDemand" ? "on_demand" : null;
}

/** USD per unit, or why there is none. */
function rateOf({ pricingInfo }: Sku): Omit<Rate, "isAmbiguous"> | string {
  const info = pricingInfo.at(-1) as Sku["pricingInfo"][number];
  const rates = info.pricingExpression.tieredRates;
  const { currencyCode, units, nanos } = (rates.at(-1) as (typeof rates)[number]).unitPrice;
  if (currencyCode !== "USD") return `USD was expected, got ${JSON.stringify(currencyCode.slice(0, 16))}`;
  const whole = typeof units === "string" && units.trim() === "" ? Number.NaN : Number(units);
  const usd = whole + nanos / 1e9;
  if (!Number.isFinite(usd) || usd <= 0) return "its price is no positive number";
  return { usd, observedAtMs: Date.parse(info.effectiveTime ?? "") };
}

function rateKey(text: string, region: string, market: string, unit: string): string {
  return JSON.stringify([text, region, market, unit]);
}

/** An API key goes into a header: in the address it would stand in the logs of proxies. */
async function credentials(context: FeedContext): Promise<Record<string, string>> {
  const key = await apiKeyOf(context);
  if (key !== null) return { "x-goog-api-key": key };
  const { GoogleAuth } = await optionalPackage("google-auth-library", () => import("google-auth-library"));
  const { credentialsFile } = context.config;
  try {
    const auth = new GoogleAuth({
      scopes: [SCOPE],
      // prices belong to no project; without one the library asks gcloud and another interface for it, and fails with them
      projectId: "none",
      ...(credentialsFile === null ? {} : { keyFilename: credentialsFile }),
    });
    const headers = await auth.getRequestHeaders();
    const authorization = headers.get("authorization");
    // a person's credentials name the project that is asked under; without it Google refuses them
    const project = headers.get("x-goog-user-project");
    if (authorization !== null) {
      return { authorization, ...(project === null ? {} : { "x-goog-user-project": project }) };
    }
  } catch (cause) {
    // the library's texts quote paths and answers of the token endpoint
    throw new FeedError(
      `Google gave no access token (${codeOf(cause)}): check credentials_file or the application default credentials, ` +
        "or name an API key",
      { cause },
    );
  }
  throw new FeedError("Google gave no access token: name an API key, or credentials");
}
