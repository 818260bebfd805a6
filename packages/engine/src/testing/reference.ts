/**
 * The rules of routing once more, slow and obvious: plain objects, arrays and sorts, written from the description of
 * the product and not from the engine. Tests compare the engine with it.
 */

import type { CostPriority, Endpoint, Exclusion, HintUse, Reason } from "../reasons.ts";
import type { NodeSpec, PolicySpec } from "./fleet.ts";

export interface ReferenceRequest {
  hint: string | null;
  endpoint: Endpoint;
  isStream: boolean;
  promptTokens: number;
  maxTokens: number;
  answers: number;
  /** Its prompt has at least so many tokens. */
  promptTokensAtLeast: number;
  hasImages: boolean;
  /** Rows that already failed this request. */
  failedRows: readonly number[];
  /** It needs a larger context than this, tokens. NaN: no such bound. */
  contextAboveTokens: number;
  /** Its place in the saturation queue, 0: it never parked. */
  ticket: number;
}

export interface ReferenceHead {
  policy: ReferencePolicy;
  /** Rows that serve the model it waits for. */
  rows: readonly number[];
  ticket: number;
  hasTried: boolean;
}

export type ReferencePolicy = Required<Pick<PolicySpec, "chain" | "costPriority">> & PolicySpec;

export interface ReferenceInput {
  nodes: readonly NodeSpec[];
  policy: ReferencePolicy;
  request: ReferenceRequest;
  meanOutputTokens: number;
  /** Nodes that serve what this adapter is for and not the adapter, by family. */
  adapterMissing: Readonly<Record<string, number>>;
  heads: readonly ReferenceHead[];
  /** Requests parked for this model. */
  parked: number;
  nowMs: number;
}

/** A choice that the rules allow. */
export interface ReferenceChoice {
  reason: Reason;
  hint: HintUse;
  /** Rows that may be chosen: more than one where only the draw decides. */
  rows: number[];
  arePricesUnknown: boolean;
}

export interface ReferenceAnswer {
  kind: "chosen" | "saturated" | "exhausted" | "incapable";
  /** Every choice that some draw may lead to; several when equally ranked nodes of a family weigh differently. */
  choices: ReferenceChoice[];
  /** Why there is no node. */
  reason: Reason | null;
  hint: HintUse;
  /** Wait that a saturated caller is told, ms. NaN: none. */
  retryAfterMs: number;
  /** What each node lacks of what the request needs, where each lacks something: any of the most frequent. */
  lacking: Exclusion[];
  /** Nodes left out, by family of the chain. */
  excluded: Record<string, Partial<Record<Exclusion, number>>>;
  outsideChain: number;
}

/** A node that can take the request, with what the choice weighs. */
interface Candidate {
  row: number;
  family: string;
  tier: number;
  depth: number;
  isRankedLast: boolean;
  /** (depth + 1) ÷ tokens per second. */
  ratio: number;
  /** The same with the share of its speed that its slow start leaves: what nodes of a family are ranked by. */
  warmRatio: number;
  estimateMs: number;
  /** USD, NaN: unknown. */
  cost: number;
  isWithinTarget: boolean;
  isAcceptable: boolean;
}

/** Depth: foreign (unknown counts as none) + own + other gateways'. */
export function referenceDepth(node: NodeSpec): number {
  return known(node.foreign, 0) + (node.inFlight ?? 0) + (node.elsewhere ?? 0);
}

/** Tokens that the request is expected to cost. */
function referenceExpected({ request, meanOutputTokens }: ReferenceInput): number {
  if (request.endpoint === "embeddings" || request.endpoint === "rerank") return request.promptTokens;
  const mean = known(meanOutputTokens, 256);
  return Math.min(known(request.maxTokens, Number.POSITIVE_INFINITY), mean) * request.answers;
}

/** Response estimate at a depth, ms: the slower of the stream alone and the share of the whole node. */
export function referenceEstimateMs(input: ReferenceInput, node: NodeSpec, depth: number): number {
  const expected = referenceExpected(input);
  const shared = (expected * (depth + 1)) / tokensPerSecond(node);
  const isPromptOnly = input.request.endpoint === "embeddings" || input.request.endpoint === "rerank";
  // what generates nothing has no stream to wait for
  if (isPromptOnly) return shared * 1000;
  return Math.max(expected / (node.streamTokensPerSecond ?? 40), shared) * 1000;
}

/** Cost of the request on a node, USD: price × the share of the node's time that it uses. */
export function referenceCostUsd(input: ReferenceInput, node: NodeSpec): number {
  return (node.priceUsdPerHour ?? 1) * (referenceExpected(input) / tokensPerSecond(node) / 3600);
}

export function referenceDecision(input: ReferenceInput): ReferenceAnswer {
  const floor = likelyContext(input);
  const strict = query(input, { mayTryCooling: false, contextFloor: floor });
  const isAnyCooling = Object.values(strict.excluded).some((counts) => (counts.cooling_down ?? 0) > 0);
  const inService = input.nodes.filter(
    (node) =>
      input.policy.chain.flat().includes(node.family) &&
      node.isDraining !== true &&
      node.isUnhealthy !== true &&
      node.goodPolls !== 0,
  );
  // every node cools, or would if its trial did not run: one that answers polls again may be tried
  const doAllCool = inService.every((node) => coolsOrIsTried(node, input));
  const mayTryCooling = strict.candidates.length === 0 && isAnyCooling && doAllCool;
  let found = mayTryCooling ? query(input, { mayTryCooling, contextFloor: floor }) : strict;
  if (found.candidates.length === 0) {
    // whoever could take it if the estimate were no matter: the largest of them get it
    const anySize = query(input, { mayTryCooling, contextFloor: 0 }).candidates;
    const contexts = anySize.map(({ row }) => known(input.nodes[row]?.contextTokens, 0));
    if (contexts.length > 0) found = query(input, { mayTryCooling, contextFloor: Math.max(...contexts) });
  }
  const answer: ReferenceAnswer = {
    kind: "chosen",
    choices: [],
    reason: null,
    hint: input.request.hint === null ? "none" : "unused",
    retryAfterMs: Number.NaN,
    lacking: [],
    excluded: found.excluded,
    outsideChain: found.outsideChain,
  };
  if (found.candidates.length === 0) return judgeNobody(input, answer);
  return {
    ...answer,
    choices: representatives(found.candidates).flatMap((way) => choose(input, found.candidates, way)),
  };
}

/**
 * Each family is represented by its best-ranked node. Equally ranked nodes may differ in what else is weighed, and the
 * draw says which one stands for the family: all ways in which it can fall, alike nodes taken together.
 */
function representatives(candidates: readonly Candidate[]): Candidate[][][] {
  let ways: Candidate[][][] = [[]];
  for (const members of groupByFamily(candidates).values()) {
    const kinds = new Map<string, Candidate[]>();
    for (const member of bestOf(members, byRank)) {
      const key = `${member.estimateMs} ${member.cost} ${member.isWithinTarget}`;
      kinds.set(key, [...(kinds.get(key) ?? []), member]);
    }
    ways = ways.flatMap((way) => [...kinds.values()].map((alike) => [...way, alike]));
  }
  return ways;
}

function query(
  input: ReferenceInput,
  how: { mayTryCooling: boolean; contextFloor: number },
): { candidates: Candidate[]; excluded: ReferenceAnswer["excluded"]; outsideChain: number } {
  const candidates: Candidate[] = [];
  const excluded: ReferenceAnswer["excluded"] = {};
  let outsideChain = 0;
  for (const family of input.policy.chain.flat()) {
    const missing = input.adapterMissing[family] ?? 0;
    excluded[family] = missing > 0 ? { adapter_missing: missing } : {};
  }
  input.nodes.forEach((node, row) => {
    const tier = input.policy.chain.findIndex((families) => families.includes(node.family));
    if (tier < 0) {
      outsideChain += 1;
      return;
    }
    const exclusion = whyNot(input, node, row, how);
    if (exclusion !== null) {
      const counts = excluded[node.family] ?? {};
      counts[exclusion] = (counts[exclusion] ?? 0) + 1;
      return;
    }
    candidates.push(weigh(input, node, row, tier));
  });
  return { candidates, excluded, outsideChain };
}

/** It has to recover, and not only this request thinks so; a suspect failure is forgiven with the next good poll. */
function coolsOrIsTried(node: NodeSpec, { nodes, request, nowMs }: ReferenceInput): boolean {
  if (node.cooldownUntilMs === undefined) return false;
  const hasFailedHere = request.failedRows.includes(nodes.indexOf(node));
  const isForgiven =
    node.isSuspect === true && (node.goodPolls ?? 1) > (node.goodPollsAtFailure ?? node.goodPolls ?? 1);
  const doesCool = node.cooldownUntilMs > nowMs && !isForgiven;
  return hasFailedHere || doesCool || (node.trialUntilMs ?? 0) > nowMs;
}

function whyNot(
  input: ReferenceInput,
  node: NodeSpec,
  row: number,
  { mayTryCooling, contextFloor }: { mayTryCooling: boolean; contextFloor: number },
): Exclusion | null {
  const { request, nowMs } = input;
  const runs = (untilMs: number | undefined): boolean => untilMs !== undefined && untilMs > nowMs;
  if (request.failedRows.includes(row)) return "failed_this_request";
  if (node.isDraining === true) return "draining";
  if (node.isUnhealthy === true) return "unhealthy";
  const goodPolls = node.goodPolls ?? 1;
  if (goodPolls === 0) return "not_polled";
  if (node.cooldownUntilMs !== undefined) {
    const hasAnsweredSince = goodPolls > (node.goodPollsAtFailure ?? goodPolls);
    const mayBeTriedEarly = hasAnsweredSince && (node.isSuspect === true || mayTryCooling);
    if (runs(node.cooldownUntilMs) && !mayBeTriedEarly) return "cooling_down";
    if (runs(node.trialUntilMs)) return "trial_running";
  }
  if (runs(node.backoffUntilMs)) return "backing_off";
  if (runs(node.misconfiguredUntilMs)) return "misconfigured";
  const lack = whatLacks(input, node);
  if (lack !== null) return lack;
  const isContextKnownToBeLarger = known(node.contextTokens, Number.NEGATIVE_INFINITY) > request.contextAboveTokens;
  if (!Number.isNaN(request.contextAboveTokens) && !isContextKnownToBeLarger) return "context_too_small";
  if (referenceDepth(node) >= (node.maxInFlight ?? 256)) return "at_capacity";
  const isClaimed = input.heads.some(
    (head) =>
      !head.hasTried &&
      (request.ticket === 0 || head.ticket < request.ticket) &&
      head.policy.chain.flat().includes(node.family) &&
      head.rows.includes(row),
  );
  if (isClaimed) return "reserved_for_queue";
  return known(node.contextTokens, Number.POSITIVE_INFINITY) < contextFloor ? "context_too_small" : null;
}

/** What a node cannot do for this request, at any time. */
function whatLacks({ request, nowMs }: ReferenceInput, node: NodeSpec): Exclusion | null {
  const refusedUntilMs = node.endpointUntilMs?.[request.endpoint];
  const hasRefused = refusedUntilMs !== undefined && refusedUntilMs > nowMs;
  if (hasRefused || node.endpoints?.includes(request.endpoint) === false) return "endpoint_unsupported";
  if (request.hasImages && node.readsImages === false) return "images_unsupported";
  // certain is a prompt of one text from 512 tokens on, taken down to a power of two
  const isOneText = ["chat_completions", "responses", "messages"].includes(request.endpoint);
  if (!isOneText || request.promptTokensAtLeast < 512) return null;
  let certain = 512;
  while (certain * 2 <= request.promptTokensAtLeast) certain *= 2;
  return known(node.contextTokens, Number.POSITIVE_INFINITY) < certain ? "context_too_small" : null;
}

/** Context that the request probably takes: prompt and output limit; of many inputs in one body nobody knows. */
function likelyContext({ request }: ReferenceInput): number {
  if (request.endpoint === "embeddings" || request.endpoint === "rerank") return 0;
  const isOneText = request.endpoint !== "completions" && request.promptTokensAtLeast >= 512;
  const certain = isOneText ? 2 ** Math.floor(Math.log2(request.promptTokensAtLeast)) : 0;
  return Math.max(certain, request.promptTokens + known(request.maxTokens, 0));
}

function weigh(input: ReferenceInput, node: NodeSpec, row: number, tier: number): Candidate {
  const { policy, request } = input;
  const depth = referenceDepth(node);
  const expected = referenceExpected(input);
  const estimateMs = referenceEstimateMs(input, node, depth);
  const ttftMs = ((expected * depth) / tokensPerSecond(node)) * 1000;
  const tokenMs = Math.max(1 / (node.streamTokensPerSecond ?? 40), (depth + 1) / tokensPerSecond(node)) * 1000;
  const isStreamGood =
    ttftMs <= known(policy.ttftTargetMs, Number.POSITIVE_INFINITY) &&
    tokenMs <= known(policy.tokenTargetMs, Number.POSITIVE_INFINITY);
  const waiting = Math.max(known(node.waiting, 0), depth - known(node.concurrencyLimit, Number.POSITIVE_INFINITY));
  return {
    row,
    family: node.family,
    tier,
    depth,
    isRankedLast: node.isOverloaded === true,
    ratio: (depth + 1) / tokensPerSecond(node),
    warmRatio: (depth + 1) / tokensPerSecond(node) / warmShare(node, input.nowMs),
    estimateMs,
    cost: referenceCostUsd(input, node),
    isWithinTarget:
      estimateMs <= known(policy.latencyTargetMs, Number.POSITIVE_INFINITY) && (!request.isStream || isStreamGood),
    isAcceptable: waiting <= (policy.acceptableWaiting ?? 4),
  };
}

function judgeNobody(input: ReferenceInput, answer: ReferenceAnswer): ReferenceAnswer {
  const count = (...names: Exclusion[]): number =>
    Object.values(answer.excluded).reduce((sum, c) => sum + names.reduce((part, name) => part + (c[name] ?? 0), 0), 0);
  const chain = input.policy.chain.flat();
  const mine = input.nodes.filter((node) => chain.includes(node.family));
  const lacks = mine.map((node) => whatLacks(input, node));
  const frequency = (lack: Exclusion | null): number => lacks.filter((other) => other === lack).length;
  const most = Math.max(...lacks.map(frequency));
  if (lacks.length > 0 && !lacks.includes(null) && input.request.failedRows.length === 0) {
    const lacking = lacks.filter((lack) => lack !== null && frequency(lack) === most) as Exclusion[];
    return { ...answer, kind: "incapable", reason: "no_capable_node", lacking };
  }
  const clamp = (waitMs: number): number => (Number.isNaN(waitMs) ? 1000 : Math.min(60_000, Math.max(1000, waitMs)));
  if (count("at_capacity", "reserved_for_queue", "backing_off") > 0) {
    const perSecond = mine.reduce((sum, node) => sum + known(node.drainPerSecond, 0), 0);
    const waitMs = perSecond === 0 ? Number.NaN : ((input.parked + 1) / perSecond) * 1000;
    return { ...answer, kind: "saturated", reason: "queue_saturated", retryAfterMs: clamp(waitMs) };
  }
  const trials = mine
    .filter((node) => node.isDraining !== true && node.isUnhealthy !== true)
    .map((node) => Math.max(node.cooldownUntilMs ?? 0, node.trialUntilMs ?? 0) - input.nowMs)
    .filter((waitMs) => waitMs > 0);
  const retryAfterMs = clamp(trials.length === 0 ? Number.NaN : Math.min(...trials));
  const mayRecover = count("cooling_down", "trial_running", "not_polled") > 0;
  const isTooLargeForAll = !Number.isNaN(input.request.contextAboveTokens) && count("context_too_small") > 0;
  const isExhausted = (count("failed_this_request") > 0 || isTooLargeForAll) && !mayRecover;
  return isExhausted
    ? { ...answer, kind: "exhausted", reason: "nodes_exhausted", retryAfterMs }
    : { ...answer, kind: "saturated", reason: "no_node_available", retryAfterMs };
}

function choose(input: ReferenceInput, candidates: Candidate[], families: Candidate[][]): ReferenceChoice[] {
  const { policy, request } = input;
  const mode: CostPriority = policy.costPriority;
  const groups = groupByFamily(candidates);
  const acceptable = [...groups.values()]
    .map((members) => members.filter((candidate) => candidate.isAcceptable))
    .filter((members) => members.length > 0)
    .map((members) => bestOf(members, byRank));
  const arePricesUnknown = mode !== "latency" && families.every((family) => Number.isNaN(first(family).cost));
  const rowsOf = (members: readonly Candidate[]): number[] => members.map((candidate) => candidate.row);
  const unused: HintUse = request.hint === null ? "none" : "unused";
  const say = (reason: Reason, members: readonly Candidate[], hint: HintUse = unused): ReferenceChoice[] =>
    members.length === 0 ? [] : [{ reason, hint, rows: rowsOf(members), arePricesUnknown }];

  if (request.hint !== null) {
    const hinted = (mode === "latency" ? acceptable : families).find((family) => first(family).family === request.hint);
    const isGood = hinted !== undefined && (mode === "latency" || first(hinted).isWithinTarget);
    if (isGood) return say("hinted", hinted, "used");
  }

  const leastEstimate = (reason: Reason): ReferenceChoice[] =>
    say(
      reason,
      bestOf(candidates, (a, b) => {
        return (
          Number(a.isRankedLast) - Number(b.isRankedLast) ||
          a.estimateMs - b.estimateMs ||
          a.tier - b.tier ||
          a.ratio - b.ratio
        );
      }),
    );

  if (mode === "latency") {
    if (acceptable.length === 0) return leastEstimate("least_estimate");
    return say(
      "first_acceptable",
      bestOf(acceptable.flat(), (a, b) => a.tier - b.tier || byRank(a, b)),
    );
  }

  const costs = families.map((family) => first(family).cost).filter((cost) => !Number.isNaN(cost));
  const highest = Math.max(...costs);
  const leastPaid = Math.min(...costs.filter((cost) => cost > 0));
  const term = ({ cost }: Candidate): number => {
    if (costs.length === 0) return 1;
    const usd = Number.isNaN(cost) ? highest : cost;
    return usd === 0 ? 0 : usd / leastPaid;
  };
  const unknownLast = (a: Candidate, b: Candidate): number =>
    Number(Number.isNaN(a.cost)) - Number(Number.isNaN(b.cost));
  const byCost = (a: Candidate, b: Candidate): number => term(a) - term(b) || unknownLast(a, b) || a.tier - b.tier;
  const within = families.flat().filter((candidate) => candidate.isWithinTarget);

  if (mode === "cost") {
    const cheapest = bestOf(families.flat(), byCost);
    const good = cheapest.filter((candidate) => candidate.isWithinTarget);
    if (good.length === cheapest.length) return say("cheapest", good);
    if (within.length === 0) return leastEstimate("target_missed");
    const next = bestOf(within, (a, b) => a.tier - b.tier || byCost(a, b));
    // equally cheap families, of which the draw may have taken one that misses the target
    return [...say("cheapest", good), ...say("next_in_chain", next)];
  }

  if (within.length === 0) return leastEstimate("target_missed");
  const leastMs = Math.min(...families.flat().map((candidate) => candidate.estimateMs));
  const divisorMs = known(policy.latencyTargetMs, leastMs);
  const balance = (candidate: Candidate): number => term(candidate) + candidate.estimateMs / divisorMs;
  return say(
    "best_balance",
    bestOf(within, (a, b) => balance(a) - balance(b) || unknownLast(a, b) || a.tier - b.tier),
  );
}

/** Rank inside a family: lowest depth ÷ speed first, overloaded ones last. */
function byRank(a: Candidate, b: Candidate): number {
  return Number(a.isRankedLast) - Number(b.isRankedLast) || a.warmRatio - b.warmRatio;
}

/** Ten equal steps from a tenth to the whole. */
function warmShare({ slowStartMs = 0, warmUntilMs = 0 }: NodeSpec, nowMs: number): number {
  const steps = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  const passed = steps.filter((step) => nowMs >= warmUntilMs - slowStartMs * (1 - step / 10));
  return warmUntilMs <= nowMs ? 1 : Math.min(10, passed.length + 1) / 10;
}

/** All members that no other member comes before. */
function bestOf(members: readonly Candidate[], order: (a: Candidate, b: Candidate) => number): Candidate[] {
  const sorted = [...members].sort(order);
  return sorted.filter((member) => order(member, first(sorted)) === 0);
}

function groupByFamily(candidates: readonly Candidate[]): Map<string, Candidate[]> {
  const groups = new Map<string, Candidate[]>();
  for (const candidate of candidates)
    groups.set(candidate.family, [...(groups.get(candidate.family) ?? []), candidate]);
  return groups;
}

function tokensPerSecond(node: NodeSpec): number {
  return node.tokensPerSecond ?? 1000;
}

function known(value: number | undefined, otherwise: number): number {
  return value === undefined || Number.isNaN(value) ? otherwise : value;
}

function first<T>(members: readonly T[]): T {
  const member = members[0];
  if (member === undefined) throw new Error("a group has a member");
  return member;
}
