import assert from "node:assert/strict";
import { test } from "node:test";
import { ENDPOINTS } from "@zml/engine";
import { RecordedCharges } from "./recorded-charges.ts";

const CHAT = ENDPOINTS.indexOf("chat_completions");

/** An attempt of 100 tokens on a node of 3.60 USD an hour, charged by so many tokens/s. */
function attempt(node: number, sentMs: number, tokensPerSecond: number) {
  const tokens = { estimatedTokens: 50, outputTokens: 100 };
  const usd = (3.6 * 100) / tokensPerSecond / 3_600;
  return { node, model: 0, endpoint: CHAT, outcome: "success", sentMs, ...tokens, priceUsdPerHour: 3.6, usd };
}

function near(a: number | undefined, b: number): void {
  assert.ok(a !== undefined && Math.abs(a / b - 1) < 1e-9, `${a} and ${b}`);
}

test("nodes that are asked for together are charged by what they were on the whole, whoever had the load", () => {
  const charges = new RecordedCharges(600);
  for (let index = 0; index < 120; index++)
    charges.note(attempt(index % 4 === 0 ? 1 : 0, index, index % 4 === 0 ? 500 : 4_000));
  const speeds = charges.of([0, 1], 0);
  assert.equal(speeds.length, 1);
  near(speeds[0]?.tokensPerSecond, 1 / (0.25 / 500 + 0.75 / 4_000));
  near(charges.of([0], 0)[0]?.tokensPerSecond, 4_000);
  near(charges.of([1], 0)[0]?.tokensPerSecond, 500);
});

test("a capacity that changed in the window holds from then on; the time before it counts where it has nothing", () => {
  const charges = new RecordedCharges(600);
  for (let index = -50; index < 400; index++)
    charges.note(attempt(0, index, index < 0 ? 100 : index < 200 ? 1_000 : 2_000));
  const speeds = charges.of([0], 0);
  assert.deepEqual(
    speeds.map(({ atMs }) => atMs),
    [0, 100, 200, 300],
  );
  near(speeds[0]?.tokensPerSecond, 1_000);
  near(speeds[3]?.tokensPerSecond, 2_000);
  const before = new RecordedCharges(600);
  for (let index = -500; index < 0; index++) before.note(attempt(0, index, index < -100 ? 1_000 : 3_000));
  near(before.of([0], 0)[0]?.tokensPerSecond, 3_000);
});

test("what was charged nothing, failed or has no price tells no capacity", () => {
  const charges = new RecordedCharges(600);
  charges.note({ ...attempt(0, 0, 1_000), outcome: "failure" });
  charges.note({ ...attempt(0, 0, 1_000), usd: 0 });
  charges.note({ ...attempt(0, 0, 1_000), usd: Number.NaN });
  charges.note({ ...attempt(0, 0, 1_000), priceUsdPerHour: 0 });
  charges.note({ ...attempt(0, 0, 1_000), outputTokens: Number.NaN });
  assert.deepEqual(charges.of([0], 0), []);
  assert.deepEqual(charges.of([7], 3), []);
  charges.note({ ...attempt(0, 0, 1_000), endpoint: ENDPOINTS.indexOf("embeddings"), outputTokens: Number.NaN });
  near(charges.of([0], 0)[0]?.tokensPerSecond, 500);
});
