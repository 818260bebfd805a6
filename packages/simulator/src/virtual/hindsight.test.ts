import assert from "node:assert/strict";
import { it } from "node:test";
import { FLEETS, planFleet } from "./fleet-plan.ts";
import { type HindsightOptions, searchHindsight } from "./hindsight.ts";
import { requestClasses } from "./request-classes.ts";
import { prepareScenario, simulatePolicy } from "./run-scenario.ts";
import { parseScenario } from "./scenario.ts";
import type { Workload } from "./workload.ts";

const parsed = parseScenario({ workload: { load: 0.7, duration_s: 120 }, noise_sigma: 0 });
assert.ok("scenario" in parsed);
const { plan, classes, workload } = prepareScenario(parsed.scenario, ".");
const given = simulatePolicy(prepareScenario(parsed.scenario, "."), "LR");
const options: HindsightOptions = {
  plan,
  classes,
  workload,
  nodeOf: given.records.node,
  fromMs: 60_000,
  toMs: 120_000,
  evaluations: 150,
  stepTokenBudget: 2_048,
  seed: 1,
};

it("hindsight starts from what the run came to, and finds something better", () => {
  const { given: start, found, kept } = searchHindsight(options);
  // the run's own numbers: the window is its end, and without noise both compute the same steps
  const isJudged = (request: number) => (workload.atMs[request] as number) >= 60_000;
  let met = 0;
  let count = 0;
  for (let request = 0; request < workload.count; request++) {
    if (!isJudged(request)) continue;
    count += 1;
    const target = classes[workload.classes[request] as number];
    const ttftMs = given.records.ttftMs[request] as number;
    const tokens = workload.outputTokens[request] as number;
    const endMs = given.records.responseMs[request] as number;
    const tokenMs = (endMs - ttftMs) / (tokens - 1);
    if (target === undefined) continue;
    if (
      tokens < 20
        ? endMs <= target.ttftMs + (tokens - 1) * target.tokenMs
        : ttftMs <= target.ttftMs && tokenMs <= target.tokenMs
    )
      met += 1;
  }
  assert.ok(Math.abs(start.attainment - met / count) < 1e-9, `${start.attainment} ${met / count}`);
  assert.ok(found.goodputPerUsd > start.goodputPerUsd * 1.001, `${found.goodputPerUsd} ${start.goodputPerUsd}`);
  assert.ok(kept > 5 && kept < 150);
});

it("what a search found is what its assignment comes to when computed anew", () => {
  const { found, nodeOf } = searchHindsight(options);
  assert.deepEqual(searchHindsight({ ...options, nodeOf, evaluations: 0 }).given, found);
});

it("hindsight moves the one late request of a case worked out by hand", () => {
  // two requests of 500 tokens on an L40S are late by their token time; an H100 beside it idles
  const fleet = planFleet(
    [
      { ...FLEETS.F1[0], count: 1 },
      { ...FLEETS.F3[3], count: 1 },
    ],
    { constantsError: 0, seed: 1 },
  );
  const two = {
    count: 1,
    atMs: Float64Array.of(10),
    promptTokens: Int32Array.of(5_000),
    outputTokens: Int32Array.of(500),
    classes: Uint8Array.of(0),
    session: Int32Array.of(-1),
    blocks: [null],
  } as unknown as Workload;
  const found = searchHindsight({
    plan: fleet,
    classes: requestClasses("T1").map((one) => ({ ...one, tokenMs: 20 })),
    workload: two,
    nodeOf: Int16Array.of(1),
    fromMs: 0,
    toMs: 1_000,
    evaluations: 3,
    stepTokenBudget: 2_048,
    seed: 1,
  });
  assert.deepEqual([found.given.attainment, found.found.attainment, found.nodeOf[0], found.kept], [0, 1, 0, 1]);
});
