/** A decision as JSON, in the words of the routing header and of the closed lists. Unknown numbers are null. */

import type {
  CostPriority,
  Endpoint,
  Exclusion,
  HintUse,
  Outcome,
  PolicySource,
  Reason,
  TransportFault,
} from "@zml/engine";

/** How one attempt ended. Times from its dispatch. */
export interface OutcomeJson {
  readonly kind: Outcome;
  /** HTTP status of the node. */
  readonly status: number | null;
  readonly fault: TransportFault | null;
  readonly first_byte_ms: number | null;
  readonly first_token_ms: number | null;
  readonly duration_ms: number | null;
  readonly prompt_tokens: number | null;
  readonly output_tokens: number | null;
}

/** A family of the chain, represented by its best-ranked node with room. */
export interface FamilyJson {
  readonly family: string;
  /** 1 is the first choice of the policy. */
  readonly tier: number;
  /** Nodes of the family that serve the model. */
  readonly nodes: number;
  readonly best_node: string | null;
  readonly depth: number | null;
  readonly estimate_ms: number | null;
  readonly cost_usd: number | null;
  /** Target − estimate: negative when the estimate misses the target. */
  readonly headroom_ms: number | null;
  readonly is_chosen: boolean;
  /** Nodes left out, by reason. */
  readonly excluded: Partial<Record<Exclusion, number>>;
}

/** A decision of the same request before this one. */
export interface EarlierJson {
  readonly sequence: number;
  readonly node: string | null;
  readonly family: string | null;
  readonly reason: Reason;
  readonly outcome: OutcomeJson;
}

export interface DecisionJson {
  readonly decision: string;
  readonly worker: number;
  readonly sequence: number;
  /** RFC 3339. */
  readonly decided_at: string;
  /** Version of the configuration that was decided on. */
  readonly version: number;
  readonly request: {
    readonly account: string | null;
    readonly model: string | null;
    readonly endpoint: Endpoint;
    readonly stream: boolean;
    /** Estimated from the size of the body. */
    readonly prompt_tokens: number | null;
    /** The prompt holds images. */
    readonly images: boolean;
    /** The caller's limit. */
    readonly max_tokens: number | null;
    /** From admission to this decision: waiting for room and earlier attempts. */
    readonly waited_ms: number | null;
  };
  readonly policy: {
    readonly name: string | null;
    readonly source: PolicySource;
    readonly cost_priority: CostPriority;
    readonly latency_target_ms: number | null;
  };
  readonly hint: { readonly family: string | null; readonly use: HintUse } | null;
  readonly choice: {
    readonly reason: Reason;
    readonly node: string | null;
    readonly url: string | null;
    readonly family: string | null;
    /** Before this request. */
    readonly depth: number | null;
    readonly estimate_ms: number | null;
    readonly cost_usd: number | null;
    readonly headroom_ms: number | null;
    readonly is_trial: boolean;
    /** Age of the node's last good poll. */
    readonly data_age_ms: number | null;
    /** What a saturated caller was told. */
    readonly retry_after_ms: number | null;
    /** Times that another worker took the place first. */
    readonly booking_races: number;
  };
  readonly families: readonly FamilyJson[];
  /** The family that would have come next, under what the policy weighs; null: there was no other. */
  readonly runner_up: string | null;
  /** Nodes of the model whose family is not in the chain. */
  readonly outside_chain: number;
  /** True when no price of any family is known. */
  readonly are_prices_unknown: boolean;
  /** Number of this dispatch of the request, 1-based; 0: it was not dispatched. */
  readonly attempt: number;
  /** Decisions before this one, oldest first, as far as they are still remembered. */
  readonly earlier: readonly EarlierJson[];
  readonly outcome: OutcomeJson;
}
