import assert from "node:assert/strict";
import { test } from "node:test";
import type { PolicyData } from "@zml/engine";
import { replay } from "./replay.ts";
import type { ReplayPlan } from "./replay-plan.ts";
import { END, FLAG, resultsOf, trafficOf } from "./traffic.ts";

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
  const node = { id: "a", family: 0, maxInFlight: 256, concurrencyLimit: 256, usdPerHour: 2, state: "up" as const };
  return {
    families: ["H100"],
    nodes: [{ ...node, models: [0, 1].map((model) => ({ model, ...limits })) }],
    models: ACCOUNTS.map((account, model) => ({ account, name: "m", kin: kins[model] as number })),
    policies: ACCOUNTS.map(policy),
    accounts: ACCOUNTS,
    events: [],
    timings: [0, 1].map((model) => ({
      ...{ model, family: 0, constants, overheadMs: 0, samples: 9, tokenError: 0, responseError: 0 },
    })),
    failover: { maxAttempts: 3, windowMs: 30_000, retryBudget: 0.2 },
    pollEveryMs: 1_000,
    warmUp: 0,
    lessons: [],
    promptRatios: [Number.NaN, Number.NaN],
    seed: 1,
  };
}

/** Mean response of 16 requests that come at once, of both accounts. */
function meanResponseMs(kins: readonly number[]): number {
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
  replay(plan(kins), traffic, results);
  assert.deepEqual([...new Set(results.end)], [END.served]);
  return results.responseMs.reduce((sum, ms) => sum + ms, 0) / traffic.count;
}

test("accounts that share a node's model share its steps; other models on it have their own", () => {
  const together = meanResponseMs([0, 0]);
  const apart = meanResponseMs([0, 1]);
  assert.ok(Math.abs(together - 1_700) < 200, `100 steps of 16 sequences: ${together} ms`);
  assert.ok(Math.abs(apart - 900) < 100, `100 steps of 8 sequences: ${apart} ms`);
});
