/** How right the engine's predictions were: errors, whether promises held, and how soon a family was known. */

import type { FleetPlan } from "./fleet-plan.ts";
import { type Records, SERVED } from "./records.ts";
import { TOKEN_TIME_TOKENS_MIN } from "./request-classes.ts";
import type { Workload } from "./workload.ts";

export interface PredictionJson {
  readonly first_token: ErrorJson | null;
  /** Of answers of 20 tokens and more: a mean over fewer is chance. */
  readonly token_time: ErrorJson | null;
  /** First token and token time together, over the answer's true length, which nobody knew. */
  readonly response: ErrorJson | null;
  /** By family: requests, and seconds of the run, after which the next 100 had a median error of at most 8 %. */
  readonly learned: Readonly<Record<string, { readonly requests: number; readonly seconds: number } | null>>;
}

export interface ErrorJson {
  readonly predictions: number;
  /** Quantiles of |ln(predicted ÷ actual)|. */
  readonly median_error: number;
  readonly p90_error: number;
  /** Share of outcomes below what was promised, 0..1. */
  readonly covered: number;
}

/** Errors at which a family counts as known, and how many predictions show it. */
const KNOWN_ERROR = 0.08;
const KNOWN_BY = 100;
const KNOWN_STEP = 25;

/** Null: the run predicted nothing. Learning is judged from the start of the run, errors from `warmUpMs`. */
export function predictionsOf(
  records: Records,
  { plan, workload, warmUpMs }: { plan: FleetPlan; workload: Workload; warmUpMs: number },
): PredictionJson | null {
  const first: number[] = [];
  const token: number[] = [];
  const response: number[] = [];
  let responseCovered = 0;
  let firstCovered = 0;
  let tokenCovered = 0;
  const byFamily = plan.families.map((): { atMs: number; error: number }[] => []);
  let isAny = false;
  for (let request = 0; request < workload.count; request++) {
    if (records.end[request] !== SERVED) continue;
    const atMs = records.arrivedAtMs[request] as number;
    const firstMs = records.ttftMs[request] as number;
    const predictedMs = records.predictedFirstMs[request] as number;
    if (predictedMs > 0) {
      isAny = true;
      if (atMs >= warmUpMs) {
        first.push(errorOf(predictedMs, firstMs));
        if (firstMs <= (records.promisedFirstMs[request] as number)) firstCovered += 1;
      }
    }
    const tokens = workload.outputTokens[request] as number;
    const predictedTokenMs = records.predictedTokenMs[request] as number;
    if (!(predictedTokenMs > 0) || tokens < TOKEN_TIME_TOKENS_MIN) continue;
    const tokenMs = ((records.responseMs[request] as number) - firstMs) / (tokens - 1);
    const error = errorOf(predictedTokenMs, tokenMs);
    byFamily[plan.nodes[records.node[request] as number]?.family ?? -1]?.push({ atMs, error });
    if (atMs < warmUpMs) continue;
    const responseMs = records.responseMs[request] as number;
    response.push(errorOf(predictedMs + (tokens - 1) * predictedTokenMs, responseMs));
    const promisedMs =
      (records.promisedFirstMs[request] as number) + (tokens - 1) * (records.promisedTokenMs[request] as number);
    if (responseMs <= promisedMs) responseCovered += 1;
    token.push(error);
    if (tokenMs <= (records.promisedTokenMs[request] as number)) tokenCovered += 1;
  }
  if (!isAny) return null;
  return {
    first_token: errorsOf(first, firstCovered),
    token_time: errorsOf(token, tokenCovered),
    response: errorsOf(response, responseCovered),
    learned: Object.fromEntries(plan.families.map((name, family) => [name, learnedAt(byFamily[family] ?? [])])),
  };
}

function errorOf(predictedMs: number, actualMs: number): number {
  return Math.abs(Math.log(predictedMs / actualMs));
}

function errorsOf(errors: readonly number[], covered: number): ErrorJson | null {
  if (errors.length === 0) return null;
  const sorted = Float64Array.from(errors).sort();
  return {
    predictions: sorted.length,
    median_error: sorted[Math.floor(sorted.length / 2)] as number,
    p90_error: sorted[Math.floor(sorted.length * 0.9)] as number,
    covered: covered / sorted.length,
  };
}

function learnedAt(told: readonly { atMs: number; error: number }[]): { requests: number; seconds: number } | null {
  for (let from = 0; from + KNOWN_BY <= told.length; from += KNOWN_STEP) {
    const errors = told.slice(from, from + KNOWN_BY).map(({ error }) => error);
    if ((errors.sort((a, b) => a - b)[KNOWN_BY / 2] as number) > KNOWN_ERROR) continue;
    return { requests: from, seconds: (told[from] as { atMs: number }).atMs / 1000 };
  }
  return null;
}
