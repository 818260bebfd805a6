import type { NodeContext } from "./engine-behaviour.ts";
import type { GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";
import type { Labels } from "./prometheus-text.ts";
import { Histogram, PrometheusText, pythonNumber } from "./prometheus-text.ts";

const TTFT = [0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400];
const ITL = [0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.8, 1, 2, 6];
const E2E = [0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400];
const QUEUE = [0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100];

/** Decode steps between two refreshes of `gen_throughput`. */
const THROUGHPUT_STEPS = 40;

/** What a data-parallel rank has of a number that is counted for the whole node. */
type Rank = { running: number; waiting: number; usedTokens: number; capacityTokens: number; maxRunning: number };

/**
 * Load and counters of a fake SGLang from a start to the next. Metrics come from several processes, so that there are
 * no `_created` series and nothing about the process. Latencies are real seconds.
 */
export class SglangMetrics {
  readonly #context: NodeContext;
  readonly #timeToFirstToken = new Histogram(TTFT);
  readonly #interToken = new Histogram(ITL);
  readonly #e2e = new Histogram(E2E);
  readonly #queueTime = new Histogram(QUEUE);
  #promptTokens = 0;
  #generationTokens = 0;
  #requests = 0;
  #aborted = 0;
  #throughput = 0;
  #stepsSince = 0;
  #tokensBefore = 0;
  #atMs: number;

  constructor(context: NodeContext) {
    this.#context = context;
    this.#atMs = context.driver.nowMs;
    context.stepListeners.push(() => this.#step());
  }

  token(run: GenerationRun, previousTokenMs: number): void {
    const { driver } = this.#context;
    if (run.completionTokens === 1) {
      this.#timeToFirstToken.observe(driver.realSeconds(run.times.firstTokenMs - run.times.arrivedMs));
      this.#queueTime.observe(driver.realSeconds(run.times.startedMs - run.times.arrivedMs));
    } else if (!Number.isNaN(previousTokenMs)) {
      this.#interToken.observe(driver.realSeconds(run.times.lastTokenMs - previousTokenMs));
    }
  }

  /** Token counters move now, with the end of the request. */
  finish(run: GenerationRun): void {
    this.#requests += 1;
    this.#promptTokens += run.request.promptTokens;
    this.#generationTokens += run.completionTokens;
    if (run.choices.some((_, index) => run.reason(index) === "abort")) this.#aborted += 1;
    if (Number.isNaN(run.times.lastTokenMs)) return;
    this.#e2e.observe(this.#context.driver.realSeconds(run.times.lastTokenMs - run.times.arrivedMs));
  }

  /** The caller left, or the queue was full. */
  abort(): void {
    this.#requests += 1;
    this.#aborted += 1;
  }

  /** Of each data-parallel rank, as `/v1/loads` tells it. */
  loads(): readonly JsonObject[] {
    return this.#ranks().map((rank, dpRank) => ({
      dp_rank: dpRank,
      timestamp: Date.now() / 1e3,
      num_running_reqs: rank.running,
      num_waiting_reqs: rank.waiting,
      num_used_tokens: rank.usedTokens,
      num_total_tokens: rank.usedTokens,
      max_total_num_tokens: rank.capacityTokens,
      token_usage: round(rank.usedTokens / rank.capacityTokens, 4),
      gen_throughput: round(this.#throughput / this.#context.settings.dataParallelRanks, 2),
      cache_hit_rate: 0,
      utilization: round(Math.min(1, rank.running / rank.maxRunning), 4),
      max_running_requests: rank.maxRunning,
      memory: { weight_gb: 0, kv_cache_gb: 0, graph_gb: 0, token_capacity: rank.capacityTokens },
      disaggregation: {
        mode: "null",
        prefill_prealloc_queue_reqs: 0,
        prefill_inflight_queue_reqs: 0,
        decode_prealloc_queue_reqs: 0,
        decode_transfer_queue_reqs: 0,
        decode_retracted_queue_reqs: 0,
        kv_transfer_speed_gb_s: 0,
        kv_transfer_latency_ms: 0,
      },
      queues: { waiting: rank.waiting, grammar: 0, paused: 0, retracted: 0 },
    }));
  }

  text(): string {
    const { settings, driver } = this.#context;
    const text = new PrometheusText(pythonNumber);
    const ofServer: Labels = { engine_type: "unified", model_name: settings.model };
    const ofScheduler: Labels = { ...ofServer, moe_ep_rank: "0", pp_rank: "0", tp_rank: "0" };
    const ranks = this.#ranks().map((rank, index) => ({
      ...rank,
      labels: ranksShown(settings.dataParallelRanks) ? { ...ofScheduler, dp_rank: String(index) } : ofScheduler,
    }));
    const gauge = (name: string, help: string, of: (rank: Rank) => number) => {
      text.family(`sglang:${name}`, "gauge", help);
      for (const rank of ranks) text.sample(`sglang:${name}`, rank.labels, of(rank));
    };
    const counter = (name: string, help: string, value: number, labels: Labels = ofServer) => {
      text.family(`sglang:${name}`, "counter", help);
      text.sample(`sglang:${name}`, labels, value);
    };
    const histogram = (name: string, help: string, value: Histogram) => {
      text.family(`sglang:${name}`, "histogram", help);
      text.histogram(`sglang:${name}`, ofServer, value);
    };
    gauge("num_running_reqs", "The number of running requests.", (rank) => rank.running);
    gauge("num_used_tokens", "The number of used tokens.", (rank) => rank.usedTokens);
    gauge("token_usage", "The token usage.", (rank) => round(rank.usedTokens / rank.capacityTokens, 4));
    gauge("gen_throughput", "The generation throughput (token/s).", () => this.#throughput / ranks.length);
    gauge("num_queue_reqs", "The number of requests in the waiting queue.", (rank) => rank.waiting);
    gauge("num_grammar_queue_reqs", "The number of requests in the grammar waiting queue.", () => 0);
    gauge("num_retracted_reqs", "The number of retracted requests.", () => 0);
    gauge("num_paused_reqs", "The number of paused requests by async weight sync.", () => 0);
    gauge("cache_hit_rate", "The prefix cache hit rate.", () => 0);
    gauge(
      "max_total_num_tokens",
      "Maximum total number of tokens in the KV cache pool.",
      (rank) => rank.capacityTokens,
    );
    text.family("sglang:realtime_tokens_total", "counter", "Tokens by mode, updated while requests run.");
    const { outputTokens, promptTokens } = driver.batch.totals;
    for (const [mode, tokens] of [
      ["prefill_compute", promptTokens],
      ["prefill_cache", 0],
      ["decode", outputTokens],
    ] as const) {
      const shares = split(tokens, ranks.length);
      for (const [index, rank] of ranks.entries()) {
        text.sample("sglang:realtime_tokens_total", { ...rank.labels, mode }, shares[index] ?? 0);
      }
    }
    counter("prompt_tokens_total", "Number of prefill tokens processed.", this.#promptTokens);
    counter("generation_tokens_total", "Number of generation tokens processed.", this.#generationTokens);
    counter("num_requests_total", "Number of requests processed.", this.#requests);
    counter("num_aborted_requests_total", "Number of requests aborted.", this.#aborted);
    histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", this.#timeToFirstToken);
    histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", this.#interToken);
    histogram("e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", this.#e2e);
    histogram("queue_time_seconds", "Histogram of queueing time in seconds.", this.#queueTime);
    return text.text();
  }

  #ranks(): readonly Rank[] {
    const { settings, driver } = this.#context;
    const count = settings.dataParallelRanks;
    const running = split(driver.batch.runningCount, count);
    const waiting = split(driver.batch.waitingCount, count);
    const used = split(driver.batch.kvTokens, count);
    return running.map((requests, index) => ({
      running: requests,
      waiting: waiting[index] ?? 0,
      usedTokens: used[index] ?? 0,
      capacityTokens: Math.floor(settings.kvCapacityTokens / count),
      maxRunning: Math.floor(settings.maxSequences / count),
    }));
  }

  /** Refreshed every few dozen steps, and left as it is when there are none. */
  #step(): void {
    this.#stepsSince += 1;
    if (this.#stepsSince < THROUGHPUT_STEPS) return;
    const { driver } = this.#context;
    const seconds = driver.realSeconds(driver.nowMs - this.#atMs);
    const tokens = driver.batch.totals.outputTokens;
    if (seconds > 0) this.#throughput = (tokens - this.#tokensBefore) / seconds;
    this.#stepsSince = 0;
    this.#tokensBefore = tokens;
    this.#atMs = driver.nowMs;
  }
}

/** The label of the rank is there with data parallelism only. */
function ranksShown(count: number): boolean {
  return count > 1;
}

/** Shares that add up to the whole, each within one of the others. */
function split(whole: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => Math.floor((whole + index) / count));
}

function round(value: number, digits: number): number {
  return Math.round(value * 10 ** digits) / 10 ** digits;
}
