/** Nodes that hold a prompt's beginning: preferred where that is really cheaper, and left where it is not. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { findWarmNodes } from "../availability/warm-nodes.ts";
import { PLACEMENTS_PER_NODE } from "../bounds.ts";
import { decide } from "../decide.ts";
import { createDecision } from "../decision.ts";
import { releaseBooking } from "../dispatch/booking.ts";
import { createRetryBudget } from "../failover/retry-budget.ts";
import { forgetCache } from "../fleet-table.ts";
import { createPrefixTable, type PromptMarks } from "../prefix-table.ts";
import { settle } from "../settle.ts";
import { attemptOf, buildFleet, type PolicySpec } from "../testing/fleet.ts";

const PROMPT = 8_000;
const OUTPUT = 50;
const OTHER = 90_000;

/** A prompt of eight blocks, of which so many are those of every other prompt. */
function marks(shared = 8): PromptMarks {
  return {
    hashes: Int32Array.from({ length: 8 }, (_, block) => (block < shared ? block + 1 : OTHER + block)),
    shares: Float64Array.from({ length: 8 }, (_, block) => (block + 1) / 8),
  };
}

function setUp(policy: PolicySpec = {}, nodes = 3) {
  const prefixes = createPrefixTable({ entries: 1_024, key: 11 });
  const fleet = buildFleet({
    nodes: Array.from({ length: nodes }, () => ({ family: "A" })),
    policies: [{ ttftTargetMs: 2_000, tokenTargetMs: 60, estimator: "predictive", ...policy }],
    models: [{ meanOutputTokens: OUTPUT }],
    prefixes,
  });
  const { table } = fleet;
  table.meanPromptTokens[0] = PROMPT;
  for (let row = 0; row < nodes; row++) {
    const placement = row * PLACEMENTS_PER_NODE;
    table.stepBaseMs[placement] = 10;
    table.stepPerRequestMs[placement] = 0.1;
    table.stepPerPromptTokenMs[placement] = 0.05;
    table.firstBaseMs[placement] = 15;
    table.firstPerTokenMs[placement] = 0.1;
    table.firstPerAheadMs[placement] = 0.1;
    table.firstSpread[placement] = 1.2;
    table.tokenSpread[placement] = 1.2;
    table.predictionError[placement] = 0.1;
    table.predictorSamples[placement] = 1_000;
    table.cacheTokens[row] = 100_000;
  }
  const decider = fleet.decider();
  const send = (of: PromptMarks | null, draw = 0.4, nowMs = 1_000) => {
    const request = fleet.request({ promptTokens: PROMPT, isStream: true, ...(of === null ? {} : { marks: of }) });
    const decision = createDecision();
    const booking = decide(decider, request, nowMs, draw, decision);
    assert.ok(booking !== null);
    return { booking, decision, request, row: decision.row, end: () => releaseBooking(table, 0, booking, nowMs) };
  };
  return { fleet, table, prefixes, send };
}

test("the next turn goes to the node that has the prompt, wherever the draw begins", () => {
  const { send } = setUp();
  const first = send(marks());
  first.end();
  assert.equal(first.decision.warmTokens, 0);
  for (const draw of [0, 0.3, 0.6, 0.99]) {
    const next = send(marks(), draw);
    assert.equal(next.row, first.row);
    assert.equal(next.decision.warmTokens, PROMPT);
    // half of it, until an answer tells
    assert.equal(next.decision.cachedTokens, PROMPT / 2);
    next.end();
  }
});

test("a prompt that shares its beginning counts what it shares", () => {
  const { send, table } = setUp();
  const first = send(marks());
  first.end();
  table.cacheHits.fill(1);
  const other = send(marks(5), 0.9);
  assert.equal(other.row, first.row);
  assert.equal(other.decision.warmTokens, (PROMPT * 5) / 8);
  assert.equal(other.booking.freshTokens, (PROMPT * 3) / 8);
  assert.equal(other.booking.promptTokens, PROMPT);
});

test("only what is fresh waits to be computed, and it leaves the counts as it came", () => {
  const { send, table } = setUp();
  table.cacheHits.fill(1);
  send(marks()).end();
  const { booking, row, end } = send(marks());
  assert.equal(table.total.promptTokens[row], booking.freshTokens);
  assert.equal(booking.freshTokens, 1);
  end();
  assert.equal(table.total.promptTokens[row], 0);
  assert.equal(table.own[0]?.promptTokens[row], 0);
});

test("the warm node is left once those who wait there take longer than the prompt", () => {
  for (const costPriority of ["latency", "cost", "balanced"] as const) {
    const { send, table } = setUp({ costPriority });
    table.cacheHits.fill(1);
    const first = send(marks());
    first.end();
    // a little in the way: 800 ms of prompt are saved, 400 wait
    table.total.promptTokens[first.row] = 4_000;
    if (costPriority === "latency") assert.equal(send(marks()).row, first.row);
    table.total.promptTokens[first.row] = 40_000;
    const left = send(marks());
    assert.notEqual(left.row, first.row, costPriority);
    left.end();
  }
});

test("who cannot meet its target anywhere moves to where the rest of its session does", () => {
  const { send, table } = setUp({ ttftTargetMs: 500, costPriority: "cost" }, 2);
  table.cacheHits.fill(1);
  table.isDraining[1] = 1;
  send(marks()).end();
  table.isDraining[1] = 0;
  // the warm node turned slow: its steps miss the token target, and the other one would have to compute 800 ms of prompt
  table.stepBaseMs[0] = 80;
  assert.equal(send(marks()).row, 1);
});

test("an engine that keeps nothing is preferred no more, and one that does is believed", () => {
  const { send, table } = setUp();
  const first = send(marks());
  first.end();
  table.cacheHits[first.row * PLACEMENTS_PER_NODE] = 0;
  const cold = send(marks(), 0.99);
  assert.equal(cold.decision.cachedTokens, 0);
  const { decision } = cold;
  assert.equal(decision.firstMs, 15 + 0.1 * PROMPT);
});

test("what went through a node's cache since then, or runs there now, has pushed the prompt out", () => {
  const { send, table } = setUp();
  const { row, end } = send(marks());
  end();
  const warm = () => {
    const sent = send(marks());
    sent.end();
    return sent.decision.warmTokens;
  };
  assert.equal(warm(), PROMPT);
  table.total.kvTokens[row] = 99_000;
  assert.equal(warm(), 0);
  table.total.kvTokens[row] = 0;
  table.cacheClock[row] = (table.cacheClock[row] as number) + 110_000;
  table.isDraining.fill(1);
  table.isDraining[row] = 0;
  assert.equal(warm(), 0);
});

test("of a node that does not tell its memory, the prompt is believed to stay", () => {
  const { send, table } = setUp({}, 1);
  table.cacheTokens[0] = Number.NaN;
  send(marks()).end();
  table.cacheClock[0] = (table.cacheClock[0] as number) + 1_000_000;
  assert.equal(send(marks()).decision.warmTokens, PROMPT);
});

test("a node that failed has lost its cache", () => {
  const { fleet, send, table } = setUp({}, 1);
  const failed = send(marks());
  const settler = {
    table,
    worker: 0,
    limits: { maxAttempts: 3, windowMs: 30_000 },
    budget: createRetryBudget(0.2, 1),
  };
  const end = { kind: "fault", fault: "reset", isUnsent: false } as const;
  settle(settler, failed.request, attemptOf(failed.booking, failed.decision, { sentAtMs: 1_005 }), end, 1_010);
  table.cooldownUntil[0] = 0;
  const after = send(marks());
  assert.equal(after.decision.warmTokens, 0);
  after.end();
  assert.equal(send(marks()).decision.warmTokens, PROMPT, "what it gets from then on counts again");
  forgetCache(table, 0);
  assert.equal(send(marks()).decision.warmTokens, 0);
  assert.ok(fleet.table === table);
});

test("a crash is noticed twice, by the call that broke and by the poll, and the cache stays lost", () => {
  const { fleet, send, table, prefixes } = setUp({}, 1);
  send(marks()).end();
  const request = fleet.request({ promptTokens: PROMPT, isStream: true, marks: marks() });
  // a look that sends nothing, so that nothing is noted anew
  const warm = () => findWarmNodes(prefixes, table, request, { promptTokens: PROMPT, nowTick: 63 })?.tokens[0] ?? 0;
  assert.equal(warm(), PROMPT);
  for (let losses = 1; losses <= 15; losses++) {
    forgetCache(table, 0);
    assert.equal(warm(), 0, `after ${losses} losses`);
  }
});

test("without marks, without a table and with the simple estimate nothing is warm", () => {
  const { send, fleet } = setUp();
  send(marks()).end();
  assert.equal(send(null).decision.warmTokens, 0);
  const decision = createDecision();
  const request = fleet.request({ promptTokens: PROMPT, marks: marks() });
  decide({ ...fleet.decider(), prefixes: null }, request, 1_000, 0.5, decision);
  assert.equal(decision.warmTokens, 0);
  const simple = setUp({ estimator: "simple" });
  simple.send(marks()).end();
  const sent = simple.send(marks());
  assert.equal(sent.decision.warmTokens, 0);
  assert.equal(sent.booking.freshTokens, PROMPT);
});
