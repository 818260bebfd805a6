/** What adapters share in reading polls. */

import {
  type NodeReading,
  type PollResponse,
  type PollResponses,
  type ReportedModel,
  reportedModel,
} from "./adapter.ts";
import { asObject, numberOf, parseJson, textOf } from "./json.ts";

/** Models that one node may report; more is a list gone wrong. */
const MODELS_REPORTED_MAX = 1024;

/** True for a 2xx. */
export function isOk(response: PollResponse | null): response is PollResponse {
  return response !== null && response.status >= 200 && response.status < 300;
}

/**
 * Health decides where it was answered. Without an answer a node that still tells its metrics is busy, not dead: some
 * engines answer both from the threads that serve requests.
 */
export function isReadyBy(responses: PollResponses): boolean {
  return responses.health === null ? isOk(responses.metrics) : showsLife(responses.health);
}

/**
 * A 2xx, or a refusal of the health path itself (there is none, or a proxy hides it): that a server answers is then the
 * only sign of life there is.
 */
export function showsLife(health: PollResponse): boolean {
  const { status } = health;
  return isOk(health) || [401, 403, 404, 405].includes(status);
}

/** Parsed object of a 2xx answer, null otherwise. */
export function objectOf(response: PollResponse | null) {
  return isOk(response) ? asObject(parseJson(response.body)) : null;
}

/** Parsed object of a fact, null when it was not answered with one. */
export function factOf(responses: PollResponses, path: string) {
  return objectOf(responses.facts[path] ?? null);
}

/** Where an engine's own names begin: behind those of its runtime, some 2,000 characters. */
const HEAD_CHARACTERS = 131_072;

/** True when a metrics text has a line of a name with this prefix, as sample or as comment. */
export function hasMetric(metrics: PollResponse | null, prefix: string): boolean {
  if (!isOk(metrics)) return false;
  const body = metrics.body.slice(0, HEAD_CHARACTERS);
  return ["", "# HELP ", "# TYPE "].some((before) => {
    const line = before + prefix;
    return body.startsWith(line) || body.includes(`\n${line}`);
  });
}

/** `owned_by` of the first model of an OpenAI list, which engines sign with their name; "": none. */
export function ownerOf(models: PollResponse | null): string {
  const data = objectOf(models)?.["data"];
  return Array.isArray(data) ? textOf(asObject(data[0])?.["owned_by"]) : "";
}

/**
 * Models of an OpenAI list. A LoRA adapter without a length has that of its parent.
 *
 * @param contextOf length of an entry by the engine's own member, NaN: none.
 * @returns the previous list when the node did not answer this time.
 */
export function modelsOf(
  response: PollResponse | null,
  previous: NodeReading | null,
  contextOf: (entry: Readonly<Record<string, unknown>>) => number,
): readonly ReportedModel[] | null {
  const data = objectOf(response)?.["data"];
  if (!Array.isArray(data)) return previous?.models ?? null;
  const contexts = new Map<string, number>();
  const parents = new Map<string, string>();
  for (const item of data.slice(0, MODELS_REPORTED_MAX)) {
    const entry = asObject(item);
    const id = textOf(entry?.["id"]);
    if (entry === null || id === "" || contexts.has(id)) continue;
    contexts.set(id, contextOf(entry));
    parents.set(id, textOf(entry["parent"]));
  }
  return Array.from(contexts, ([id, contextTokens]) => {
    const parent = parents.get(id) ?? "";
    return reportedModel(id, {
      contextTokens: Number.isNaN(contextTokens) ? (contexts.get(parent) ?? Number.NaN) : contextTokens,
      parent: parent === "" ? null : parent,
    });
  });
}

/** `max_model_len`, as vLLM and SGLang list it. */
export function maxModelLenOf(entry: Readonly<Record<string, unknown>>): number {
  return numberOf(entry["max_model_len"]);
}

/** What only facts tell of models (length, images, endpoints), kept by name where this round did not tell it. */
export function keepFacts(
  models: readonly ReportedModel[] | null,
  previous: NodeReading | null,
): readonly ReportedModel[] | null {
  const before = new Map((previous?.models ?? []).map((model) => [model.id, model]));
  if (models === null || before.size === 0) return models;
  return models.map((model) => {
    const known = before.get(model.id);
    if (known === undefined) return model;
    return {
      ...model,
      contextTokens: Number.isNaN(model.contextTokens) ? known.contextTokens : model.contextTokens,
      readsImages: model.readsImages ?? known.readsImages,
      endpoints: model.endpoints ?? known.endpoints,
    };
  });
}
