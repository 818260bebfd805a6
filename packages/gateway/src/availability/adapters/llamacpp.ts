/** llama.cpp's server. */

import { type AdapterVerdict, ENDPOINTS } from "@zml/engine";
import { foldMetric, parseMetrics } from "../metrics-text.ts";
import type { Adapter, Answer, Capabilities, Likeness, NodeReading, PollResponse, PollResponses } from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { errorOf, isAborted, verdictWithoutWords } from "./error-answer.ts";
import { asObject, numberOf, parseJson } from "./json.ts";
import { factOf, hasMetric, isOk, isReadyBy, modelsOf, ownerOf } from "./poll-answers.ts";

const PROPS = "/props";

const RUNNING = "llamacpp:requests_processing";
const WAITING = "llamacpp:requests_deferred";
const GENERATED = "llamacpp:tokens_predicted_total";
const PROMPT = "llamacpp:prompt_tokens_total";
const WANTED: ReadonlySet<string> = new Set([RUNNING, WAITING, GENERATED, PROMPT]);

function detect(responses: PollResponses): Likeness | null {
  if (hasMetric(responses.metrics, "llamacpp:")) return "certain";
  if (typeof factOf(responses, PROPS)?.["total_slots"] === "number") return "certain";
  return ownerOf(responses.models) === "llamacpp" ? "likely" : null;
}

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  const props = factOf(responses, PROPS);
  const known = previous ?? UNKNOWN_READING;
  const contextTokens =
    props === null ? Number.NaN : numberOf(asObject(props["default_generation_settings"])?.["n_ctx"]);
  const models = modelsOf(responses.models, previous, () => Number.NaN);
  const limits = {
    isReady: isReadyBy(responses),
    concurrencyLimit: props === null ? known.concurrencyLimit : numberOf(props["total_slots"]),
    // the window of a slot, from /props, and not the length the model was trained with, which /v1/models lists
    models: Number.isNaN(contextTokens)
      ? keepContext(models, known.models)
      : (models?.map((model) => ({ ...model, contextTokens })) ?? null),
  };
  const load = responses.metrics;
  if (load === null) return { ...known, ...limits };
  if (!isOk(load)) return { ...UNKNOWN_READING, ...limits };
  const busySlots = busySlotsOf(load);
  if (!Number.isNaN(busySlots)) return { ...UNKNOWN_READING, ...limits, running: busySlots };
  const metrics = parseMetrics(load.body, WANTED);
  return {
    ...UNKNOWN_READING,
    ...limits,
    running: foldMetric(metrics, [RUNNING], "sum"),
    waiting: foldMetric(metrics, [WAITING], "sum"),
    generationTokensTotal: foldMetric(metrics, [GENERATED], "sum"),
    promptTokensTotal: foldMetric(metrics, [PROMPT], "sum"),
  };
}

/** A fresh model list has no lengths: those of the same names stay until /props is asked again. */
function keepContext(models: NodeReading["models"], before: NodeReading["models"]): NodeReading["models"] {
  if (models === null || before === null) return models;
  const contexts = new Map(before.map((model) => [model.id, model.contextTokens]));
  return models.map((model) => ({ ...model, contextTokens: contexts.get(model.id) ?? Number.NaN }));
}

/** Slots at work out of /slots, which stands in for metrics that are switched off; NaN for a metrics text. */
function busySlotsOf(response: PollResponse): number {
  if (!response.body.trimStart().startsWith("[")) return Number.NaN;
  const slots = parseJson(response.body);
  if (!Array.isArray(slots)) return Number.NaN;
  return slots.filter((slot) => asObject(slot)?.["is_processing"] === true).length;
}

function classify(answer: Answer): AdapterVerdict | null {
  const error = errorOf(answer);
  if (error === null) return isAborted(answer) ? "failure" : null;
  const { status, type, message } = error;
  const isContext = type === "exceed_context_size_error" || /exceeds? the available context size/i.test(message);
  if (isContext) return "too_large";
  // an embedding input above the batch size is a 500 here, and would be one on every node of the same set-up
  if (/is too large to process/i.test(message)) return "too_large";
  if (type === "not_supported_error") return "endpoint_unsupported";
  // the name of a model is ignored here, so that a 404 is about the route; only router mode knows models
  if (status === 404) return /\bmodel\b/i.test(message) ? "misconfigured" : "endpoint_unsupported";
  if (status === 503 && /no slot|slots? (are|is) busy|overload/i.test(message)) return "overloaded";
  // Invalid JSON would be a 500 as well, but what we send has been read as JSON before: a 500 is the node's.
  return verdictWithoutWords(answer, error);
}

function capabilities(): Capabilities {
  // embeddings and rerank are switched on by flags that nothing tells: without them they are a 501
  return { endpoints: ENDPOINTS, readsImages: null, refusesUnknownFields: false, speaksHttp2: false };
}

export const llamacpp: Adapter = {
  name: "llamacpp",
  probes: {
    health: "/health",
    metrics: "/metrics",
    metricsFallback: "/slots",
    models: "/v1/models",
    facts: [{ path: PROPS }],
  },
  countsTokensAt: "completion",
  provesModels: false,
  detectionPaths: [PROPS],
  detect,
  read,
  classify,
  capabilities,
};
