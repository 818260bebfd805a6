import { z } from "zod";
import type { LiveColumn } from "../live-columns.ts";
import type { Json } from "./fields.ts";

/** What pages that are looked at follow: the fleet in columns, and the last hour. Unknown numbers are null. */

const column = z.array(z.number().nullable());
const counts = z.array(z.number());

const liveColumn = (text: string) =>
  z
    .object({
      rows: counts.nullable().describe("Rows that changed since `since`. Null: every row, in order."),
      values: column.describe("One per row of `rows`."),
    })
    .describe(text);

export const liveQuery = z.strictObject({
  since: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/, { error: "expected the mark of the answer before" })
    .optional()
    .describe("`mark` of the answer before: only what changed since then is told."),
});

export const liveSchema = z
  .object({
    at: z.iso.datetime(),
    clock_ms: z.number().describe("Monotonic: differences of two answers give rates."),
    version: z.number().describe("Version of the configuration that is in force."),
    mark: z.string().describe("Names what the reader knows now: the next question's `since`."),
    every_ms: z.number().describe("There is nothing new before: larger fleets are told of less often."),
    nodes: z
      .object({
        id: z.array(z.string()),
        family: z.array(z.string()),
        account: z.array(z.string()),
        engine: z.array(z.string().nullable()),
      })
      .nullable()
      .describe("By row. Null: as they were at `since`. Otherwise everything is told anew."),
    states: z.array(z.string()).describe("Names behind the column `state`."),
    columns: z.object({
      state: liveColumn("Index into `states`."),
      depth: liveColumn("Requests on the node, whoever sent them."),
      in_flight: liveColumn("Requests of ours on it."),
      waiting: liveColumn("Requests that wait in it, as it reports."),
      max_in_flight: liveColumn("Depth at which it takes no more."),
      tokens_per_second: liveColumn("Capacity: of its fastest model."),
      health_score: liveColumn("0 to 100."),
      price_usd_per_hour: liveColumn("Of the whole node."),
      polled_at_ms: liveColumn("Time of the last good poll, on the clock of `clock_ms`."),
      cooldown_until_ms: liveColumn("End of its cooldown, on the clock of `clock_ms`; null: it does not cool down."),
      attempts: liveColumn("Attempts that ended since the start."),
      failed: liveColumn("Of them, those that were the node's failures."),
    } satisfies Record<LiveColumn, unknown>),
    totals: z
      .object({
        requests: z.number(),
        endings: z.record(z.string(), z.number()).describe("Requests by how they ended."),
        redispatches: z.number(),
        judged: z.number().describe("Requests whose policy has a target for the whole response."),
        within_target: z.number().describe("Of them, those that were served within it."),
        input_tokens: z.number(),
        output_tokens: z.number(),
        cost_usd: z.number().describe("Dollars of node time that requests took, failed attempts included."),
        failed_cost_usd: z.number().describe("Of it, attempts that failed."),
        compared_cost_usd: z.number().describe("Of `cost_usd`, what a baseline is known for."),
        baseline_cost_usd: z.number().describe("What that would have cost on the first family of each policy."),
        parked: z.number().describe("Now."),
        in_flight: z.number().describe("Now."),
        depth: z.number().describe("Now."),
        price_usd_per_hour: z.number().nullable().describe("Of the fleet, at known prices."),
      })
      .describe("Since the start, where nothing else is said."),
    attainment: z
      .array(
        z.object({
          account: z.string(),
          policy: z.string(),
          judged: z.number().describe("Requests with a target for the whole response."),
          within_target: z.number().describe("Of them, those that were served within it."),
        }),
      )
      .describe("Since the start by policy: those that changed since `since`."),
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
      .describe("Requests since the start by policy and family: those that changed since `since`, the largest first."),
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
    cost_usd_per_hour: counts.describe("Dollars of node time that requests took in the step, per hour."),
    failed_cost_usd_per_hour: counts.describe("Of it, attempts that failed."),
    savings_usd_per_hour: counts.describe("Baseline less what it was; negative: dearer."),
  })
  .meta({ id: "History", description: "The last hour in columns, oldest first. Rates are over the step before." });

export type HistoryJson = Json<z.output<typeof historySchema>>;
