import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FleetPlan, PlannedNode } from "./fleet-plan.ts";
import { fluidCapacityRps, maximize } from "./fluid-capacity.ts";
import { workMs } from "./node-work.ts";
import { planBuckets } from "./plan-buckets.ts";
import type { RequestClass } from "./request-classes.ts";
import type { Workload } from "./workload.ts";

/** 10 ms steps whatever the batch, prompts at 0.1 ms per token. */
const FLAT = {
  baseMs: 10,
  usPerSequence: 0,
  nsPerCachedToken: 0,
  usPerPrefillToken: 100,
  nsPerSquaredPrefillToken: 0,
  kvCapacityTokens: 11_000,
};
const shape = { promptTokens: 1_000, squaredPromptTokens: 1e6, outputTokens: 200 };

function workloadOf(requests: readonly (readonly [number, number, number])[], durationMs: number): Workload {
  return {
    count: requests.length,
    promptTokens: Int32Array.from(requests, ([prompt]) => prompt),
    outputTokens: Int32Array.from(requests, ([, output]) => output),
    classes: Uint8Array.from(requests, ([, , klass]) => klass),
    durationMs,
  } as unknown as Workload;
}

const klass = (tokenMs: number): RequestClass => ({
  name: "c",
  share: 1,
  ttftMs: 1_000,
  tokenMs,
  responseMs: Number.NaN,
});
const node = (family: number, constants: Partial<typeof FLAT>, usdPerHour = 1): PlannedNode => ({
  id: "n",
  family,
  constants: { ...FLAT, ...constants },
  believed: FLAT,
  usdPerHour,
  networkMs: 0,
});

describe("work on a full node, worked out by hand", () => {
  it("is bounded by memory: 11,000 ÷ 1,100 = 10 sequences share each step", () => {
    assert.equal(workMs(FLAT, shape, 50), 100 + (200 * 10) / 10);
  });
  it("is bounded by the target: 4 sequences of 2 ms, each with a prompt of 100 ms per 200 tokens, fit beside 10 ms", () => {
    assert.equal(workMs({ ...FLAT, usPerSequence: 2_000 }, shape, 20), 100 + (200 * 18) / 4);
    assert.equal(workMs(FLAT, shape, 9), Number.POSITIVE_INFINITY);
  });
});

describe("the simplex", () => {
  it("finds a corner worked out by hand", () => {
    // max 3x + 2y, x + y ≤ 4, x + 3y ≤ 6, x ≤ 3: x = 3, y = 1
    assert.ok(
      Math.abs(
        maximize(
          [3, 2],
          [
            [1, 1, 4],
            [1, 3, 6],
            [1, 0, 3],
          ],
        ) - 11,
      ) < 1e-9,
    );
    assert.equal(maximize([1], [[-1, 0]]), Number.POSITIVE_INFINITY);
  });
});

describe("the capacity of a fleet", () => {
  it("of one family is its nodes over the work", () => {
    const plan: FleetPlan = { families: ["A"], nodes: [node(0, {}), node(0, {})] };
    const rps = fluidCapacityRps(plan, [klass(50)], workloadOf([[1_000, 200, 0]], 1_000));
    assert.ok(Math.abs(rps - 2 / 0.3) < 1e-9, `${rps}`);
  });
  it("gives each class the family on which it costs least of the other's time", () => {
    // the tight class fits family A only: 0.3 s; the loose one takes 0.3 s on A and 0.6 s on B (20 ms, 0.2 ms/token)
    const plan: FleetPlan = {
      families: ["A", "B"],
      nodes: [node(0, {}), node(1, { baseMs: 20, usPerPrefillToken: 200 })],
    };
    const rps = fluidCapacityRps(
      plan,
      [klass(15), klass(50)],
      workloadOf(
        [
          [1_000, 200, 0],
          [1_000, 200, 1],
        ],
        1_000,
      ),
    );
    // half of λ tight on A, the loose half split: 0.15 λ + 0.3 y = 1, 0.6 (λ/2 − y) = 1 → λ = 5
    assert.ok(Math.abs(rps - 5) < 1e-9, `${rps}`);
  });
  it("counts a class whose target nobody meets as one without a target", () => {
    const plan: FleetPlan = { families: ["A"], nodes: [node(0, {})] };
    const rps = fluidCapacityRps(plan, [klass(5)], workloadOf([[1_000, 200, 0]], 1_000));
    assert.ok(Math.abs(rps - 1 / 0.3) < 1e-9, `${rps}`);
  });
});

describe("MEL's plan", () => {
  const cheap = node(1, { baseMs: 20 }, 0.2);
  const plan: FleetPlan = { families: ["A", "B"], nodes: [node(0, {}), cheap] };
  const requests = [
    [1_000, 200, 0],
    [1_000, 200, 1],
  ] as const;
  /** Family of each class for prompts of 1,000 tokens. */
  const planned = (of: FleetPlan, durationMs: number, isByClass: boolean) => {
    const { bounds, families } = planBuckets(of, [klass(15), klass(50)], workloadOf(requests, durationMs), isByClass);
    const bucket = bounds.findIndex((bound) => 1_000 <= bound);
    return [families[bucket], families[bounds.length + bucket]];
  };

  it("by class gives the tight one the family that meets it, and the loose one the cheaper", () => {
    // B: 100 + 200 × 20 ÷ 10 = 500 ms per request, 850 ms a second to fill
    assert.deepEqual(planned(plan, 1_000, true), [0, 1]);
    // at twice the rate B has no room, and A has least
    assert.deepEqual(planned(plan, 500, true), [0, 1]);
    // 300 ms at 0.1 cost less than 500 at 0.2, and A has room for both
    assert.deepEqual(planned({ ...plan, nodes: [node(0, {}, 0.1), cheap] }, 1_000, true), [0, 0]);
  });

  it("by length alone holds everything to the tightest target", () => {
    assert.deepEqual(planned(plan, 1_000, false), [0, 0]);
    // 4 requests a second of 300 ms are more than A has: B, which has as much time left, is not before it
    assert.deepEqual(planned(plan, 500, false), [0, 0]);
  });
});
