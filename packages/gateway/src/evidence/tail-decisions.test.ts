import assert from "node:assert/strict";
import { test } from "node:test";
import {
  compileModel,
  compilePolicy,
  createDecision,
  createEvidenceRing,
  createFleetTable,
  createRouteRequest,
  type EvidenceOutcome,
  type EvidenceRing,
  REASONS,
  takeNodeRow,
  writeDecision,
  writeOutcome,
} from "@zml/engine";
import { createNameRegistry } from "../control/name-registry.ts";
import { type DecisionTailQuestion, tailDecisions } from "./tail-decisions.ts";

const ALL: DecisionTailQuestion = {
  ...{ account: null, policy: null, model: null, node: null, family: null, reason: null },
  ...{ slowerThanMs: null, isRedispatched: null, limit: 500, mark: null },
};
const ENDED: Omit<EvidenceOutcome, "durationMs"> = {
  ...{ outcome: "success", status: 200, fault: null, firstByteMs: 1, firstTokenMs: 2 },
  ...{ promptTokens: 1, outputTokens: 1, cachedTokens: 0, costUsd: 0 },
};

function fixture({ records = 16, workers = 2 } = {}) {
  const names = createNameRegistry();
  const family = names.families.register("", "H100");
  const table = createFleetTable({ nodes: 4, workers: 1 });
  const identity = names.identities.register("http://a", "a");
  takeNodeRow(table, 0, { family, identity, maxInFlight: 8, cooldownMs: 1, priceUsdPerHour: 1 });
  const policyOf = (name: string) =>
    compilePolicy({
      ...{
        account: "default",
        name,
        index: names.policies.register("default", name),
        chain: [{ family, priority: 1 }],
      },
      ...{ latencyTargetMs: Number.NaN, ttftTargetMs: Number.NaN, tokenTargetMs: Number.NaN, costPriority: "cost" },
      ...{ estimator: "simple", queueOnSaturation: false, maxQueueMs: 0, acceptableWaiting: 4 },
    } as const);
  const model = compileModel({
    ...{
      account: "default",
      name: "m",
      index: names.models.register("default", "m"),
      policy: null,
      isRegistered: true,
    },
    ...{ rows: Int32Array.of(0), placements: Int32Array.of(0), families: Int32Array.of(family) },
  });
  const rings = Array.from({ length: workers }, () => createEvidenceRing(records));
  /** A decision that chose the node; `row` -1: none. */
  const decide = (worker: number, { nowMs = 0, policy = "p", attempt = 1, row = 0 } = {}): number => {
    const request = createRouteRequest({
      ...{ account: "default", model, policy: policyOf(policy), policySource: "call", hintFamily: -1, endpoint: 0 },
      ...{ isStream: false, promptTokens: 1, maxTokens: 1, answers: 1, promptTokensAtLeast: 0, hasImages: false },
      admittedAtMs: nowMs,
    } as const);
    request.dispatches = attempt;
    const decision = createDecision();
    Object.assign(decision, { row, family: row < 0 ? -1 : family, placement: row });
    decision.reason = REASONS.indexOf(row < 0 ? "queue_saturated" : "cheapest");
    return writeDecision(rings[worker] as EvidenceRing, table, request, decision, { nowMs, previous: -1 });
  };
  const end = (worker: number, sequence: number, durationMs = 5) =>
    writeOutcome(rings[worker] as EvidenceRing, sequence, { ...ENDED, durationMs });
  const ask = (question: Partial<DecisionTailQuestion> = {}, tail = 77) =>
    tailDecisions({ ...ALL, ...question }, { rings, names, ids: { unixOriginMs: 1e12, tail } });
  return { rings, decide, end, ask };
}

const seen = (tail: ReturnType<typeof tailDecisions>) =>
  tail.items.map(({ worker, sequence }) => `${worker}:${sequence}`);

test("a tail begins now, and tells each decision once, when its attempt has ended", () => {
  const { decide, end, ask } = fixture();
  end(0, decide(0));
  const first = ask();
  assert.deepEqual([seen(first), first.missed, first.is_restarted], [[], 0, false]);
  const [a, b] = [decide(0, { nowMs: 10 }), decide(1, { nowMs: 11 })];
  end(1, b);
  const second = ask({ mark: first.mark });
  assert.deepEqual(seen(second), ["1:0"]);
  const third = ask({ mark: second.mark });
  assert.deepEqual(seen(third), []);
  end(0, a, 100);
  const fourth = ask({ mark: third.mark });
  assert.deepEqual(seen(fourth), ["0:1"]);
  assert.deepEqual(seen(ask({ mark: fourth.mark })), []);
});

test("they come in the order of their ends; one without a node is at its end at once", () => {
  const { decide, end, ask } = fixture();
  const { mark } = ask();
  end(0, decide(0, { nowMs: 10 }), 90);
  decide(1, { nowMs: 50, row: -1 });
  end(0, decide(0, { nowMs: 20 }), 10);
  assert.deepEqual(seen(ask({ mark })), ["0:1", "1:0", "0:0"]);
});

test("filters hold for the tail as for the list, also that of the time which is known at the end only", () => {
  const { decide, end, ask } = fixture();
  const { mark } = ask();
  const slow = decide(0, { policy: "slow" });
  end(0, decide(0, { policy: "q", attempt: 2 }), 10);
  decide(0, { row: -1 });
  assert.deepEqual(seen(ask({ mark, policy: "q" })), ["0:1"]);
  assert.deepEqual(seen(ask({ mark, isRedispatched: true })), ["0:1"]);
  assert.deepEqual(seen(ask({ mark, family: "H100" })), ["0:1"]);
  assert.deepEqual(seen(ask({ mark, family: "L4" })), []);
  assert.deepEqual(seen(ask({ mark, node: "a" })), ["0:1"]);
  assert.deepEqual(seen(ask({ mark, reason: "queue_saturated" })), ["0:2"]);
  assert.deepEqual(seen(ask({ mark, account: "other" })), []);
  const later = ask({ mark, slowerThanMs: 50 });
  assert.deepEqual(seen(later), []);
  end(0, slow, 60);
  assert.deepEqual(seen(ask({ mark: later.mark, slowerThanMs: 50 })), ["0:0"]);
});

test("what was overwritten before it was read is counted, whether it had ended or still ran", () => {
  const { decide, end, ask } = fixture({ records: 8, workers: 1 });
  const start = ask();
  decide(0);
  const running = ask({ mark: start.mark });
  for (let each = 0; each < 20; each++) end(0, decide(0));
  const told = ask({ mark: running.mark });
  // 20 came, 8 are there; and the one that ran is gone
  assert.deepEqual([told.items.length, told.missed], [8, 13]);
  assert.equal(ask({ mark: told.mark }).missed, 0);
});

test("an answer is bounded, says that there is more, and nothing between two answers is lost or told twice", () => {
  const { decide, end, ask } = fixture({ records: 64 });
  let { mark } = ask();
  for (let each = 0; each < 25; each++) end(each % 2, decide(each % 2, { nowMs: each }));
  const all: string[] = [];
  for (let answers = 0; answers < 3; answers++) {
    const told = ask({ mark, limit: 10 });
    all.push(...seen(told));
    assert.deepEqual([told.items.length, told.is_more, told.missed], [answers < 2 ? 10 : 5, answers < 2, 0]);
    mark = told.mark;
  }
  assert.equal(new Set(all).size, 25);
});

test("a mark stays short however many run: the oldest of them are missed, and said to be", () => {
  const { decide, end, ask } = fixture({ records: 8_192, workers: 1 });
  const { mark } = ask();
  const sequences = Array.from({ length: 4_000 }, () => decide(0));
  const told = ask({ mark });
  assert.ok(told.mark.length <= 8_192, String(told.mark.length));
  assert.ok(told.missed >= 2_000 && told.missed < 4_000, String(told.missed));
  for (const sequence of sequences) end(0, sequence);
  const after = ask({ mark: told.mark, limit: 5_000 });
  assert.equal(after.items.length + told.missed, 4_000);
});

test("a mark of another process, or of nobody, begins anew and says so", () => {
  const { decide, end, ask } = fixture();
  const { mark } = ask({}, 78);
  end(0, decide(0));
  for (const strange of [mark, "x", "", "1_2", `${(77).toString(36)}_-1_0`, `${(77).toString(36)}_zzzzzzzzzz_0`]) {
    const told = ask({ mark: strange });
    assert.deepEqual([told.is_restarted, seen(told), told.missed], [true, [], 0], strange);
  }
});

test("sequence numbers that wrap around are a tail like any other", () => {
  const { rings, decide, end, ask } = fixture({ records: 8, workers: 1 });
  const ints = (rings[0] as EvidenceRing).ints;
  Atomics.store(ints, ints.length - 2, 0x7ffffffe);
  const { mark } = ask();
  for (let each = 0; each < 4; each++) end(0, decide(0));
  const told = ask({ mark });
  assert.deepEqual([told.items.map(({ sequence }) => sequence), told.missed], [[0x7ffffffe, 0x7fffffff, 0, 1], 0]);
});
