/** llama.cpp's server. */

import { type AdapterVerdict, ENDPOINTS } from "@zml/engine";
import { foldMetric, parseMetrics } from "../metrics-text.ts";
import type {
  Adapter,
  Answer,
  Capabilities,
  Likeness,
  ModelLoad,
  NodeReading,
  PollResponse,
  PollResponses,
} from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { errorOf, isAborted, verdictWithoutWords } from "./error-answer.ts";
import { asObject, type Json, numberOf, parseJson, textOf } from "./json.ts";
import { factOf, hasMetric, isOk, isReadyBy, keepFacts, modelsOf, objectOf, ownerOf } from "./poll-answers.ts";

const PROPS = "/props";

const RUNNING = "llamacpp:requests_processing";
const WAITING = "llamacpp:requests_deferred";
const GENERATED = "llamacpp:tokens_predicted_total";
const PROMPT = "llamacpp:prompt_tokens_total";
const WANTED: ReadonlySet<string> = new Set([RUNNING, WAITING, GENERATED, PROMPT]);

/** Models whose load is asked one by one; a router runs four at once unless it is told otherwise. */
const LOADED_MAX = 64;

function detect(responses: PollResponses): Likeness | null {
  if (hasMetric(responses.metrics, "llamacpp:")) return "certain";
  const props = factOf(responses, PROPS);
  if (typeof props?.["total_slots"] === "number" || isRouter(props)) return "certain";
  return ownerOf(responses.models) === "llamacpp" ? "likely" : null;
}

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  const props = factOf(responses, PROPS);
  const known = previous ?? UNKNOWN_READING;
  const limits = {
    isReady: isReadyBy(responses),
    concurrencyLimit: props === null ? known.concurrencyLimit : numberOf(props["total_slots"]),
    version: textOf(props?.["build_info"]) || known.version,
    models: modelsWithFacts(responses, previous),
  };
  const isOfRouter = props === null ? known.byModel !== null : isRouter(props);
  if (isOfRouter) return { ...known, ...limits, ...loadOfRouter(responses, known) };
  const load = responses.metrics;
  if (load === null) return { ...known, ...limits, byModel: null };
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

/** A server with several models, each in a process of its own that is started on demand. */
function isRouter(props: Json | null): boolean {
  return props?.["role"] === "router";
}

/** Asking must not load a model. */
function metricsPathOf(id: string): string {
  return `/metrics?model=${encodeURIComponent(id)}&autoload=false`;
}

function loadPaths({ byModel }: NodeReading): readonly string[] {
  return (byModel ?? []).map(({ id }) => metricsPathOf(id));
}

/** The load by model, and what of it makes one number: counters go away with a model's process, so that they don't. */
function loadOfRouter(responses: PollResponses, known: NodeReading): Partial<NodeReading> {
  const ids = loadedOf(responses.models) ?? (known.byModel ?? []).map(({ id }) => id);
  const byModel = ids.map((id): ModelLoad => {
    const before = known.byModel?.find((load) => load.id === id);
    const answer = responses.facts[metricsPathOf(id)] ?? null;
    if (answer === null && before !== undefined) return before;
    const metrics = parseMetrics(isOk(answer) ? answer.body : "", WANTED);
    return {
      id,
      running: foldMetric(metrics, [RUNNING], "sum"),
      waiting: foldMetric(metrics, [WAITING], "sum"),
      generationTokensTotal: foldMetric(metrics, [GENERATED], "sum"),
    };
  });
  return {
    byModel,
    running: byModel.reduce((sum, { running }) => sum + running, 0),
    waiting: byModel.reduce((sum, { waiting }) => sum + waiting, 0),
    generationTokensTotal: Number.NaN,
    promptTokensTotal: Number.NaN,
  };
}

/** Models that a router runs now; null: this round did not tell. */
function loadedOf(models: PollResponse | null): readonly string[] | null {
  const data = objectOf(models)?.["data"];
  if (!Array.isArray(data)) return null;
  const loaded = data.map(asObject).filter((entry) => asObject(entry?.["status"])?.["value"] === "loaded");
  const ids = loaded.map((entry) => textOf(entry?.["id"])).filter((id) => id !== "");
  return [...new Set(ids)].slice(0, LOADED_MAX);
}

/**
 * Models with the window of a slot, which /props tells, or a router's list of those that it runs; not the length that a
 * model was trained with.
 */
function modelsWithFacts(responses: PollResponses, previous: NodeReading | null): NodeReading["models"] {
  const props = factOf(responses, PROPS);
  const models = modelsOf(responses.models, previous, (entry) => numberOf(asObject(entry["meta"])?.["n_ctx"]));
  const images = imagesOf(responses.models);
  const told = numberOf(asObject(props?.["default_generation_settings"])?.["n_ctx"]);
  const { vision } = asObject(props?.["modalities"]) ?? {};
  const complete = models?.map((model) => ({
    ...model,
    contextTokens: told > 0 ? told : model.contextTokens,
    readsImages: typeof vision === "boolean" ? vision : (images.get(model.id) ?? model.readsImages),
  }));
  return keepFacts(complete ?? null, previous);
}

/** What a router's list says of each model, whether it runs or not. */
function imagesOf(models: PollResponse | null): ReadonlyMap<string, boolean> {
  const images = new Map<string, boolean>();
  const data = objectOf(models)?.["data"];
  for (const item of Array.isArray(data) ? data : []) {
    const entry = asObject(item);
    const modalities = asObject(entry?.["architecture"])?.["input_modalities"];
    if (Array.isArray(modalities)) images.set(textOf(entry?.["id"]), modalities.includes("image"));
  }
  return images;
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
  if (status === 400 && /^model '.*' not found$/is.test(message)) return "misconfigured";
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
  loadPaths,
  detect,
  read,
  classify,
  capabilities,
};
