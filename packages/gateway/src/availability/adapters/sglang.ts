/** SGLang 0.5. */

import type { AdapterVerdict, Endpoint } from "@zml/engine";
import { foldMetric, foldSamples, type Metrics, parseMetrics } from "../metrics-text.ts";
import type { Adapter, Answer, Capabilities, Likeness, NodeReading, PollResponse, PollResponses } from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { errorOf, isAborted, verdictWithoutWords } from "./error-answer.ts";
import { asObject, type Json, numberOf, textOf } from "./json.ts";
import {
  factOf,
  hasMetric,
  isOk,
  isReadyBy,
  keepFacts,
  maxModelLenOf,
  modelsOf,
  objectOf,
  ownerOf,
} from "./poll-answers.ts";

/** Load, limits, version and accelerator, without a flag and without a token generated. */
const LOADS = "/v1/loads";
const HEALTH = "/health";
const MODEL_INFO = "/model_info";
/** Also lists the server's keys among its arguments: of it only what is named below is kept. */
const SERVER_INFO = "/server_info";

/**
 * A healthy node takes a second or more for /health, since it generates a token; a starting or leaving one refuses at
 * once. So that only a refusal is waited for.
 */
const REFUSAL_WAIT_MS = 300;

const RUNNING = "sglang:num_running_reqs";
const WAITING = [
  "sglang:num_queue_reqs",
  "sglang:num_grammar_queue_reqs",
  "sglang:num_prefill_bootstrap_queue_reqs",
  "sglang:num_prefill_inflight_queue_reqs",
  "sglang:num_decode_prealloc_queue_reqs",
  "sglang:num_decode_transfer_queue_reqs",
];
/** The fullest pool of a rank decides: hybrids have several. */
const KV_USE = ["sglang:token_usage", "sglang:full_token_usage", "sglang:swa_token_usage", "sglang:mamba_usage"];
const KV_CAPACITY = "sglang:max_total_num_tokens";
const KV_AVAILABLE = "sglang:kv_available_tokens";
const KV_EVICTABLE = "sglang:kv_evictable_tokens";
/** Moves while requests run, unlike `generation_tokens_total`. */
const LIVE_TOKENS = "sglang:realtime_tokens_total";
/** Counts every token but the first of each answer while it runs; for releases without the live counter. */
const TOKEN_GAPS = "sglang:inter_token_latency_seconds_count";
const PROMPT = "sglang:prompt_tokens_total";
const REQUESTS = "sglang:num_requests_total";
const ABORTED = "sglang:num_aborted_requests_total";
const WANTED: ReadonlySet<string> = new Set([
  RUNNING,
  ...WAITING,
  ...KV_USE,
  KV_CAPACITY,
  KV_AVAILABLE,
  KV_EVICTABLE,
  LIVE_TOKENS,
  TOKEN_GAPS,
  PROMPT,
  REQUESTS,
  ABORTED,
]);

const OF_GENERATION: readonly Endpoint[] = ["chat_completions", "completions", "responses", "messages", "rerank"];
const OF_EMBEDDING: readonly Endpoint[] = ["embeddings", "rerank"];

function detect(responses: PollResponses): Likeness | null {
  if (hasMetric(responses.metrics, "sglang:")) return "certain";
  const { health, facts } = responses;
  if (ranksOf(facts[LOADS] ?? null) !== null || ranksOf(health) !== null) return "certain";
  return ownerOf(responses.models) === "sglang" ? "likely" : null;
}

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  const known = previous ?? UNKNOWN_READING;
  const { metrics } = responses;
  const shared = {
    isReady: isReadyBy(responses) && responses.facts[HEALTH]?.status !== 503,
    ...limitsOf(responses, known),
    ...identityOf(responses, known),
    models: modelsWithFacts(responses, previous),
  };
  if (metrics === null) return { ...known, ...shared };
  if (!isOk(metrics)) return { ...UNKNOWN_READING, ...shared };
  const ranks = ranksOf(metrics);
  const load = ranks === null ? loadOfMetrics(parseMetrics(metrics.body, WANTED)) : loadOfRanks(ranks);
  return { ...UNKNOWN_READING, ...shared, ...load };
}

function loadOfMetrics(metrics: Metrics): Partial<NodeReading> {
  const [queue = "", ...otherQueues] = WAITING;
  const kvUse = foldSamples(
    KV_USE.flatMap((name) => metrics.get(name) ?? []),
    "mean",
  );
  const live = metrics.get(LIVE_TOKENS) ?? [];
  const decoded = live.filter(({ labels }) => labels.get("mode") === "decode");
  const prefilled = live.filter(({ labels }) => labels.get("mode")?.startsWith("prefill") === true);
  return {
    running: foldMetric(metrics, [RUNNING], "sum"),
    waiting: plus(
      foldMetric(metrics, [queue], "sum"),
      otherQueues.map((name) => foldMetric(metrics, [name], "sum")),
    ),
    kvUse,
    kvHeadroomTokens: headroomOf(metrics, kvUse),
    generationTokensTotal: decoded.length > 0 ? foldSamples(decoded, "sum") : foldMetric(metrics, [TOKEN_GAPS], "sum"),
    promptTokensTotal: prefilled.length > 0 ? foldSamples(prefilled, "sum") : foldMetric(metrics, [PROMPT], "sum"),
    successesTotal: difference(foldMetric(metrics, [REQUESTS], "sum"), foldMetric(metrics, [ABORTED], "sum")),
  };
}

function headroomOf(metrics: Metrics, kvUse: number): number {
  const available = foldMetric(metrics, [KV_AVAILABLE], "sum");
  if (!Number.isNaN(available)) return plus(available, [foldMetric(metrics, [KV_EVICTABLE], "sum")]);
  return Math.max(0, 1 - kvUse) * foldMetric(metrics, [KV_CAPACITY], "sum");
}

/** The load out of /v1/loads, which stands in for metrics that are switched off: it has no counters. */
function loadOfRanks(ranks: readonly Json[]): Partial<NodeReading> {
  const uses = ranks.map((rank) => numberOf(rank["token_usage"]));
  const waiting = ranks.map((rank) =>
    // P/D queues are in it, but for the prefills whose cache is being sent
    plus(numberOf(rank["num_waiting_reqs"]), [
      numberOf(asObject(rank["queues"])?.["grammar"]),
      numberOf(asObject(rank["disaggregation"])?.["prefill_inflight_queue_reqs"]),
    ]),
  );
  return {
    running: sumOf(ranks.map((rank) => numberOf(rank["num_running_reqs"]))),
    waiting: sumOf(waiting),
    kvUse: sumOf(uses) / uses.length,
    kvHeadroomTokens: sumOf(
      ranks.map((rank, index) => Math.max(0, 1 - (uses[index] as number)) * numberOf(rank["max_total_num_tokens"])),
    ),
  };
}

function limitsOf(responses: PollResponses, known: NodeReading) {
  const ranks = loadsOf(responses);
  const info = factOf(responses, SERVER_INFO);
  const told = sumOf((ranks ?? []).map((rank) => numberOf(rank["max_running_requests"])));
  const concurrencyLimit = Number.isNaN(told) ? known.concurrencyLimit : told;
  // each rank has a queue of its own; null: unbounded
  const queued = numberOf(info?.["max_queued_requests"]) * (ranks?.length ?? Number.NaN);
  return { concurrencyLimit, admissionLimit: info === null ? known.admissionLimit : concurrencyLimit + queued };
}

function identityOf(responses: PollResponses, known: NodeReading) {
  const loads = loadsAnswer(responses);
  const version = textOf(loads?.["version"]) || textOf(factOf(responses, SERVER_INFO)?.["version"]);
  const accelerator = textOf(loads?.["accelerator"]);
  return {
    version: version === "" ? known.version : version,
    platform: platformOf(accelerator) ?? known.platform,
  };
}

/** By the marketing name of the accelerator: the device that SGLang names is `cuda` on ROCm as well. */
function platformOf(accelerator: string): string | null {
  if (/nvidia/i.test(accelerator)) return "cuda";
  return /\bamd\b|instinct|radeon/i.test(accelerator) ? "rocm" : null;
}

function modelsWithFacts(responses: PollResponses, previous: NodeReading | null): NodeReading["models"] {
  const info = factOf(responses, MODEL_INFO);
  const models = modelsOf(responses.models, previous, maxModelLenOf);
  if (info === null) return keepFacts(models, previous);
  const { is_generation: isGeneration, has_image_understanding: readsImages } = info;
  return (
    models?.map((model) => ({
      ...model,
      readsImages: typeof readsImages === "boolean" ? readsImages : null,
      endpoints: typeof isGeneration === "boolean" ? (isGeneration ? OF_GENERATION : OF_EMBEDDING) : null,
    })) ?? null
  );
}

/** The answer to /v1/loads, wherever this round asked for it. */
function loadsAnswer({ health, metrics, facts }: PollResponses): Json | null {
  const answer = [health, metrics, facts[LOADS] ?? null].find((response) => ranksOf(response) !== null);
  return answer === undefined ? null : objectOf(answer);
}

function loadsOf(responses: PollResponses): readonly Json[] | null {
  const { health, metrics, facts } = responses;
  return ranksOf(health) ?? ranksOf(metrics) ?? ranksOf(facts[LOADS] ?? null);
}

/** Data-parallel ranks that one node may report; more is a list gone wrong. */
const RANKS_MAX = 1024;

/** Loads by data-parallel rank; null: this is no answer of /v1/loads. */
function ranksOf(response: PollResponse | null): readonly Json[] | null {
  if (!isOk(response) || !response.body.trimStart().startsWith("{")) return null;
  const loads = objectOf(response)?.["loads"];
  if (!Array.isArray(loads) || loads.length === 0 || loads.length > RANKS_MAX) return null;
  const ranks = loads.map(asObject).filter((rank) => rank !== null && typeof rank["num_running_reqs"] === "number");
  return ranks.length === loads.length ? (ranks as Json[]) : null;
}

/** NaN for no numbers, and where one is unknown. */
function sumOf(numbers: readonly number[]): number {
  return numbers.length === 0 ? Number.NaN : numbers.reduce((sum, number) => sum + number, 0);
}

/** A number and those of the others that are known. */
function plus(number: number, others: readonly number[]): number {
  return others.reduce((sum, other) => (Number.isNaN(other) ? sum : sum + other), number);
}

function difference(all: number, part: number): number {
  return Math.max(0, Number.isNaN(part) ? all : all - part);
}

function classify(answer: Answer): AdapterVerdict | null {
  const error = errorOf(answer);
  if (error === null) return isAborted(answer) ? "failure" : null;
  const { status, message } = error;
  // in a stream the error stands in an event of a 200, with the code that a plain answer has as its status
  const isRefusal = status === 400 || status === 422 || Number.isNaN(status);
  if (isRefusal && /longer than the model's context length|maximum context length/i.test(message)) return "too_large";
  if (isRefusal && /does not appear to be an embedding model/i.test(message)) return "endpoint_unsupported";
  // any name of a model is served, but for adapters, which are loaded or not
  if (isRefusal && /lora adapter.{0,200}(never been loaded|not loaded|unloaded)/i.test(message)) return "misconfigured";
  if (status === 404) return /\bmodel\b/i.test(message) ? "misconfigured" : "endpoint_unsupported";
  if (status === 503 && /queue is full|waiting timeout|higher priority|priority is|retract/i.test(message)) {
    return "overloaded";
  }
  return verdictWithoutWords(answer, error);
}

function capabilities(): Capabilities {
  // HTTP/2 comes with a flag that nothing tells
  return {
    endpoints: [...OF_GENERATION, "embeddings"],
    readsImages: null,
    refusesUnknownFields: false,
    speaksHttp2: null,
  };
}

export const sglang: Adapter = {
  name: "sglang",
  probes: {
    health: LOADS,
    metrics: "/metrics",
    metricsFallback: LOADS,
    models: "/v1/models",
    facts: [{ path: HEALTH, waitMs: REFUSAL_WAIT_MS }, { path: MODEL_INFO }, { path: SERVER_INFO }],
  },
  countsTokensAt: "step",
  provesModels: true,
  detectionPaths: [LOADS],
  detect,
  read,
  classify,
  capabilities,
};
