/**
 * Response-time estimate of a request on a node, behind one interface, so that a better predictor replaces it in one
 * place.
 */

import { DEFAULT_OUTPUT_TOKENS } from "../bounds.ts";
import type { Candidates } from "../decision.ts";
import type { FleetTable } from "../fleet-table.ts";
import { ENDPOINTS } from "../reasons.ts";
import type { RouteRequest } from "../route-request.ts";

const EMBEDDINGS = ENDPOINTS.indexOf("embeddings");
const RERANK = ENDPOINTS.indexOf("rerank");

/** Predicts times of a request on a placement at a depth (requests already there). All results in ms. */
export interface Estimator {
  /** Whole response. */
  responseMs(table: FleetTable, request: RouteRequest, placement: number, depth: number): number;
  /**
   * Keeps, in their order, the candidates on which `responseMs` is least, and drops the others. A pass of its own, since
   * it goes over all nodes, with what it reads of the table in locals. O(candidates).
   */
  keepLeast(table: FleetTable, request: RouteRequest, candidates: Candidates): void;
  /** Time to first token. */
  ttftMs(table: FleetTable, request: RouteRequest, placement: number, depth: number): number;
  /** Time per output token. */
  tokenMs(table: FleetTable, request: RouteRequest, placement: number, depth: number): number;
}

/** True for endpoints that generate nothing: their work is the prompt. */
export function isPromptOnly(endpoint: number): boolean {
  return endpoint === EMBEDDINGS || endpoint === RERANK;
}

/**
 * Tokens that a request is expected to cost a node: the smaller of the caller's limit and the model's mean output
 * (256 until known), times the answers asked for; for embeddings and rerank the prompt's tokens.
 */
export function expectedTokens(table: FleetTable, request: RouteRequest): number {
  if (isPromptOnly(request.endpoint)) return Math.max(1, request.promptTokens);
  const mean = table.meanOutputTokens[request.model.index] as number;
  const output = Number.isNaN(mean) ? DEFAULT_OUTPUT_TOKENS : mean;
  // NaN (no limit) < output is false
  return Math.max(1, request.maxTokens < output ? request.maxTokens : output) * request.answers;
}

/** Prompt of a request, tokens: the estimate from its bytes, corrected by what nodes counted of the model's others. */
export function promptTokensOf(table: FleetTable, request: RouteRequest): number {
  const ratio = table.promptRatio[request.model.index] as number;
  return ratio > 0 ? request.promptTokens * ratio : request.promptTokens;
}

/**
 * Time per token that a request is promised by its policy, ms: the target of its stream, or what its whole response may
 * take for each expected token. NaN: none.
 */
export function promiseOf(request: RouteRequest): number {
  const { tokenTargetMs, latencyTargetMs } = request.policy;
  const ofResponse = latencyTargetMs / request.expectedTokens;
  if (!request.isStream || Number.isNaN(tokenTargetMs)) return ofResponse;
  return tokenTargetMs > ofResponse ? ofResponse : tokenTargetMs;
}

/** The same, as the present decision took it: asked for once per decision, not once per node. */
function expectedOf(table: FleetTable, request: RouteRequest): number {
  const { expectedTokens: expected } = request;
  return expected > 0 ? expected : expectedTokens(table, request);
}

/**
 * The simple estimate:
 *
 *   response = max(expected ÷ stream rate, expected × (depth + 1) ÷ capacity)
 *
 * the request alone, or its share of a node that works through everything that stands on it. First token: what stands
 * before it, expected × depth ÷ capacity. Token time: the stream's own rate, or capacity shared by all.
 */
export const simpleEstimator: Estimator = {
  responseMs(table, request, placement, depth) {
    const expected = expectedOf(table, request);
    const shared = expected * ((depth + 1) / (table.tokensPerSecond[placement] as number));
    if (isPromptOnly(request.endpoint)) return shared * 1000;
    return Math.max(expected / (table.streamTokensPerSecond[placement] as number), shared) * 1000;
  },
  keepLeast(table, request, candidates) {
    let pass = passes.get(table);
    if (pass === undefined) {
      pass = createPass(table);
      passes.set(table, pass);
    }
    pass(request, candidates);
  },
  ttftMs(table, request, placement, depth) {
    return ((expectedOf(table, request) * depth) / (table.tokensPerSecond[placement] as number)) * 1000;
  },
  tokenMs(table, _request, placement, depth) {
    const alone = 1 / (table.streamTokensPerSecond[placement] as number);
    return Math.max(alone, (depth + 1) / (table.tokensPerSecond[placement] as number)) * 1000;
  },
};

/** True when the estimate on a node meets every target that the policy sets; without targets it always does. */
export function meetsTargets(
  table: FleetTable,
  request: RouteRequest,
  estimator: Estimator,
  node: { placement: number; depth: number; responseMs: number },
): boolean {
  const { policy } = request;
  if (node.responseMs > policy.latencyTargetMs) return false;
  if (!request.isStream) return true;
  return (
    !(estimator.ttftMs(table, request, node.placement, node.depth) > policy.ttftTargetMs) &&
    !(estimator.tokenMs(table, request, node.placement, node.depth) > policy.tokenTargetMs)
  );
}

/**
 * Cost of a request on a node, USD: price per hour × the share of an hour of the node that it uses
 * (expected tokens ÷ tokens/s). NaN when the price is unknown.
 */
export function costUsd(table: FleetTable, request: RouteRequest, row: number, placement: number): number {
  const hours = expectedOf(table, request) / (table.tokensPerSecond[placement] as number) / 3600;
  return (table.priceUsdPerHour[row] as number) * hours;
}

type Pass = (request: RouteRequest, candidates: Candidates) => void;

/** The pass over each table; a thread has one table. */
const passes = new WeakMap<FleetTable, Pass>();

/**
 * Closes over the columns, as the pass of availability does. A node's stream is asked first: idle capacity is common and
 * fast streams are not, so that nearly every node ends at that line, the branch is foretold, and the pass over 10,000
 * rows costs a fifth of the one that found the candidates.
 */
function createPass(table: FleetTable): Pass {
  const { streamTokensPerSecond } = table;
  return (request, candidates) => {
    const { index: indexes, rank: ranks } = candidates;
    const { placements } = request.model;
    const expected = expectedOf(table, request);
    const hasStream = !isPromptOnly(request.endpoint);
    const { count } = candidates;
    let leastMs = Number.POSITIVE_INFINITY;
    let kept = 0;
    for (let candidate = 0; candidate < count; candidate++) {
      const index = indexes[candidate] as number;
      const placement = placements[index] as number;
      const aloneMs = hasStream ? (expected / (streamTokensPerSecond[placement] as number)) * 1000 : 0;
      if (aloneMs > leastMs) continue;
      const rank = ranks[candidate] as number;
      const sharedMs = expected * rank * 1000;
      const responseMs = aloneMs > sharedMs ? aloneMs : sharedMs;
      if (responseMs > leastMs) continue;
      if (responseMs < leastMs) kept = 0;
      leastMs = responseMs;
      indexes[kept] = index;
      ranks[kept] = rank;
      kept += 1;
    }
    candidates.count = kept;
  };
}
