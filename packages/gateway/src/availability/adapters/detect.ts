/**
 * Which engine a node runs, where the configuration doesn't say. What tells an engine stands in its adapter; here is the
 * order of asking, and when nothing can be said yet.
 */

import type { EngineName } from "@zml/protocol";
import type { Adapter, NodeReading, PollResponse, PollResponses } from "./adapter.ts";
import { llamacpp } from "./llamacpp.ts";
import { sglang } from "./sglang.ts";
import { tgi } from "./tgi.ts";
import { triton } from "./triton.ts";
import { trtllm } from "./trtllm.ts";
import { vllm } from "./vllm.ts";

/** In the order of asking: Triton before the engines that can run inside it. `custom` is what is left. */
const DETECTABLE: readonly Adapter[] = [triton, vllm, sglang, llamacpp, tgi, trtllm];

/** What a detection asks, all at once. */
export const DETECTION_PATHS = {
  health: "/health",
  metrics: "/metrics",
  models: "/v1/models",
  facts: [...new Set(DETECTABLE.flatMap(({ detectionPaths }) => detectionPaths))],
} as const;

/**
 * The engine behind a node, by what only that engine says; `custom` when nothing is characteristic.
 *
 * @returns null while the node is not ready or answered too little: a server that still loads must not be mistaken for
 *   an unknown engine for good.
 */
export function detectEngine(answers: PollResponses): EngineName | null {
  const found = likestOf(answers);
  if (found !== null) return found;
  const { health, metrics, models, facts } = answers;
  // a port beside the node's is there with one engine only, so that silence on it says nothing
  const own = DETECTION_PATHS.facts.filter((path) => path.startsWith("/")).map((path) => facts[path] ?? null);
  const isComplete = [health, metrics, models, ...own].every((answer) => answer !== null);
  return isComplete && health !== null && isSettled(health) ? "custom" : null;
}

/** The engine that answers show, certain signs before likely ones; null: none. */
function likestOf(responses: PollResponses): EngineName | null {
  let likely: EngineName | null = null;
  for (const adapter of DETECTABLE) {
    const likeness = adapter.detect(responses);
    if (likeness === "certain") return adapter.name;
    if (likeness === "likely") likely ??= adapter.name;
  }
  return likely;
}

/** A 2xx, or an answer that no loading server would give. */
function isSettled(health: PollResponse): boolean {
  return health.status < 500 && health.status !== 429;
}

/**
 * True when a round that was asked as of `engine` shows that something else runs there now, so that it has to be detected
 * anew: another engine speaks, or the names of this one's metrics are gone. For nodes whose engine is not configured.
 *
 * @param readings what the node said before this round (null: nothing), and what this round was read as.
 */
export function isOtherEngine(
  engine: EngineName,
  responses: PollResponses,
  { before, after }: { before: NodeReading | null; after: NodeReading },
): boolean {
  const { metrics } = responses;
  // metrics that are only late leave a name on the models, which is too little to doubt a known engine
  if (metrics === null && engine !== "custom") return false;
  const likest = likestOf(responses);
  if (likest !== null) return likest !== engine;
  const isAnswered = metrics !== null && metrics.status > 0 && metrics.status < 500;
  return isAnswered && !Number.isNaN(before?.running ?? Number.NaN) && Number.isNaN(after.running);
}
