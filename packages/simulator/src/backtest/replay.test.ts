import assert from "node:assert/strict";
import { test } from "node:test";
import type { PolicyData } from "@zml/engine";
import { replay } from "./replay.ts";
import type { ReplayPlan } from "./replay-plan.ts";
import { END, FLAG, type Results, resultsOf, trafficOf } from "./traffic.ts";

const ACCOUNTS = ["ads", "search"];

function policy(account: string, index: number): PolicyData {
  return {
    ...{ account, name: "chat", index, chain: [{ family: 0, priority: 1 }] },
    ...{ latencyTargetMs: 60_000, ttftTargetMs: Number.NaN, tokenTargetMs: Number.NaN },
    ...{
      costPriority: "cost",
      estimator: "predictive",
      queueOnSaturation: false,
      maxQueueMs: 0,
      acceptableWaiting: 100,
    },
  };
}

/** One node, whose model two accounts have; each step takes 1 ms and 1 ms more for each sequence. */
function plan(kins: readonly number[]): ReplayPlan {
  const constants = {
    ...{ baseMs: 1, usPerSequence: 1_000, nsPerCachedToken: 0, usPerPrefillToken: 0, nsPerSquaredPrefillToken: 0 },
  };
  const limits = { kvCapacityTokens: 1e6, contextTokens: 32_768, tokensPerSecond: 1_000, slowness: 1 };
  const charged = { chargedTokensPerSecond: Number.NaN };
  const node = { id: "a", family: 0, maxInFlight: 256, concurrencyLimit: 256, usdPerHour: 2, state: "up" as const };
  return {
    families: ["H100"],
    nodes: [{ ...node, models: [0, 1].map((model) => ({ model, ...limits, ...charged })) }],
    models: ACCOUNTS.map((account, model) => ({ account, name: "m", kin: kins[model] as number })),
    policies: ACCOUNTS.map(policy),
    accounts: ACCOUNTS,
    events: [],
    timings: [0, 1].map((model) => ({
      ...{ model, family: 0, constants, overheadMs: 0 },
      ...{ firstLateMs: [], samples: 9, tokenError: 0, responseError: 0 },
    })),
    failover: { maxAttempts: 3, windowMs: 30_000, retryBudget: 0.2 },
    pollEveryMs: 1_000,
    earlier: [],
    later: [],
    warmUp: 0,
    lessons: [],
    promptRatios: [Number.NaN, Number.NaN],
    seed: 1,
  };
}

/** What becomes of 16 requests that come at once, of both accounts. */
function replayed(changed: ReplayPlan): Results {
  const traffic = trafficOf(16);
  for (let index = 0; index < traffic.count; index++) {
    traffic.atMs[index] = index * 0.1;
    traffic.model[index] = index % 2;
    traffic.policy[index] = index % 2;
    traffic.flags[index] = FLAG.stream;
    traffic.answers[index] = 1;
    traffic.hint[index] = -1;
    for (const tokens of [traffic.estimatedTokens, traffic.promptTokens, traffic.outputTokens]) tokens[index] = 100;
    traffic.maxTokens[index] = 100;
  }
  const results = resultsOf(traffic.count);
  replay(changed, traffic, results);
  assert.deepEqual([...new Set(results.end)], [END.served]);
  return results;
}

function meanResponseMs(kins: readonly number[]): number {
  return meanOf(replayed(plan(kins)).responseMs);
}

function meanOf(values: Iterable<number>): number {
  const all = [...values];
  return all.reduce((sum, value) => sum + value, 0) / all.length;
}

test("accounts that share a node's model share its steps; other models on it have their own", () => {
  const together = meanResponseMs([0, 0]);
  const apart = meanResponseMs([0, 1]);
  assert.ok(Math.abs(together - 1_700) < 200, `100 steps of 16 sequences: ${together} ms`);
  assert.ok(Math.abs(apart - 900) < 100, `100 steps of 8 sequences: ${apart} ms`);
});

const EARLIER = {
  ...{ model: 0, policy: 0, node: 0, endpoint: 0, isStream: true, promptTokens: 100, outputTokens: 100 },
  maxTokens: Number.NaN,
};

test("what came shortly before the window still runs as it begins, and is none of its requests", () => {
  const call = { ...EARLIER, outputTokens: 200 };
  const earlier = Array.from({ length: 16 }, (_, index) => ({ ...call, atMs: index - 50 }));
  const empty = replayed(plan([0, 0]));
  const filled = replayed({ ...plan([0, 0]), earlier });
  const ratio = meanOf(filled.responseMs) / meanOf(empty.responseMs);
  assert.ok(ratio > 1.7 && ratio < 2.1, `32 sequences instead of 16 take ${ratio} times as long`);
  assert.ok(Math.abs(meanOf(filled.usd) - meanOf(empty.usd)) < 1e-12, "nor does it cost the window anything");
});

test("a capacity that was decided on later is what later answers cost", () => {
  const at = (atMs: number) =>
    [0, 1].map((model) => ({ atMs, node: 0, kind: "speed" as const, model, tokensPerSecond: 4_000 }));
  const before = meanOf(replayed(plan([0, 0])).usd);
  const quarter = meanOf(replayed({ ...plan([0, 0]), events: at(500) }).usd);
  assert.ok(Math.abs(quarter / before - 0.25) < 1e-6, `${before} and ${quarter}`);
  assert.equal(meanOf(replayed({ ...plan([0, 0]), events: at(60_000) }).usd), before);
});

test("what came after the window is company of those who came last in it, and costs it nothing", () => {
  const later = Array.from({ length: 16 }, (_, index) => ({ ...EARLIER, atMs: 2 + index, outputTokens: 200 }));
  const alone = replayed(plan([0, 0]));
  const followed = replayed({ ...plan([0, 0]), later });
  const ratio = meanOf(followed.responseMs) / meanOf(alone.responseMs);
  assert.ok(ratio > 1.7 && ratio < 2.1, `32 sequences instead of 16 take ${ratio} times as long`);
  assert.equal(meanOf(followed.usd), meanOf(alone.usd));
  const muchLater = later.map((call) => ({ ...call, atMs: 60_000 + call.atMs }));
  assert.equal(meanOf(replayed({ ...plan([0, 0]), later: muchLater }).responseMs), meanOf(alone.responseMs));
});

test("what ran shortly before the window runs on the node where it really ran, so that the window begins as it did", () => {
  const base = plan([0, 0]);
  const [node] = base.nodes;
  assert.ok(node !== undefined);
  const twins = { ...base, nodes: [node, { ...node, id: "b" }] };
  const earlier = (row: number) =>
    Array.from({ length: 16 }, (_, index) => ({ ...EARLIER, node: row, outputTokens: 2_000, atMs: index - 200 }));
  // requests join those that run, since an idle node costs more
  for (const row of [0, 1]) {
    const { node: nodes } = replayed({ ...twins, earlier: earlier(row) });
    assert.deepEqual([...new Set(nodes)], [row]);
  }
});

test("answers are charged by the capacity that they really were, whatever decisions are made on", () => {
  const of = (chargedTokensPerSecond: number) => {
    const { nodes, ...rest } = plan([0, 0]);
    const charged = nodes.map((node) => ({
      ...node,
      models: node.models.map((model) => ({ ...model, chargedTokensPerSecond })),
    }));
    return { ...rest, nodes: charged };
  };
  const plain = meanOf(replayed(plan([0, 0])).usd);
  assert.ok(Math.abs(meanOf(replayed(of(4_000)).usd) / plain - 0.25) < 1e-9);
  const later = [0, 1].map((model) => ({ atMs: 0, node: 0, kind: "charge" as const, model, tokensPerSecond: 500 }));
  assert.ok(Math.abs(meanOf(replayed({ ...of(4_000), events: later }).usd) / plain - 2) < 1e-9);
});

test("first tokens are as late as they were recorded to be, and no answer ends before its first token", () => {
  const base = plan([0, 0]);
  const late = (ms: number) =>
    replayed({ ...base, timings: base.timings.map((one) => ({ ...one, firstLateMs: [ms] })) });
  const plain = replayed(base);
  assert.ok(Math.abs(meanOf(late(40).ttftMs) - meanOf(plain.ttftMs) - 40) < 1e-3);
  assert.equal(meanOf(late(40).responseMs), meanOf(plain.responseMs));
  const last = late(60_000);
  assert.ok(last.ttftMs.every((ms, index) => ms <= (last.responseMs[index] as number)));
});
