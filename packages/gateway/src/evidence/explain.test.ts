import assert from "node:assert/strict";
import { test } from "node:test";
import {
  compileModel,
  compilePolicy,
  createDecision,
  createEvidenceRing,
  createFleetTable,
  createRouteRequest,
  type Decision,
  EXCLUSIONS,
  type Exclusion,
  HINT_USES,
  REASONS,
  type Reason,
  takeNodeRow,
  writeDecision,
  writeOutcome,
} from "@zml/engine";
import { createNameRegistry } from "../control/name-registry.ts";
import { encodeDecisionId } from "../decision-id.ts";
import { explainText } from "./explain.ts";
import { findDecision } from "./find-decision.ts";

const UNIX_ORIGIN_MS = 1_800_000_000_000;

/** A table with two families, a request, and a ring that decisions of it are written to. */
function setUp(costPriority: "cost" | "balanced" | "latency", latencyTargetMs: number) {
  const names = createNameRegistry();
  const families = ["H100", "MI300X"].map((name) => names.families.register("", name));
  const table = createFleetTable({ nodes: 4, workers: 1 });
  ["h100-a", "mi300x-a"].forEach((id, row) => {
    const identity = names.identities.register(`http://${id}:8000`, id);
    const start = { family: families[row] ?? 0, identity, maxInFlight: 8, cooldownMs: 30_000, priceUsdPerHour: 1 };
    takeNodeRow(table, row, start);
  });
  const policy = compilePolicy({
    account: "default",
    name: "batch",
    index: names.policies.register("default", "batch"),
    chain: families.map((family, order) => ({ family, priority: order + 1 })),
    latencyTargetMs,
    ttftTargetMs: Number.NaN,
    tokenTargetMs: Number.NaN,
    costPriority,
    estimator: "simple" as const,
    queueOnSaturation: false,
    maxQueueMs: 0,
    acceptableWaiting: 4,
  });
  const model = compileModel({
    account: "default",
    name: "llama",
    index: names.models.register("default", "llama"),
    policy: "batch",
    isRegistered: true,
    rows: Int32Array.of(0, 1),
    placements: Int32Array.of(0, 1),
    families: Int32Array.from(families),
  });
  const request = createRouteRequest({
    account: "default",
    model,
    policy,
    policySource: "model",
    hintFamily: -1,
    endpoint: 0,
    isStream: true,
    promptTokens: 120,
    maxTokens: 256,
    answers: 1,
    promptTokensAtLeast: 0,
    hasImages: true,
    admittedAtMs: 1000,
  });
  const ring = createEvidenceRing(16);
  let predicted: Partial<Decision> = {};
  const decide = (choice: {
    row: number;
    reason: Reason;
    estimates: [number, number];
    costs: [number, number];
    excluded?: Partial<Record<Exclusion, number>>;
    isTrial?: boolean;
    previous?: number;
  }) => {
    const decision = Object.assign(createDecision(), predicted);
    const { evidence } = decision;
    decision.kind = choice.row < 0 ? "saturated" : "chosen";
    decision.families = 2;
    for (const position of [0, 1]) {
      evidence.family[position] = families[position] ?? 0;
      evidence.tier[position] = position;
      evidence.nodes[position] = 1;
      const estimate = choice.estimates[position] ?? Number.NaN;
      evidence.best[position] = Number.isNaN(estimate) ? -1 : position;
      evidence.depth[position] = 3;
      evidence.estimateMs[position] = estimate;
      evidence.costUsd[position] = choice.costs[position] ?? Number.NaN;
    }
    for (const [reason, count] of Object.entries(choice.excluded ?? {})) {
      evidence.excluded[EXCLUSIONS.indexOf(reason as Exclusion)] = count;
    }
    decision.reason = REASONS.indexOf(choice.reason);
    decision.hint = HINT_USES.indexOf("none");
    decision.row = choice.row;
    if (choice.row >= 0) {
      decision.family = families[choice.row] ?? 0;
      decision.depth = 3;
      decision.estimateMs = choice.estimates[choice.row] ?? Number.NaN;
      decision.costUsd = choice.costs[choice.row] ?? Number.NaN;
      decision.dataAgeMs = 1200;
      decision.trial.node = choice.isTrial === true ? 7 : 0;
      request.dispatches += 1;
    } else {
      decision.retryAfterMs = 4000;
    }
    return writeDecision(ring, table, request, decision, { nowMs: 1500, previous: choice.previous ?? -1 });
  };
  const idOf = (sequence: number, unixMs = UNIX_ORIGIN_MS + 1500) =>
    encodeDecisionId({ worker: 0, sequence, unixMs }, 1);
  const find = (id: string) => findDecision(id, { rings: [ring], names, unixOriginMs: UNIX_ORIGIN_MS });
  const explained = (sequence: number): string => {
    const found = find(idOf(sequence));
    assert.ok(found !== null);
    return explainText(found);
  };
  const predict = (prediction: Partial<Decision>): void => {
    predicted = prediction;
  };
  return { ring, decide, idOf, find, explained, predict };
}

test("a predicted choice says first token, token time and with what probability the targets are met", () => {
  const { decide, explained, predict } = setUp("cost", 5_000);
  predict({ firstMs: 120, tokenMs: 18, chance: 0.968 });
  const sequence = decide({ row: 0, reason: "cheapest", estimates: [2_000, 3_000], costs: [0.001, 0.002] });
  assert.match(explained(sequence), /predicted: first token 120 ms, 18 ms a token, targets met with 97 %/);
});

test("a warm node says how much of the prompt it is believed to hold, and what came of it", () => {
  const { ring, decide, explained, predict, find, idOf } = setUp("cost", 5_000);
  predict({ firstMs: 80, tokenMs: 18, chance: 0.99, promptTokens: 3_500, warmTokens: 3_200, cachedTokens: 2_880.4 });
  const sequence = decide({ row: 0, reason: "cheapest", estimates: [2_000, 3_000], costs: [0.001, 0.002] });
  assert.match(explained(sequence), /warm: ~3,200 of 3,500 prompt tokens in its cache, counted as 2,880\n/);
  writeOutcome(ring, sequence, {
    ...{ outcome: "success", status: 200, fault: null, firstByteMs: 20, firstTokenMs: 80, durationMs: 900 },
    ...{ promptTokens: 3_480, outputTokens: 64, cachedTokens: 3_136, costUsd: 0 },
  });
  assert.match(explained(sequence), /64 output tokens, 3,136 of its prompt's from the cache/);
  const found = find(idOf(sequence));
  assert.deepEqual(
    [found?.choice.warm_tokens, found?.choice.cached_tokens, found?.outcome.cached_tokens],
    [3_200, 2_880, 3_136],
  );
  predict({ firstMs: 80, tokenMs: 18, chance: 0.99, promptTokens: 3_500, warmTokens: 0, cachedTokens: 0 });
  const cold = decide({ row: 0, reason: "cheapest", estimates: [2_000, 3_000], costs: [0.001, 0.002] });
  assert.doesNotMatch(explained(cold), /warm/);
});

test("the story names policy, families in order, estimate, cost, headroom, winner and margin", () => {
  const { decide, explained } = setUp("cost", 2000);
  const text = explained(decide({ row: 1, reason: "next_in_chain", estimates: [2500, 900], costs: [0.0012, 0.0018] }));
  assert.match(
    text,
    /request {3}llama of account default, chat_completions, a stream, about 120 prompt tokens and images, at most 256/,
  );
  assert.match(text, /policy {4}batch, the model's: cost, target 2000 ms/);
  assert.match(
    text,
    / {2}1\. H100: best of 1 node is h100-a, depth 3, estimate 2500 ms, 500 ms beyond the target, \$0\.0012/,
  );
  assert.match(text, /→ 2\. MI300X: best of 1 node is mi300x-a, depth 3, estimate 900 ms, 1100 ms within the target/);
  assert.match(text, /result {4}mi300x-a \(MI300X\) after 500 ms, attempt 1: the cheapest family misses the target/);
  assert.match(text, /polled 1200 ms before/);
  assert.match(text, /next was H100: 1600 ms slower, \$0\.000600 cheaper \(×0\.67\)/);
  assert.match(text, /outcome {3}running/);
});

test("who was left out stands with the reason, and a trial is called one", () => {
  const { decide, explained } = setUp("latency", Number.NaN);
  const excluded = { cooling_down: 1 } as const;
  const choice = {
    row: 1,
    reason: "first_acceptable",
    costs: [Number.NaN, Number.NaN],
    excluded,
    isTrial: true,
  } as const;
  const text = explained(decide({ ...choice, costs: [...choice.costs], estimates: [Number.NaN, 900] }));
  assert.match(text, /1\. H100: none of 1 node can take it; left out: 1 cooling down/);
  assert.match(text, /it is the trial after the node's cooldown/);
  assert.doesNotMatch(text, /price|\$/, "latency does not look at prices");
  assert.match(text, /no target/);
});

test("what nodes lack stands in words, and so does that all of them lack something", () => {
  const { decide, explained } = setUp("latency", Number.NaN);
  const nan = Number.NaN;
  const excluded = { images_unsupported: 1, adapter_missing: 2, context_too_small: 1, endpoint_unsupported: 1 };
  const text = explained(
    decide({ row: -1, reason: "no_capable_node", estimates: [nan, nan], costs: [nan, nan], excluded }),
  );
  for (const words of ["1 that reads no images", "2 without the adapter", "1 with too small a context"]) {
    assert.ok(text.includes(words), text);
  }
  assert.match(text, /no node after 500 ms: every node lacks something that the request needs/);
});

test("a wish that was not met says which of the reasons it was", () => {
  const { decide, find, idOf } = setUp("cost", Number.NaN);
  const found = find(idOf(decide({ row: 1, reason: "cheapest", estimates: [Number.NaN, 900], costs: [1, 1] })));
  assert.ok(found !== null);
  const hinted = (family: string) => explainText({ ...found, hint: { family, use: "unused" } });
  assert.match(hinted("H100"), /hint {6}H100: not used, no node of it can take the request\n/);
  assert.match(hinted("MI300X"), /hint {6}MI300X: not used, it is not good enough for the policy\n/);
  assert.match(hinted("L40S"), /hint {6}L40S: not used, it is not in the chain\n/);
});

test("a request without a node says why and what the caller was told", () => {
  const { decide, explained } = setUp("balanced", 2000);
  const nan = Number.NaN;
  const text = explained(decide({ row: -1, reason: "queue_saturated", estimates: [nan, nan], costs: [nan, nan] }));
  assert.match(text, /no node after 500 ms: every healthy node is full; the caller was told to wait 4000 ms/);
  assert.doesNotMatch(text, /outcome/);
});

test("earlier attempts of the request come with how they ended, and so does this one", () => {
  const { ring, decide, explained, find, idOf } = setUp("cost", 2000);
  const first = decide({ row: 0, reason: "cheapest", estimates: [900, 900], costs: [1, 2] });
  const nan = Number.NaN;
  const base = {
    firstByteMs: nan,
    firstTokenMs: nan,
    promptTokens: nan,
    outputTokens: nan,
    cachedTokens: nan,
    costUsd: 0,
  };
  writeOutcome(ring, first, { ...base, outcome: "failure", status: -1, fault: "reset", durationMs: 31 });
  const second = decide({ row: 1, reason: "cheapest", estimates: [nan, 900], costs: [nan, 2], previous: first });
  writeOutcome(ring, second, {
    outcome: "success",
    status: 200,
    fault: null,
    firstByteMs: 20,
    firstTokenMs: 80,
    durationMs: 12_345,
    promptTokens: 118,
    outputTokens: 64,
    costUsd: 0.000123,
    cachedTokens: 90,
  });
  const text = explained(second);
  assert.match(text, /before {4}1\. h100-a \(H100\): failure, reset, ended after 31 ms/);
  assert.match(text, /attempt 2/);
  assert.match(
    text,
    /outcome {3}success, status 200, first token after 80 ms, ended after 12\.3 s, 64 output tokens, \$0\.000123/,
  );
  assert.equal(find(idOf(second))?.earlier[0]?.outcome.fault, "reset");
});

test("unknown numbers are null in the JSON, never 0", () => {
  const { decide, find, idOf } = setUp("cost", Number.NaN);
  const json = find(idOf(decide({ row: 0, reason: "cheapest", estimates: [900, 900], costs: [Number.NaN, 2] })));
  assert.equal(json?.choice.cost_usd, null);
  assert.equal(json?.choice.headroom_ms, null);
  assert.equal(json?.policy.latency_target_ms, null);
  assert.equal(json?.outcome.status, null);
  assert.equal(json?.runner_up, "MI300X");
});

test("only the id of this record finds it", () => {
  const { decide, find, idOf } = setUp("cost", 2000);
  const sequence = decide({ row: 0, reason: "cheapest", estimates: [900, 900], costs: [1, 2] });
  assert.notEqual(find(idOf(sequence)), null);
  assert.equal(find(idOf(sequence + 1)), null, "never written");
  assert.equal(find(idOf(sequence, UNIX_ORIGIN_MS - 3_600_000)), null, "of an earlier run");
  assert.equal(
    find(encodeDecisionId({ worker: 9, sequence, unixMs: UNIX_ORIGIN_MS }, 1)),
    null,
    "of a worker that is not there",
  );
  assert.equal(find("not-an-id"), null);
});

test("an overwritten record is not found", () => {
  const { decide, find, idOf } = setUp("cost", 2000);
  const choice = () => decide({ row: 0, reason: "cheapest", estimates: [900, 900], costs: [1, 2] });
  const first = choice();
  for (let more = 0; more < 16; more++) choice();
  assert.equal(find(idOf(first)), null);
});
