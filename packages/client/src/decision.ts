/** A routing decision with its evidence, as the admin port tells it. Unknown numbers are `null`. */
import type { AnswerFacts } from "./answers.ts";

/** How one attempt ended. Times from its dispatch. */
export interface DecisionOutcome {
  /** `running`, `success`, `failure`, `overloaded`, … */
  kind: string;
  /** HTTP status of the node. */
  status: number | null;
  /** What went wrong when there was no HTTP answer. */
  fault: string | null;
  first_byte_ms: number | null;
  first_token_ms: number | null;
  duration_ms: number | null;
  prompt_tokens: number | null;
  output_tokens: number | null;
  /** Of the prompt, found in the prefix cache. `null`: the node does not tell it. */
  cached_tokens: number | null;
}

/** A family of the policy's chain, represented by its best-ranked node with room. */
export interface DecisionFamily {
  family: string;
  /** 1 is the first choice of the policy. */
  tier: number;
  /** Nodes of the family that serve the model. */
  nodes: number;
  best_node: string | null;
  depth: number | null;
  estimate_ms: number | null;
  cost_usd: number | null;
  /** Target − estimate: negative when the estimate misses the target. */
  headroom_ms: number | null;
  is_chosen: boolean;
  /** Nodes left out, by reason. */
  excluded: { [reason: string]: number };
}

/** The answer to `decisions.explain`. */
export interface Decision extends AnswerFacts {
  decision: string;
  worker: number;
  sequence: number;
  /** RFC 3339. */
  decided_at: string;
  /** Version of the configuration that was decided on. */
  version: number;
  request: {
    account: string | null;
    model: string | null;
    endpoint: string;
    stream: boolean;
    /** Estimated from the size of the body. */
    prompt_tokens: number | null;
    /** The caller's limit. */
    max_tokens: number | null;
    /** From admission to this decision: waiting for room and earlier attempts. */
    waited_ms: number | null;
  };
  policy: { name: string | null; source: string; cost_priority: string; latency_target_ms: number | null };
  hint: { family: string | null; use: string } | null;
  choice: {
    /** The word of the routing header. */
    reason: string;
    node: string | null;
    url: string | null;
    family: string | null;
    /** Before this request. */
    depth: number | null;
    estimate_ms: number | null;
    /** `null` where the simple estimate decided. */
    estimate_first_token_ms: number | null;
    /** Time per further token, as predicted. */
    estimate_token_ms: number | null;
    /** Predicted probability that it meets its targets, 0 to 1. */
    target_chance: number | null;
    /** The prompt as predictions took it. */
    estimate_prompt_tokens: number | null;
    /** Of the prompt, believed to stand in the node's prefix cache, since it was sent there before. */
    warm_tokens: number | null;
    /** What of them the prediction counted on, as far as the node's cache kept its word before. */
    cached_tokens: number | null;
    cost_usd: number | null;
    headroom_ms: number | null;
    is_trial: boolean;
    /** Age of the node's last good poll. */
    data_age_ms: number | null;
    /** What a saturated caller was told. */
    retry_after_ms: number | null;
    /** Times that another worker took the place first. */
    booking_races: number;
  };
  families: DecisionFamily[];
  /** The family that would have come next; `null`: there was no other. */
  runner_up: string | null;
  /** Nodes of the model whose family is not in the chain. */
  outside_chain: number;
  are_prices_unknown: boolean;
  /** Number of this dispatch of the request, from 1; 0: it was not dispatched. */
  attempt: number;
  /** Decisions of the same request before this one, oldest first, as far as they are remembered. */
  earlier: {
    sequence: number;
    node: string | null;
    family: string | null;
    reason: string;
    outcome: DecisionOutcome;
  }[];
  outcome: DecisionOutcome;
}
