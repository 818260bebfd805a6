import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL_RIGHTS, admit } from "./admission/admit.ts";
import { PLACEMENTS_PER_NODE } from "./bounds.ts";
import { decide } from "./decide.ts";
import { createDecision, excludedCount } from "./decision.ts";
import { createEvidenceRing, readRecord, writeDecision } from "./evidence-ring.ts";
import type { AttemptEnd } from "./failover/outcome.ts";
import { createRetryBudget } from "./failover/retry-budget.ts";
import {
  EXCLUSIONS,
  type Exclusion,
  HINT_USES,
  type HintUse,
  OUTCOMES,
  type Outcome,
  POLICY_SOURCES,
  REASONS,
  type Reason,
} from "./reasons.ts";
import { noteFailedRow } from "./route-request.ts";
import { settle } from "./settle.ts";
import {
  attemptOf,
  buildFleet,
  type FleetSpec,
  type NodeSpec,
  type PolicySpec,
  type RequestSpec,
} from "./testing/fleet.ts";

const NOW_MS = 160_000;
const reached = new Set<string>();

interface Expected {
  row: number;
  reason: Reason;
  hint?: HintUse;
}

/** Decides once and notes the words that were reached. */
function decideOn(spec: FleetSpec, request: RequestSpec = {}, failedRows: number[] = []) {
  const fleet = buildFleet(spec);
  const decision = createDecision();
  const route = fleet.request(request);
  for (const row of failedRows) noteFailedRow(route, row);
  const booking = decide(fleet.decider(), route, NOW_MS, 0, decision);
  const reason = REASONS[decision.reason] as Reason;
  const hint = HINT_USES[decision.hint] as HintUse;
  reached.add(reason).add(`hint ${hint}`);
  return { fleet, decision, route, row: booking?.row ?? -1, reason, hint };
}

const [A, B] = ["A", "B"];
const policy = (spec: PolicySpec): PolicySpec[] => [spec];
const choices: [string, FleetSpec, RequestSpec, Expected][] = [
  [
    "cost takes the cheapest family, whatever the chain prefers",
    { nodes: [{ family: A, priceUsdPerHour: 2 }, { family: B }], policies: policy({ costPriority: "cost" }) },
    {},
    { row: 1, reason: "cheapest" },
  ],
  [
    "a cheap slow GPU can be the dearer one: cost is price × the share of the node's time",
    {
      nodes: [
        { family: A, priceUsdPerHour: 2, tokensPerSecond: 500 },
        { family: B, priceUsdPerHour: 4, tokensPerSecond: 2000 },
      ],
    },
    {},
    { row: 1, reason: "cheapest" },
  ],
  [
    "a cheapest family that would miss the target gives way to the next in the chain, even if it is dearer",
    {
      nodes: [
        { family: A, priceUsdPerHour: 4 },
        { family: B, priceUsdPerHour: 1, foreign: 100 },
      ],
      policies: policy({ costPriority: "cost", latencyTargetMs: 10_000 }),
    },
    {},
    { row: 0, reason: "next_in_chain" },
  ],
  [
    "balanced weighs cost against time",
    {
      nodes: [
        { family: A, priceUsdPerHour: 1, streamTokensPerSecond: 40 },
        { family: B, priceUsdPerHour: 1.2, streamTokensPerSecond: 160 },
      ],
      policies: policy({ costPriority: "balanced", latencyTargetMs: 10_000 }),
    },
    {},
    { row: 1, reason: "best_balance" },
  ],
  [
    "latency takes the first tier with an acceptable node and never asks for the price",
    {
      nodes: [
        { family: A, priceUsdPerHour: 100 },
        { family: B, priceUsdPerHour: 0 },
      ],
      policies: policy({ costPriority: "latency" }),
    },
    {},
    { row: 0, reason: "first_acceptable" },
  ],
  [
    "latency without an acceptable node takes the least estimate among those with room",
    {
      nodes: [
        { family: A, waiting: 9, foreign: 60 },
        { family: B, waiting: 9, foreign: 30 },
      ],
      policies: policy({ costPriority: "latency" }),
    },
    {},
    { row: 1, reason: "least_estimate" },
  ],
  [
    "when nobody meets the target the least estimate is taken, and the decision says so",
    {
      nodes: [
        { family: A, foreign: 60 },
        { family: B, foreign: 30 },
      ],
      policies: policy({ costPriority: "cost", latencyTargetMs: 10 }),
    },
    {},
    { row: 1, reason: "target_missed" },
  ],
  [
    "a hinted family in the chain that meets the target is taken, dearer or not",
    {
      nodes: [{ family: A }, { family: B, priceUsdPerHour: 50 }],
      policies: policy({ costPriority: "cost", latencyTargetMs: 10_000 }),
    },
    { hint: B },
    { row: 1, reason: "hinted", hint: "used" },
  ],
  [
    "a hinted family that misses the target is not taken, and the policy runs as if there were no hint",
    {
      nodes: [{ family: A }, { family: B, foreign: 200 }],
      policies: policy({ costPriority: "cost", latencyTargetMs: 10_000 }),
    },
    { hint: B },
    { row: 0, reason: "cheapest", hint: "unused" },
  ],
  [
    "a hinted family outside the chain is never added",
    { nodes: [{ family: A, priceUsdPerHour: 9 }, { family: B }], policies: policy({ chain: [[A]] }) },
    { hint: B },
    { row: 0, reason: "cheapest", hint: "unused" },
  ],
  [
    "in latency mode a hint needs acceptable depth, not a target",
    { nodes: [{ family: A }, { family: B, waiting: 5 }], policies: policy({ costPriority: "latency" }) },
    { hint: B },
    { row: 0, reason: "first_acceptable", hint: "unused" },
  ],
  [
    "a policy as the walkthrough writes it sends batch work to MI300X while H100 is dearer",
    {
      nodes: [
        { family: "MI300X", priceUsdPerHour: 16, tokensPerSecond: 2000, streamTokensPerSecond: 200 },
        { family: "H100", priceUsdPerHour: 20, tokensPerSecond: 2000, streamTokensPerSecond: 200 },
      ],
      policies: policy({ chain: [["MI300X"], ["H100"]], costPriority: "cost", latencyTargetMs: 2000 }),
    },
    {},
    { row: 0, reason: "cheapest" },
  ],
  [
    "the walkthrough's overloaded cheap family gives way to the next in the chain",
    {
      nodes: [
        { family: "MI300X", priceUsdPerHour: 16, tokensPerSecond: 2000, streamTokensPerSecond: 200, foreign: 40 },
        { family: "H100", priceUsdPerHour: 20, tokensPerSecond: 2000, streamTokensPerSecond: 200 },
      ],
      policies: policy({ chain: [["MI300X"], ["H100"]], costPriority: "cost", latencyTargetMs: 2000 }),
    },
    {},
    { row: 1, reason: "next_in_chain" },
  ],
  [
    "a node with low queue depth and high throughput ranks first: an idle fast node before an idle slow one",
    {
      nodes: [
        { family: A, tokensPerSecond: 500 },
        { family: A, tokensPerSecond: 3000 },
      ],
    },
    {},
    { row: 1, reason: "cheapest" },
  ],
];

for (const [claim, spec, request, expected] of choices) {
  test(claim, () => {
    const { row, reason, hint } = decideOn(spec, request);
    assert.deepEqual({ row, reason, hint }, { hint: "none", ...expected });
  });
}

const excluded: [Exclusion, NodeSpec, Reason][] = [
  ["draining", { family: A, isDraining: true }, "no_node_available"],
  ["not_polled", { family: A, goodPolls: 0 }, "no_node_available"],
  ["unhealthy", { family: A, isUnhealthy: true }, "no_node_available"],
  ["cooling_down", { family: A, cooldownUntilMs: NOW_MS + 16_000 }, "no_node_available"],
  ["trial_running", { family: A, cooldownUntilMs: 16, trialUntilMs: NOW_MS + 16_000 }, "no_node_available"],
  ["backing_off", { family: A, backoffUntilMs: NOW_MS + 16_000 }, "queue_saturated"],
  ["misconfigured", { family: A, misconfiguredUntilMs: NOW_MS + 16_000 }, "no_node_available"],
  ["endpoint_unsupported", { family: A, endpointUntilMs: { chat_completions: NOW_MS + 16_000 } }, "no_capable_node"],
  ["endpoint_unsupported", { family: A, endpoints: ["embeddings"] }, "no_capable_node"],
  ["at_capacity", { family: A, maxInFlight: 2, foreign: 1, inFlight: 1 }, "queue_saturated"],
];

for (const [exclusion, node, expected] of excluded) {
  test(`a node is left out as ${exclusion}, and the request ends as ${expected}`, () => {
    const { decision, row, reason } = decideOn({ nodes: [node] });
    assert.equal(row, -1);
    assert.equal(excludedCount(decision, 0, EXCLUSIONS.indexOf(exclusion)), 1);
    assert.equal(reason, expected);
    reached.add(exclusion);
  });
}

test("a node outside the chain is counted as such", () => {
  const { decision } = decideOn({ nodes: [{ family: A }, { family: B }], policies: [{ chain: [[A]] }] });
  assert.equal(decision.outsideChain, 1);
  reached.add("not_in_chain");
});

test("a node that failed this request is left out; when all have, the request is exhausted", () => {
  const { decision, reason } = decideOn({ nodes: [{ family: A }, { family: A }] }, {}, [0, 1]);
  assert.equal(excludedCount(decision, 0, EXCLUSIONS.indexOf("failed_this_request")), 2);
  assert.deepEqual([decision.kind, reason], ["exhausted", "nodes_exhausted"]);
  reached.add("failed_this_request");
});

test("a re-dispatch that finds only full nodes that have not failed it is saturation", () => {
  const { decision, reason } = decideOn({ nodes: [{ family: A }, { family: A, maxInFlight: 0 }] }, {}, [0]);
  assert.deepEqual([decision.kind, reason], ["saturated", "queue_saturated"]);
});

test("a node whose context is known to be too small, or not known to be larger, is left out", () => {
  const fleet = buildFleet({ nodes: [{ family: A, contextTokens: 4000 }, { family: A }] });
  const request = fleet.request();
  request.contextAboveTokens = 4000;
  const decision = createDecision();
  assert.equal(decide(fleet.decider(), request, NOW_MS, 0, decision), null);
  assert.equal(excludedCount(decision, 0, EXCLUSIONS.indexOf("context_too_small")), 2);
  reached.add("context_too_small");
});

/** Counts of one word, by family of the chain. */
function counted(decision: ReturnType<typeof createDecision>, exclusion: Exclusion): number[] {
  return Array.from({ length: decision.families }, (_, position) =>
    excludedCount(decision, position, EXCLUSIONS.indexOf(exclusion)),
  );
}

test("images go to a node that reads them, or may, and not to one that is known not to", () => {
  const nodes: NodeSpec[] = [{ family: A, readsImages: false }, { family: B }];
  const { decision, row } = decideOn({ nodes }, { hasImages: true });
  assert.equal(row, 1);
  assert.deepEqual(counted(decision, "images_unsupported"), [1, 0]);
  assert.equal(decideOn({ nodes }).row, 0, "text goes to either");
  reached.add("images_unsupported");
});

test("where each node lacks something the request is the caller's mistake, and the commonest lack is named", () => {
  const nodes: NodeSpec[] = [
    { family: A, readsImages: false, isDraining: true },
    { family: A, readsImages: false, isUnhealthy: true },
    { family: B, endpoints: ["embeddings"], maxInFlight: 0 },
  ];
  const { decision, reason } = decideOn({ nodes }, { hasImages: true });
  assert.deepEqual([decision.kind, reason], ["incapable", "no_capable_node"]);
  assert.equal(EXCLUSIONS[decision.lacking], "images_unsupported");
  assert.equal(decision.retryAfterMs, Number.NaN);
});

for (const [what, other, expected] of [
  ["is down", { family: B, isUnhealthy: true }, "no_node_available"],
  ["is full", { family: B, maxInFlight: 0 }, "queue_saturated"],
  ["was never polled", { family: B, goodPolls: 0 }, "no_node_available"],
  ["cools", { family: B, cooldownUntilMs: NOW_MS + 16_000 }, "no_node_available"],
] as [string, NodeSpec, Reason][]) {
  test(`a node that could take it and ${what} makes it saturation`, () => {
    const large = { promptTokens: 5000, promptTokensAtLeast: 5000, hasImages: true };
    const { decision, reason } = decideOn({ nodes: [{ family: A, contextTokens: 2048 }, other] }, large);
    assert.deepEqual([decision.kind, reason], ["saturated", expected]);
  });
}

test("a prompt goes past nodes that it probably does not fit, limit included, without asking them", () => {
  const nodes: NodeSpec[] = [
    { family: A, contextTokens: 4096, tokensPerSecond: 4000 },
    { family: A, contextTokens: 16_384 },
  ];
  assert.equal(decideOn({ nodes }, { promptTokens: 3000 }).row, 0);
  const { row, decision } = decideOn({ nodes }, { promptTokens: 3000, maxTokens: 2000 });
  assert.equal(row, 1);
  assert.deepEqual(counted(decision, "context_too_small"), [1]);
  assert.equal(decideOn({ nodes }, { promptTokens: 3000, maxTokens: 2000, endpoint: "embeddings" }).row, 0);
});

test("an estimate that fits nowhere is no refusal: of the nodes with room the largest gets the request", () => {
  const nodes: NodeSpec[] = [4096, 16_384, 8192].map((contextTokens) => ({ family: A, contextTokens }));
  assert.equal(decideOn({ nodes }, { promptTokens: 90_000 }).row, 1);
  const full = nodes.map((node, row) => (row === 1 ? { ...node, maxInFlight: 0 } : node));
  assert.equal(decideOn({ nodes: full }, { promptTokens: 90_000 }).row, 2);
});

test("a prompt that is certainly larger than every context reaches no node", () => {
  const nodes: NodeSpec[] = [4096, 8191].map((contextTokens) => ({ family: A, contextTokens }));
  const { decision } = decideOn({ nodes }, { promptTokens: 90_000, promptTokensAtLeast: 8192 });
  assert.deepEqual([decision.kind, EXCLUSIONS[decision.lacking]], ["incapable", "context_too_small"]);
  const unknown = [...nodes, { family: A }];
  assert.equal(decideOn({ nodes: unknown }, { promptTokens: 90_000, promptTokensAtLeast: 8192 }).row, 2);
});

test("nodes that serve an adapter's model without the adapter stand in the evidence and take part in nothing", () => {
  const models = [{ nodes: [1], adapterMissing: { A: 2 } }];
  const { decision, row } = decideOn({ nodes: [{ family: A }, { family: B }], models });
  assert.equal(row, 1);
  assert.deepEqual(counted(decision, "adapter_missing"), [2, 0]);
  reached.add("adapter_missing");
});

test("room that a parked request can use is reserved for it", () => {
  const fleet = buildFleet({ nodes: [{ family: A }] });
  fleet.park({});
  const decision = createDecision();
  assert.equal(decide(fleet.decider(), fleet.request(), NOW_MS, 0, decision), null);
  assert.equal(excludedCount(decision, 0, EXCLUSIONS.indexOf("reserved_for_queue")), 1);
  reached.add("reserved_for_queue");
});

const ends: [Outcome, AttemptEnd][] = [
  ...(
    [
      ["success", 200],
      ["failure", 500],
      ["failure", 502],
      ["failure", 503],
      ["failure", 504],
      ["failure", 424],
      ["failure", 599],
      ["overloaded", 429],
      ["misconfigured", 401],
      ["misconfigured", 403],
      ["misconfigured", 404],
      ["endpoint_unsupported", 405],
      ["endpoint_unsupported", 501],
      ["too_large", 413],
      ["caller_error", 400],
      ["caller_error", 422],
    ] as const
  ).map(([outcome, status]): [Outcome, AttemptEnd] => {
    return [outcome, { kind: "answer", status, verdict: null, retryAfterMs: Number.NaN }];
  }),
  ["failure", { kind: "answer", status: 200, verdict: "failure", retryAfterMs: Number.NaN }],
  ["overloaded", { kind: "answer", status: 503, verdict: "overloaded", retryAfterMs: 1000 }],
  ["too_large", { kind: "answer", status: 400, verdict: "too_large", retryAfterMs: Number.NaN }],
  ["failure", { kind: "fault", fault: "first_token_timeout", isUnsent: false }],
  ["unsent", { kind: "fault", fault: "reset", isUnsent: true }],
  ["interrupted", { kind: "interrupted", fault: "reset" }],
  ["cancelled", { kind: "cancelled" }],
];

for (const [expected, end] of ends) {
  test(`${JSON.stringify(end)} is the outcome ${expected}`, () => {
    const { fleet, decision, route } = decideOn({ nodes: [{ family: A }] });
    const booking = decide(fleet.decider(), route, NOW_MS, 0, decision);
    assert.ok(booking !== null);
    const attempt = attemptOf(booking, decision, { sentAtMs: NOW_MS });
    const settler = {
      table: fleet.table,
      worker: 0,
      limits: { maxAttempts: 3, windowMs: 1000 },
      budget: createRetryBudget(0, 1),
    };
    assert.equal(settle(settler, route, attempt, end, NOW_MS).outcome, expected);
    reached.add(expected);
  });
}

for (const [expected, limits] of [
  ["attempts_exhausted", { maxAttempts: 1, windowMs: 1000 }],
  ["window_exhausted", { maxAttempts: 3, windowMs: -1 }],
  ["retry_budget_exhausted", { maxAttempts: 3, windowMs: 1000 }],
] as const) {
  test(`a request that may not be dispatched again ends as ${expected}`, () => {
    const { fleet, decision, route } = decideOn({ nodes: [{ family: A }] });
    const booking = decide(fleet.decider(), route, NOW_MS, 0, decision);
    assert.ok(booking !== null);
    const budget = { ...createRetryBudget(0, 1), alwaysPerWindow: 0 };
    const end: AttemptEnd = { kind: "answer", status: 429, verdict: null, retryAfterMs: Number.NaN };
    const attempt = attemptOf(booking, decision, { sentAtMs: NOW_MS });
    const { move } = settle({ table: fleet.table, worker: 0, limits, budget }, route, attempt, end, NOW_MS);
    assert.deepEqual(move, { kind: "give_up", reason: expected });
    reached.add(expected);
  });
}

test("a decision that was sent and not answered yet has the outcome running", () => {
  const { fleet, decision, route } = decideOn({ nodes: [{ family: A }] });
  const ring = createEvidenceRing(2);
  const sequence = writeDecision(ring, fleet.table, route, decision, { nowMs: NOW_MS, previous: -1 });
  const outcome = readRecord(ring, sequence)?.outcome;
  assert.equal(outcome, "running");
  reached.add("running");
});

const call = {
  rights: ALL_RIGHTS,
  account: "default",
  model: "m",
  policy: null as string | null,
  accelerator: null as string | null,
  endpoint: 0,
  isStream: false,
  promptTokens: 1,
  maxTokens: Number.NaN,
  answers: 1,
  promptTokensAtLeast: 0,
  hasImages: false,
};
const named: FleetSpec = {
  nodes: [{ family: B }, { family: A }],
  policies: [{ name: "one" }, { name: "two" }],
  models: [
    { name: "m", policy: "one" },
    { name: "plain", policy: null },
  ],
};

for (const [source, spec, over, expected] of [
  ["call", named, { policy: "two" }, "two"],
  ["call", named, { policy: "zml-default" }, "zml-default"],
  ["model", named, {}, "one"],
  ["account", { ...named, defaultPolicy: "two" }, { model: "plain" }, "two"],
  ["built_in", named, { model: "plain" }, "zml-default"],
] as const) {
  test(`the policy ${expected} is found by way of ${source}`, () => {
    const admission = admit(buildFleet(spec).directory, { ...call, ...over }, 0);
    assert.ok(admission.kind === "admitted");
    assert.deepEqual([admission.request.policySource, admission.request.policy.name], [source, expected]);
    reached.add(`source ${admission.request.policySource}`);
  });
}

test("the built-in policy is balanced, without a target, with families in order of first registration", () => {
  const fleet = buildFleet(named);
  const admission = admit(fleet.directory, { ...call, model: "plain" }, 0);
  assert.ok(admission.kind === "admitted");
  const { policy } = admission.request;
  assert.deepEqual([policy.costPriority, policy.latencyTargetMs], ["balanced", Number.NaN]);
  assert.deepEqual([...policy.chainFamilies], [fleet.family(B), fleet.family(A)]);
});

for (const [code, over, known] of [
  ["policy_not_found", { policy: "three" }, ["one", "two", "zml-default"]],
  ["model_not_found", { model: "n" }, ["m", "plain"]],
  ["model_not_found", { account: "other" }, []],
  ["family_not_found", { accelerator: "C" }, [A, B]],
] as const) {
  test(`a name that nothing has is refused as ${code} with the names that exist: ${JSON.stringify(over)}`, () => {
    const admission = admit(buildFleet(named).directory, { ...call, ...over }, 0);
    assert.ok(admission.kind === "refused");
    assert.deepEqual([admission.code, admission.known], [code, known]);
    reached.add(admission.kind);
  });
}

test("an unknown model may still turn up while a node has never been polled", () => {
  const admission = admit(buildFleet({ ...named, isCatalogComplete: false }).directory, { ...call, model: "n" }, 0);
  assert.ok(admission.kind === "refused" && admission.code === "no_node_available");
});

test("while all nodes cool, Retry-After is the time to the earliest trial", () => {
  const cooling = (ms: number): NodeSpec => ({ family: A, cooldownUntilMs: NOW_MS + ms });
  assert.equal(decideOn({ nodes: [cooling(32_000), cooling(8_000)] }).decision.retryAfterMs, 8_000);
  assert.equal(decideOn({ nodes: [cooling(16)] }).decision.retryAfterMs, 1_000);
  assert.equal(decideOn({ nodes: [cooling(320_000)] }).decision.retryAfterMs, 60_000);
});

test("when all are full, Retry-After follows the drain rate, and is 1 s when that is unknown", () => {
  const full = (drainPerSecond: number): NodeSpec => ({ family: A, maxInFlight: 0, drainPerSecond });
  assert.equal(decideOn({ nodes: [full(0.1), full(0.1)] }).decision.retryAfterMs, 5_000);
  assert.equal(decideOn({ nodes: [full(Number.NaN)] }).decision.retryAfterMs, 1_000);
});

test("equal nodes share by the draw", () => {
  const fleet = buildFleet({ nodes: Array.from({ length: 4 }, () => ({ family: A })) });
  const decision = createDecision();
  const rows = [0, 0.25, 0.5, 0.75].map((draw) => {
    const copy = buildFleet({ nodes: Array.from({ length: 4 }, () => ({ family: A })) });
    return decide(copy.decider(), fleet.request(), NOW_MS, draw, decision)?.row;
  });
  assert.deepEqual(rows, [0, 1, 2, 3]);
});

test("where predictions have missed calibration the least loaded node is taken, and the decision says so", () => {
  const fleet = buildFleet({
    nodes: [
      { family: A, inFlight: 9, priceUsdPerHour: 1 },
      { family: A, inFlight: 1, priceUsdPerHour: 9 },
    ],
    policies: [{ name: "p", costPriority: "cost", estimator: "predictive" }],
  });
  for (const row of [0, 1]) {
    fleet.table.predictorSamples[row * PLACEMENTS_PER_NODE] = 1_000;
    fleet.table.predictionError[row * PLACEMENTS_PER_NODE] = 1;
  }
  const decision = createDecision();
  assert.equal(decide(fleet.decider(), fleet.request(), NOW_MS, 0.5, decision)?.row, 1);
  assert.equal(REASONS[decision.reason], "least_loaded");
  reached.add("least_loaded");
});

test("one request of a hundred goes to an idle family that nobody has measured, and the decision says so", () => {
  const fleet = buildFleet({
    nodes: [
      { family: A, priceUsdPerHour: 1 },
      { family: B, priceUsdPerHour: 9 },
    ],
    policies: [{ name: "p", costPriority: "cost", estimator: "predictive" }],
  });
  fleet.table.predictorSamples[0] = 1_000;
  const reasons = new Set<string | undefined>();
  for (let draw = 0; draw < 1_000; draw++) {
    const decision = createDecision();
    decide(fleet.decider(), fleet.request(), NOW_MS, draw / 1_000, decision);
    if (decision.row === 1) reasons.add(REASONS[decision.reason]);
    fleet.table.total.inFlight.fill(0);
  }
  assert.deepEqual([...reasons], ["exploring"]);
  reached.add("exploring");
});

test("every word of the closed lists is reached by a test of this file", () => {
  const words = [
    ...REASONS,
    ...EXCLUSIONS,
    ...OUTCOMES,
    ...POLICY_SOURCES.map((source) => `source ${source}`),
    ...HINT_USES.map((use) => `hint ${use}`),
  ];
  assert.deepEqual(
    words.filter((word) => !reached.has(word)),
    [],
  );
});
