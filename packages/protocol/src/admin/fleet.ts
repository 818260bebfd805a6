import { z } from "zod";
import { DOWN_CAUSES, NODE_STATES, UNKNOWN_CELLS, UNKNOWN_WHYS } from "../fleet-words.ts";
import type { Json } from "./fields.ts";

/** The state of the fleet. Unknown numbers are null. */

const number = (text: string) => z.number().nullable().describe(text);

const nodeReportSchema = z
  .object({
    id: z.string(),
    url: z.string(),
    account: z.string(),
    origin: z.string().describe("`file`, `api`, or the name of the discovery source that found it."),
    tls: z
      .enum(["none", "verified", "insecure_skip_verify"])
      .describe("`none`: http://. `insecure_skip_verify`: encrypted to whoever answers."),
    family: z.string(),
    engine: z.string().nullable(),
    models: z.array(z.string()),
    state: z.enum(NODE_STATES).describe("What it does about traffic."),
    cooldown_remaining_ms: number("Until its trial; null: it does not cool down."),
    depth: z.number().describe("Requests on the node, whoever sent them."),
    in_flight: z.number().describe("Requests of ours on the node."),
    foreign: number("Requests that others put on it."),
    running: number("Requests that run, as it reports."),
    waiting: number("Requests that wait in it, as it reports."),
    max_in_flight: z.number().describe("Depth at which it takes no more."),
    tokens_per_second: number("Capacity: of its fastest model."),
    stream_tokens_per_second: number("Speed of one stream: of its fastest model."),
    price_usd_per_hour: number("Price of the whole node."),
    price_key: z
      .string()
      .nullable()
      .describe("Reference into the provider cost table; null: the price is stated, or unknown."),
    price_age_ms: number("Since a fetch confirmed the price of `price_key`."),
    health_score: number("0 to 100. It informs and gates nothing."),
    error_rate: number("Share of attempts that failed, decayed."),
    kv_use: number("KV cache in use, 0 to 1."),
    free_memory_gib: number("Free accelerator memory."),
    last_success_age_ms: number("Since the last inference that succeeded."),
    data_age_ms: number("Since the last good poll."),
    version: z.string().nullable().describe("Of its engine."),
    platform: z.string().nullable().describe("Lower case, such as `cuda` or `rocm`."),
    context_tokens: z.record(z.string(), z.number().nullable()).describe("By model, as callers name it."),
    concurrency_limit: number("Requests that it runs at once, as its engine states."),
    kv_headroom_tokens: number("Tokens that still fit into its KV cache."),
    generation_tokens_per_second: number("Of all its requests, between the last two looks."),
    prompt_tokens_per_second: number("Of all its requests, between the last two looks."),
    measured_tokens_per_second: number(
      "Capacity that was measured, of its fastest model; `tokens_per_second` stands in with an assumption.",
    ),
    measured_stream_tokens_per_second: number("Speed of one stream that was measured, of its fastest model."),
    own_samples: z.number().describe("Attempts of ours that the learned numbers of its models stand on."),
    predictions: z
      .record(
        z.string(),
        z.object({
          step_ms: z.number().describe("A decode step with one request."),
          prefill_ms_per_1000_tokens: z.number().describe("What 1,000 tokens of a prompt take."),
          slowness: z.number().nullable().describe("How much slower it is than its family, as a factor."),
          error: z.number().nullable().describe("Mean of |ln(outcome / prediction)| of the family."),
          samples: z.number().describe("Answers of the family that it stands on."),
          cache_hits: z
            .number()
            .nullable()
            .describe(
              "Share of the prompts believed to stand in its prefix cache that did, 0 to 1. Null: none was seen.",
            ),
        }),
      )
      .describe("What its answers are predicted with, by model; models that nothing is known of are absent."),
    health_parts: z
      .object({ errors: z.number(), depth: z.number() })
      .nullable()
      .describe("Factors of the health score, 0 to 1 each; null: it has none."),
    state_detail: z
      .enum([...DOWN_CAUSES, "kept_in_by_max_ejected_share"])
      .nullable()
      .describe(
        "Why health has it out, or that it would be while `health.max_ejected_share` of a model's nodes are out already.",
      ),
    down_cause: z.enum(DOWN_CAUSES).nullable().describe("Why health has it out, or would; null: it is well."),
    last_poll_error: z.string().nullable().describe("The last poll that failed, in words; null: none did."),
    last_poll_error_age_ms: number("Since then."),
    redetected_at: z.iso
      .datetime()
      .nullable()
      .describe("When another engine was found behind the same address; null: never."),
    sources: z
      .object({
        health_page: z.number().nullable(),
        metrics: z.number().nullable(),
        models: z.number().nullable(),
        limits: z.number().nullable(),
        own_traffic: z.number().nullable(),
        price: z.number().nullable(),
      })
      .describe("Time since each source last told something, ms; null: never."),
    unknown: z.partialRecord(z.enum(UNKNOWN_CELLS), z.enum(UNKNOWN_WHYS)).describe("Why a number is null."),
  })
  .meta({ id: "NodeReport" });

const modelReportSchema = z
  .object({
    account: z.string(),
    name: z.string(),
    is_registered: z.boolean().describe("False: nodes report it, and nobody registered it."),
    policy: z.string().nullable(),
    nodes: z.number().describe("Nodes that serve it."),
    mean_output_tokens: number("Decayed mean output of a request."),
  })
  .meta({ id: "ModelReport" });

export const fleetReportSchema = z
  .object({
    version: z.int().describe("Version of the configuration that is in force."),
    totals: z.object({
      nodes: z.number(),
      healthy_nodes: z.number(),
      depth: z.number(),
      in_flight: z.number(),
      parked: z.number().describe("Requests that wait for room."),
      tokens_per_second: z.number(),
      price_usd_per_hour: z.number().nullable(),
      workers: z.number(),
      listening_workers: z.number(),
      worker_crashes: z.number(),
      control_delay_p99_ms: number("How late the control thread was for its timers over the last minute or two."),
      control_delay_max_ms: number("The same, at most."),
    }),
    nodes: z.array(nodeReportSchema).describe("By id; a node that leaves is in it until its last request has ended."),
    models: z.array(modelReportSchema),
  })
  .meta({ id: "FleetReport" });

export type FleetReportJson = Json<z.output<typeof fleetReportSchema>>;
export type NodeReportJson = FleetReportJson["nodes"][number];
export type ModelReportJson = FleetReportJson["models"][number];
/** What a node does about traffic. */
export type NodeStateName = NodeReportJson["state"];
/** Why health has a node out, or that it would. */
export type StateDetail = NonNullable<NodeReportJson["state_detail"]>;

/** What the report says of a node beside its row of the fleet table. */
export type NodeTruthJson = Pick<
  NodeReportJson,
  | "version"
  | "platform"
  | "context_tokens"
  | "concurrency_limit"
  | "kv_headroom_tokens"
  | "generation_tokens_per_second"
  | "prompt_tokens_per_second"
  | "measured_tokens_per_second"
  | "measured_stream_tokens_per_second"
  | "own_samples"
  | "predictions"
  | "health_parts"
  | "state_detail"
  | "down_cause"
  | "last_poll_error"
  | "last_poll_error_age_ms"
  | "redetected_at"
  | "sources"
  | "unknown"
>;
