/**
 * Any other OpenAI-compatible server: health and models, metrics where the operator says what they mean, and the error
 * forms that engines have in common.
 */

import type { AdapterVerdict } from "@zml/engine";
import type { CustomConfig } from "@zml/protocol";
import type { Adapter, Answer, Capabilities, NodeReading, PollResponses } from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { customMetricsReader } from "./custom-metrics.ts";
import { errorOf, isAborted, type NodeError, verdictWithoutWords } from "./error-answer.ts";
import { isOk, isReadyBy, maxModelLenOf, modelsOf, showsLife } from "./poll-answers.ts";
import { soundAdapter } from "./sound-reading.ts";

function read(responses: PollResponses, previous: NodeReading | null): NodeReading {
  return {
    ...UNKNOWN_READING,
    isReady: responses.health === null ? isOk(responses.models) : showsLife(responses.health),
    models: modelsOf(responses.models, previous, maxModelLenOf),
  };
}

function classify(answer: Answer): AdapterVerdict | null {
  const error = errorOf(answer);
  if (error === null) return isAborted(answer) ? "failure" : null;
  if (isContextError(error)) return "too_large";
  if (isOverload(error)) return "overloaded";
  if (error.status === 404) return isModelError(error) ? "misconfigured" : "endpoint_unsupported";
  return verdictWithoutWords(answer, error);
}

function isContextError({ status, code, type, message }: NodeError): boolean {
  if (code === "context_length_exceeded" || type === "exceed_context_size_error") return true;
  const isRefusal = status === 400 || status === 422;
  return (
    isRefusal && /(maximum|max|available) (context|model|sequence) (length|size)|longer than the model's/i.test(message)
  );
}

/** Words that mean "full" beside a 503 or in an event. */
function isOverload({ status, type, code, message }: NodeError): boolean {
  if (status !== 503 && !Number.isNaN(status)) return false;
  return (
    /overload|rate_limit|queue_full/i.test(`${type} ${code}`) ||
    /overloaded|queue (is )?full|too many requests|at capacity|no slot|rate limit/i.test(message)
  );
}

function isModelError({ param, code, message }: NodeError): boolean {
  return param === "model" || code === "model_not_found" || /\bmodel\b/i.test(message);
}

function capabilities(): Capabilities {
  // Unknown servers may refuse unknown members (trtllm-serve does); cutting ours out costs nothing that they would use.
  return { endpoints: null, readsImages: null, refusesUnknownFields: true, speaksHttp2: null };
}

export const custom: Adapter = {
  name: "custom",
  probes: { health: "/health", metrics: null, metricsFallback: null, models: "/v1/models", facts: [] },
  countsTokensAt: "completion",
  provesModels: true,
  detectionPaths: [],
  // what is left when no other adapter knows the node
  detect: () => null,
  read,
  classify,
  capabilities,
};

const made = new WeakMap<CustomConfig, Adapter>();

/** The adapter of a server that the operator described, with readings that can be believed. The same for one section. */
export function customAdapter(section: CustomConfig): Adapter {
  const known = made.get(section);
  if (known !== undefined) return known;
  const adapter = soundAdapter(describedAdapter(section));
  made.set(section, adapter);
  return adapter;
}

function describedAdapter({ healthPath, modelsPath, metricsPath, metrics }: CustomConfig): Adapter {
  const probes = { ...custom.probes, health: healthPath, models: modelsPath };
  if (Object.keys(metrics).length === 0) return { ...custom, probes };
  const readMetrics = customMetricsReader(metrics);
  return {
    ...custom,
    probes: { ...probes, metrics: metricsPath },
    read(responses, previous) {
      const own = { isReady: isReadyBy(responses), models: modelsOf(responses.models, previous, maxModelLenOf) };
      if (responses.metrics === null) return { ...(previous ?? UNKNOWN_READING), ...own };
      if (!isOk(responses.metrics)) return { ...UNKNOWN_READING, ...own };
      return { ...UNKNOWN_READING, ...readMetrics(responses.metrics.body), ...own };
    },
  };
}
