import { z } from "zod";
import { OBJECT_KINDS } from "../objects.ts";
import { type Json, objectName } from "./fields.ts";

/** What is done to the gateway and its nodes, and what it says of itself. */

export const reloadSchema = z
  .object({
    kind: z.enum(["applied", "unchanged"]),
    version: z.int(),
    is_acknowledged: z.boolean(),
    warnings: z.array(z.string()),
  })
  .meta({ id: "Reload" });

export const statusSchema = z
  .object({
    product_version: z.string(),
    started_at: z.iso.datetime(),
    uptime_seconds: z.number(),
    version: z.int().describe("Version of the configuration that is in force."),
    acknowledged_version: z.int().describe("What every worker has in force."),
    is_ready: z.boolean(),
    data_address: z.string(),
    admin_address: z.string(),
    workers: z.object({ configured: z.int(), listening: z.int(), crashes: z.int() }),
    store: z.object({
      state: z
        .enum(["ok", "degraded", "closed", "none"])
        .describe("`degraded`: changes are refused, traffic runs. `none`: nothing outlives the process."),
      reason: z.string().nullable(),
    }),
    objects: z.array(
      z.object({
        kind: z.enum(OBJECT_KINDS),
        total: z.int(),
        owners: z.object({ file: z.int(), api: z.int(), discovery: z.int() }),
      }),
    ),
    reloads: z.object({
      applied: z.int(),
      refused: z.int(),
      last: z
        .object({
          at: z.iso.datetime(),
          kind: z.enum(["applied", "unchanged", "refused"]),
          problems: z.array(z.string()),
        })
        .nullable()
        .describe("Null: the file has not been read again since the start."),
    }),
  })
  .meta({ id: "Status" });

export const cooldownBody = z.strictObject({
  seconds: z.number().min(0.01).max(86_400).describe("How long the node gets no traffic."),
});

export const nodeActionSchema = z
  .object({
    id: z.string(),
    account: z.string(),
    is_draining: z.boolean(),
    cooldown_remaining_ms: z.number().nullable().describe("Null: it does not cool down."),
    in_flight: z.number().describe("Requests of ours that still run there."),
  })
  .meta({ id: "NodeAction" });

export const nodeIdParams = z.strictObject({
  id: objectName("a node id").describe("Percent-encoded: `/` is `%2F`."),
});

export const emptyBody = z.strictObject({});

export type StatusJson = Json<z.output<typeof statusSchema>>;
export type NodeActionJson = z.output<typeof nodeActionSchema>;
