import { z } from "zod";
import type { Json } from "./fields.ts";

/** What pages that are looked at follow: the fleet in columns, and the last hour. Unknown numbers are null. */

const column = z.array(z.number().nullable());
const counts = z.array(z.number());

export const liveQuery = z.strictObject({
  nodes_tag: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/, { error: "expected the nodes_tag of the answer before" })
    .optional()
    .describe("`nodes_tag` of the answer before: names of nodes are left out when they are the same."),
});

export const liveSchema = z
  .object({
    at: z.iso.datetime(),
    clock_ms: z.number().describe("Monotonic: differences of two answers give rates."),
    version: z.number().describe("Version of the configuration that is in force."),
    nodes_tag: z.string().describe("Names the list of nodes."),
    nodes: z
      .object({
        id: z.array(z.string()),
        family: z.array(z.string()),
        account: z.array(z.string()),
        engine: z.array(z.string().nullable()),
      })
      .nullable()
      .describe("In the order of the columns. Null: as they were under `nodes_tag`."),
    states: z.array(z.string()).describe("Names behind the column `state`."),
    columns: z.object({
      state: counts.describe("Index into `states`."),
      depth: column,
      in_flight: column,
      waiting: column,
      max_in_flight: column,
      tokens_per_second: column,
      health_score: column,
      price_usd_per_hour: column,
      data_age_ms: column,
      cooldown_ms: column,
      attempts: counts.describe("Attempts that ended since the start."),
      failed: counts.describe("Of them, those that were the node's failures."),
    }),
    totals: z
      .object({
        requests: z.number(),
        endings: z.record(z.string(), z.number()).describe("Requests by how they ended."),
        redispatches: z.number(),
        judged: z.number().describe("Requests whose policy has a target for the whole response."),
        within_target: z.number().describe("Of them, those that were served within it."),
        input_tokens: z.number(),
        output_tokens: z.number(),
        parked: z.number().describe("Now."),
        in_flight: z.number().describe("Now."),
        depth: z.number().describe("Now."),
        price_usd_per_hour: z.number().nullable().describe("Of the fleet, at known prices."),
      })
      .describe("Since the start, where nothing else is said."),
    flows: z
      .array(
        z.object({
          account: z.string(),
          policy: z.string(),
          family: z.string().describe("Empty: no node was chosen."),
          requests: z.number(),
          delivered: z.number(),
        }),
      )
      .describe("Requests since the start by policy and family, the largest first."),
  })
  .meta({ id: "Live" });

export type LiveJson = Json<z.output<typeof liveSchema>>;

export const historySchema = z
  .object({
    step_ms: z.number(),
    at_ms: counts.describe("Unix ms of each sample."),
    requests_per_second: counts,
    attainment: column.describe("Share of the step's requests with a target that met it; null: there were none."),
    output_tokens_per_second: counts,
    redispatches_per_second: counts,
    failed_per_second: counts,
    parked: counts,
    depth: counts,
    healthy_nodes: counts,
    price_usd_per_hour: column,
  })
  .meta({ id: "History", description: "The last hour in columns, oldest first. Rates are over the step before." });

export type HistoryJson = Json<z.output<typeof historySchema>>;
