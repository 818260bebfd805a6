/** Text Generation Inference 3. */

import type { AdapterVerdict } from "@zml/engine";
import { foldMetric, foldSamples, type Metrics, parseMetrics } from "../metrics-text.ts";
import type { Adapter, Answer, Capabilities, Likeness, NodeReading, PollResponses } from "./adapter.ts";
import { reportedModel, UNKNOWN_READING } from "./adapter.ts";
import { errorOf, isAborted, type NodeError, verdictWithoutWords } from "./error-answer.ts";
import { numberOf, textOf } from "./json.ts";
import { factOf, hasMetric, isOk, isReadyBy, modelsOf } from "./poll-answers.ts";

const INFO = "/info";

const RUNNING = "tgi_batch_current_size";
const WAITING = "tgi_queue_size";
const BUDGET_USED = "tgi_batch_current_max_tokens";
const BUDGET = "tgi_batch_max_total_tokens";
/** Sums of length histograms: there are no plain token counters. They move when a request ends. */
const GENERATED = "tgi_request_generated_tokens_sum";
const PROMPT = "tgi_request_input_length_sum";
const SUCCESSES = "tgi_request_success";
const FAILURES = "tgi_request_failure";
const WANTED: ReadonlySet<string> = new Set([
  RUNNING,
  WAITING,
  BUDGET_USED,
  BUDGET,
  GENERATED,
  PROMPT,
  SUCCESSES,
  FAILURES,
]);

function detect(responses: PollResponses): Likeness | null {
  if (hasMetric(responses.metrics, "tgi_")) return "certain";
  const info = factOf(responses, INFO);
  const isRouter = textOf(info?.["router"]) === "text-generation-router";
  const hasLimits = textOf(info?.["model_id"]) !== "" && typeof info?.["max_total_tokens"] === "number";
  return isRouter || hasLimits ? "certain" : null;
}

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  const known = previous ?? UNKNOWN_READING;
  const info = factOf(responses, INFO);
  const limits = {
    version: textOf(info?.["version"]) || known.version,
    // a hint: images for other platforms than the default say so in their label
    platform: /-rocm\b/.test(textOf(info?.["docker_label"])) ? "rocm" : known.platform,
    isReady: isReadyBy(responses),
    // Running and waiting count into it, and one more is a 429: a quarter on top would only buy refusals.
    admissionLimit: info === null ? known.admissionLimit : numberOf(info["max_concurrent_requests"]),
    models: modelsWithContext(responses, previous),
  };
  if (responses.metrics === null) return { ...known, ...limits };
  if (!isOk(responses.metrics)) return { ...UNKNOWN_READING, ...limits };
  const metrics = parseMetrics(responses.metrics.body, WANTED);
  const used = foldMetric(metrics, [BUDGET_USED], "max");
  const budget = foldMetric(metrics, [BUDGET], "max");
  return {
    ...UNKNOWN_READING,
    ...limits,
    // a series does not exist before its first use: a fresh node's numbers stay unknown
    running: foldMetric(metrics, [RUNNING], "sum"),
    waiting: foldMetric(metrics, [WAITING], "sum"),
    // the token budget stands in for the KV cache, which TGI does not show
    kvUse: budget > 0 && used <= budget ? used / budget : Number.NaN,
    kvHeadroomTokens: used <= budget ? budget - used : Number.NaN,
    generationTokensTotal: foldMetric(metrics, [GENERATED], "sum"),
    promptTokensTotal: foldMetric(metrics, [PROMPT], "sum"),
    successesTotal: foldMetric(metrics, [SUCCESSES], "sum"),
    errorsTotal: errorsOf(metrics),
  };
}

/** Failures of the node: not its refusals, and not callers who left. */
function errorsOf(metrics: Metrics): number {
  const ownFault = ({ labels }: { labels: ReadonlyMap<string, string> }) =>
    ["generation", "incomplete"].includes(labels.get("err") ?? "");
  const errors = foldSamples((metrics.get(FAILURES) ?? []).filter(ownFault), "sum");
  // each series begins with its first case: where others were counted, none of these has come yet
  const hasCounted = metrics.has(SUCCESSES) || metrics.has(FAILURES);
  return Number.isNaN(errors) && hasCounted ? 0 : errors;
}

function modelsWithContext(responses: PollResponses, previous: NodeReading | null): NodeReading["models"] {
  const info = factOf(responses, INFO);
  let models = modelsOf(responses.models, previous, () => Number.NaN);
  const id = textOf(info?.["model_id"]);
  if (models === null && id !== "") models = [reportedModel(id)];
  const told = numberOf(info?.["max_total_tokens"]);
  const contextTokens = Number.isNaN(told) ? (previous?.models?.[0]?.contextTokens ?? Number.NaN) : told;
  return models?.map((model) => ({ ...model, contextTokens })) ?? null;
}

function classify(answer: Answer): AdapterVerdict | null {
  const error = errorOf(answer);
  if (error === null) return isAborted(answer) ? "failure" : null;
  // 404 has no body here: TGI looks at no model name, so that the route is missing
  if (error.status === 404) return "endpoint_unsupported";
  return verdictOfKind(error) ?? (error.isEvent ? "failure" : verdictWithoutWords(answer, error));
}

/**
 * By `error_type`, else by the message: an error event of the OpenAI routes states 422 whatever happened, so that its
 * code says nothing.
 */
function verdictOfKind(error: NodeError): AdapterVerdict | null {
  const { type, message } = error;
  if (type === "overloaded" || /overloaded/i.test(message)) return "overloaded";
  if (type === "validation" || /^Input validation error/i.test(message)) {
    return /tokens` must be <=|must have less than \d+ tokens|max_total_tokens/i.test(message)
      ? "too_large"
      : "caller_error";
  }
  if (type === "template_error" || type === "tool_error" || /^(Template|Tool) error/i.test(message)) {
    return "caller_error";
  }
  if (/^(generation|incomplete_generation|healthcheck)$/.test(type)) return "failure";
  return null;
}

/** Of the routed endpoints only these two: neither embeddings nor rerank, which are TEI's. */
function capabilities(): Capabilities {
  return {
    endpoints: ["chat_completions", "completions"],
    readsImages: null,
    refusesUnknownFields: false,
    speaksHttp2: null,
  };
}

export const tgi: Adapter = {
  name: "tgi",
  probes: {
    health: "/health",
    metrics: "/metrics",
    metricsFallback: null,
    models: "/v1/models",
    facts: [{ path: INFO }],
  },
  countsTokensAt: "completion",
  provesModels: false,
  detectionPaths: [INFO],
  detect,
  read,
  classify,
  capabilities,
};
