import assert from "node:assert/strict";
import { test } from "node:test";
import { countTokens } from "../readable-words.ts";
import { seededRandom } from "../seeded-random.ts";
import type { PlannedCall, WorkloadOptions } from "./workload.ts";
import { planCalls, promptText } from "./workload.ts";

const rows = [
  { atMs: 0, promptTokens: 100, outputTokens: 10 },
  { atMs: 300, promptTokens: 5000, outputTokens: 0 },
  { atMs: 1000, promptTokens: 200, outputTokens: 900 },
];
const shares = [
  { policy: "a", share: 0.75 },
  { policy: "b", share: 0.25 },
];

function take(count: number, options: Partial<WorkloadOptions> = {}): PlannedCall[] {
  const calls = planCalls({ rows, shares, rate: 1, seed: 1, ...options });
  return Array.from({ length: count }, () => calls.next().value);
}

test("calls come at the trace's times divided by the rate, and again from the start one mean gap after its end", () => {
  assert.deepEqual(
    take(5, { rate: 2 }).map(({ atMs }) => atMs),
    [0, 150, 500, 750, 900],
  );
});

test("the same seed gives the same calls, another seed others", () => {
  assert.deepEqual(take(50), take(50));
  assert.notDeepEqual(take(50), take(50, { seed: 2 }));
});

test("policies come in their shares and half of the calls stream", () => {
  const calls = take(4000);
  const share = (isIn: (call: PlannedCall) => boolean) => calls.filter(isIn).length / calls.length;
  assert.ok(Math.abs(share(({ policy }) => policy === "a") - 0.75) < 0.03);
  assert.ok(Math.abs(share(({ isStream }) => isStream) - 0.5) < 0.03);
});

test("lengths are cut to what the model takes, and every call asks for a token at least", () => {
  const calls = take(3, { maxPromptTokens: 150, maxOutputTokens: 400 });
  assert.deepEqual(
    calls.map(({ promptTokens, outputTokens }) => [promptTokens, outputTokens]),
    [
      [100, 10],
      [150, 1],
      [150, 400],
    ],
  );
});

test("a prompt has the tokens that the trace says, or a word more", () => {
  for (const tokens of [1, 17, 900]) {
    const counted = countTokens(promptText(tokens, seededRandom(3)));
    assert.ok(counted >= tokens && counted <= tokens + 4, `${counted} for ${tokens}`);
  }
});
