/** vLLM (v1 engine). */

import { type AdapterVerdict, ENDPOINTS } from "@zml/engine";
import { foldMetric, foldSamples, type Metrics, parseMetrics } from "../metrics-text.ts";
import type { Adapter, Answer, Capabilities, Likeness, NodeReading, PollResponses } from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { errorOf, isAborted, verdictWithoutWords } from "./error-answer.ts";
import { textOf } from "./json.ts";
import { factOf, hasMetric, isOk, isReadyBy, maxModelLenOf, modelsOf, ownerOf } from "./poll-answers.ts";

const RUNNING = "vllm:num_requests_running";
const WAITING = "vllm:num_requests_waiting";
/** New name first; the old one is that of 0.9 and before. */
const KV_USE = ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"];
const GENERATED = "vllm:generation_tokens_total";
const PROMPT = "vllm:prompt_tokens_total";
const SLEEP = "vllm:engine_sleep_state";
/** Aborts and errors are among them. */
const FINISHED = "vllm:request_success_total";
const REJECTED = "vllm:admission_rejections_total";
const ANSWERED = "http_requests_total";
const CACHE_CONFIG = "vllm:cache_config_info";
const WANTED: ReadonlySet<string> = new Set([
  RUNNING,
  WAITING,
  ...KV_USE,
  GENERATED,
  PROMPT,
  SLEEP,
  FINISHED,
  REJECTED,
  ANSWERED,
  CACHE_CONFIG,
]);
const VERSION = "/version";

function detect({ metrics, models }: PollResponses): Likeness | null {
  if (hasMetric(metrics, "vllm:")) return "certain";
  return ownerOf(models) === "vllm" ? "likely" : null;
}

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  const models = modelsOf(responses.models, previous, maxModelLenOf);
  const version = textOf(factOf(responses, VERSION)?.["version"]) || (previous?.version ?? null);
  const facts = { isReady: isReadyBy(responses), version, platform: platformOf(version), models };
  if (responses.metrics === null) return { ...(previous ?? UNKNOWN_READING), ...facts };
  if (!isOk(responses.metrics)) return { ...UNKNOWN_READING, ...facts };
  const metrics = parseMetrics(responses.metrics.body, WANTED);
  // A sleeping engine answers /health with 200, and a request to it waits or kills it.
  const awake = metrics.get(SLEEP)?.filter((sample) => sample.labels.get("sleep_state") === "awake") ?? [];
  const isAsleep = awake.length > 0 && awake.every((sample) => sample.value === 0);
  const kvUse = foldMetric(metrics, KV_USE, "mean");
  return {
    ...UNKNOWN_READING,
    ...facts,
    isReady: facts.isReady && !isAsleep,
    running: foldMetric(metrics, [RUNNING], "sum"),
    waiting: foldMetric(metrics, [WAITING], "sum"),
    kvUse,
    kvHeadroomTokens: Math.max(0, 1 - kvUse) * capacityTokensOf(metrics),
    generationTokensTotal: foldMetric(metrics, [GENERATED], "sum"),
    promptTokensTotal: foldMetric(metrics, [PROMPT], "sum"),
    successesTotal: sumWhere(metrics, FINISHED, "finished_reason", ["stop", "length", "repetition"]),
    errorsTotal: errorsOf(metrics),
  };
}

/** A hint: wheels of other platforms than the default carry it in the local part of their version. */
function platformOf(version: string | null): string | null {
  const [, platform = null] = /\+(?:.*\.)?(rocm|cpu|xpu|cu)\d*/.exec(version ?? "") ?? [];
  return platform === "cu" ? "cuda" : platform;
}

/** Tokens that the KV caches of all ranks hold: the settings stand in labels, as Python writes them (`None`). */
function capacityTokensOf(metrics: Metrics): number {
  const ranks = new Map<string, number>();
  for (const { labels } of metrics.get(CACHE_CONFIG) ?? []) {
    const count = (label: string) => Number.parseInt(labels.get(label) ?? "", 10);
    // newer releases say it themselves, which is right for hybrid models too
    const told = count("kv_cache_size_tokens");
    const tokens = Number.isNaN(told) ? count("num_gpu_blocks") * count("block_size") : told;
    ranks.set(labels.get("engine") ?? "", tokens > 0 ? tokens : Number.NaN);
  }
  return ranks.size === 0 ? Number.NaN : [...ranks.values()].reduce((sum, tokens) => sum + tokens, 0);
}

/**
 * Requests that ended in an error of the engine, as it counts them, or answers of 5xx that are no full queue. A failed
 * plain answer is in both and a failed stream in the first only, so that the larger one is the better.
 */
function errorsOf(metrics: Metrics): number {
  const ended = sumWhere(metrics, FINISHED, "finished_reason", ["error"]);
  const refused = foldMetric(metrics, [REJECTED], "sum");
  const failed = sumWhere(metrics, ANSWERED, "status", ["5xx"]) - (Number.isNaN(refused) ? 0 : refused);
  if (Number.isNaN(failed)) return ended;
  return Math.max(0, failed, Number.isNaN(ended) ? 0 : ended);
}

/** Sum of the series with one of these values of a label; NaN: there is none. */
function sumWhere(metrics: Metrics, name: string, label: string, values: readonly string[]): number {
  const samples = (metrics.get(name) ?? []).filter(({ labels }) => values.includes(labels.get(label) ?? ""));
  return foldSamples(samples, "sum");
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
  // one that shuts down keeps a green page for as long as its front end lives: these words count for more
  if (status === 500 && /after shutdown/i.test(message)) return "failure";
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
  probes: {
    health: "/health",
    metrics: "/metrics",
    metricsFallback: null,
    models: "/v1/models",
    facts: [{ path: VERSION }],
  },
  countsTokensAt: "step",
  provesModels: true,
  detectionPaths: [],
  detect,
  read,
  classify,
  capabilities,
};
