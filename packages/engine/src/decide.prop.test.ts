import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decide } from "./decide.ts";
import { createDecision, type Decision, excludedCount } from "./decision.ts";
import { COST_PRIORITIES, ENDPOINTS, EXCLUSIONS, type Exclusion, HINT_USES, REASONS } from "./reasons.ts";
import { noteFailedRow } from "./route-request.ts";
import { buildFleet, type Fleet, type NodeSpec } from "./testing/fleet.ts";
import {
  type ReferenceInput,
  type ReferencePolicy,
  referenceCostUsd,
  referenceDecision,
  referenceDepth,
  referenceEstimateMs,
} from "./testing/reference.ts";

const NOW_MS = 1_600_000;
const FAMILIES = ["A", "B", "C", "D", "E", "F"];

/** A property that most nodes leave at its ordinary value. */
function seldom<T>(arbitrary: fc.Arbitrary<T>, weight = 6): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
}

/** Deadlines around now, as a node may carry them. */
const deadline = fc.constantFrom(NOW_MS - 32_000, NOW_MS, NOW_MS + 16, NOW_MS + 3_200, NOW_MS + 96_000);

// powers of two, so that what is equal on paper is equal in floating point; the odd ones make plain differences
const speed = fc.constantFrom(250, 500, 1000, 2000, 4000, 1700);

const nodeArbitrary: fc.Arbitrary<NodeSpec> = fc
  .record({
    family: fc.constantFrom(...FAMILIES),
    inFlight: seldom(fc.constantFrom(1, 2, 5, 8), 2),
    foreign: seldom(fc.constantFrom(0, 1, 3, 0.5), 2),
    elsewhere: seldom(fc.constantFrom(1, 4)),
    waiting: seldom(fc.constantFrom(0, 1, 4, 5), 2),
    concurrencyLimit: seldom(fc.constantFrom(1, 2, 4), 2),
    maxInFlight: seldom(fc.constantFrom(0, 1, 4, 8), 2),
    priceUsdPerHour: fc.constantFrom(0, 1, 2, 4, 3, Number.NaN, undefined),
    tokensPerSecond: seldom(speed, 1),
    streamTokensPerSecond: seldom(fc.constantFrom(20, 40, 160), 1),
    contextTokens: seldom(fc.constantFrom(140, 600, 1000, 8000), 1),
    readsImages: seldom(fc.boolean(), 1),
    endpoints: seldom(fc.subarray([...ENDPOINTS])),
    drainPerSecond: seldom(fc.constantFrom(0, 0.01, 0.5, 4), 1),
    isDraining: seldom(fc.constant(true)),
    isUnhealthy: seldom(fc.constant(true)),
    goodPolls: seldom(fc.constantFrom(0, 1, 7)),
    cooldownUntilMs: seldom(deadline, 3),
    goodPollsAtFailure: seldom(fc.constantFrom(0, 1), 1),
    isSuspect: seldom(fc.constant(true), 2),
    trialUntilMs: seldom(deadline, 3),
    backoffUntilMs: seldom(deadline),
    slowStartMs: fc.constantFrom(16_000, 32_000),
    warmUntilMs: seldom(
      fc.constantFrom(NOW_MS - 16, NOW_MS, NOW_MS + 160, NOW_MS + 8_000, NOW_MS + 12_000, NOW_MS + 16_000),
    ),
    isOverloaded: seldom(fc.constant(true)),
    misconfiguredUntilMs: seldom(deadline),
    endpointUntilMs: seldom(fc.record({ chat_completions: deadline, rerank: deadline })),
  })
  .map((node) => stripped(node));

/** Every node of a fleet in one state, so that states that take a whole fleet (all cooling) are met often. */
const overlayArbitrary: fc.Arbitrary<Partial<NodeSpec>> = fc
  .oneof(
    { weight: 6, arbitrary: fc.constant({}) },
    { weight: 1, arbitrary: fc.record({ cooldownUntilMs: deadline, goodPollsAtFailure: fc.constantFrom(0, 1) }) },
    { weight: 1, arbitrary: fc.record({ maxInFlight: fc.constantFrom(0, 1, 2) }) },
    { weight: 1, arbitrary: fc.record({ priceUsdPerHour: fc.constantFrom(Number.NaN, 0) }) },
    { weight: 1, arbitrary: fc.record({ isUnhealthy: fc.constant(true) }) },
    { weight: 1, arbitrary: fc.record({ readsImages: fc.constant(false) }) },
    { weight: 1, arbitrary: fc.record({ contextTokens: fc.constantFrom(140, 600, 1000) }) },
    { weight: 1, arbitrary: fc.record({ endpoints: fc.constantFrom([], ["embeddings" as const]) }) },
  )
  .map((overlay) => stripped(overlay));

const chainArbitrary = fc
  .tuple(fc.shuffledSubarray(FAMILIES, { minLength: 1 }), fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }))
  .map(([families, joins]) => {
    const tiers: string[][] = [];
    families.forEach((family, index) => {
      const tier = tiers.at(-1);
      if (tier !== undefined && joins[index] === true) tier.push(family);
      else tiers.push([family]);
    });
    return tiers;
  });

const policyArbitrary: fc.Arbitrary<ReferencePolicy> = fc
  .record({
    chain: chainArbitrary,
    costPriority: fc.constantFrom(...COST_PRIORITIES),
    latencyTargetMs: fc.constantFrom(undefined, 1, 1_600, 6_400, 12_800, 1e6),
    ttftTargetMs: seldom(fc.constantFrom(0, 512, 1e6), 2),
    tokenTargetMs: seldom(fc.constantFrom(6.25, 25, 50), 2),
    acceptableWaiting: seldom(fc.constantFrom(0, 1), 1),
  })
  .map((policy) => stripped(policy));

const caseArbitrary = fc.record({
  nodes: fc.array(nodeArbitrary, { maxLength: 30 }),
  overlay: overlayArbitrary,
  policy: policyArbitrary,
  others: fc.array(policyArbitrary, { minLength: 1, maxLength: 2 }),
  served: fc.array(fc.nat(29), { maxLength: 8 }),
  meanOutputTokens: fc.constantFrom(Number.NaN, 64, 512),
  hint: seldom(fc.constantFrom(...FAMILIES), 1),
  endpoint: fc.constantFrom(...ENDPOINTS),
  isStream: fc.boolean(),
  maxTokens: fc.constantFrom(Number.NaN, 16, 1024),
  answers: fc.constantFrom(1, 1, 2),
  promptTokens: fc.constantFrom(128, 128, 9000),
  promptTokensAtLeast: fc.constantFrom(0, 0, 511, 700, 1024, 5000),
  hasImages: fc.boolean(),
  adapterMissing: seldom(fc.record({ A: fc.nat(2), C: fc.nat(2) }), 2),
  failed: fc.array(fc.nat(29), { maxLength: 4 }),
  contextAboveTokens: fc.constantFrom(Number.NaN, Number.NaN, 1000, Number.POSITIVE_INFINITY),
  heads: seldom(fc.array(fc.record({ policy: fc.nat(2), isOther: fc.boolean(), hasTried: fc.boolean() })), 3),
  ticketAfter: fc.nat(3),
  draw: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
});

type Case = typeof caseArbitrary extends fc.Arbitrary<infer T> ? T : never;

/** Builds the same situation twice: as a fleet for the engine, and as plain objects for the reference. */
function setUp(given: Case) {
  const nodes = given.nodes.map((node) => ({ ...node, ...given.overlay }));
  const served = [...new Set(given.served.filter((row) => row < nodes.length))];
  const policies = [given.policy, ...given.others];
  const fleet = buildFleet({
    nodes,
    families: FAMILIES,
    policies: policies.map((policy, index) => ({ ...policy, name: `p${index}` })),
    models: [
      { name: "m", meanOutputTokens: given.meanOutputTokens, adapterMissing: given.adapterMissing ?? {} },
      { name: "other", nodes: served },
    ],
    workers: 3,
  });
  const request = fleet.request({
    policy: "p0",
    hint: given.hint ?? null,
    endpoint: given.endpoint,
    isStream: given.isStream,
    promptTokens: given.promptTokens,
    maxTokens: given.maxTokens,
    answers: given.answers,
    promptTokensAtLeast: given.promptTokensAtLeast,
    hasImages: given.hasImages,
  });
  for (const row of given.failed) if (row < nodes.length) noteFailedRow(request, row);
  request.contextAboveTokens = given.contextAboveTokens;
  const heads: ReferenceInput["heads"][number][] = [];
  (given.heads ?? []).forEach((head, index) => {
    const policy = policies[head.policy % policies.length];
    if (policy === undefined || heads.length === 3) return;
    // each head in a worker of its own: one worker has one head a queue
    const ticket = fleet.park({
      model: head.isOther ? "other" : "m",
      policy: `p${head.policy % policies.length}`,
      worker: index,
      hasTried: head.hasTried,
    });
    heads.push({ policy, rows: head.isOther ? served : nodes.map((_, row) => row), ticket, hasTried: head.hasTried });
  });
  // 0: it never parked; otherwise it came after so many heads
  if (given.ticketAfter > 0) request.ticket = given.ticketAfter;
  const input: ReferenceInput = {
    nodes,
    policy: given.policy,
    request: {
      hint: given.hint ?? null,
      endpoint: given.endpoint,
      isStream: given.isStream,
      promptTokens: given.promptTokens,
      maxTokens: given.maxTokens,
      answers: given.answers,
      promptTokensAtLeast: given.promptTokensAtLeast,
      hasImages: given.hasImages,
      failedRows: given.failed.filter((row) => row < nodes.length),
      contextAboveTokens: given.contextAboveTokens,
      ticket: request.ticket,
    },
    meanOutputTokens: given.meanOutputTokens,
    adapterMissing: given.adapterMissing ?? {},
    heads,
    parked: (given.heads ?? []).slice(0, heads.length).filter((head) => !head.isOther).length,
    nowMs: NOW_MS,
  };
  return { fleet, request, input };
}

test("a decision is the one that the rules, applied slowly, allow", () => {
  fc.assert(
    fc.property(caseArbitrary, (given) => {
      const { fleet, request, input } = setUp(given);
      const decision = createDecision();
      const booking = decide(fleet.decider(1), request, NOW_MS, given.draw, decision);
      const expected = referenceDecision(input);
      assert.equal(decision.kind, expected.kind);
      assert.deepEqual(exclusionsOf(fleet, decision), expected.excluded);
      assert.equal(decision.outsideChain, expected.outsideChain);
      if (expected.kind !== "chosen") {
        assert.equal(booking, null);
        assert.equal(REASONS[decision.reason], expected.reason);
        assert.equal(HINT_USES[decision.hint], expected.hint);
        const lacking = EXCLUSIONS[decision.lacking];
        if (expected.kind === "incapable") assert.ok(lacking !== undefined && expected.lacking.includes(lacking));
        else assert.equal(lacking, undefined);
        near(decision.retryAfterMs, expected.retryAfterMs);
        assert.equal(decision.row, -1);
        return;
      }
      const chosen = {
        reason: REASONS[decision.reason],
        hint: HINT_USES[decision.hint],
        arePricesUnknown: decision.arePricesUnknown,
      };
      const isAllowed = expected.choices.some(
        ({ rows, ...choice }) =>
          rows.includes(decision.row) &&
          choice.reason === chosen.reason &&
          choice.hint === chosen.hint &&
          choice.arePricesUnknown === chosen.arePricesUnknown,
      );
      assert.ok(
        isAllowed,
        `${JSON.stringify({ ...chosen, row: decision.row })} is none of ${JSON.stringify(expected)}`,
      );
      const node = input.nodes[decision.row];
      assert.ok(node !== undefined && booking !== null);
      assert.equal(decision.depth, referenceDepth(node));
      near(decision.estimateMs, referenceEstimateMs(input, node, decision.depth));
      near(decision.costUsd, given.policy.costPriority === "latency" ? Number.NaN : referenceCostUsd(input, node));
      assert.equal(fleet.table.total.inFlight[decision.row], (node.inFlight ?? 0) + 1);
    }),
    { numRuns: RUNS },
  );
});

test("a decision depends on its arguments and the table alone", () => {
  fc.assert(
    fc.property(caseArbitrary, (given) => {
      const [one, two] = [setUp(given), setUp(given)].map(({ fleet, request }) => {
        const decision = createDecision();
        decide(fleet.decider(0), request, NOW_MS, given.draw, decision);
        return decision;
      });
      assert.deepEqual(one, two);
    }),
    { numRuns: RUNS / 4 },
  );
});

test("a decision object can be used again: nothing of the last decision stays in it", () => {
  fc.assert(
    fc.property(caseArbitrary, caseArbitrary, (before, given) => {
      const used = createDecision();
      const old = setUp(before);
      decide(old.fleet.decider(0), old.request, NOW_MS, before.draw, used);
      const again = setUp(given);
      decide(again.fleet.decider(0), again.request, NOW_MS, given.draw, used);
      const fresh = createDecision();
      const first = setUp(given);
      decide(first.fleet.decider(0), first.request, NOW_MS, given.draw, fresh);
      assert.deepEqual(visible(used), visible(fresh));
    }),
    { numRuns: RUNS / 4 },
  );
});

const RUNS = 2000;

/** What a reader of a decision may look at: columns up to the families in use, candidates up to their count. */
function visible(decision: Decision) {
  const { evidence, candidates, ...rest } = decision;
  const columns = Object.entries(evidence).map(([name, cells]) => {
    return [name, [...cells.slice(0, name === "excluded" ? rest.families * EXCLUSIONS.length : rest.families)]];
  });
  const ranks = [...candidates.rank.slice(0, candidates.count)];
  return { ...rest, candidates: [...candidates.index.slice(0, candidates.count)], ranks, columns };
}

function exclusionsOf(fleet: Fleet, decision: Decision): Record<string, Partial<Record<Exclusion, number>>> {
  const found: Record<string, Partial<Record<Exclusion, number>>> = {};
  for (let position = 0; position < decision.families; position++) {
    const counts: Partial<Record<Exclusion, number>> = {};
    EXCLUSIONS.forEach((exclusion, index) => {
      const count = excludedCount(decision, position, index);
      if (count > 0) counts[exclusion] = count;
    });
    found[fleet.directory.families[decision.evidence.family[position] ?? -1] ?? ""] = counts;
  }
  return found;
}

function near(actual: number, expected: number): void {
  if (Number.isNaN(expected)) assert.ok(Number.isNaN(actual), `${actual} is not NaN`);
  else assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.max(1, Math.abs(expected)), `${actual} is not ${expected}`);
}

function stripped<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
