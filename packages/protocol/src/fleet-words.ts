/** Closed lists of what the report of the fleet says. Without zod, as the gateway reads them from its start on. */

/** What a node does about traffic, in the order in which availability asks. */
export const NODE_STATES = ["draining", "unhealthy", "not_polled", "cooling_down", "trial", "healthy"] as const;

/** Why health has a node out. */
export const DOWN_CAUSES = [
  "refused",
  "unreachable",
  "timeout",
  "reset",
  "link_local",
  "too_large",
  "encoded",
  "redirect",
  "not_ready",
  "stalled",
  "exception",
] as const;

/** Why a cell is unknown. */
export const UNKNOWN_WHYS = [
  /** No poll of the node has been answered yet. */
  "not_polled",
  /** The node is out, and what it told before says nothing about now. */
  "node_down",
  /** Its engine is not known yet. */
  "engine_not_detected",
  /** The engine has no such number, or this node does not give it. */
  "engine_does_not_tell",
  /** The node answers the metrics path with something else: its metrics are off, or need a key. */
  "metrics_refused",
  /** The metrics path answers with more than 4 MiB. */
  "metrics_too_large",
  /** The metrics path answers with something compressed, which was not asked for. */
  "metrics_compressed",
  /** The metrics path answers with a redirect, which is not followed. */
  "metrics_redirected",
  /** The metrics path did not answer in time. */
  "metrics_failed",
  /** The GPU exporter does not answer, or marks a GPU as unknown. */
  "gpu_exporter_failed",
  /** No GPU on the exporter's page matches. */
  "gpu_exporter_no_match",
  /** One look at a counter is no rate yet. */
  "one_look_only",
  /** Nobody has sent the node a request that says it. */
  "no_traffic_yet",
  /** The node has not been busy enough to show what it can give: what stands there is assumed. */
  "not_measured_yet",
  /** No price is configured. */
  "no_price",
  /** No feed has told the price that is referred to. */
  "price_not_fetched",
] as const;
/** Why a cell is unknown. */
export type UnknownWhy = (typeof UNKNOWN_WHYS)[number];

/** Cells that can be unknown, by their name in the report; `context_tokens` of any model. */
export const UNKNOWN_CELLS = [
  "engine",
  "version",
  "platform",
  "running",
  "waiting",
  "foreign",
  "concurrency_limit",
  "kv_use",
  "kv_headroom_tokens",
  "free_memory_gib",
  "generation_tokens_per_second",
  "prompt_tokens_per_second",
  "measured_tokens_per_second",
  "measured_stream_tokens_per_second",
  "context_tokens",
  "price_usd_per_hour",
  "health_score",
  "error_rate",
  "last_success_age_ms",
  "data_age_ms",
] as const;
/** A cell that can be unknown. */
export type UnknownCell = (typeof UNKNOWN_CELLS)[number];
