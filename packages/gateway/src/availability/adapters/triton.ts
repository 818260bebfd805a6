/**
 * Triton Inference Server behind its OpenAI front end, with the TensorRT-LLM backend. The front end shows the server's
 * metrics on its own port; where that is closed, they are on port 8002, else at the node's `metrics_url`.
 */

import type { AdapterVerdict } from "@zml/engine";
import { foldMetric, foldSamples, type Metrics, parseMetrics, type RankFold, type Sample } from "../metrics-text.ts";
import type { Adapter, Answer, Capabilities, Likeness, ModelLoad, NodeReading, PollResponses } from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { errorOf, isAborted, type NodeError, verdictWithoutWords } from "./error-answer.ts";
import { hasMetric, isOk, isReadyBy, modelsOf, ownerOf } from "./poll-answers.ts";

const READY = "/health/ready";
const REQUESTS = "nv_trt_llm_request_metrics";
const KV_BLOCKS = "nv_trt_llm_kv_cache_block_metrics";
/** Requests that Triton holds before the backend has them. */
const PENDING = "nv_inference_pending_request_count";
const SUCCESS = "nv_inference_request_success";
const FAILURE = "nv_inference_request_failure";
const MEMORY_TOTAL = "nv_gpu_memory_total_bytes";
const MEMORY_USED = "nv_gpu_memory_used_bytes";
const WANTED: ReadonlySet<string> = new Set([
  ...[REQUESTS, KV_BLOCKS, PENDING],
  ...[SUCCESS, FAILURE, MEMORY_TOTAL, MEMORY_USED],
]);

const BYTES_PER_GIB = 2 ** 30;

function detect({ metrics, models }: PollResponses): Likeness | null {
  // an engine that runs inside Triton shows its own names on the same page
  if (hasMetric(metrics, "nv_inference_")) return "certain";
  return ownerOf(models) === "Triton Inference Server" ? "likely" : null;
}

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  const models = modelsOf(responses.models, previous, () => Number.NaN);
  const isReady = isReadyBy(responses);
  if (responses.metrics === null) return { ...(previous ?? UNKNOWN_READING), models, isReady };
  if (!isOk(responses.metrics)) return { ...UNKNOWN_READING, models, isReady };
  const metrics = parseMetrics(responses.metrics.body, WANTED);
  const byModel = loadsOf(metrics);
  // an ensemble and its parts count each request again: only the model that the backend runs is the load
  const isLlm = (sample: Sample) => byModel.length === 0 || byModel.some(({ id }) => id === modelOf(sample));
  const ofBlocks = (type: string, fold: RankFold) => foldWhere(metrics, KV_BLOCKS, typed(type), fold);
  const isNodeFault = (sample: Sample) => isLlm(sample) && !/^(CANCELED|REJECTED)$/.test(labelOf(sample, "reason"));
  return {
    ...UNKNOWN_READING,
    isReady,
    models,
    running: foldWhere(metrics, REQUESTS, typed("scheduled"), "sum"),
    waiting: sumOf(byModel.map(({ waiting }) => waiting)),
    concurrencyLimit: foldWhere(metrics, REQUESTS, typed("max"), "sum"),
    kvUse: ofBlocks("fraction", "mean"),
    kvHeadroomTokens: ofBlocks("free", "sum") * ofBlocks("tokens_per", "max"),
    freeMemoryGib:
      (foldMetric(metrics, [MEMORY_TOTAL], "sum") - foldMetric(metrics, [MEMORY_USED], "sum")) / BYTES_PER_GIB,
    successesTotal: foldWhere(metrics, SUCCESS, isLlm, "sum"),
    errorsTotal: foldWhere(metrics, FAILURE, isNodeFault, "sum"),
    byModel: byModel.length > 1 ? byModel : null,
    platform: "cuda",
  };
}

/** Load of each model that the TensorRT-LLM backend runs. There is no count of tokens. */
function loadsOf(metrics: Metrics): ModelLoad[] {
  const ids = new Set(metrics.get(REQUESTS)?.map(modelOf));
  return Array.from(ids, (id) => {
    const ofModel = (name: string, type: string) =>
      foldWhere(metrics, name, (sample) => modelOf(sample) === id && (type === "" || typed(type)(sample)), "sum");
    const pending = ofModel(PENDING, "");
    return {
      id,
      running: ofModel(REQUESTS, "scheduled"),
      waiting: ofModel(REQUESTS, "waiting") + (Number.isNaN(pending) ? 0 : pending),
      generationTokensTotal: Number.NaN,
    };
  });
}

function foldWhere(metrics: Metrics, name: string, isWanted: (sample: Sample) => boolean, fold: RankFold): number {
  return foldSamples(metrics.get(name)?.filter(isWanted) ?? [], fold);
}

function sumOf(values: readonly number[]): number {
  return values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0);
}

function typed(type: string): (sample: Sample) => boolean {
  return (sample) => (labelOf(sample, "request_type") || labelOf(sample, "kv_cache_block_type")) === type;
}

function modelOf(sample: Sample): string {
  return labelOf(sample, "model");
}

function labelOf({ labels }: Sample, label: string): string {
  return labels.get(label) ?? "";
}

function classify(answer: Answer): AdapterVerdict | null {
  const error = errorOf(answer);
  if (error === null) return isAborted(answer) ? "failure" : null;
  if (/exceeds maximum queue size/i.test(error.message)) return "overloaded";
  if (isContextError(error)) return "too_large";
  if (isModelError(error)) return "misconfigured";
  if (error.status === 404) return "endpoint_unsupported";
  return verdictWithoutWords(answer, error);
}

/** In the backend's words; a status of 500 carries them too, and every node with this model would say the same. */
function isContextError({ status, message, isEvent }: NodeError): boolean {
  if (!isEvent && ![400, 422, 500].includes(status)) return false;
  return /(prompt|input|sequence).{0,80}(exceed|longer than|larger than).{0,60}(max|limit)/i.test(message);
}

function isModelError({ status, message }: NodeError): boolean {
  return (status === 400 || status === 404) && /unknown model|model .{0,256}(not found|is not ready)/i.test(message);
}

function capabilities(): Capabilities {
  return {
    endpoints: ["chat_completions", "completions", "embeddings"],
    readsImages: null,
    refusesUnknownFields: true,
    speaksHttp2: false,
  };
}

export const triton: Adapter = {
  name: "triton",
  probes: { health: READY, metrics: "/metrics", metricsFallback: ":8002/metrics", models: "/v1/models", facts: [] },
  countsTokensAt: "completion",
  provesModels: true,
  detectionPaths: [READY],
  detect,
  read,
  classify,
  capabilities,
};
