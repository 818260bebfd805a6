/**
 * The result of one run of steps 1–4, with its evidence, as columns that are written in place: a worker keeps one and
 * copies it into the evidence ring. Nothing is allocated per decision or per node.
 */

import { CHAIN_FAMILIES_MAX } from "./bounds.ts";
import { EXCLUSIONS } from "./reasons.ts";

const EXCLUSION_COUNT = EXCLUSIONS.length;

/** How a decision ended. */
export type DecisionKind =
  | "chosen"
  /** No node can take it now. */
  | "saturated"
  /** Every node that is left has failed it. */
  | "exhausted"
  /** No node could ever take it: each lacks something that it needs. */
  | "incapable";

/** Evidence per position of the policy's chain. */
export interface FamilyEvidence {
  /** Index of the family. */
  readonly family: Int32Array;
  /** Tier of the family in the chain. */
  readonly tier: Int32Array;
  /** Nodes of the family that serve the model. */
  readonly nodes: Int32Array;
  /** Position in the model's row list of the best-ranked candidate, -1: none. */
  readonly best: Int32Array;
  /** The same among candidates of acceptable depth (`latency`), -1: none. */
  readonly bestAcceptable: Int32Array;
  readonly acceptableRank: Float64Array;
  /** Depth of the best candidate, requests. */
  readonly depth: Float64Array;
  /** Rank of the best candidate: (depth + 1) / tokens per second, s per token. */
  readonly rank: Float64Array;
  /** Response time estimate on the best candidate, ms. */
  readonly estimateMs: Float64Array;
  /** Cost estimate on the best candidate, USD. NaN: unknown price. */
  readonly costUsd: Float64Array;
  /** Nodes left out, by reason: position × exclusions + index. */
  readonly excluded: Int32Array;
}

/** Leases that make an attempt the one trial of something that failed before; ticks, 0: none. */
export interface TrialLeases {
  /** Of the node, after a cooldown. */
  node: number;
  /** Of the model on the node, after a misconfiguration. */
  placement: number;
  /** Of the endpoint on the node. */
  endpoint: number;
}

/** Every node that can take the request, in the order in which the pass met them. Columns grow and never shrink. */
export interface Candidates {
  /** Entries in use. */
  count: number;
  /** How many of them said that they are overloaded. */
  rankedLast: number;
  /** Position in the model's row list. */
  index: Int32Array;
  /** (depth + 1) / tokens per second, s per token, without what puts an overloaded node last. */
  rank: Float64Array;
  /** Of a predicted choice: 1 where the request and those who run there meet their targets. */
  isFeasible: Uint8Array;
  /** Predicted whole response, ms. */
  responseMs: Float64Array;
  /** Predicted cost, USD. */
  costUsd: Float64Array;
}

/** One decision. Valid until the next `decide` with the same object. */
export interface Decision {
  kind: DecisionKind;
  /** Chosen node row, -1: none. */
  row: number;
  /** Chosen placement row, -1: none. */
  placement: number;
  /** Position of the chosen family in the chain, -1: none. */
  position: number;
  /** Index of the chosen family, -1: none. */
  family: number;
  /** Index into `REASONS`. */
  reason: number;
  /** Index into `HINT_USES`. */
  hint: number;
  /** Depth of the chosen node before this request, requests. */
  depth: number;
  estimateMs: number;
  /** Cost estimate, USD. NaN: unknown. */
  costUsd: number;
  /** Prompt as predictions took it, tokens. NaN: not predicted. */
  promptTokens: number;
  /** Prompt tokens believed to stand in the chosen node's prefix cache; 0: none. */
  warmTokens: number;
  /** What of them is expected to be true, as far as the node's cache kept its word before. */
  cachedTokens: number;
  /** Predicted first token, ms. NaN: not predicted. */
  firstMs: number;
  /** Predicted time per token, ms. NaN: not predicted. */
  tokenMs: number;
  /** Time per token that the request is promised, ms; NaN: none, or it is lost already. */
  promisedTokenMs: number;
  /** Predicted probability that it meets its targets. NaN: not predicted. */
  chance: number;
  /** True when no family of the chain has a known price. */
  arePricesUnknown: boolean;
  /** Ends of the trial leases that the booking took, ticks; 0: no trial. */
  readonly trial: TrialLeases;
  /** Age of the chosen node's last good poll, ms. */
  dataAgeMs: number;
  /** Version of the directory that was decided on. */
  directoryVersion: number;
  /** Times that another worker took the place first. */
  bookingRaces: number;
  /** Wait that a saturated caller is told, ms. */
  retryAfterMs: number;
  /** What most nodes lack where each lacks something (`incapable`): index into `EXCLUSIONS`, -1: not so. */
  lacking: number;
  /** Chain positions in use. */
  families: number;
  readonly evidence: FamilyEvidence;
  /** Nodes of the model outside the chain. */
  outsideChain: number;
  readonly candidates: Candidates;
}

/** An empty decision to be filled again and again. */
export function createDecision(): Decision {
  const int32 = () => new Int32Array(CHAIN_FAMILIES_MAX);
  const float64 = () => new Float64Array(CHAIN_FAMILIES_MAX);
  return {
    kind: "exhausted",
    row: -1,
    placement: -1,
    position: -1,
    family: -1,
    reason: 0,
    hint: 0,
    depth: Number.NaN,
    estimateMs: Number.NaN,
    costUsd: Number.NaN,
    promptTokens: Number.NaN,
    warmTokens: 0,
    cachedTokens: 0,
    firstMs: Number.NaN,
    tokenMs: Number.NaN,
    promisedTokenMs: Number.NaN,
    chance: Number.NaN,
    arePricesUnknown: false,
    trial: { node: 0, placement: 0, endpoint: 0 },
    dataAgeMs: Number.NaN,
    directoryVersion: 0,
    bookingRaces: 0,
    retryAfterMs: Number.NaN,
    lacking: -1,
    families: 0,
    outsideChain: 0,
    candidates: {
      count: 0,
      rankedLast: 0,
      index: new Int32Array(64),
      rank: new Float64Array(64),
      isFeasible: new Uint8Array(64),
      responseMs: new Float64Array(64),
      costUsd: new Float64Array(64),
    },
    evidence: {
      family: int32(),
      tier: int32(),
      nodes: int32(),
      best: int32(),
      bestAcceptable: int32(),
      acceptableRank: float64(),
      depth: float64(),
      rank: float64(),
      estimateMs: float64(),
      costUsd: float64(),
      excluded: new Int32Array(CHAIN_FAMILIES_MAX * EXCLUSION_COUNT),
    },
  };
}

/** Makes room for so many candidates; what the columns held is lost. */
export function reserveCandidates(candidates: Candidates, count: number): void {
  if (candidates.index.length >= count) return;
  candidates.index = new Int32Array(count * 2);
  candidates.rank = new Float64Array(count * 2);
  candidates.isFeasible = new Uint8Array(count * 2);
  candidates.responseMs = new Float64Array(count * 2);
  candidates.costUsd = new Float64Array(count * 2);
}

/** Nodes left out of a chain position for one reason. */
export function excludedCount(decision: Decision, position: number, exclusion: number): number {
  return decision.evidence.excluded[position * EXCLUSION_COUNT + exclusion] ?? 0;
}
