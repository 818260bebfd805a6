/** From a record of the evidence ring to its JSON. Pure; names are looked up by the caller's registries. */

import { type EvidenceFamily, type EvidenceRecord, unreachable } from "@zml/engine";
import type { DecisionJson, EarlierJson, FamilyJson, OutcomeJson } from "@zml/protocol/admin";

/** Names behind the indexes of a record; null: unknown. */
export interface EvidenceNames {
  model(index: number): { account: string; name: string } | null;
  policy(index: number): string | null;
  family(index: number): string | null;
  node(identity: number): { id: string; url: string } | null;
  key(index: number): string | null;
}

/** What surrounds a record. */
export interface DecisionContext {
  /** The id as it was asked for. */
  readonly id: string;
  readonly worker: number;
  /** Unix ms of engine time 0. */
  readonly unixOriginMs: number;
  /** Records of the same request before this one, oldest first. */
  readonly earlier: readonly EvidenceRecord[];
}

/** Renders one decision. */
export function renderDecision(record: EvidenceRecord, names: EvidenceNames, context: DecisionContext): DecisionJson {
  const model = names.model(record.model);
  const node = names.node(record.identity);
  const isChosen = record.identity >= 0;
  const families = record.families.map((family) => renderFamily(family, record, names));
  return {
    decision: context.id,
    worker: context.worker,
    sequence: record.sequence,
    decided_at: new Date(context.unixOriginMs + record.decidedAtMs).toISOString(),
    version: record.directoryVersion,
    request: {
      account: model?.account ?? null,
      model: model?.name ?? null,
      key: names.key(record.key),
      endpoint: record.endpoint,
      stream: record.isStream,
      prompt_tokens: known(record.promptTokens),
      images: record.hasImages,
      max_tokens: known(record.maxTokens),
      waited_ms: ms(record.decidedAtMs - record.admittedAtMs),
    },
    policy: {
      name: names.policy(record.policy),
      source: record.policySource,
      cost_priority: record.costPriority,
      latency_target_ms: known(record.latencyTargetMs),
    },
    hint: record.hint === "none" ? null : { family: names.family(record.hintFamily), use: record.hint },
    choice: {
      reason: record.reason,
      node: node?.id ?? null,
      url: node?.url ?? null,
      family: names.family(record.family),
      depth: known(record.depth),
      estimate_ms: ms(record.estimateMs),
      estimate_first_token_ms: ms(record.estimateFirstMs),
      estimate_token_ms: ms(record.estimateTokenMs),
      target_chance: known(record.chance),
      estimate_prompt_tokens: tokens(record.estimatePromptTokens),
      warm_tokens: tokens(record.warmTokens),
      cached_tokens: tokens(record.cachedTokens),
      cost_usd: known(record.costUsd),
      price_usd_per_hour: known(record.priceUsdPerHour),
      headroom_ms: isChosen ? ms(record.latencyTargetMs - record.estimateMs) : null,
      is_trial: record.isTrial,
      data_age_ms: ms(record.dataAgeMs),
      retry_after_ms: ms(record.retryAfterMs),
      booking_races: record.bookingRaces,
    },
    families,
    runner_up: isChosen ? runnerUp(families, record) : null,
    outside_chain: record.outsideChain,
    are_prices_unknown: record.arePricesUnknown,
    attempt: isChosen ? Math.max(1, record.attempt) : record.attempt,
    earlier: context.earlier.map((before) => renderEarlier(before, names)),
    outcome: renderOutcome(record),
  };
}

function renderFamily(family: EvidenceFamily, record: EvidenceRecord, names: EvidenceNames): FamilyJson {
  const hasBest = family.bestIdentity >= 0;
  return {
    family: names.family(family.family) ?? "?",
    tier: family.tier + 1,
    nodes: family.nodes,
    best_node: hasBest ? (names.node(family.bestIdentity)?.id ?? null) : null,
    depth: hasBest ? known(family.depth) : null,
    estimate_ms: hasBest ? ms(family.estimateMs) : null,
    cost_usd: hasBest ? known(family.costUsd) : null,
    headroom_ms: hasBest ? ms(record.latencyTargetMs - family.estimateMs) : null,
    is_chosen: record.identity >= 0 && family.family === record.family,
    excluded: family.excluded,
  };
}

function renderEarlier(record: EvidenceRecord, names: EvidenceNames): EarlierJson {
  return {
    sequence: record.sequence,
    node: names.node(record.identity)?.id ?? null,
    family: names.family(record.family),
    reason: record.reason,
    outcome: renderOutcome(record),
  };
}

function renderOutcome(record: EvidenceRecord): OutcomeJson {
  return {
    kind: record.outcome,
    status: record.status < 0 ? null : record.status,
    fault: record.fault,
    first_byte_ms: ms(record.firstByteMs),
    first_token_ms: ms(record.firstTokenMs),
    duration_ms: ms(record.durationMs),
    prompt_tokens: known(record.reportedPromptTokens),
    output_tokens: known(record.reportedOutputTokens),
    cost_usd: known(record.spentUsd),
    cached_tokens: known(record.reportedCachedTokens),
  };
}

/** Of the families that were not chosen and had a node with room, the first in what the policy weighs. */
function runnerUp(families: readonly FamilyJson[], record: EvidenceRecord): string | null {
  const others = families.filter((family) => !family.is_chosen && family.best_node !== null);
  const keys = sortKeys(families, record);
  others.sort((a, b) => {
    for (const key of keys) {
      const [left, right] = [key(a), key(b)];
      if (left !== right) return left < right ? -1 : 1;
    }
    return 0;
  });
  return others[0]?.family ?? null;
}

/** What the families were compared by, most important first; less is better. */
function sortKeys(families: readonly FamilyJson[], record: EvidenceRecord): ((family: FamilyJson) => number)[] {
  const estimate = (family: FamilyJson) => family.estimate_ms ?? Number.POSITIVE_INFINITY;
  if (record.reason === "least_estimate" || record.reason === "target_missed") return [estimate];
  const tier = (family: FamilyJson) => family.tier;
  const misses = (family: FamilyJson) => Number((family.headroom_ms ?? 0) < 0);
  const costs = families.map((family) => family.cost_usd).filter((cost) => cost !== null);
  // an unknown price counts as the highest known one
  const cost = (family: FamilyJson) => family.cost_usd ?? Math.max(0, ...costs);
  switch (record.costPriority) {
    case "cost":
      return [misses, cost, tier];
    case "balanced": {
      const leastPaidUsd = Math.min(...costs.filter((usd) => usd > 0));
      const targetMs = Number.isNaN(record.latencyTargetMs)
        ? Math.min(...families.map(estimate))
        : record.latencyTargetMs;
      const costTerm = (family: FamilyJson) => (cost(family) === 0 ? 0 : cost(family) / leastPaidUsd);
      return [misses, (family) => costTerm(family) + estimate(family) / targetMs, tier];
    }
    case "latency":
      return [tier, estimate];
    default:
      return unreachable(record.costPriority);
  }
}

function known(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

function tokens(value: number): number | null {
  return Number.isFinite(value) ? Math.round(value) : null;
}

/** Milliseconds to the microsecond: more digits than any clock here has are noise. */
function ms(value: number): number | null {
  return Number.isFinite(value) ? Math.round(value * 1000) / 1000 : null;
}
