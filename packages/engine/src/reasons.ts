/**
 * The closed vocabularies of routing. Each list is the only home of its words: code, routing header, evidence, metrics
 * and docs use them as they stand. Records store the index, so a list only ever grows at its end.
 */

/** Why the chosen node was chosen. */
export const CHOICE_REASONS = [
  /** `cost`: the cheapest family, and it meets the target (or there is none). */
  "cheapest",
  /** `cost`: the cheapest family misses the target, this is the next in the chain that meets it. */
  "next_in_chain",
  /** `balanced`: least sum of relative cost and relative response time among the families within the target. */
  "best_balance",
  /** `latency`: the best-ranked node of the first tier that has one with acceptable depth. */
  "first_acceptable",
  /** `latency`: no node has acceptable depth; least estimate among those with room. */
  "least_estimate",
  /** `cost` and `balanced`: no family meets the target; least estimate among the nodes with room. */
  "target_missed",
  /** The caller's accelerator hint, in the chain and good enough. */
  "hinted",
  /** Predictions of the model have missed calibration and choose no node: the least loaded one for its speed. */
  "least_loaded",
  /** One request of a hundred, to an idle node of a family that nobody has measured. */
  "exploring",
] as const;
export type ChoiceReason = (typeof CHOICE_REASONS)[number];

/** Why a request got no node. */
export const NO_NODE_REASONS = [
  /** Some node is healthy, and every healthy one is full. */
  "queue_saturated",
  /** No node of the chain is healthy; nodes in cooldown count as not healthy. */
  "no_node_available",
  /** Every node that is left has already failed this request. */
  "nodes_exhausted",
  /** `failover.max_attempts` was reached. */
  "attempts_exhausted",
  /** `failover.window_ms` after the first failure has passed. */
  "window_exhausted",
  /** The share of traffic that may be re-dispatches is used up. */
  "retry_budget_exhausted",
  /** The request was refused before routing (see `error.code`). */
  "refused",
  /** Every node of the chain lacks something that the request needs: context, images or the endpoint. */
  "no_capable_node",
] as const;
export type NoNodeReason = (typeof NO_NODE_REASONS)[number];

/** Token of the routing header's member `reason`. */
export const REASONS = [...CHOICE_REASONS, ...NO_NODE_REASONS] as const;
export type Reason = (typeof REASONS)[number];

/** Why a node was left out of a decision; up to `reserved_for_queue` in the order in which availability asks. */
export const EXCLUSIONS = [
  /** Its family is not in the policy's chain. */
  "not_in_chain",
  /** It already failed this request. */
  "failed_this_request",
  /** The operator drains it, or it is leaving the configuration. */
  "draining",
  /** Two polls in a row failed, and no traffic passed since. */
  "unhealthy",
  /** It has not answered a poll yet. */
  "not_polled",
  /** It failed a request and its cooldown runs. */
  "cooling_down",
  /** Its cooldown is over and another request is its trial. */
  "trial_running",
  /** It said that it is overloaded and for how long. */
  "backing_off",
  /** It refuses this model or our credentials. */
  "misconfigured",
  /** It does not implement this endpoint. */
  "endpoint_unsupported",
  /** The request is larger than what it takes; or probably is, and a node with a larger context can take it. */
  "context_too_small",
  /** Its depth has reached `max_in_flight`. */
  "at_capacity",
  /** A request that parked earlier has the first claim on its room. */
  "reserved_for_queue",
  /** The request holds images and its model reads none; asked after `endpoint_unsupported`. */
  "images_unsupported",
  /** It serves the model that this adapter (LoRA) is for, and not the adapter; known without asking. */
  "adapter_missing",
] as const;
export type Exclusion = (typeof EXCLUSIONS)[number];

/** How the policy of a request was found. */
export const POLICY_SOURCES = ["call", "model", "account", "built_in"] as const;
export type PolicySource = (typeof POLICY_SOURCES)[number];

/** What became of an accelerator hint. */
export const HINT_USES = ["none", "used", "unused"] as const;
export type HintUse = (typeof HINT_USES)[number];

/** `cost_priority` of a policy. */
export const COST_PRIORITIES = ["cost", "balanced", "latency"] as const;
export type CostPriority = (typeof COST_PRIORITIES)[number];

/** `estimator` of a policy. */
export const ESTIMATORS = ["predictive", "simple"] as const;
export type EstimatorName = (typeof ESTIMATORS)[number];

/** Routed endpoints; a node can lack one (501) and still serve the others. */
export const ENDPOINTS = ["chat_completions", "completions", "responses", "messages", "embeddings", "rerank"] as const;
export type Endpoint = (typeof ENDPOINTS)[number];

/** Outcome classes of an attempt. */
export const OUTCOMES = [
  /** No outcome yet. */
  "running",
  /** The answer reached its commit point and its end. */
  "success",
  /** The node's fault: cooldown, next node. */
  "failure",
  /** The node is alive and full: next node, no cooldown. */
  "overloaded",
  /** The node refuses the model or our credentials: next node, out for that model. */
  "misconfigured",
  /** The node does not implement the endpoint: next node, out for that endpoint. */
  "endpoint_unsupported",
  /** Too large for this node: another one with a larger limit, or passed through. */
  "too_large",
  /** The caller's mistake: passed through, says nothing about the node. */
  "caller_error",
  /** The caller left: says nothing about the node. */
  "cancelled",
  /** The connection provably carried nothing: no failure, once more on a fresh connection. */
  "unsent",
  /** Broken after the commit point: the caller sees an error, the node cools down. */
  "interrupted",
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** What an attempt failed with when there was no HTTP answer. */
export const TRANSPORT_FAULTS = [
  "connect_refused",
  "connect_timeout",
  "connect_failed",
  "reset",
  "first_byte_timeout",
  "first_token_timeout",
  "idle_timeout",
  "total_timeout",
  "bad_response",
  "node_down",
  /** The head of its answer is larger than `limits.header_bytes`. */
  "head_too_large",
] as const;
export type TransportFault = (typeof TRANSPORT_FAULTS)[number];

/** How a request of the data port ended (docs/life-of-a-request.md, ways out). */
export const ENDINGS = [
  /** The caller has the node's answer. */
  "delivered",
  /** Refused before routing: see `error.code`. */
  "refused",
  /** Every node of the chain lacks something that it needs. */
  "incapable",
  /** No node had room, or none was healthy. */
  "saturated",
  /** It waited for room, or wanted to, in vain. */
  "parked_in_vain",
  /** Nothing more was tried after failures. */
  "given_up",
  /** The answer broke after it had begun. */
  "interrupted",
  /** `timeouts.total_ms` passed. */
  "over_time",
  /** The caller left. */
  "cancelled",
  /** The gateway stopped. */
  "drained",
  /** A fault of the gateway's own. */
  "internal_error",
] as const;
export type Ending = (typeof ENDINGS)[number];
