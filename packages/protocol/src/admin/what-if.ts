import { ENDPOINTS } from "@zml/engine/reasons";
import { z } from "zod";
import { policySchema } from "../config.ts";
import { count, decimal, flag, MAX_GPU_HOUR_USD, modelName, oneOf } from "../config-fields.ts";
import { decisionSchema } from "./decisions.ts";
import { accountQuery, documented, objectName } from "./fields.ts";

/** What would be decided: a request's numbers, and what is otherwise than it is. */

const TOKENS_MAX = 1_000_000_000;
const tokens = (min: number) => count({ min, max: TOKENS_MAX });

const requestSchema = z.strictObject({
  model: documented(modelName(), { type: "string", minLength: 1, maxLength: 256 }),
  policy: objectName("a policy").optional().describe("As in the header `x-zml-policy`."),
  accelerator: objectName("a family").optional().describe("As in the header `x-zml-accelerator`."),
  endpoint: oneOf(ENDPOINTS).optional().describe("Default: `chat_completions`."),
  stream: flag().optional().describe("Default: false."),
  prompt_tokens: tokens(0).optional().describe("Default: 500."),
  prompt_tokens_at_least: tokens(0)
    .optional()
    .describe("What the prompt has for certain: a node with a smaller context is out. Default: 0."),
  max_tokens: tokens(1).optional().describe("The caller's limit. Default: none is stated."),
  n: count({ min: 1, max: 1024 }).optional().describe("Answers asked for. Default: 1."),
  images: flag().optional().describe("The prompt holds images. Default: false."),
});

const overridesSchema = z.strictObject({
  prices: z
    .record(objectName("a node or a family"), decimal("USD per GPU-hour", { min: 0, max: MAX_GPU_HOUR_USD }))
    .optional()
    .describe("USD per GPU-hour by node id, else by family."),
  down: z.array(objectName("a node")).max(65_536).optional().describe("Nodes that take nothing."),
  policy: policySchema.optional().describe("A draft that decides in place of the policy that would be found."),
});

export const whatIfBody = z.strictObject({
  account: accountQuery("Whose request it is. Default: the key's account."),
  request: requestSchema,
  overrides: overridesSchema.optional(),
});

export const whatIfSchema = z
  .object({
    decision: decisionSchema.describe("Under the overrides."),
    as_it_is: decisionSchema.describe("Without them."),
  })
  .meta({ id: "WhatIf", description: "Nothing was booked and nothing sent; `outcome` says nothing." });
