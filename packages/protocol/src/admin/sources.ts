import { z } from "zod";
import { type Json, queryInteger } from "./fields.ts";

/** Where prices and nodes come from. Unknown numbers are null; no text holds a secret. */

const SOURCE_STATES = ["waiting", "ok", "degraded", "failing"] as const;

const feedReportSchema = z
  .object({
    name: z.string(),
    provider: z.string(),
    cloud_account: z.string(),
    state: z
      .enum(SOURCE_STATES)
      .describe(
        "`waiting`: not asked to the end yet. `degraded`: it answers, and a price that a node names has an alarm.",
      ),
    last_success_age_ms: z.number().nullable(),
    last_attempt_age_ms: z.number().nullable(),
    next_fetch_in_ms: z.number().nullable().describe("Null: a fetch runs."),
    failures: z.number(),
    error: z.string().nullable().describe("Why the last fetch failed; null: it did not."),
    notes: z.array(z.string()).describe("Remarks on the last answer: what was left out."),
    refused: z
      .array(z.object({ key: z.string(), text: z.string() }))
      .describe("Prices of the last answer that were refused or wait for a second one; the first of them."),
    refused_total: z.number(),
    keys: z.number().describe("Prices that it keeps."),
    alarms: z.array(z.object({ kind: z.string(), key: z.string().nullable(), text: z.string() })),
  })
  .meta({ id: "FeedReport" });

const priceReportSchema = z
  .object({
    key: z.string(),
    feed: z.string(),
    usd_per_gpu_hour: z.number().nullable().describe("Null: the feed has not delivered it."),
    gpus: z.number().nullable(),
    observed_at_ms: z.number().nullable().describe("Since when the provider asks this price, Unix ms."),
    age_ms: z.number().nullable().describe("Since a fetch confirmed it."),
    is_stale: z.boolean(),
    is_restored: z.boolean().describe("From before the last start, not confirmed since."),
    nodes: z.array(z.string()).describe("Ids of the nodes that name it."),
    changes: z
      .array(z.object({ usd_per_gpu_hour: z.number(), fetched_at_ms: z.number() }))
      .describe("The last changes, oldest first; of prices that a node names."),
  })
  .meta({ id: "PriceReport" });

export const pricesReportSchema = z
  .object({ feeds: z.array(feedReportSchema), prices: z.array(priceReportSchema).describe("By key.") })
  .meta({ id: "PricesReport" });

export type PricesReportJson = Json<z.output<typeof pricesReportSchema>>;
export type FeedReportJson = PricesReportJson["feeds"][number];
export type PriceReportJson = PricesReportJson["prices"][number];

/** Days that a price history goes back, where nothing else is asked for. */
export const PRICE_DAYS_DEFAULT = 30;

export const priceHistoryParams = z.strictObject({
  key: z.string().min(1).max(512).describe("Of a price, as `GET /admin/v1/prices` names it; its `/` as `%2F`."),
});

export const priceHistoryQuery = z.strictObject({
  days: queryInteger({ min: 1, max: 365 }).optional().describe(`How far back. Default: ${PRICE_DAYS_DEFAULT}.`),
});

export const priceHistorySchema = z
  .object({
    key: z.string(),
    at_ms: z.array(z.number()).describe("Since when each price holds, Unix ms, rising."),
    usd_per_gpu_hour: z.array(z.number()),
    is_cut: z.boolean().describe("There were more changes than one answer has: these are the newest."),
    is_kept: z.boolean().describe("False: without a store, only the last changes are remembered, since the start."),
  })
  .meta({ id: "PriceHistory", description: "Changes of one price." });

export type PriceHistoryJson = Json<z.output<typeof priceHistorySchema>>;

const sourceReportSchema = z
  .object({
    name: z.string(),
    kind: z.string(),
    state: z
      .enum(SOURCE_STATES)
      .describe(
        "`waiting`: not looked to the end yet. `degraded`: it answers, and targets are left out or an empty list waits.",
      ),
    last_success_age_ms: z.number().nullable().describe("Since the last look without any error."),
    last_look_age_ms: z.number().nullable(),
    error: z.string().nullable().describe("Why the last look failed, or a part of it; null: it did not."),
    note: z.string().nullable(),
    targets: z.number().describe("Targets of the list that counts."),
    nodes: z.number().describe("Those of them that are nodes."),
    empty_in_ms: z.number().nullable().describe("Until an empty list counts; null: none waits."),
    dropped: z
      .array(z.object({ target: z.string(), reason: z.string() }))
      .describe("Targets that are no nodes; the first of them."),
    dropped_total: z.number(),
  })
  .meta({ id: "SourceReport" });

export const discoveryReportSchema = z
  .object({ sources: z.array(sourceReportSchema).describe("In the file's order.") })
  .meta({ id: "DiscoveryReport" });

export type DiscoveryReportJson = Json<z.output<typeof discoveryReportSchema>>;
export type SourceReportJson = DiscoveryReportJson["sources"][number];
