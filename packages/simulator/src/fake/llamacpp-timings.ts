import type { GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";

/** The member `timings` of every answer, ms. */
export function timings(run: GenerationRun): JsonObject {
  const { startedMs, firstTokenMs, lastTokenMs } = run.times;
  const promptMs = Number.isNaN(firstTokenMs) ? 0 : firstTokenMs - startedMs;
  const predictedMs = Number.isNaN(lastTokenMs) ? 0 : lastTokenMs - firstTokenMs;
  const promptCount = run.request.promptTokens;
  const predictedCount = run.completionTokens;
  return {
    cache_n: 0,
    prompt_n: promptCount,
    prompt_ms: promptMs,
    prompt_per_token_ms: promptMs / promptCount,
    prompt_per_second: (1e3 * promptCount) / promptMs,
    predicted_n: predictedCount,
    predicted_ms: predictedMs,
    predicted_per_token_ms: predictedMs / predictedCount,
    predicted_per_second: (1e3 * predictedCount) / predictedMs,
  };
}
