import { z } from "zod";
import { LOG_LEVELS } from "../log-levels.ts";
import { OBJECT_KINDS } from "../objects.ts";
import {
  accountQuery,
  cursor,
  documented,
  type Json,
  nextCursor,
  objectName,
  queryFlag,
  queryInteger,
  YamlBody,
} from "./fields.ts";

/** What is done to the gateway and its nodes, and what it says of itself. */

const kind = z.enum(OBJECT_KINDS);

export const changeSchema = z
  .object({
    kind,
    account: z.string(),
    name: z.string(),
    action: z.enum(["created", "updated", "deleted"]),
    fields: z.array(
      z.object({
        path: z.string().describe("Within the entry, such as `cost_priority`."),
        before: z.unknown().optional().describe("Absent: it was not there."),
        after: z.unknown().optional().describe("Absent: it is not there."),
      }),
    ),
  })
  .meta({ id: "Change" });

export const applyHeaders = z.object({
  "if-match": z
    .string()
    .max(4096)
    .optional()
    .describe("Only if it still changes what the dry run with this entity tag showed."),
});

export const applyQuery = z.strictObject({
  dry_run: queryFlag().optional().describe("Only say what would change. Default: false."),
  prune: queryFlag()
    .optional()
    .describe("Delete what the API owns and the body does not have, of the kinds that it has. Default: false."),
});

/** A part of zml.yaml: its lists of objects. */
export const applyBody = documented(z.union([z.record(z.string(), z.unknown()), z.instanceof(YamlBody)]), {
  type: "object",
  properties: {
    accounts: { type: "array", items: { type: "object" } },
    nodes: { type: "array", items: { type: "object" } },
    models: { type: "array", items: { type: "object" } },
    policies: { type: "array", items: { type: "object" } },
    keys: { type: "array", items: { type: "object" } },
    prices: {
      type: "object",
      properties: { feeds: { type: "array", items: { type: "object" } } },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
});

export const appliedSchema = z
  .object({
    changes: z.array(changeSchema),
    version: z.int().nullable().describe("Null: nothing was applied (dry run)."),
    is_acknowledged: z.boolean(),
    warnings: z.array(z.string()),
  })
  .meta({ id: "Applied" });

const placeSchema = z
  .object({
    line: z.int(),
    column: z.int(),
    path: z.string().describe("Empty: the file as a whole."),
    message: z.string(),
    hint: z.string().nullable(),
  })
  .meta({ id: "FileProblem" });

export const dryRunSchema = z
  .object({
    errors: z.array(placeSchema).describe("All of them; empty: the file would be applied."),
    warnings: z.array(placeSchema),
    needs_restart: z.array(z.string()).describe("Changes that a running gateway can't make: it would refuse the file."),
    sections: z.array(z.string()).describe("Sections with a change, such as `timeouts`."),
    changes: z.array(changeSchema).describe("Objects that would change. Empty with errors."),
  })
  .meta({ id: "DryRun" });

export const reloadSchema = z
  .object({
    kind: z.enum(["applied", "unchanged"]),
    version: z.int(),
    is_acknowledged: z.boolean(),
    warnings: z.array(z.string()),
  })
  .meta({ id: "Reload" });

export const auditQuery = z.strictObject({
  account: accountQuery("Only changes of objects of this account. Default: all that the key may see."),
  kind: kind.optional().describe("Only objects of this kind."),
  name: documented(z.string().min(1).max(256), { type: "string", minLength: 1, maxLength: 256 })
    .optional()
    .describe("Only objects of this name."),
  limit: queryInteger({ min: 1, max: 1000 }).optional().describe("Records of a page. Default: 100."),
  cursor: cursor().optional(),
});

export const auditSchema = z
  .object({
    items: z
      .array(
        z
          .object({
            id: z.int(),
            at: z.iso.datetime(),
            actor: z.object({
              kind: z.enum(["key", "loopback", "file"]),
              name: z.string(),
              account: z.string(),
            }),
            kind: z.string().describe("Of the object; empty: the gateway itself."),
            account: z.string(),
            name: z.string(),
            action: z.string(),
            before: z.unknown().describe("The entry before; null: there was none."),
            after: z.unknown().describe("The entry after; null: there is none."),
            version: z.int().nullable(),
          })
          .meta({ id: "AuditRecord" }),
      )
      .describe("Newest first."),
    next_cursor: nextCursor,
  })
  .meta({ id: "AuditPage" });

export const backupBody = z.strictObject({
  path: z
    .string()
    .min(1)
    .max(4096)
    .describe("Where the copy is written, on the gateway's machine: an absolute path of a file that does not exist."),
  decisions: z
    .boolean()
    .optional()
    .describe("Copy kept decisions too, beside it with `.decisions` at the end. Gigabytes, maybe. Default: false."),
});

export const backupSchema = z
  .object({
    path: z.string(),
    bytes: z.int(),
    decisions_bytes: z.int().nullable().describe("Null: none are kept, or they were not asked for."),
  })
  .meta({ id: "Backup" });

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
    decisions: z
      .object({
        state: z.enum(["off", "ok", "degraded"]).describe("`off`: `evidence.keep` is not set, or there is no store."),
        reason: z.string().nullable(),
        kept: z.int().describe("Records written since the start."),
        dropped: z.object({
          overwritten: z.int().describe("Overwritten in a ring before they were read."),
          store: z.int().describe("The same, while the store could not be written."),
        }),
        unfinished: z.int().describe("Records without an outcome: their attempt outlived the ring."),
        stored: z.object({
          records: z.int(),
          bytes: z.int(),
          oldest_at: z.iso.datetime().nullable(),
          newest_at: z.iso.datetime().nullable(),
        }),
      })
      .describe("Decisions that the store keeps."),
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

export const whoamiSchema = z
  .object({
    name: z.string().describe("Of the key; `loopback`: none was asked for."),
    account: z.string(),
    is_operator: z.boolean().describe("Sees every account."),
    may_write: z.boolean().describe("Its scope is `admin`."),
    product_version: z.string(),
  })
  .meta({ id: "Whoami" });

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

const logLevel = z.enum(LOG_LEVELS).describe("The least level that is written; `silent` writes nothing.");

export const logLevelBody = z.strictObject({ level: logLevel });

export const logLevelSchema = z
  .object({ level: logLevel, left_out_lines: z.int().min(0).describe("Nobody read the log, or they repeated others.") })
  .meta({ id: "LogLevel" });

export const emptyBody = z.strictObject({});

export type WhoamiJson = z.output<typeof whoamiSchema>;
export type StatusJson = Json<z.output<typeof statusSchema>>;
export type NodeActionJson = z.output<typeof nodeActionSchema>;
