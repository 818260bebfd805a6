import assert from "node:assert/strict";
import { it } from "node:test";
import type { FleetPlan } from "./fleet-plan.ts";
import { predictionsOf } from "./prediction-report.ts";
import { createRecords, SERVED } from "./records.ts";
import type { Workload } from "./workload.ts";

const plan = { families: ["A", "B"], nodes: [{ family: 0 }, { family: 1 }] } as unknown as FleetPlan;

/** Answers of 21 tokens: first token 100 ms, 10 ms per further token. */
function recordsOf(count: number, predictedTokenMs: (request: number) => number, promisedTokenMs = 12) {
  const records = createRecords(count);
  for (let request = 0; request < count; request++) {
    records.end[request] = SERVED;
    records.arrivedAtMs[request] = request * 1_000;
    records.node[request] = 0;
    records.ttftMs[request] = 100;
    records.responseMs[request] = 300;
    records.predictedFirstMs[request] = 100;
    records.promisedFirstMs[request] = 90;
    records.predictedTokenMs[request] = predictedTokenMs(request);
    records.promisedTokenMs[request] = promisedTokenMs;
  }
  const workload = { count, outputTokens: new Int32Array(count).fill(21) } as unknown as Workload;
  return { records, workload };
}

it("errors are those of what was predicted, worked out by hand, and a promise is kept from below", () => {
  const { records, workload } = recordsOf(10, (request) => (request < 5 ? 10 : 20));
  const told = predictionsOf(records, { plan, workload, warmUpMs: 0 });
  assert.ok(told?.first_token && told.token_time && told.response);
  assert.deepEqual([told.first_token.median_error, told.first_token.covered], [0, 0], "100 is more than 90");
  assert.equal(told.token_time.covered, 1);
  assert.ok(Math.abs(told.token_time.median_error - Math.log(2)) < 1e-12);
  // 100 + 20 × 20 = 500 against 300
  assert.ok(Math.abs(told.response.p90_error - Math.log(5 / 3)) < 1e-12);
  assert.equal(predictionsOf(records, { plan, workload, warmUpMs: 5_000 })?.token_time?.predictions, 5);
});

it("a family is known from where a hundred predictions are right, and one that was not used never", () => {
  const { records, workload } = recordsOf(400, (request) => (request < 200 ? 20 : 10));
  const learned = predictionsOf(records, { plan, workload, warmUpMs: 0 })?.learned;
  // from 150 on just half of the next hundred are right
  assert.deepEqual(learned, { A: { requests: 175, seconds: 175 }, B: null });
});

it("a run that predicted nothing has no errors", () => {
  const { records, workload } = recordsOf(3, () => Number.NaN);
  records.predictedFirstMs.fill(Number.NaN);
  assert.equal(predictionsOf(records, { plan, workload, warmUpMs: 0 }), null);
});
