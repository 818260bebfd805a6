/** vLLM (v1 engine). */

import { type AdapterVerdict, ENDPOINTS } from "@zml/engine";
import { foldMetric, parseMetrics } from "../metrics-text.ts";
import type { Adapter, Answer, Capabilities, Likeness, NodeReading, PollResponses } from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { errorOf, isAborted, verdictWithoutWords } from "./error-answer.ts";
import { hasMetric, isOk, isReadyBy, maxModelLenOf, modelsOf, ownerOf } from "./poll-answers.ts";

const RUNNING = "vllm:num_requests_running";
const WAITING = "vllm:num_requests_waiting";
/** New name first; the old one is that of 0.9 and before. */
const KV_USE = ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"];
const GENERATED = "vllm:generation_tokens_total";
const PROMPT = "vllm:prompt_tokens_total";
const SLEEP = "vllm:engine_sleep_state";
const WANTED: ReadonlySet<string> = new Set([RUNNING, WAITING, ...KV_USE, GENERATED, PROMPT, SLEEP]);

function detect({ metrics, models }: PollResponses): Likeness | null {
  if (hasMetric(metrics, "vllm:")) return "certain";
  return ownerOf(models) === "vllm" ? "likely" : null;
}

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  const models = modelsOf(responses.models, previous, maxModelLenOf);
  const isReady = isReadyBy(responses);
  if (responses.metrics === null) return { ...(previous ?? UNKNOWN_READING), models, isReady };
  if (!isOk(responses.metrics)) return { ...UNKNOWN_READING, models, isReady };
  const metrics = parseMetrics(responses.metrics.body, WANTED);
  // A sleeping engine answers /health with 200, and a request to it waits or kills it.
  const awake = metrics.get(SLEEP)?.filter((sample) => sample.labels.get("sleep_state") === "awake") ?? [];
  const isAsleep = awake.length > 0 && awake.every((sample) => sample.value === 0);
  return {
    ...UNKNOWN_READING,
    isReady: isReady && !isAsleep,
    running: foldMetric(metrics, [RUNNING], "sum"),
    waiting: foldMetric(metrics, [WAITING], "sum"),
    kvUse: foldMetric(metrics, KV_USE, "mean"),
    generationTokensTotal: foldMetric(metrics, [GENERATED], "sum"),
    promptTokensTotal: foldMetric(metrics, [PROMPT], "sum"),
    models,
  };
}

function classify(answer: Answer): AdapterVerdict | null {
  const error = errorOf(answer);
  // sleep, pause and shutdown end an answer "well": 200, finish_reason abort, [DONE]
  if (error === null) return isAborted(answer) ? "failure" : null;
  const { status, message } = error;
  if ((status === 400 || status === 422) && /maximum (context|model) length/i.test(message)) return "too_large";
  if (status === 400 && /does not support .{0,40}\bAPI\b/.test(message)) return "endpoint_unsupported";
  if (status === 404) {
    const isModel = error.param === "model" || error.code === "model_not_found" || /\bmodel\b/i.test(message);
    return isModel ? "misconfigured" : "endpoint_unsupported";
  }
  if (status === 503 && /overloaded|queue|max_num_queued|too many/i.test(message)) return "overloaded";
  return verdictWithoutWords(answer, error);
}

function capabilities(): Capabilities {
  // uvicorn speaks HTTP/1.1 only; the Rust front end is built with h2 and not yet measured
  return { endpoints: ENDPOINTS, readsImages: null, refusesUnknownFields: false, speaksHttp2: null };
}

/** vLLM tells no concurrency limit: `max_num_seqs` is in no metric. */
export const vllm: Adapter = {
  name: "vllm",
  probes: { health: "/health", metrics: "/metrics", metricsFallback: null, models: "/v1/models", facts: [] },
  countsTokensAt: "step",
  provesModels: true,
  detectionPaths: [],
  detect,
  read,
  classify,
  capabilities,
};
