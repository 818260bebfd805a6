import type { Histogram, Labels, PrometheusText } from "./prometheus-text.ts";

/** What the HTTP instrumentation of a vLLM server counted for one handler. */
export type HttpRow = {
  readonly statuses: Map<string, number>;
  readonly method: string;
  requestBytes: number;
  responses: number;
  readonly duration: Histogram;
};

/** As captured from a real server, but for the sizes. */
const CACHE_CONFIG: Labels = {
  _block_size_resolved: "True",
  cache_dtype: "auto",
  cache_hit_alignment_tokens: "None",
  enable_mamba_shared_prefix_checkpoint: "False",
  enable_prefix_caching: "True",
  engine: "0",
  gpu_memory_utilization: "0.92",
  hash_block_size: "None",
  is_attention_free: "False",
  kv_cache_dtype_skip_layers: "[]",
  kv_cache_layout: "None",
  kv_cache_memory_bytes: "1073741824",
  kv_offloading_backend: "native",
  kv_offloading_size: "None",
  kv_sharing_fast_prefill: "False",
  mamba_block_size: "None",
  mamba_cache_dtype: "auto",
  mamba_cache_mode: "none",
  mamba_page_size_padded: "None",
  mamba_ssm_cache_dtype: "float32",
  num_cpu_blocks: "None",
  num_gpu_blocks_override: "None",
  prefix_cache_retention_interval: "0",
  prefix_caching_hash_algo: "sha256",
  prefix_match_unit: "None",
  replayssm_buffer_len: "16",
  skip_page_size_padded: "None",
  sliding_window: "None",
  swa_bounded_replay: "True",
  use_kda_recoverssm: "False",
  use_replayssm: "False",
  user_specified_block_size: "False",
};

/** Labels of `vllm:cache_config_info`: values are printed by Python, so unknown ones read `None`. */
export function cacheConfigLabels(kvCapacityTokens: number): Labels {
  const blocks = Math.floor(kvCapacityTokens / 16);
  return {
    ...CACHE_CONFIG,
    block_size: "16",
    effective_attention_block_size: "16",
    kv_cache_max_concurrency: "256.0",
    kv_cache_size_tokens: String(blocks * 16),
    num_gpu_blocks: String(blocks),
  };
}

/** The rows of Python's client about the process; constants but for the start time. */
export function processRows(text: PrometheusText, startedUnixS: number): void {
  const generations = (name: string, help: string, values: readonly number[]) => {
    text.family(name, "counter", help);
    for (const [generation, value] of values.entries()) text.sample(name, { generation: String(generation) }, value);
  };
  const one = (name: string, type: string, help: string, value: number, labels: Labels = {}) => {
    text.family(name, type, help);
    text.sample(name, labels, value);
  };
  generations("python_gc_objects_collected_total", "Objects collected during gc", [15483, 2435, 726]);
  generations("python_gc_objects_uncollectable_total", "Uncollectable objects found during GC", [0, 0, 0]);
  generations("python_gc_collections_total", "Number of times this generation was collected", [1653, 150, 10]);
  const python = { implementation: "CPython", major: "3", minor: "11", patchlevel: "7", version: "3.11.7" };
  one("python_info", "gauge", "Python platform information", 1, python);
  one("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", 4_668_485_632);
  one("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", 969_478_144);
  const since = "Start time of the process since unix epoch in seconds.";
  one("process_start_time_seconds", "gauge", since, startedUnixS);
  one("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", 9.84);
  one("process_open_fds", "gauge", "Number of open file descriptors.", 59);
  one("process_max_fds", "gauge", "Maximum number of open file descriptors.", 20_000);
}

/** The rows of the HTTP instrumentation; a handler's series exist after its first request. */
export function httpRows(
  text: PrometheusText,
  handlers: ReadonlyMap<string, HttpRow>,
  fine: Histogram,
  startedUnixS: number,
): void {
  const created = (name: string, help: string, labels: readonly Labels[]) => {
    text.family(name, "gauge", help);
    for (const own of labels) text.sample(name, own, startedUnixS);
  };
  const rows = [...handlers];
  const perStatus = rows.flatMap(([handler, row]) =>
    [...row.statuses].map(([status, count]) => [{ handler, method: row.method, status }, count] as const),
  );
  const requests = "Total number of requests by method, status and handler.";
  text.family("http_requests_total", "counter", requests);
  for (const [labels, count] of perStatus) text.sample("http_requests_total", labels, count);
  const statusLabels = perStatus.map(([labels]) => labels);
  created("http_requests_created", requests, statusLabels);
  const handlerLabels = rows.map(([handler]) => ({ handler }));
  const rest = "by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. ";
  const size = (name: string, help: string, bytes: (row: HttpRow) => number) => {
    text.family(name, "summary", help);
    for (const [handler, row] of rows) {
      text.sample(`${name}_count`, { handler }, row.responses);
      text.sample(`${name}_sum`, { handler }, bytes(row));
    }
    created(`${name}_created`, help, handlerLabels);
  };
  size("http_request_size_bytes", `Content length of incoming requests ${rest}`, (row) => row.requestBytes);
  // Streams have no content length: the real server counts 0 bytes for them, the fakes for all.
  size("http_response_size_bytes", `Content length of outgoing responses ${rest}`, () => 0);
  const fineHelp =
    "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ";
  text.family("http_request_duration_highr_seconds", "histogram", fineHelp);
  text.histogram("http_request_duration_highr_seconds", {}, fine);
  created("http_request_duration_highr_seconds_created", fineHelp, [{}]);
  const coarse =
    "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ";
  text.family("http_request_duration_seconds", "histogram", coarse);
  for (const [handler, row] of rows) {
    text.histogram("http_request_duration_seconds", { handler, method: row.method }, row.duration);
  }
  const durationLabels = rows.map(([handler, row]) => ({ handler, method: row.method }));
  created("http_request_duration_seconds_created", coarse, durationLabels);
}
