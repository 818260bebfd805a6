/**
 * TensorRT-LLM's own server, trtllm-serve.
 *
 * `/metrics` there is JSON that is emptied by reading it: whoever else reads it would miss what we took, so that only a
 * detection asks for it. The Prometheus page needs `return_perf_metrics`, and its load `enable_iter_perf_stats` as well.
 */

import type { AdapterVerdict } from "@zml/engine";
import { foldMetric, foldSamples, type Metrics, parseMetrics } from "../metrics-text.ts";
import type { Adapter, Answer, Capabilities, Likeness, NodeReading, PollResponses } from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { errorOf, isAborted, type NodeError, verdictWithoutWords } from "./error-answer.ts";
import { textOf } from "./json.ts";
import { factOf, hasMetric, isOk, isReadyBy, modelsOf, ownerOf } from "./poll-answers.ts";

const METRICS = "/prometheus/metrics";
const VERSION = "/version";
const PREFIX = "trtllm_";

/** With the prefix of 1.3 and later, and without as before. */
const both = (name: string): readonly string[] => [PREFIX + name, name];
const RUNNING = both("num_requests_running");
const WAITING = both("num_requests_waiting");
const LIMIT = both("max_num_active_requests");
const KV_USE = both("kv_cache_utilization");
const KV_FREE_BLOCKS = both("kv_cache_free_blocks");
const KV_BLOCK_TOKENS = both("kv_cache_tokens_per_block");
const GENERATED = both("generation_tokens_total");
const PROMPT = both("prompt_tokens_total");
const SUCCESS = both("request_success_total");
const ERRORS = both("request_error_total");
const CONFIG = both("model_config_info");
const WANTED: ReadonlySet<string> = new Set(
  [
    ...[RUNNING, WAITING, LIMIT, KV_USE, KV_FREE_BLOCKS, KV_BLOCK_TOKENS],
    ...[GENERATED, PROMPT, SUCCESS, ERRORS, CONFIG],
  ].flat(),
);

function detect(responses: PollResponses): Likeness | null {
  if (hasMetric(responses.facts[METRICS] ?? responses.metrics, PREFIX)) return "certain";
  return ownerOf(responses.models) === "tensorrt_llm" ? "likely" : null;
}

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  const known = previous ?? UNKNOWN_READING;
  const facts = {
    isReady: isReadyBy(responses),
    version: textOf(factOf(responses, VERSION)?.["version"]) || known.version,
    models: withLengths(
      modelsOf(responses.models, previous, () => Number.NaN),
      known.models,
    ),
  };
  if (responses.metrics === null) return { ...known, ...facts };
  if (!isOk(responses.metrics)) return { ...UNKNOWN_READING, ...facts };
  const metrics = parseMetrics(responses.metrics.body, WANTED);
  const length = contextTokensOf(metrics);
  return {
    ...UNKNOWN_READING,
    ...facts,
    running: foldMetric(metrics, RUNNING, "sum"),
    waiting: foldMetric(metrics, WAITING, "sum"),
    concurrencyLimit: foldMetric(metrics, LIMIT, "sum"),
    kvUse: foldMetric(metrics, KV_USE, "mean"),
    kvHeadroomTokens: foldMetric(metrics, KV_FREE_BLOCKS, "sum") * foldMetric(metrics, KV_BLOCK_TOKENS, "max"),
    generationTokensTotal: foldMetric(metrics, GENERATED, "sum"),
    promptTokensTotal: foldMetric(metrics, PROMPT, "sum"),
    successesTotal: successesOf(metrics),
    errorsTotal: foldMetric(metrics, ERRORS, "sum"),
    // it runs on NVIDIA only
    platform: "cuda",
    models: Number.isNaN(length)
      ? facts.models
      : (facts.models?.map((model) => ({ ...model, contextTokens: length })) ?? null),
  };
}

/** A fresh model list has no lengths: those of the same names stay until the metrics tell them again. */
function withLengths(models: NodeReading["models"], before: NodeReading["models"]): NodeReading["models"] {
  if (models === null || before === null) return models;
  const lengths = new Map(before.map(({ id, contextTokens }) => [id, contextTokens]));
  return models.map((model) => ({ ...model, contextTokens: lengths.get(model.id) ?? Number.NaN }));
}

/** Answers that came to an end; what the caller or the engine broke off is counted there as well. */
function successesOf(metrics: Metrics): number {
  const samples = SUCCESS.flatMap((name) => metrics.get(name) ?? []);
  const ended = samples.filter(({ labels }) => /^(stop|length)$/.test(labels.get("finished_reason") ?? ""));
  return foldSamples(ended, "sum");
}

function contextTokensOf(metrics: Metrics): number {
  const labels = CONFIG.flatMap((name) => metrics.get(name) ?? [])[0]?.labels;
  const length = Number(labels?.get("max_model_len") ?? Number.NaN);
  return length >= 1 ? length : Number.NaN;
}

function classify(answer: Answer): AdapterVerdict | null {
  const error = errorOf(answer);
  if (error === null) return isAborted(answer) ? "failure" : null;
  if (isContextError(error)) return "too_large";
  // no limit of its own is known; what stands in front of it may have one
  if (error.status === 503 && /overload|queue.{0,20}full|too many/i.test(error.message)) return "overloaded";
  // the name of a model is not looked at, so that a 404 is about the route
  if (error.status === 404) return "endpoint_unsupported";
  return verdictWithoutWords(answer, error);
}

/** In the executor's words: prompt, or prompt and answer, against `max_input_len`, `max_seq_len`, `max_num_tokens`. */
function isContextError({ status, message, isEvent }: NodeError): boolean {
  if (!isEvent && status !== 400 && status !== 422) return false;
  return /(prompt|input|sequence|token).{0,120}(exceed|longer|larger|greater|more) .{0,60}(max|limit)/i.test(message);
}

function capabilities(): Capabilities {
  return {
    endpoints: ["chat_completions", "completions", "responses", "embeddings"],
    readsImages: null,
    refusesUnknownFields: true,
    speaksHttp2: false,
  };
}

export const trtllm: Adapter = {
  name: "trtllm",
  probes: {
    health: "/health",
    metrics: METRICS,
    metricsFallback: null,
    models: "/v1/models",
    facts: [{ path: VERSION }],
  },
  countsTokensAt: "completion",
  provesModels: false,
  detectionPaths: [METRICS],
  detect,
  read,
  classify,
  capabilities,
};
