/** Which engine a node runs, where the configuration doesn't say. */

import type { EngineName } from "@zml/protocol";
import type { PollResponse } from "./adapter.ts";
import { asObject, parseJson, textOf } from "./json.ts";
import { isOk, objectOf } from "./poll-answers.ts";

/** Paths that tell engines apart, asked all at once. */
export const DETECTION_PATHS = {
  health: "/health",
  metrics: "/metrics",
  models: "/v1/models",
  props: "/props",
  info: "/info",
} as const;

/** Answers to `DETECTION_PATHS`; null: none in time. */
export type DetectionAnswers = Readonly<Record<keyof typeof DETECTION_PATHS, PollResponse | null>>;

/**
 * The engine behind a node, by what only that engine says; `custom` when nothing is characteristic.
 *
 * @returns null while the node is not ready or answered too little: a server that still loads must not be mistaken for
 *   an unknown engine for good.
 */
export function detectEngine(answers: DetectionAnswers): EngineName | null {
  const metrics = isOk(answers.metrics) ? answers.metrics.body : "";
  if (/^(# (HELP|TYPE) )?vllm:/m.test(metrics)) return "vllm";
  if (/^(# (HELP|TYPE) )?llamacpp:/m.test(metrics)) return "llamacpp";
  if (/^(# (HELP|TYPE) )?tgi_/m.test(metrics)) return "tgi";
  if (typeof objectOf(answers.props)?.["total_slots"] === "number") return "llamacpp";
  const info = objectOf(answers.info);
  if (textOf(info?.["router"]) === "text-generation-router") return "tgi";
  if (textOf(info?.["model_id"]) !== "" && typeof info?.["max_total_tokens"] === "number") return "tgi";
  const owner = ownerOf(answers.models);
  if (owner === "vllm" || owner === "llamacpp") return owner;
  const isComplete = Object.values(answers).every((answer) => answer !== null);
  return isComplete && answers.health !== null && isSettled(answers.health) ? "custom" : null;
}

/** A 2xx, or an answer that no loading server would give. */
function isSettled(health: PollResponse): boolean {
  return health.status < 500 && health.status !== 429;
}

function ownerOf(models: PollResponse | null): string {
  const data = isOk(models) ? asObject(parseJson(models.body))?.["data"] : undefined;
  return Array.isArray(data) ? textOf(asObject(data[0])?.["owned_by"]) : "";
}
