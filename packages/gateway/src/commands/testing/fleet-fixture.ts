/** Reports of a fleet for the tests of commands: every number is what it says, and nothing is measured. */

import type { FleetReportJson, NodeReportJson } from "../../control/fleet-report.ts";

/** A healthy node that serves `llama3-70b`. */
export function node(id: string, changes: Partial<NodeReportJson> = {}): NodeReportJson {
  return {
    id,
    url: "http://10.0.0.1:8000",
    account: "default",
    tls: "none",
    origin: "file",
    family: "H100",
    engine: "vllm",
    version: "0.32.0",
    platform: null,
    models: ["llama3-70b"],
    context_tokens: { "llama3-70b": 8192 },
    state: "healthy",
    state_detail: null,
    down_cause: null,
    cooldown_remaining_ms: null,
    depth: 0,
    in_flight: 0,
    foreign: 0,
    running: 0,
    waiting: 0,
    max_in_flight: 256,
    concurrency_limit: null,
    tokens_per_second: 1000,
    stream_tokens_per_second: 40,
    measured_tokens_per_second: null,
    measured_stream_tokens_per_second: null,
    generation_tokens_per_second: null,
    prompt_tokens_per_second: null,
    kv_headroom_tokens: null,
    own_samples: 0,
    predictions: {},
    price_usd_per_hour: null,
    price_key: null,
    price_age_ms: null,
    health_score: 100,
    health_parts: { errors: 1, depth: 1 },
    error_rate: null,
    kv_use: 0,
    free_memory_gib: null,
    last_success_age_ms: null,
    data_age_ms: 1500,
    last_poll_error: null,
    last_poll_error_age_ms: null,
    redetected_at: null,
    sources: { health_page: 1500, metrics: 1500, models: 1500, limits: 1500, own_traffic: null, price: null },
    unknown: {},
    ...changes,
  };
}

/** A fleet of these nodes. */
export function report(nodes: readonly NodeReportJson[]): FleetReportJson {
  return {
    version: 1,
    totals: {
      nodes: nodes.length,
      healthy_nodes: nodes.length,
      depth: 0,
      in_flight: 0,
      parked: 0,
      tokens_per_second: 0,
      price_usd_per_hour: null,
      workers: 2,
      listening_workers: 2,
      worker_crashes: 0,
      control_delay_p99_ms: null,
      control_delay_max_ms: null,
    },
    nodes,
    models: [],
  };
}
