import {
  COST_PRIORITIES,
  ENDPOINTS,
  EXCLUSIONS,
  HINT_USES,
  OUTCOMES,
  POLICY_SOURCES,
  REASONS,
  TRANSPORT_FAULTS,
} from "@zml/engine/reasons";
import { z } from "zod";
import { type Json, nextCursor } from "./fields.ts";

/** A decision, in the words of the routing header and of the closed lists. Unknown numbers are null. */

const outcomeSchema = z
  .object({
    kind: z.enum(OUTCOMES),
    status: z.number().nullable().describe("HTTP status of the node."),
    fault: z.enum(TRANSPORT_FAULTS).nullable(),
    first_byte_ms: z.number().nullable(),
    first_token_ms: z.number().nullable(),
    duration_ms: z.number().nullable(),
    prompt_tokens: z.number().nullable(),
    output_tokens: z.number().nullable(),
    cost_usd: z
      .number()
      .nullable()
      .describe("What it took of its node, as budgets count it; null: it runs, or the price is unknown."),
    cached_tokens: z
      .number()
      .nullable()
      .describe("Of the prompt, found in the prefix cache. Null: the node does not tell it."),
  })
  .meta({ id: "Outcome", description: "How one attempt ended. Times from its dispatch." });

const familySchema = z
  .object({
    family: z.string(),
    tier: z.number().describe("1 is the first choice of the policy."),
    nodes: z.number().describe("Nodes of the family that serve the model."),
    best_node: z.string().nullable(),
    depth: z.number().nullable(),
    estimate_ms: z.number().nullable(),
    cost_usd: z.number().nullable(),
    headroom_ms: z.number().nullable().describe("Target − estimate: negative when the estimate misses the target."),
    is_chosen: z.boolean(),
    excluded: z.partialRecord(z.enum(EXCLUSIONS), z.number()).describe("Nodes left out, by reason."),
  })
  .meta({ id: "DecisionFamily", description: "A family of the chain, represented by its best-ranked node with room." });

const earlierSchema = z
  .object({
    sequence: z.number(),
    node: z.string().nullable(),
    family: z.string().nullable(),
    reason: z.enum(REASONS),
    outcome: outcomeSchema,
  })
  .meta({ id: "EarlierDecision", description: "A decision of the same request before this one." });

export const decisionSchema = z
  .object({
    decision: z.string().describe("As in the header `x-zml-routing`."),
    worker: z.number(),
    sequence: z.number(),
    decided_at: z.iso.datetime(),
    version: z.number().describe("Version of the configuration that was decided on."),
    request: z.object({
      account: z.string().nullable(),
      model: z.string().nullable(),
      key: z.string().nullable().describe("Name of the caller's key; null: none was asked."),
      endpoint: z.enum(ENDPOINTS),
      stream: z.boolean(),
      prompt_tokens: z.number().nullable().describe("Estimated from the size of the body."),
      images: z.boolean().describe("The prompt holds images."),
      max_tokens: z.number().nullable().describe("The caller's limit."),
      waited_ms: z
        .number()
        .nullable()
        .describe("From admission to this decision: waiting for room and earlier attempts."),
    }),
    policy: z.object({
      name: z.string().nullable(),
      source: z.enum(POLICY_SOURCES),
      cost_priority: z.enum(COST_PRIORITIES),
      latency_target_ms: z.number().nullable(),
    }),
    hint: z.object({ family: z.string().nullable(), use: z.enum(HINT_USES) }).nullable(),
    choice: z.object({
      reason: z.enum(REASONS),
      node: z.string().nullable(),
      url: z.string().nullable().describe("Null for keys of accounts other than `default`."),
      family: z.string().nullable(),
      depth: z.number().nullable().describe("Before this request."),
      estimate_ms: z.number().nullable(),
      estimate_first_token_ms: z.number().nullable().describe("Null where the simple estimate decided."),
      estimate_token_ms: z.number().nullable().describe("Time per further token, as predicted."),
      target_chance: z.number().nullable().describe("Predicted probability that it meets its targets, 0 to 1."),
      estimate_prompt_tokens: z.number().nullable().describe("The prompt as predictions took it."),
      warm_tokens: z
        .number()
        .nullable()
        .describe("Of the prompt, believed to stand in the node's prefix cache, since it was sent there before."),
      cached_tokens: z
        .number()
        .nullable()
        .describe("What of them the prediction counted on, as far as the node's cache kept its word before."),
      cost_usd: z.number().nullable(),
      price_usd_per_hour: z.number().nullable().describe("Of the chosen node."),
      headroom_ms: z.number().nullable(),
      is_trial: z.boolean(),
      data_age_ms: z.number().nullable().describe("Age of the node's last good poll."),
      retry_after_ms: z.number().nullable().describe("What a saturated caller was told."),
      booking_races: z.number().describe("Times that another worker took the place first."),
    }),
    families: z.array(familySchema),
    runner_up: z
      .string()
      .nullable()
      .describe("The family that would have come next, under what the policy weighs; null: there was no other."),
    outside_chain: z.number().describe("Nodes of the model whose family is not in the chain."),
    are_prices_unknown: z.boolean().describe("True when no price of any family is known."),
    attempt: z.number().describe("Number of this dispatch of the request, from 1; 0: it was not dispatched."),
    earlier: z.array(earlierSchema).describe("Decisions before this one, oldest first, as far as they are remembered."),
    outcome: outcomeSchema,
  })
  .meta({ id: "Decision" });

export const decisionPageSchema = z
  .object({
    items: z.array(decisionSchema).describe("Newest first."),
    next_cursor: nextCursor,
    looked_at: z
      .int()
      .describe("Records that this page looked at; a filter that few records pass needs several pages."),
  })
  .meta({ id: "DecisionPage" });

export const decisionTailSchema = z
  .object({
    items: z.array(decisionSchema).describe("In the order in which they ended."),
    mark: z.string().describe("For the next question."),
    is_more: z.boolean().describe("There is more already: ask again at once."),
    missed: z
      .int()
      .describe("Decisions since the answer before that are in no answer, as too many came: filtered ones among them."),
    is_restarted: z.boolean().describe("The mark was another process's: what came before this answer is not known."),
  })
  .meta({ id: "DecisionTail" });

export type DecisionTailJson = Json<z.output<typeof decisionTailSchema>>;
export type DecisionJson = Json<z.output<typeof decisionSchema>>;
export type FamilyJson = DecisionJson["families"][number];
export type EarlierJson = DecisionJson["earlier"][number];
/** How one attempt ended. */
export type OutcomeJson = DecisionJson["outcome"];
