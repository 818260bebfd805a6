/** What ZML tells monitoring systems, and what it writes into its log. */

import { z } from "zod";
import * as field from "./config-fields.ts";
import { LOG_LEVELS } from "./log-levels.ts";

/** Who decides that a request is traced, by the names of OpenTelemetry. */
export const SAMPLERS = ["parentbased_traceidratio", "traceidratio"] as const;
export type SamplerName = (typeof SAMPLERS)[number];

/** Field names of HTTP (RFC 9110), without those that the exporter sets itself. */
const HEADER_NAME =
  /^(?!(?:content-length|content-type|host|connection|transfer-encoding)$)[a-z0-9!#$%&'*+.^_`|~-]{1,128}$/i;

const headerSchema = z.strictObject(
  {
    name: z
      .string({ error: (issue) => `expected a header's name, got ${field.shown(issue.input)}` })
      .regex(HEADER_NAME, {
        error: (issue) => `expected a header's name such as authorization, got ${field.shown(issue.input)}`,
      })
      .describe("Name of the header."),
    value_env: field.envName().describe("The environment variable that holds its value."),
  },
  field.mapping,
);

const share = (what: string) => field.decimal(what, { min: 0, max: 1 });

const tracesSchema = z
  .strictObject(
    {
      endpoint: receiverUrl()
        .optional()
        .describe(
          "Base URL of an OTLP receiver over HTTP (protobuf), such as http://127.0.0.1:4318; /v1/traces is added unless it ends so. Without it nothing is traced.",
        ),
      headers: z
        .array(headerSchema, field.list)
        .max(32, { error: "expected at most 32 headers" })
        .default([])
        .describe("What the receiver wants to see in each export."),
      service_name: field.text("a text").max(256).default("zml").describe("`service.name` of the resource."),
      sampler: field
        .oneOf(SAMPLERS)
        .default("parentbased_traceidratio")
        .describe(
          "parentbased_traceidratio: a caller's `traceparent` decides, the ratio for the others. traceidratio: the ratio for all.",
        ),
      ratio: share("a share of requests").default(0.01).describe("Requests that are traced, as a share."),
      keep_failed: field
        .flag()
        .default(true)
        .describe("Also trace each request that fails or needs a second node, as far as it was seen."),
      client_address: field.flag().default(false).describe("Tell callers' addresses (`client.address`)."),
      queue_spans: field
        .count({ min: 16, max: 1_000_000 })
        // a span is some 1.5 KB: 12 MB; 1,000 requests of one attempt each
        .default(8192)
        .describe("Spans that wait for the receiver; what is beyond is dropped and counted."),
      batch_spans: field.count({ min: 1, max: 100_000 }).default(512).describe("Spans of one export at most."),
      export_every_ms: field
        .durationMs({ max: 600_000 })
        .default(5000)
        .describe("Spans that are no full batch are exported after this long."),
      timeout_ms: field
        .durationMs({ max: 600_000 })
        .default(10_000)
        .describe("An export that is not answered after this long, tries again included, has failed."),
      flush_ms: field
        .durationMs({ min: 0, max: 600_000 })
        .default(3000)
        .describe("What the last spans get to leave when the gateway ends."),
    },
    field.mapping,
  )
  .prefault({})
  .describe("Traces of requests, by OpenTelemetry. Off without an endpoint.");

const accessLogSchema = z
  .strictObject(
    {
      ratio: share("a share of requests")
        .default(0)
        .describe("Requests of routed endpoints that have a line in the log, as a share. 0: the access log is off."),
      keep_failed: field
        .flag()
        .default(true)
        .describe("With a ratio above 0: each request that fails or needs a second node has its line."),
      client_address: field.flag().default(false).describe("Tell callers' addresses."),
      queue_lines: field
        .count({ min: 16, max: 1_000_000 })
        // some 0.3 KB each: what a busy gateway makes in half a second
        .default(8192)
        .describe("Lines that wait to be written; what is beyond is dropped and counted."),
    },
    field.mapping,
  )
  .prefault({})
  .describe("A line in the log for each request.");

const logSchema = z
  .strictObject(
    {
      level: field
        .oneOf(LOG_LEVELS)
        .optional()
        .describe("The least level that is written. Default: what `--log-level` says."),
      repeats: field
        .count({ min: 1, max: 1_000_000 })
        .default(20)
        .describe("Lines with the same text that are written within ten seconds; more are counted in one line."),
      buffer_bytes: field
        .byteCount({ min: 4096, max: 2 ** 30 })
        .default(4 * 2 ** 20)
        .describe("Text that waits while nobody reads the log; what is beyond is dropped and counted."),
    },
    field.mapping,
  )
  .prefault({})
  .describe("The gateway's own lines.");

export const telemetrySchema = z
  .strictObject(
    {
      metrics_series_max: field
        .count({ min: 100, max: 1_000_000 })
        // 50 policies of 10 models on 4 families; each has some 45 lines in a scrape
        .default(2_000)
        .describe(
          "Combinations of policy, model, family and endpoint that metrics of requests tell apart; all others are counted as `other`.",
        ),
      money_rows_max: field
        .count({ min: 100, max: 1_000_000 })
        // ten thousand accounts with a model each; 80 bytes a row, and up to 45 times that with the windows of a day
        .default(10_000)
        .describe(
          "Combinations of policy, model and family whose dollars are kept apart ([money](money.md)); all others are one sum, `other`.",
        ),
      traces: tracesSchema,
      access_log: accessLogSchema,
      log: logSchema,
    },
    field.mapping,
  )
  .prefault({})
  .describe("Metrics at /metrics of the admin port, traces and the log.");

/** A receiver's URL. A query or credentials in it would be a secret in the file: they are refused and never shown. */
function receiverUrl() {
  return z
    .string({ error: (issue) => `expected a URL such as http://127.0.0.1:4318, got ${field.shown(issue.input)}` })
    .refine((value) => whyNotReceiverUrl(value) === null, {
      error: (issue) =>
        typeof issue.input === "string" ? (whyNotReceiverUrl(issue.input) ?? "wrong URL") : "wrong URL",
    });
}

/** Why a text is not the URL of an OTLP receiver; null: it is one. Never repeats credentials. */
export function whyNotReceiverUrl(value: string): string | null {
  const why = field.whyNotNodeUrl(value);
  if (why === null) return null;
  if (why.includes("credentials")) return "the URL holds credentials: name an environment variable under headers";
  return why.replace("10.0.0.21:8000", "127.0.0.1:4318").replace("a node's URL", "a receiver's URL");
}
