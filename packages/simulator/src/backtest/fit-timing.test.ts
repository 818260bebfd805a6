import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "../seeded-random.ts";
import { VirtualNode } from "../virtual/virtual-node.ts";
import type { NodeAttempts, RecordedAttempt } from "./attempts.ts";
import { fitTimings } from "./fit-timing.ts";
import { lessonsOf } from "./lessons.ts";

const CONSTANTS = {
  baseMs: 6,
  usPerSequence: 400,
  nsPerCachedToken: 0,
  usPerPrefillToken: 20,
  nsPerSquaredPrefillToken: 0,
  kvCapacityTokens: 1e6,
};

const SPAN = { fromMs: 0, toMs: Number.POSITIVE_INFINITY };

/** What a node of these constants makes of 600 requests, 8 at a time or so, as two accounts record it. */
function recorded(promptTokensMost = 400): RecordedAttempt[][] {
  const random = seededRandom(3);
  const asked = Array.from({ length: 600 }, (_, index) => ({
    sentAtMs: index * 50 + random() * 30,
    promptTokens: 100 + Math.floor(random() * (promptTokensMost - 100)),
    outputTokens: 20 + Math.floor(random() * 60),
    firstAtMs: 0,
    endMs: 0,
  }));
  type Asked = (typeof asked)[number];
  const node = new VirtualNode({
    constants: CONSTANTS,
    maxSequences: 256,
    stepTokenBudget: 2_048,
    onFirstToken: (id, atMs) => {
      (asked[id] as Asked).firstAtMs = atMs;
    },
    onFinished: (id, atMs) => {
      (asked[id] as Asked).endMs = atMs;
    },
  });
  asked.forEach(({ sentAtMs, promptTokens, outputTokens }, id) => {
    node.enqueue({ id, promptTokens, outputTokens, blocks: null }, sentAtMs);
  });
  node.advance(Number.MAX_VALUE);
  const accounts: RecordedAttempt[][] = [[], []];
  for (const [index, { sentAtMs, firstAtMs, endMs, ...tokens }] of asked.entries()) {
    const attempt = { ...tokens, sentAtMs, firstTokenMs: firstAtMs - sentAtMs, durationMs: endMs - sentAtMs };
    accounts[index % 2]?.push(attempt);
  }
  return accounts;
}

function group(model: number, attempts: readonly RecordedAttempt[], more: Partial<NodeAttempts> = {}): NodeAttempts {
  return { node: 0, model, kin: 0, family: 0, concurrencyLimit: 256, kvCapacityTokens: 1e6, attempts, ...more };
}

test("a node that two accounts share is fitted on the load that both made", () => {
  const [one = [], other = []] = recorded();
  const { timings, slowness } = fitTimings([group(0, one), group(1, other)], SPAN);
  assert.deepEqual(
    timings.map(({ model, samples }) => [model, samples]),
    [
      [0, 600],
      [1, 600],
    ],
  );
  for (const { constants, tokenError } of timings) {
    assert.ok(Math.abs(constants.usPerSequence - 400) < 60, `${constants.usPerSequence} µs a sequence`);
    assert.ok(Math.abs(constants.baseMs - 6) < 1, `${constants.baseMs} ms a step`);
    assert.ok(tokenError < 0.05, `off by ${tokenError}`);
  }
  assert.equal(slowness.size, 0);
  const lessons = lessonsOf([group(0, one), group(1, other)], 0);
  assert.deepEqual(
    [0, 1].map((model) => lessons.filter((lesson) => lesson.model === model).length),
    [300, 300],
  );
  const alone = lessonsOf([group(0, one)], 0);
  const depth = (of: typeof lessons) => of.reduce((sum, { meanDepth }) => sum + meanDepth, 0) / of.length;
  assert.ok(depth(lessons) > 1.5 * depth(alone), "each had the other's company");
});

test("what nobody recorded takes as long as a whole timing that was, not as a mix of the least of each", () => {
  const base = recorded().flat();
  const scaled = (by: number) => base.map((one) => ({ ...one, durationMs: one.durationMs * by }));
  const groups = [1, 1.2, 1.5].map((by, node) => group(0, scaled(by), { node, family: node }));
  const { timings } = fitTimings([...groups, group(0, [], { node: 3, family: 3 })], SPAN);
  const { constants, samples } = timings[3] ?? assert.fail("no timing");
  assert.equal(samples, 0);
  assert.ok(
    timings.slice(0, 3).some((measured) => measured.constants === constants),
    "it is one of those that were fitted",
  );
});

test("a few answers that came in one burst don't make the steps of all others nothing", () => {
  const attempts = recorded()
    .flat()
    .sort((a, b) => a.sentAtMs - b.sentAtMs)
    .map((one, index) => (index % 40 === 0 ? { ...one, durationMs: one.firstTokenMs + 0.2 } : one));
  const { timings } = fitTimings([group(0, attempts)], SPAN);
  assert.ok((timings[0]?.tokenError ?? 1) < 0.2, `off by ${timings[0]?.tokenError}`);
});

test("what a prompt takes is found beside what lies around it, and how first tokens spread is kept", () => {
  const late = (index: number) => 4 + (index % 5) * 5;
  const attempts = recorded(2_000)
    .flat()
    .sort((a, b) => a.sentAtMs - b.sentAtMs)
    .map((one, index) => ({
      ...one,
      firstTokenMs: one.firstTokenMs + late(index),
      durationMs: one.durationMs + late(index),
    }));
  const { timings } = fitTimings([group(0, attempts)], SPAN);
  const { constants, overheadMs, firstLateMs = [] } = timings[0] ?? assert.fail("no timing");
  assert.ok(Math.abs(constants.usPerPrefillToken - 20) < 2, `${constants.usPerPrefillToken} µs a prompt token`);
  assert.ok(Math.abs(overheadMs - 14) < 4, `${overheadMs} ms beside the steps`);
  const spread = (firstLateMs.at(-6) as number) - (firstLateMs[5] as number);
  assert.ok(spread > 16 && spread < 30, `first tokens of 4 to 24 ms more spread over ${spread} ms`);
});

test("of a family whose answers came whole, prompts are taken to be as on the others, in parts of its own step", () => {
  const [streams = [], whole = []] = recorded();
  const few = whole.slice(0, 40).map((one) => ({ ...one, firstTokenMs: Number.NaN }));
  const { timings } = fitTimings([group(0, few, { node: 1, family: 1 }), group(0, streams)], SPAN);
  const [first, second] = [0, 1].map((family) => timings.find((one) => one.family === family)?.constants);
  assert.ok(first !== undefined && second !== undefined);
  const share = (of: typeof first) => of.usPerPrefillToken / of.baseMs;
  assert.ok(Math.abs(share(second) / share(first) - 1) < 1e-6, `${share(first)} and ${share(second)}`);
});

test("a replay is taught what was known as its window began, with what had been predicted; else all there is", () => {
  const attempts = recorded()
    .flat()
    .sort((a, b) => a.sentAtMs - b.sentAtMs)
    .map((attempt) => ({ ...attempt, predictedFirstMs: 30, predictedTokenMs: 7 }));
  const lessons = lessonsOf([group(0, attempts)], 15_000);
  assert.ok(lessons.length > 200 && lessons.length < 310, `${lessons.length} lessons of half of the time`);
  assert.ok(
    lessons.every(({ atMs }) => atMs <= 15_000),
    "nothing of the window itself",
  );
  assert.ok(
    lessons.every(({ predictedFirstMs, predictedTokenMs }) => predictedFirstMs === 30 && predictedTokenMs === 7),
  );
  assert.ok(
    lessons.every(({ depth, aheadTokens }) => depth > 0 || aheadTokens === 0),
    "nothing waits on an empty node",
  );
  assert.equal(lessonsOf([group(0, attempts)], -1).length, 600);
});
