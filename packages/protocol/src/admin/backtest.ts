import { z } from "zod";
import { policySchema } from "../config.ts";
import { count } from "../config-fields.ts";
import { accountQuery, type Json, objectName } from "./fields.ts";

/** A back-test: recorded traffic replayed under the policies in force and under a draft. */

const number = z.number().nullable();
const quantiles = z.object({ p50: number, p95: number, p99: number });
const interval = z.tuple([z.number(), z.number()]).nullable();

const figuresSchema = z
  .object({
    requests: z.int(),
    served: z.int(),
    refused: z.int().describe("No node had room, at once or after waiting."),
    failed: z.int(),
    cancelled: z.int(),
    queued: z.int().describe("Waited for room, in vain or not."),
    usd: z.number(),
    usd_per_million_output_tokens: number,
    attainment: number.describe("Of the requests with a target, the share that met it."),
    ttft_ms: quantiles.describe("Streams, from arrival."),
    token_ms: quantiles.describe("Streams, per further token."),
    response_ms: quantiles,
    families: z.record(z.string(), z.number()).describe("Share of the served requests."),
  })
  .meta({ id: "BacktestFigures" });

/** Figures that are compared. Shares and attainment are 0 to 1. */
export const BACKTEST_FIGURES = [
  "usd",
  "usd_per_million_output_tokens",
  "attainment",
  "ttft_p50_ms",
  "ttft_p95_ms",
  "ttft_p99_ms",
  "token_p50_ms",
  "token_p95_ms",
  "token_p99_ms",
  "response_p50_ms",
  "response_p95_ms",
  "response_p99_ms",
  "refused_share",
  "queued_share",
  "failed_share",
] as const;

const runsOf = <T extends z.ZodType>(schema: T) =>
  z.object({
    happened: schema.describe("As recorded."),
    current: schema.describe("Replayed under the policies in force."),
    draft: schema.describe("Replayed under the draft."),
  });

export const backtestReportSchema = z
  .object({
    window: z.object({
      from: z.iso.datetime(),
      to: z.iso.datetime(),
      records: z.int(),
      requests: z.int().describe("Replayed."),
      skipped: z.object({
        caller_error: z.int(),
        unfinished: z.int(),
        unknown_names: z.int(),
        unserved_model: z.int(),
      }),
      lost: z.int().describe("Records of the window that were dropped before they were kept."),
      lost_share: z.number(),
      under_other_settings: z.int().describe("Requests whose policy was set otherwise when they came."),
      is_from_start: z.boolean().describe("A gateway began within the window, and had learned nothing."),
    }),
    drafts: z.array(z.object({ account: z.string(), policy: z.string(), replaces: z.string(), requests: z.int() })),
    warnings: z.array(z.string()),
    verdict: z
      .object({
        grade: z.enum(["close", "rough", "far"]),
        text: z.string(),
        deviations: z.array(
          z.object({
            figure: z.enum(BACKTEST_FIGURES),
            happened: number,
            replayed: number,
            off: number.describe("As a part of what happened; of shares and attainment in points (0.01 is one)."),
          }),
        ),
      })
      .describe("How far the replay of what is in force is from what happened."),
    figures: runsOf(figuresSchema),
    comparison: z
      .array(
        z.object({
          figure: z.enum(BACKTEST_FIGURES),
          current: number,
          draft: number,
          difference: number,
          current_interval: interval,
          draft_interval: interval,
          difference_interval: interval,
        }),
      )
      .describe("Draft against current, with intervals that hold 95 % (drawn blocks of the window)."),
    attainment_of_draft_targets: runsOf(number).describe("By the targets of the draft, where they differ."),
    policies: z.array(
      z.object({ account: z.string(), policy: z.string(), is_draft: z.boolean(), figures: runsOf(figuresSchema) }),
    ),
    timings: z.array(
      z.object({
        account: z.string(),
        model: z.string(),
        family: z.string(),
        attempts: z.int().describe("It was fitted on these; 0: nothing was recorded, it is taken as elsewhere."),
        step_ms: z.number(),
        per_sequence_us: z.number(),
        per_cached_token_ns: z.number(),
        per_prompt_token_us: z.number(),
        overhead_ms: z.number(),
        token_error: number.describe("Median error of single attempts."),
        response_error: number,
      }),
    ),
    curves: z.object({
      shares: z.array(z.number()),
      ttft_ms: runsOf(z.array(number)),
      response_ms: runsOf(z.array(number)),
    }),
    series: z
      .object({ every_ms: z.number(), usd: runsOf(z.array(z.number())), response_p95_ms: runsOf(z.array(number)) })
      .describe("The window in equal parts."),
    took_ms: z.number(),
  })
  .meta({ id: "BacktestReport" });

export const BACKTEST_SINCE_MAX_S = 3_650 * 86_400;

export const backtestBody = z.strictObject({
  account: accountQuery(
    "Whose traffic is judged; all of it is replayed. Default: the key's account, an operator's: all.",
  ),
  policies: z.array(policySchema).min(1).max(100).describe("The draft."),
  replaces: objectName("a policy").optional().describe("The policy that a draft of one stands for. Default: its name."),
  since_s: count({ min: 1, max: BACKTEST_SINCE_MAX_S }).optional().describe("From so long ago. Default: 86,400."),
  until_s: count({ min: 0, max: BACKTEST_SINCE_MAX_S }).optional().describe("Until so long ago. Default: 0."),
});

export const backtestJobSchema = z
  .object({
    id: z.string(),
    state: z.enum(["waiting", "running", "done", "failed", "cancelled"]),
    phase: z.enum(["reading", "fitting", "replaying", "summing up"]),
    progress: z.number().describe("0 to 1."),
    ahead: z.int().nullable().describe("While it waits: back-tests that come before it."),
    started_at: z.iso.datetime().describe("While it waits, when it was asked for."),
    ended_at: z.iso.datetime().nullable(),
    problem: z
      .object({
        code: z.enum(["empty_window", "unknown_fleet", "too_many_records", "draft", "store", "failed"]),
        detail: z.string(),
        errors: z.array(z.object({ path: z.string(), message: z.string() })),
      })
      .nullable(),
    report: backtestReportSchema.nullable(),
  })
  .meta({ id: "BacktestJob" });

export const backtestParams = z.strictObject({ id: z.string().min(1).max(64).describe("Of the job.") });

export type BacktestReportJson = Json<z.output<typeof backtestReportSchema>>;
export type BacktestJobJson = Json<z.output<typeof backtestJobSchema>>;
