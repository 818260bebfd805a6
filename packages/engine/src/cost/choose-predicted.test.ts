import assert from "node:assert/strict";
import { test } from "node:test";
import { PLACEMENTS_PER_NODE } from "../bounds.ts";
import { decide } from "../decide.ts";
import { createDecision, type Decision } from "../decision.ts";
import type { Booking } from "../dispatch/booking.ts";
import { createRetryBudget } from "../failover/retry-budget.ts";
import { HINT_USES, REASONS } from "../reasons.ts";
import { settle } from "../settle.ts";
import { attemptOf, buildFleet, type Fleet, type FleetSpec, type NodeSpec, type PolicySpec } from "../testing/fleet.ts";

/** Step of an idle node, ms; each request adds a hundredth of it, and prompts cost 0.02 ms a token. */
interface Speed {
  stepMs: number;
  kvCapacityTokens?: number;
  error?: number;
  samples?: number;
}

const OUTPUT = 100;
const PROMPT = 1_000;
const TARGETS: PolicySpec = { ttftTargetMs: 500, tokenTargetMs: 25 };

function fleetOf(nodes: readonly (NodeSpec & Speed)[], policies: readonly PolicySpec[], rest: Partial<FleetSpec> = {}) {
  const fleet = buildFleet({
    nodes,
    policies: policies.map((policy, index) => ({
      name: `p${index}`,
      chain: [[...new Set(nodes.map(({ family }) => family))]],
      estimator: "predictive" as const,
      ...policy,
    })),
    models: [{ meanOutputTokens: OUTPUT, policy: "p0" }],
    ...rest,
  });
  nodes.forEach(({ stepMs, kvCapacityTokens = 1e6, error = 0.1, samples = 1_000 }, row) => {
    const { table } = fleet;
    const placement = row * PLACEMENTS_PER_NODE;
    table.stepBaseMs[placement] = stepMs;
    table.stepPerRequestMs[placement] = stepMs / 100;
    table.stepPerKvTokenMs[placement] = 0;
    table.stepPerPromptTokenMs[placement] = 0.001;
    table.firstBaseMs[placement] = 15;
    table.firstPerTokenMs[placement] = 0.02;
    table.firstPerAheadMs[placement] = 0.02;
    table.firstSpread[placement] = 1.2;
    table.tokenSpread[placement] = 1.2;
    table.kvCapacityTokens[placement] = kvCapacityTokens;
    table.predictionError[placement] = error;
    table.predictorSamples[placement] = samples;
    table.meanPromptTokens[0] = PROMPT;
  });
  return fleet;
}

/** Decides for one request, which stays. */
function send(
  fleet: Fleet,
  policy = "p0",
  draw = 0.5,
  decision: Decision = createDecision(),
  hint: string | null = null,
) {
  const request = fleet.request({ policy, promptTokens: PROMPT, isStream: true, hint });
  const booking = decide(fleet.decider(), request, 1_000, draw, decision);
  assert.ok(booking !== null);
  return { booking, decision, request, reason: REASONS[decision.reason] };
}

function fill(fleet: Fleet, row: number, count: number, tokenTargetMs: number): void {
  // streams whose first token has come
  const { table } = fleet;
  const before = table.isDraining.slice();
  for (let other = 0; other < table.nodeRows; other++) table.isDraining[other] = other === row ? 0 : 1;
  const name = `p${[25, 60, 200].indexOf(tokenTargetMs)}`;
  for (let sent = 0; sent < count; sent++) {
    const { booking } = send(fleet, name);
    table.total.prefilling[row] = 0;
    table.total.promptTokens[row] = 0;
    booking.phase = "decode";
  }
  table.isDraining.set(before);
}

const CLASSES = [25, 60, 200].map((tokenTargetMs) => ({ ttftTargetMs: 5_000, tokenTargetMs }));

test("cost: a warm node that has room is taken before an idle one that costs the same", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10 },
      { family: "A", stepMs: 10 },
    ],
    [{ ...TARGETS, costPriority: "cost" }],
  );
  const first = send(fleet).booking.row;
  for (let sent = 0; sent < 20; sent++) {
    fleet.table.total.promptTokens[first] = 0;
    assert.equal(send(fleet, "p0", sent / 20).booking.row, first);
  }
});

test("cost: a node is filled while all meet their targets with the stated probability, and not beyond", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10 },
      { family: "A", stepMs: 10, priceUsdPerHour: 3 },
    ],
    CLASSES.map((targets) => ({ ...targets, costPriority: "cost" as const })),
  );
  let sent = 0;
  while (send(fleet).booking.row === 0 && sent < 300) {
    fleet.table.total.promptTokens[0] = 0;
    sent += 1;
  }
  // 10 ms and 0.1 ms for each, times 1.2, is 25 ms at 108 requests; prompts beside them take some of it
  assert.ok(sent > 40 && sent < 108, `${sent}`);
});

test("residents are spared: a loose request goes past a node whose tight ones it would make late", () => {
  const nodes = [
    { family: "A", stepMs: 10, priceUsdPerHour: 1 },
    { family: "B", stepMs: 20, priceUsdPerHour: 4 },
  ];
  const fleet = fleetOf(
    nodes,
    CLASSES.map((targets) => ({ ...targets, costPriority: "cost" as const })),
  );
  let tight = 0;
  // as many tight ones as the node takes
  while (send(fleet).booking.row === 0) {
    fleet.table.total.promptTokens[0] = 0;
    tight += 1;
  }
  assert.equal(send(fleet, "p2").booking.row, 1, `behind ${tight} tight ones`);
  const loose = fleetOf(
    nodes,
    CLASSES.map((targets) => ({ ...targets, costPriority: "cost" as const })),
  );
  fill(loose, 0, tight, 200);
  assert.equal(send(loose, "p2").booking.row, 0, "behind as many loose ones it stays");
});

test("a tight request keeps off a node full of loose ones, which would have to leave, while another takes it", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10 },
      { family: "A", stepMs: 10 },
    ],
    CLASSES.map((targets) => ({ ...targets, costPriority: "cost" as const })),
  );
  fill(fleet, 0, 50, 200);
  fill(fleet, 1, 5, 25);
  assert.equal(send(fleet, "p0").booking.row, 1);
});

test("a prompt that does not fit the node's memory goes to one that holds it", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10, kvCapacityTokens: 900 },
      { family: "B", stepMs: 12, priceUsdPerHour: 5 },
    ],
    [{ ...TARGETS, costPriority: "cost" }],
  );
  assert.equal(send(fleet).booking.row, 1);
});

test("cost: the cheapest family comes first, then the chain in its order, not the next cheapest", () => {
  const nodes = [
    { family: "A", stepMs: 10, priceUsdPerHour: 5 },
    { family: "B", stepMs: 10, priceUsdPerHour: 3 },
    { family: "C", stepMs: 10, priceUsdPerHour: 1 },
  ];
  const policy: PolicySpec = { ...TARGETS, costPriority: "cost", chain: [["A"], ["B"], ["C"]] };
  const fleet = fleetOf(nodes, [policy]);
  const cheap = send(fleet);
  assert.deepEqual([cheap.booking.row, cheap.reason], [2, "cheapest"]);
  const slow = fleetOf(
    [nodes[0] as (typeof nodes)[0], nodes[1] as (typeof nodes)[0], { family: "C", stepMs: 24, priceUsdPerHour: 1 }],
    [policy],
  );
  const next = send(slow);
  assert.deepEqual([next.booking.row, next.reason], [0, "next_in_chain"]);
});

test("latency: the first tier with a node that meets the targets, and in it the quickest", () => {
  const nodes = [
    { family: "A", stepMs: 24 },
    { family: "B", stepMs: 14 },
    { family: "B", stepMs: 12 },
    { family: "C", stepMs: 5 },
  ];
  const fleet = fleetOf(nodes, [{ ...TARGETS, costPriority: "latency", chain: [["A"], ["B"], ["C"]] }]);
  const { booking, reason, decision } = send(fleet);
  assert.deepEqual([booking.row, reason], [2, "first_acceptable"]);
  assert.ok(Number.isNaN(decision.costUsd));
});

test("balanced: money and time are weighed, so that a little dearer and much quicker wins", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 20, priceUsdPerHour: 1 },
      { family: "B", stepMs: 6, priceUsdPerHour: 3.4 },
    ],
    [{ ttftTargetMs: 500, tokenTargetMs: 25, costPriority: "balanced" }],
  );
  assert.deepEqual([send(fleet).booking.row, send(fleet).reason], [1, "best_balance"]);
});

test("balanced: time counts against a loose target too, by how much quicker the quickest is", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 20, priceUsdPerHour: 1 },
      { family: "B", stepMs: 6, priceUsdPerHour: 3.35 },
    ],
    [{ ttftTargetMs: 30_000, tokenTargetMs: 200, costPriority: "balanced" }],
  );
  assert.deepEqual([send(fleet).booking.row, send(fleet).reason], [1, "best_balance"]);
});

test("where nobody meets the target the request goes where it harms fewest, and says so", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 20 },
      { family: "A", stepMs: 30 },
    ],
    [
      { ttftTargetMs: 500, tokenTargetMs: 25, costPriority: "cost" },
      { ttftTargetMs: 5_000, tokenTargetMs: 60, costPriority: "cost" },
    ],
  );
  const { table } = fleet;
  // whoever is on the quicker node is within a hair of the target
  table.total.inFlight[0] = 30;
  table.total.class3[0] = 30;
  table.classTargetUs[0 * 8 + 3] = 26_000;
  table.tightestUs[0] = 26_000;
  const { booking, reason, decision } = send(fleet);
  assert.deepEqual([booking.row, reason], [1, "target_missed"]);
  assert.ok(decision.chance < 0.2);
});

test("who is lost at its booking binds nobody: the node's promise stays that of the others", () => {
  const fleet = fleetOf(
    [{ family: "A", stepMs: 60 }],
    [
      { ...TARGETS, costPriority: "cost" },
      { ttftTargetMs: 5_000, tokenTargetMs: 100 },
    ],
  );
  send(fleet);
  assert.equal(fleet.table.tightestUs[0], 0);
  send(fleet, "p1");
  assert.equal(fleet.table.tightestUs[0], 100_000);
});

test("promises end with their bookings", () => {
  const fleet = fleetOf(
    [{ family: "A", stepMs: 5 }],
    CLASSES.map((targets) => ({ ...targets })),
  );
  const settler = {
    table: fleet.table,
    worker: 0,
    limits: { maxAttempts: 3, windowMs: 1 },
    budget: createRetryBudget(0.2, 1),
  };
  const sent = ["p1", "p0", "p2"].map((policy) => send(fleet, policy));
  assert.equal(fleet.table.tightestUs[0], 25_000);
  const tightest: number[] = [];
  for (const one of [sent[1], sent[0], sent[2]] as typeof sent) {
    settle(
      settler,
      one.request,
      attemptOf(one.booking as Booking, one.decision, { sentAtMs: 1_000 }),
      { kind: "answer", status: 200, verdict: null, retryAfterMs: Number.NaN },
      2_000,
    );
    tightest.push(fleet.table.tightestUs[0] as number);
  }
  assert.deepEqual(tightest, [60_000, 200_000, 0]);
});

test("a burst spreads as it is booked: nobody waits for all the prompts of the others", () => {
  const fleet = fleetOf(
    Array.from({ length: 4 }, () => ({ family: "A", stepMs: 10 })),
    [{ ttftTargetMs: 200, tokenTargetMs: 25, costPriority: "cost" }],
  );
  const taken = [0, 0, 0, 0];
  for (let sent = 0; sent < 20; sent++) {
    const { row } = send(fleet, "p0", sent / 20).booking;
    taken[row] = (taken[row] as number) + 1;
  }
  // 20 ms for each prompt: 8 fit into 200 ms with a spread of 1.2 and what else a first token takes
  assert.ok(Math.max(...taken) <= 8, taken.join());
});

test("predictions that are off by more than a factor of two choose nothing: the least loaded node for its speed does", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10, error: 1, inFlight: 9 },
      { family: "A", stepMs: 30, error: 1, inFlight: 1 },
    ],
    [{ ...TARGETS, costPriority: "cost" }],
  );
  const { booking, reason, decision } = send(fleet);
  assert.deepEqual([booking.row, reason], [1, "least_loaded"]);
  assert.ok(
    decision.firstMs > 0 && booking.start.tokenMs > 0,
    "it is predicted all the same, so that the error can fall",
  );
});

test("a family that nobody has measured gets one request in a hundred, and one at a time", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10 },
      { family: "B", stepMs: 24.9, samples: 0 },
    ],
    [{ ...TARGETS, costPriority: "latency" }],
  );
  const explored = (): number => {
    let count = 0;
    for (let draw = 0; draw < 1_000; draw++) {
      const before = fleet.table.total.inFlight[0];
      if (send(fleet, "p0", draw / 1_000).booking.row === 1) count += 1;
      fleet.table.total.inFlight[0] = before as number;
      fleet.table.total.promptTokens[0] = 0;
      fleet.table.total.kvTokens[0] = 0;
    }
    return count;
  };
  assert.equal(explored(), 1);
});

test("before any family has been measured nothing is explored: the first requests go where the policy says", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10, priceUsdPerHour: 1, samples: 0 },
      { family: "B", stepMs: 10, priceUsdPerHour: 9, samples: 31 },
    ],
    [{ ...TARGETS, costPriority: "cost" }],
  );
  for (let draw = 0; draw < 1_000; draw++) {
    assert.equal(send(fleet, "p0", draw / 1_000).booking.row, 0);
    fleet.table.total.inFlight[0] = 0;
    fleet.table.total.promptTokens[0] = 0;
    fleet.table.total.kvTokens[0] = 0;
  }
});

test("a hinted family that meets the targets is taken, and one that does not is not", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10, priceUsdPerHour: 1 },
      { family: "B", stepMs: 10, priceUsdPerHour: 9 },
      { family: "C", stepMs: 40, priceUsdPerHour: 1 },
    ],
    [{ ...TARGETS, costPriority: "cost" }],
  );
  const hinted = send(fleet, "p0", 0.5, createDecision(), "B");
  assert.deepEqual([hinted.booking.row, hinted.reason, HINT_USES[hinted.decision.hint]], [1, "hinted", "used"]);
  const unused = send(fleet, "p0", 0.5, createDecision(), "C");
  assert.deepEqual([unused.booking.row, HINT_USES[unused.decision.hint]], [0, "unused"]);
});

test("a hinted family is taken where predictions are not trusted, the least loaded of its nodes", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10, error: 1 },
      { family: "B", stepMs: 30, error: 1, inFlight: 4 },
      { family: "B", stepMs: 30, error: 1, inFlight: 2 },
    ],
    [{ ...TARGETS, costPriority: "cost" }],
  );
  const { booking, reason, decision } = send(fleet, "p0", 0.5, createDecision(), "B");
  assert.deepEqual([booking.row, reason, HINT_USES[decision.hint]], [2, "hinted", "used"]);
  fleet.table.isDraining.fill(1, 1);
  const without = send(fleet, "p0", 0.5, createDecision(), "B");
  assert.deepEqual(
    [without.booking.row, without.reason, HINT_USES[without.decision.hint]],
    [0, "least_loaded", "unused"],
    "a family without a candidate is not waited for",
  );
});

test("a request with a hint that can be followed is not sent to explore, and nothing explores an overloaded node", () => {
  const reasonsOf = (hint: string | null, isOverloaded: boolean) => {
    const fleet = fleetOf(
      [
        { family: "A", stepMs: 10 },
        { family: "B", stepMs: 24, samples: 0 },
      ],
      [{ ...TARGETS, costPriority: "latency" }],
    );
    const { overloadedAtPoll, goodPolls } = fleet.table;
    if (isOverloaded) overloadedAtPoll[1] = (goodPolls[1] as number) + 1;
    const reasons = new Set<string | undefined>();
    for (let draw = 0; draw < 1_000; draw++) {
      reasons.add(send(fleet, "p0", draw / 1_000, createDecision(), hint).reason);
      fleet.table.total.inFlight.fill(0);
      fleet.table.total.promptTokens.fill(0);
      fleet.table.total.kvTokens.fill(0);
    }
    return reasons;
  };
  assert.ok(reasonsOf(null, false).has("exploring"));
  assert.deepEqual(reasonsOf("A", false), new Set(["hinted"]));
  assert.ok(!reasonsOf(null, true).has("exploring"));
});

test("an unknown price stands for the highest known one, and a fleet without prices is chosen by time", () => {
  const nodes = [
    { family: "A", stepMs: 10, priceUsdPerHour: Number.NaN },
    { family: "B", stepMs: 10, priceUsdPerHour: 2 },
    { family: "C", stepMs: 10, priceUsdPerHour: 1 },
  ];
  assert.equal(send(fleetOf(nodes, [{ ...TARGETS, costPriority: "cost" }])).booking.row, 2);
  const unpriced = fleetOf(
    [
      { family: "A", stepMs: 12, priceUsdPerHour: Number.NaN },
      { family: "B", stepMs: 10, priceUsdPerHour: Number.NaN },
    ],
    [{ ...TARGETS, costPriority: "cost" }],
  );
  const { booking, decision } = send(unpriced);
  assert.equal(booking.row, 1);
  assert.ok(decision.arePricesUnknown);
});

test("without any target a node is filled to twice its idle step, and no further while another is free", () => {
  const fleet = fleetOf(
    [
      { family: "A", stepMs: 10 },
      { family: "A", stepMs: 10 },
    ],
    [{ costPriority: "cost" }],
  );
  const rows = Array.from({ length: 120 }, () => {
    const { row } = send(fleet).booking;
    fleet.table.total.promptTokens[row] = 0;
    return row;
  });
  const first = rows[0] as number;
  const until = rows.findIndex((row) => row !== first);
  assert.ok(until > 20 && until <= 100, `${until}`);
});

test("an earlier tier with a feasible node is taken though more nodes of a later one come first than are weighed", () => {
  const nodes = (family: string, count: number) => Array.from({ length: count }, () => ({ family, stepMs: 10 }));
  const fleet = fleetOf(
    [...nodes("B", 400), ...nodes("A", 4)],
    [{ chain: [["A"], ["B"]], costPriority: "latency", ...TARGETS }],
  );
  for (const draw of [0, 0.3, 0.6, 0.985]) {
    const { decision } = send(fleet, "p0", draw);
    assert.equal(REASONS[decision.reason], "first_acceptable");
    assert.equal(decision.family, fleet.family("A"), `from ${draw}`);
  }
});
