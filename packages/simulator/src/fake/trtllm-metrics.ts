import type { NodeContext } from "./engine-behaviour.ts";
import type { GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";
import type { Labels } from "./prometheus-text.ts";
import { Histogram, PrometheusText, pythonNumber } from "./prometheus-text.ts";
import type { RequestCounters } from "./strict-openai.ts";

/** Tokens of one block of the KV cache. */
const BLOCK_TOKENS = 32;
/** Iterations that the JSON page holds until somebody reads it. */
const ITERATIONS_MAX = 1000;

const TTFT = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
];
const TPOT = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const E2E = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];

/**
 * Both pages of a fake trtllm-serve: Prometheus text (`return_perf_metrics` and `enable_iter_perf_stats` are on), and the
 * JSON list of iterations that reading empties. Token counters move when a request ends. Latencies are real seconds.
 */
export class TrtllmMetrics implements RequestCounters {
  readonly #context: NodeContext;
  readonly #firstToken = new Histogram(TTFT);
  readonly #perToken = new Histogram(TPOT);
  readonly #e2e = new Histogram(E2E);
  readonly #ended = new Map<string, number>();
  #errors = 0;
  #promptTokens = 0;
  #generationTokens = 0;
  #iterations: JsonObject[] = [];
  #iteration = 0;

  constructor(context: NodeContext) {
    this.#context = context;
    context.stepListeners.push(() => this.#step());
  }

  finish(run: GenerationRun): void {
    const { driver } = this.#context;
    for (let choice = 0; choice < run.choices.length; choice += 1) this.#count(run.reason(choice));
    this.#promptTokens += run.request.promptTokens;
    this.#generationTokens += run.completionTokens;
    const { arrivedMs, firstTokenMs, lastTokenMs } = run.times;
    if (Number.isNaN(firstTokenMs)) return;
    this.#firstToken.observe(driver.realSeconds(firstTokenMs - arrivedMs));
    this.#e2e.observe(driver.realSeconds(lastTokenMs - arrivedMs));
    const later = run.completionTokens - run.choices.length;
    if (later > 0) this.#perToken.observe(driver.realSeconds(lastTokenMs - firstTokenMs) / later);
  }

  fail(): void {
    this.#errors += 1;
  }

  /** The engine counts who left among its successes. */
  cancel(): void {
    this.#count("cancelled");
  }

  /** Iterations since the last call. */
  takeIterations(): readonly JsonObject[] {
    const taken = this.#iterations;
    this.#iterations = [];
    return taken;
  }

  text(): string {
    const { settings, driver } = this.#context;
    const prefix = settings.hasOldMetricNames ? "" : "trtllm_";
    const labels: Labels = { engine_type: "undefined", model_name: settings.model };
    const text = new PrometheusText(pythonNumber);
    const one = (type: "gauge" | "counter", name: string, value: number) => {
      text.family(prefix + name, type, "");
      text.sample(prefix + name, labels, value);
    };
    const histogram = (name: string, value: Histogram) => {
      text.family(prefix + name, "histogram", "");
      text.histogram(prefix + name, labels, value);
    };
    text.family(`${prefix}request_success_total`, "counter", "Count of successfully processed requests.");
    for (const [reason, count] of this.#ended) {
      text.sample(`${prefix}request_success_total`, { ...labels, finished_reason: reason }, count);
    }
    histogram("e2e_request_latency_seconds", this.#e2e);
    histogram("time_to_first_token_seconds", this.#firstToken);
    histogram("time_per_output_token_seconds", this.#perToken);
    one("counter", "prompt_tokens_total", this.#promptTokens);
    one("counter", "generation_tokens_total", this.#generationTokens);
    one("counter", "request_error_total", this.#errors);
    const { usedBlocks, maxBlocks } = this.#blocks();
    one("gauge", "num_requests_running", driver.batch.runningCount);
    one("gauge", "num_requests_waiting", driver.batch.waitingCount);
    one("gauge", "max_num_active_requests", settings.maxSequences);
    one("gauge", "kv_cache_utilization", usedBlocks / maxBlocks);
    one("gauge", "kv_cache_max_blocks", maxBlocks);
    one("gauge", "kv_cache_free_blocks", maxBlocks - usedBlocks);
    one("gauge", "kv_cache_used_blocks", usedBlocks);
    one("gauge", "kv_cache_tokens_per_block", BLOCK_TOKENS);
    text.family(`${prefix}model_config_info`, "gauge", "Model configuration info");
    const config = {
      model: settings.model,
      served_model_name: settings.model,
      dtype: "bfloat16",
      quantization: "None",
    };
    text.sample(
      `${prefix}model_config_info`,
      { ...labels, ...config, max_model_len: String(settings.maxModelLen), gpu_type: "NVIDIA H100" },
      1,
    );
    return text.text();
  }

  #count(reason: string): void {
    this.#ended.set(reason, (this.#ended.get(reason) ?? 0) + 1);
  }

  #step(): void {
    const { driver, settings } = this.#context;
    this.#iteration += 1;
    if (!settings.hasMetrics) return;
    if (this.#iterations.length === ITERATIONS_MAX) this.#iterations.shift();
    const { usedBlocks, maxBlocks } = this.#blocks();
    this.#iterations.push({
      iter: this.#iteration,
      numActiveRequests: driver.batch.runningCount,
      numQueuedRequests: driver.batch.waitingCount,
      maxNumActiveRequests: settings.maxSequences,
      kvCacheStats: { maxNumBlocks: maxBlocks, usedNumBlocks: usedBlocks, tokensPerBlock: BLOCK_TOKENS },
    });
  }

  #blocks(): { usedBlocks: number; maxBlocks: number } {
    const { settings, driver } = this.#context;
    return {
      usedBlocks: Math.ceil(driver.batch.kvTokens / BLOCK_TOKENS),
      maxBlocks: Math.floor(settings.kvCapacityTokens / BLOCK_TOKENS),
    };
  }
}
