/**
 * The shape of conformance vectors: `conformance/README.md` says what they mean. Run as a program, this file writes
 * `conformance/vectors.schema.json`, the same shape for runners in other languages.
 */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ENDPOINTS } from "@zml/engine";
import { z } from "zod";

/** Where the vectors live. */
const CONFORMANCE = join(import.meta.dirname, "../../../conformance");
export const SCHEMA_PATH = join(CONFORMANCE, "vectors.schema.json");

const json = z.unknown().describe("Any JSON; matchers may stand at any depth.");

const matcher = z
  .union([
    z.strictObject({
      $match: z.string().describe("A regular expression that a part of the text must match."),
      example: z.string().optional(),
    }),
    z.strictObject({ $any: z.literal(true).describe("Any value that is there."), example: json.optional() }),
    z.strictObject({ $absent: z.literal(true).describe("Nothing of this name is there.") }),
    z.strictObject({ $between: z.tuple([z.number(), z.number()]).describe("A number, both ends included.") }),
  ])
  .describe("Stands for a value that is not fixed. Where it has to be sent, `example` is sent; an absent one is not.");

const headers = z
  .record(z.string().regex(/^[a-z0-9-]+$/), z.union([z.string(), z.array(z.string()), matcher]))
  .describe("By lower-case name; a list sends the header several times. Only the named ones are compared.");

const bodyFields = {
  body: json.optional().describe("JSON; sent without spaces, compared as JSON, all members."),
  body_text: z.string().optional().describe("The exact text, in UTF-8."),
  body_base64: z.string().optional().describe("The exact bytes."),
};

const answer = z
  .strictObject({
    status: z.int().optional().describe("Without it nothing is sent; `end` says what happens then."),
    headers: headers.optional(),
    ...bodyFields,
    chunks: z
      .array(z.union([z.string(), z.strictObject({ base64: z.string() })]))
      .optional()
      .describe("A chunked body: each entry is written and flushed alone. text/event-stream unless stated."),
    end: z
      .enum(["complete", "cut", "hang"])
      .optional()
      .describe(
        "complete (default); cut: the connection closes before the body's framing ends; hang: nothing more comes.",
      ),
  })
  .refine(
    (value) => [value.body, value.body_text, value.body_base64, value.chunks].filter((b) => b !== undefined).length < 2,
    {
      error: "an answer has one of body, body_text, body_base64, chunks",
    },
  );

const nodeState = z.enum(["healthy", "full", "cooling", "down", "refusing"]);

const gateway = z
  .strictObject({
    nodes: z
      .array(
        z.strictObject({
          id: z.string(),
          family: z.string(),
          state: nodeState.optional(),
          engine: z.enum(["vllm", "llamacpp", "tgi", "custom"]).optional(),
          api_key: z.string().optional(),
          upstream_model: z.string().optional(),
          context_tokens: z.int().optional(),
          reads_images: z.boolean().optional().describe("What the node told of the model; unknown unless stated."),
          endpoints: z.array(z.enum(ENDPOINTS)).optional().describe("All that the node serves; unknown unless stated."),
          usd_per_hour: z.number().optional(),
          tokens_per_second: z.number().optional(),
        }),
      )
      .optional(),
    keys: z
      .array(
        z.strictObject({
          name: z.string(),
          key: z.string(),
          scopes: z.array(z.enum(["infer", "read", "admin"])),
          models: z.array(z.string()).optional(),
          policies: z.array(z.string()).optional(),
          expires_at: z.string().optional().describe("ISO 8601."),
          limits: z
            .strictObject({ tokens_per_minute: z.int().optional(), budget_usd_per_day: z.number().optional() })
            .optional(),
        }),
      )
      .optional(),
    config: z.record(z.string(), z.record(z.string(), z.unknown())).optional().describe("Sections of the file."),
    policy: z
      .strictObject({
        cost_priority: z.enum(["cost", "balanced", "latency"]).optional(),
        accelerator_preference: z.array(z.strictObject({ family: z.string(), priority: z.int() })).optional(),
        latency_target_ms: z.number().optional(),
        queue_on_saturation: z.boolean().optional(),
        max_queue_ms: z.int().optional(),
      })
      .optional(),
  })
  .describe("How the gateway is set up where that differs from the set-up in README.md.");

const client = z
  .strictObject({
    base_url: z.string().nullable().optional(),
    api_key: z.string().nullable().optional(),
    admin_url: z.string().nullable().optional(),
    admin_key: z.string().nullable().optional(),
    timeout: z.number().optional().describe("Seconds."),
    max_retries: z.int().optional(),
    default_headers: z.record(z.string(), z.string()).optional(),
    environment: z.record(z.string(), z.string()).optional().describe("Environment variables while it is made."),
    now: z.string().optional().describe("What the wall clock says, ISO 8601."),
  })
  .describe("Arguments of the client where they differ from those in README.md.");

const call = z.strictObject({
  method: z.enum(["infer", "embed", "models.list", "models.get", "decisions.explain"]),
  arguments: z.record(z.string(), json),
  take: z.int().optional().describe("Close the stream after this many events instead of reading to its end."),
});

const wire = z
  .strictObject({
    method: z.string(),
    path: z.string().describe("As in the request line: encoded, with the query."),
    headers: headers.optional(),
    ...bodyFields,
    raw_text: z
      .string()
      .optional()
      .describe("Gateway only: sent on the connection as it stands, in place of all else."),
    end: z.enum(["complete", "hang"]).optional().describe("Gateway only. hang: the body's last byte never comes."),
  })
  .describe("The request between SDK and gateway.");

const attempt = z.strictObject({
  node: z.string().describe("The node that is asked."),
  request: z
    .strictObject({ path: z.string().optional(), headers: headers.optional(), ...bodyFields })
    .optional()
    .describe("As it must reach the node. Without a body here: the very bytes of `wire`."),
  answer: answer.optional().describe("What the node answers. Without it: `answers[0]`, which must pass byte for byte."),
});

const error = z.strictObject({
  name: z.string().describe("The class."),
  message: json.optional(),
  status: z.int().optional(),
  code: json.optional(),
  type: json.optional(),
  param: json.optional(),
  body: json.optional(),
  retry_after: json.optional().describe("Seconds."),
  should_retry: json.optional(),
  families: json.optional(),
});

const result = z
  .strictObject({
    object: json.optional().describe("Members that the answer has, at least; lists have the same length."),
    text: z.string().optional(),
    events: z.array(json).optional().describe("The events of the stream, each at least with these members."),
    error: error.optional(),
    routing: z
      .record(z.string(), json)
      .nullable()
      .optional()
      .describe("Of the answer, stream or error. null: there is none. Members that are not named are unknown there."),
    request_id: json.optional(),
    requests: z.int().optional().describe("Requests that arrive at the server; as many as `answers` unless stated."),
    waits_ms: z
      .array(z.union([z.number(), matcher]))
      .optional()
      .describe("Sleeps between requests, in order."),
    closed: z.literal(true).optional().describe("The server sees the connection close before it has answered all."),
  })
  .describe("What the application gets.");

const vector = z.strictObject({
  name: z.string().min(10).describe("A claim; unique."),
  runs: z.array(z.enum(["gateway", "sdk"])).min(1),
  client: client.optional(),
  call: call.optional(),
  wire: wire.optional(),
  gateway: gateway.optional(),
  node: z.array(attempt).optional().describe("The attempts in order; empty: no node is asked."),
  answers: z.array(answer).describe("What the gateway answers, one per request of the SDK."),
  result: result.optional(),
});

const vectorsFile = z.strictObject({
  $schema: z.literal("./vectors.schema.json"),
  vectors: z.array(vector).min(1),
});

export type Vector = z.infer<typeof vector>;
export type VectorAnswer = z.infer<typeof answer>;

/** Names of the files that hold vectors. */
export function vectorFiles(): string[] {
  return readdirSync(CONFORMANCE).filter((name) => name.endsWith(".json") && !name.endsWith(".schema.json"));
}

/** The vectors of one file. Throws with the path of each problem when it is none. */
export function readVectors(file: string): Vector[] {
  return vectorsFile.parse(JSON.parse(readFileSync(join(CONFORMANCE, file), "utf8"))).vectors;
}

/** The shape as JSON Schema, as it stands in the repository. */
export function schemaText(): string {
  const schema = { title: "ZML conformance vectors", ...z.toJSONSchema(vectorsFile) };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

if (import.meta.main) writeFileSync(SCHEMA_PATH, schemaText());
