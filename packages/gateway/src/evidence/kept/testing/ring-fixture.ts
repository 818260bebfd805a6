/** A ring of one worker, decisions written into it by hand, and the names behind them. */

import {
  compileModel,
  compilePolicy,
  createDecision,
  createEvidenceRing,
  createFleetTable,
  createRouteRequest,
  type EvidenceOutcome,
  REASONS,
  takeModelRow,
  takeNodeRow,
  takePlacementRow,
  writeDecision,
  writeOutcome,
} from "@zml/engine";
import type { IndexedName } from "../decision-database.ts";

const FAMILIES = ["H100", "MI300X"];
const NODES = ["h100-a", "mi300x-a"];
const ENDED: EvidenceOutcome = {
  outcome: "success",
  status: 200,
  fault: null,
  firstByteMs: 20,
  firstTokenMs: 80,
  durationMs: 900,
  promptTokens: 118,
  outputTokens: 64,
  cachedTokens: Number.NaN,
  costUsd: 0.002,
};

export function ringFixture(records: number) {
  const table = createFleetTable({ nodes: 4, workers: 1 });
  takeModelRow(table, 0);
  NODES.forEach((_, row) => {
    const start = { family: row, identity: row, maxInFlight: 8, cooldownMs: 30_000, priceUsdPerHour: 3 - row };
    takeNodeRow(table, row, start);
    takePlacementRow(table, row * 4);
  });
  const policy = compilePolicy({
    account: "default",
    name: "batch",
    index: 0,
    chain: FAMILIES.map((_, family) => ({ family, priority: family + 1 })),
    latencyTargetMs: 2000,
    ttftTargetMs: Number.NaN,
    tokenTargetMs: Number.NaN,
    costPriority: "cost",
    estimator: "simple",
    queueOnSaturation: false,
    maxQueueMs: 0,
    acceptableWaiting: 4,
  });
  const model = compileModel({
    account: "default",
    name: "llama",
    index: 0,
    policy: "batch",
    isRegistered: true,
    rows: Int32Array.of(0, 1),
    placements: Int32Array.of(0, 4),
    families: Int32Array.of(0, 1),
  });
  const ring = createEvidenceRing(records);
  const decision = createDecision();
  const decide = (nowMs: number, { promptTokens = 120, key = -1, row = 0, previous = -1 } = {}): number => {
    const request = createRouteRequest({
      account: "default",
      model,
      policy,
      policySource: "model",
      hintFamily: -1,
      endpoint: 0,
      isStream: true,
      promptTokens,
      maxTokens: 256,
      answers: 1,
      promptTokensAtLeast: 0,
      hasImages: false,
      admittedAtMs: nowMs,
    });
    request.key = key;
    request.dispatches = previous < 0 ? 1 : 2;
    Object.assign(decision, {
      kind: "chosen",
      row,
      placement: row * 4,
      position: row,
      family: row,
      reason: REASONS.indexOf("cheapest"),
      families: 2,
      estimateMs: 900 + (nowMs % 100),
      costUsd: 0.001,
    });
    FAMILIES.forEach((_, position) => {
      decision.evidence.family[position] = position;
      decision.evidence.best[position] = position;
      decision.evidence.nodes[position] = 1;
      decision.evidence.estimateMs[position] = 900 + position;
    });
    return writeDecision(ring, table, request, decision, { nowMs, previous });
  };
  const end = (sequence: number, outcome: Partial<EvidenceOutcome> = {}): void =>
    writeOutcome(ring, sequence, { ...ENDED, ...outcome });
  const names: IndexedName[] = [
    { kind: "models", index: 0, scope: "default", name: "llama" },
    { kind: "policies", index: 0, scope: "default", name: "batch" },
    { kind: "keys", index: 0, scope: "default", name: "app" },
    ...FAMILIES.map((name, index) => ({ kind: "families" as const, index, scope: "", name })),
    ...NODES.map((name, index) => ({ kind: "identities" as const, index, scope: `http://${name}:8000`, name })),
  ];
  return { ring, table, decide, end, names };
}
