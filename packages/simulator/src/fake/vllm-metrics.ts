import type { NodeContext } from "./engine-behaviour.ts";
import type { FinishReason, GenerationRun } from "./generation.ts";
import type { Labels } from "./prometheus-text.ts";
import { Histogram, PrometheusText, pythonNumber } from "./prometheus-text.ts";
import type { HttpRow } from "./vllm-process-metrics.ts";
import { cacheConfigLabels, httpRows, processRows } from "./vllm-process-metrics.ts";

const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
const STEP_SIZES = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const TTFT = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
const ITL = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const LATENCY = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];
const HTTP_FINE = [0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60];
const HTTP_COARSE = [0.1, 0.5, 1];

/** Counters and histograms of a fake vLLM from a start to the next. Latencies are real seconds. */
export class VllmMetrics {
  readonly #context: NodeContext;
  readonly #finished = new Map<string, number>();
  readonly #rejected = new Map<string, number>();
  readonly #http = new Map<string, HttpRow>();
  readonly #httpFine = new Histogram(HTTP_FINE);
  readonly #stepTokens = new Histogram(STEP_SIZES);
  #promptTokens = 0;
  readonly requestPromptTokens = new Histogram(SIZES);
  readonly requestGenerationTokens = new Histogram(SIZES);
  readonly #maxGeneration = new Histogram(SIZES);
  readonly #paramsN = new Histogram([1, 2, 5, 10, 20]);
  readonly #paramsMax = new Histogram(SIZES);
  readonly timeToFirstToken = new Histogram(TTFT);
  readonly interToken = new Histogram(ITL);
  readonly #perOutputToken = new Histogram(ITL);
  readonly #e2e = new Histogram(LATENCY);
  readonly #queueTime = new Histogram(LATENCY);
  readonly #inferenceTime = new Histogram(LATENCY);
  readonly #prefillTime = new Histogram(LATENCY);
  readonly #decodeTime = new Histogram(LATENCY);
  readonly #preemptions = new Histogram([1, 2, 3, 4, 5, 10, 20]);
  readonly #prefillComputed = new Histogram(SIZES);

  constructor(context: NodeContext) {
    this.#context = context;
    context.stepListeners.push((tokens) => this.#stepTokens.observe(tokens));
  }

  reject(reason: "max_num_queued_reqs" | "max_num_queued_tokens"): void {
    this.#rejected.set(reason, (this.#rejected.get(reason) ?? 0) + 1);
  }

  token(run: GenerationRun, previousTokenMs: number): void {
    const { driver } = this.#context;
    if (run.completionTokens === 1) {
      this.#promptTokens += run.request.promptTokens;
      this.timeToFirstToken.observe(driver.realSeconds(run.times.firstTokenMs - run.times.arrivedMs));
    } else if (!Number.isNaN(previousTokenMs)) {
      this.interToken.observe(driver.realSeconds(run.times.lastTokenMs - previousTokenMs));
    }
  }

  finish(run: GenerationRun): void {
    const { driver } = this.#context;
    for (let i = 0; i < run.choices.length; i += 1) this.#countFinish(run.reason(i));
    const { arrivedMs, startedMs, firstTokenMs, lastTokenMs } = run.times;
    const tokens = run.completionTokens;
    this.requestPromptTokens.observe(run.request.promptTokens);
    this.#prefillComputed.observe(run.request.promptTokens);
    this.requestGenerationTokens.observe(tokens);
    this.#maxGeneration.observe(tokens);
    this.#paramsN.observe(run.request.choiceCount);
    if (!Number.isNaN(run.request.maxTokens)) this.#paramsMax.observe(run.request.maxTokens);
    this.#preemptions.observe(0);
    if (Number.isNaN(lastTokenMs)) return;
    this.#e2e.observe(driver.realSeconds(lastTokenMs - arrivedMs));
    this.#queueTime.observe(driver.realSeconds(startedMs - arrivedMs));
    this.#inferenceTime.observe(driver.realSeconds(lastTokenMs - startedMs));
    this.#prefillTime.observe(driver.realSeconds(firstTokenMs - startedMs));
    this.#decodeTime.observe(driver.realSeconds(lastTokenMs - firstTokenMs));
    if (tokens > 1) this.#perOutputToken.observe(driver.realSeconds((lastTokenMs - firstTokenMs) / (tokens - 1)));
  }

  /** Counts a prompt that produces no tokens (embeddings, rerank). */
  prompt(tokens: number): void {
    this.#promptTokens += tokens;
  }

  http(method: string, handler: string, status: number, requestBytes: number, seconds: number): void {
    const row = this.#http.get(handler) ?? {
      statuses: new Map<string, number>(),
      method,
      requestBytes: 0,
      responses: 0,
      duration: new Histogram(HTTP_COARSE),
    };
    this.#http.set(handler, row);
    const statusClass = `${Math.floor(status / 100)}xx`;
    row.statuses.set(statusClass, (row.statuses.get(statusClass) ?? 0) + 1);
    row.requestBytes += requestBytes;
    row.responses += 1;
    row.duration.observe(seconds);
    this.#httpFine.observe(seconds);
  }

  // An abort isn't counted: the real server left this series at 0 after aborts.
  #countFinish(reason: FinishReason): void {
    if (reason !== "abort") this.#finished.set(reason, (this.#finished.get(reason) ?? 0) + 1);
  }

  text(): string {
    const { driver, settings, startedUnixS } = this.#context;
    const { batch } = driver;
    const text = new PrometheusText(pythonNumber);
    const model: Labels = { model_name: settings.model };
    const labels: Labels = { engine: "0", ...model };
    const rows = (name: string, type: string, help: string, samples: readonly (readonly [Labels, number])[]) => {
      text.family(name, type, help);
      for (const [own, value] of samples) text.sample(name, own, value);
      if (type !== "counter") return;
      const created = name.replace(/_total$/, "_created");
      text.family(created, "gauge", help);
      for (const [own] of samples) text.sample(created, own, startedUnixS);
    };
    const one = (name: string, type: string, help: string, value: number) => rows(name, type, help, [[labels, value]]);
    const split = (
      name: string,
      type: string,
      help: string,
      key: string,
      values: Record<string, number>,
      base = labels,
    ) =>
      rows(
        name,
        type,
        help,
        Object.entries(values).map(([own, value]) => [{ ...base, [key]: own }, value] as const),
      );
    const histogram = (name: string, help: string, value: Histogram, own: Labels = labels) => {
      text.family(name, "histogram", help);
      text.histogram(name, own, value);
      text.family(`${name}_created`, "gauge", help);
      text.sample(`${name}_created`, own, startedUnixS);
    };
    processRows(text, startedUnixS);
    const flops = "for Model Flops Utilization calculations).";
    one(
      "vllm:estimated_flops_per_gpu_total",
      "counter",
      `Estimated number of floating point operations per GPU (${flops}`,
      0,
    );
    one(
      "vllm:estimated_read_bytes_per_gpu_total",
      "counter",
      `Estimated number of bytes read from memory per GPU (${flops}`,
      0,
    );
    one(
      "vllm:estimated_write_bytes_per_gpu_total",
      "counter",
      `Estimated number of bytes written to memory per GPU (${flops}`,
      0,
    );
    one("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", batch.runningCount);
    one("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", batch.waitingCount);
    split(
      "vllm:num_requests_waiting_by_reason",
      "gauge",
      "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
      "reason",
      { capacity: batch.waitingCount, deferred: 0 },
    );
    split(
      "vllm:engine_sleep_state",
      "gauge",
      "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
      "sleep_state",
      { awake: 1, weights_offloaded: 0, discard_all: 0 },
    );
    one(
      "vllm:kv_cache_usage_perc",
      "gauge",
      "KV-cache usage. 1 means 100 percent usage.",
      Math.min(1, batch.kvTokens / settings.kvCapacityTokens),
    );
    one(
      "vllm:prefix_cache_queries_total",
      "counter",
      "Prefix cache queries, in terms of number of queried tokens.",
      this.#promptTokens,
    );
    one("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", 0);
    const external = "from KV connector cross-instance cache sharing, in terms of number of";
    one(
      "vllm:external_prefix_cache_queries_total",
      "counter",
      `External prefix cache queries ${external} queried tokens.`,
      0,
    );
    one("vllm:external_prefix_cache_hits_total", "counter", `External prefix cache hits ${external} cached tokens.`, 0);
    one("vllm:mm_cache_queries_total", "counter", "Multi-modal cache queries, in terms of number of queried items.", 0);
    one("vllm:mm_cache_hits_total", "counter", "Multi-modal cache hits, in terms of number of cached items.", 0);
    one(
      "vllm:num_preemptions_total",
      "counter",
      "Cumulative number of preemption from the engine.",
      batch.totals.preemptions,
    );
    one("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", this.#promptTokens);
    split("vllm:prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source.", "source", {
      local_compute: this.#promptTokens,
      local_cache_hit: 0,
      external_kv_transfer: 0,
    });
    one("vllm:prompt_tokens_cached_total", "counter", "Number of cached prompt tokens (local + external).", 0);
    split(
      "vllm:prompt_tokens_cached_by_source_total",
      "counter",
      "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.",
      "source",
      { device: 0, host: 0, p2p: 0, disk: 0, external_unspecified: 0 },
    );
    one("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", batch.totals.outputTokens);
    split("vllm:request_success_total", "counter", "Count of successfully processed requests.", "finished_reason", {
      stop: this.#finished.get("stop") ?? 0,
      length: this.#finished.get("length") ?? 0,
      abort: 0,
      error: 0,
      repetition: 0,
    });
    split(
      "vllm:admission_rejections_total",
      "counter",
      "Number of admission attempts rejected by a queue limit, by reason.",
      "reason",
      {
        max_num_queued_reqs: this.#rejected.get("max_num_queued_reqs") ?? 0,
        max_num_queued_tokens: this.#rejected.get("max_num_queued_tokens") ?? 0,
      },
      model,
    );
    histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", this.requestPromptTokens);
    histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", this.requestGenerationTokens);
    histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", this.#stepTokens);
    histogram(
      "vllm:request_max_num_generation_tokens",
      "Histogram of maximum number of requested generation tokens.",
      this.#maxGeneration,
    );
    histogram("vllm:request_params_n", "Histogram of the n request parameter.", this.#paramsN);
    histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", this.#paramsMax);
    histogram(
      "vllm:time_to_first_token_seconds",
      "Histogram of time to first token in seconds.",
      this.timeToFirstToken,
    );
    histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", this.interToken);
    histogram(
      "vllm:request_time_per_output_token_seconds",
      "Histogram of time_per_output_token_seconds per request.",
      this.#perOutputToken,
    );
    histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", this.#e2e);
    histogram(
      "vllm:request_queue_time_seconds",
      "Histogram of time spent in WAITING phase for request.",
      this.#queueTime,
    );
    histogram(
      "vllm:request_inference_time_seconds",
      "Histogram of time spent in RUNNING phase for request.",
      this.#inferenceTime,
    );
    histogram(
      "vllm:request_prefill_time_seconds",
      "Histogram of time spent in PREFILL phase for request.",
      this.#prefillTime,
    );
    histogram(
      "vllm:request_decode_time_seconds",
      "Histogram of time spent in DECODE phase for request.",
      this.#decodeTime,
    );
    histogram(
      "vllm:request_num_preemptions",
      "Histogram of the number of times a request was preempted.",
      this.#preemptions,
    );
    histogram(
      "vllm:request_prefill_kv_computed_tokens",
      "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
      this.#prefillComputed,
    );
    rows("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig", [
      [cacheConfigLabels(settings.kvCapacityTokens), 1],
    ]);
    httpRows(text, this.#http, this.#httpFine, startedUnixS);
    return text.text();
  }
}
