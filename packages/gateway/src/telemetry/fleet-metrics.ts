/** The fleet as gauges: per node what decisions read, per family what autoscalers read. Unknown numbers have no series. */

import type { FleetReportJson, NodeReportJson } from "../control/fleet-report.ts";
import type { MetricFamily, MetricSample } from "./metric-family.ts";

const STATES: readonly NodeReportJson["state"][] = [
  "healthy",
  "trial",
  "cooling_down",
  "not_polled",
  "unhealthy",
  "draining",
];

/** Per-node gauges: name behind `zml_availability_node_`, meaning, and where it comes from. */
const NODE_GAUGES: readonly (readonly [string, string, (node: NodeReportJson) => number | null])[] = [
  ["depth", "Requests on the node, whoever sent them.", (node) => node.depth],
  ["in_flight", "Requests of this gateway on the node.", (node) => node.in_flight],
  ["waiting", "Requests that wait on the node, as it reports.", (node) => node.waiting],
  ["running", "Requests that run on the node, as it reports.", (node) => node.running],
  ["max_in_flight", "Requests that it may have.", (node) => node.max_in_flight],
  ["health_score", "Health score, 0 to 100.", (node) => node.health_score],
  ["error_ratio", "Recent attempts that failed, as a share.", (node) => node.error_rate],
  ["tokens_per_second", "Learned capacity, output tokens per second.", (node) => node.tokens_per_second],
  ["stream_tokens_per_second", "One request's own speed.", (node) => node.stream_tokens_per_second],
  ["kv_cache_usage_ratio", "KV cache in use, as a share.", (node) => node.kv_use],
  ["free_memory_bytes", "Free accelerator memory.", (node) => scaled(node.free_memory_gib, 2 ** 30)],
  ["data_age_seconds", "Since the last good poll.", (node) => scaled(node.data_age_ms, 0.001)],
  ["last_success_age_seconds", "Since an answer ended well.", (node) => scaled(node.last_success_age_ms, 0.001)],
];

/** @returns families for the exposition. O(nodes). */
export function fleetMetrics({ nodes, totals, version }: FleetReportJson): MetricFamily[] {
  const labels = nodes.map(({ id, family, account }) => ({ node: id, family, account }));
  const each = (of: (node: NodeReportJson) => number | null): MetricSample[] =>
    nodes.flatMap((node, index) => {
      const value = of(node);
      return value === null ? [] : [{ labels: labels[index] ?? {}, value }];
    });
  const gauge = (name: string, help: string, values: readonly MetricSample[]): MetricFamily => ({
    name,
    help,
    type: "gauge",
    values,
  });
  const single = (value: number | null): MetricSample[] => (value === null ? [] : [{ labels: {}, value }]);
  return [
    ...NODE_GAUGES.map(([name, help, of]) => gauge(`zml_availability_node_${name}`, help, each(of))),
    gauge(
      "zml_availability_node_state",
      "1 for the state that a node is in.",
      nodes.map(({ state }, index) => ({ labels: { ...labels[index], state }, value: 1 })),
    ),
    gauge(
      "zml_availability_nodes",
      "Nodes by state.",
      STATES.map((state) => ({ labels: { state }, value: nodes.filter((node) => node.state === state).length })),
    ),
    gauge(
      "zml_failover_node_cooldown_seconds",
      "What is left of a node's cooldown.",
      each((node) => scaled(node.cooldown_remaining_ms, 0.001)),
    ),
    gauge(
      "zml_cost_node_price_usd_per_hour",
      "Price of a node.",
      each((node) => node.price_usd_per_hour),
    ),
    gauge(
      "zml_cost_node_price_age_seconds",
      "Since a fetch confirmed a price that a feed keeps.",
      each((node) => scaled(node.price_age_ms, 0.001)),
    ),
    ...poolMetrics(nodes, gauge),
    gauge("zml_admission_parked_requests", "Requests that wait for room.", single(totals.parked)),
    gauge("zml_configuration_version", "Number of the configuration that is in force.", single(version)),
    gauge("zml_workers", "Data-plane threads.", single(totals.workers)),
    gauge("zml_workers_listening", "Data-plane threads that accept connections.", single(totals.listening_workers)),
    {
      name: "zml_worker_crashes_total",
      help: "Threads that died.",
      type: "counter",
      values: single(totals.worker_crashes),
    },
    gauge(
      "zml_control_delay_seconds",
      "How late the control thread was for its timers lately.",
      [
        { labels: { statistic: "p99" }, value: scaled(totals.control_delay_p99_ms, 0.001) ?? Number.NaN },
        { labels: { statistic: "max" }, value: scaled(totals.control_delay_max_ms, 0.001) ?? Number.NaN },
      ].filter(({ value }) => !Number.isNaN(value)),
    ),
  ];
}

/** Names of the Gateway API inference extension, with a family as the pool: what scales on them scales on ZML. */
function poolMetrics(
  nodes: readonly NodeReportJson[],
  gauge: (name: string, help: string, values: readonly MetricSample[]) => MetricFamily,
): MetricFamily[] {
  const families = [...new Set(nodes.map(({ family }) => family))].sort();
  const mean = (name: string, of: (node: NodeReportJson) => number | null): MetricSample[] =>
    families.flatMap((family) => {
      const known = nodes.filter((node) => node.family === family).flatMap((node) => of(node) ?? []);
      if (known.length === 0) return [];
      return [{ labels: { [name]: family }, value: known.reduce((sum, value) => sum + value, 0) / known.length }];
    });
  return [
    gauge(
      "inference_pool_average_kv_cache_utilization",
      "Mean KV cache use of a family's nodes, as a share.",
      mean("name", (node) => node.kv_use),
    ),
    gauge(
      "inference_pool_average_queue_size",
      "Mean of the requests that wait on a family's nodes.",
      mean("name", (node) => node.waiting),
    ),
    gauge(
      "inference_pool_ready_pods",
      "Healthy nodes of a family.",
      families.map((family) => ({
        labels: { name: family },
        value: nodes.filter((node) => node.family === family && node.state === "healthy").length,
      })),
    ),
  ];
}

function scaled(value: number | null, factor: number): number | null {
  return value === null ? null : value * factor;
}
