import assert from "node:assert/strict";
import { test } from "node:test";
import { TICK_MS } from "./bounds.ts";
import { msOfTick, tickAfter } from "./deadline.ts";
import { decide } from "./decide.ts";
import { createDecision } from "./decision.ts";
import type { AttemptEnd } from "./failover/outcome.ts";
import { createRetryBudget } from "./failover/retry-budget.ts";
import { ENDPOINTS, REASONS } from "./reasons.ts";
import type { RouteRequest } from "./route-request.ts";
import { type Attempt, noteCommit, type Settler, settle } from "./settle.ts";
import { attemptOf, buildFleet, type Fleet, outstanding } from "./testing/fleet.ts";

const COOLDOWN_MS = 30_000;
const answer = (status: number, retryAfterMs = Number.NaN): AttemptEnd => ({
  kind: "answer",
  status,
  verdict: null,
  retryAfterMs,
});
const RESET: AttemptEnd = { kind: "fault", fault: "reset", isUnsent: false };
const UNSENT: AttemptEnd = { kind: "fault", fault: "reset", isUnsent: true };
const REFUSED: AttemptEnd = { kind: "fault", fault: "connect_refused", isUnsent: false };

const budgets = new WeakMap<Fleet, Settler["budget"]>();
function settler(fleet: Fleet, worker = 0, limits = { maxAttempts: 3, windowMs: 30_000 }): Settler {
  const budget = budgets.get(fleet) ?? createRetryBudget(0.2, 1);
  budgets.set(fleet, budget);
  return { table: fleet.table, worker, limits, budget };
}

/** Decides and sends; null when no node was found. */
function send(
  fleet: Fleet,
  nowMs: number,
  { request = fleet.request(), worker = 0, draw = 0, isFresh = false } = {},
): { request: RouteRequest; attempt: Attempt; row: number } | null {
  const decision = createDecision();
  const booking = decide(fleet.decider(worker), request, nowMs, draw, decision);
  if (booking === null) return null;
  const attempt = attemptOf(booking, decision, {
    sentAtMs: nowMs,
    endpoint: request.endpoint,
    isFreshConnection: isFresh,
  });
  return { request, attempt, row: booking.row };
}

/** Sends, and ends the attempt. */
function run(
  fleet: Fleet,
  nowMs: number,
  end: AttemptEnd,
  options: Parameters<typeof send>[2] & { endMs?: number } = {},
) {
  const sent = sendOne(fleet, nowMs, options);
  const settled = settle(settler(fleet, options.worker), sent.request, sent.attempt, end, options.endMs ?? nowMs);
  return { ...sent, ...settled };
}

function sendOne(fleet: Fleet, nowMs: number, options: Parameters<typeof send>[2] = {}) {
  const sent = send(fleet, nowMs, options);
  assert.ok(sent !== null, "a node was expected");
  return sent;
}

function poll(fleet: Fleet, row: number): void {
  fleet.table.goodPolls[row] = (fleet.table.goodPolls[row] ?? 0) + 1;
}

const single = () => buildFleet({ nodes: [{ family: "A" }], workers: 3 });

test("a node that failed gets no traffic until its cooldown has passed", () => {
  const fleet = single();
  run(fleet, 1000, RESET, { endMs: 1500 });
  assert.equal(send(fleet, 1500), null);
  assert.equal(send(fleet, 1500 + COOLDOWN_MS - 1), null);
  assert.notEqual(send(fleet, 1500 + COOLDOWN_MS + TICK_MS), null);
});

test("after a cooldown exactly one request of all workers is the trial", () => {
  const fleet = single();
  run(fleet, 0, RESET);
  const sent = [0, 1, 2, 0, 1, 2].map((worker) => send(fleet, COOLDOWN_MS + 100, { worker }));
  assert.equal(sent.filter((one) => one !== null).length, 1);
  assert.notEqual(sent[0]?.attempt.trial.node, 0);
});

test("a trial that reaches its commit point returns the node to traffic before its answer has ended", () => {
  const fleet = single();
  run(fleet, 0, RESET);
  const trial = sendOne(fleet, COOLDOWN_MS + 100);
  noteCommit(settler(fleet), trial.attempt, trial.attempt.sentAtMs);
  const next = sendOne(fleet, COOLDOWN_MS + 200);
  assert.equal(next.attempt.trial.node, 0);
});

test("a trial that fails starts another cooldown", () => {
  const fleet = single();
  run(fleet, 0, RESET);
  run(fleet, COOLDOWN_MS + 100, answer(500), { endMs: COOLDOWN_MS + 500 });
  assert.equal(send(fleet, 2 * COOLDOWN_MS + 400), null);
  assert.notEqual(sendOne(fleet, 2 * COOLDOWN_MS + 600).attempt.trial.node, 0);
});

for (const end of [answer(400), { kind: "cancelled" } as const, answer(429), UNSENT, answer(413), answer(404)]) {
  test(`a trial that says nothing about the node hands its lease back: ${JSON.stringify(end)}`, () => {
    const fleet = buildFleet({ nodes: [{ family: "A" }], models: [{ name: "m" }, { name: "n" }] });
    run(fleet, 0, RESET);
    run(fleet, COOLDOWN_MS + 100, end);
    assert.equal(fleet.table.trialUntil[0], 0);
    assert.notEqual(fleet.table.cooldownUntil[0], 0);
  });
}

test("a trial whose thread is gone blocks the node no longer than its lease", () => {
  const fleet = single();
  run(fleet, 0, RESET);
  sendOne(fleet, COOLDOWN_MS + 100);
  assert.equal(send(fleet, 2 * COOLDOWN_MS), null);
  assert.notEqual(send(fleet, 2 * COOLDOWN_MS + 200, { worker: 1 }), null);
});

test("a lease that expired is not handed back over the one that followed it", () => {
  const fleet = single();
  run(fleet, 0, RESET);
  const first = sendOne(fleet, COOLDOWN_MS + 100);
  sendOne(fleet, 2 * COOLDOWN_MS + 200, { worker: 1 });
  settle(settler(fleet), first.request, first.attempt, { kind: "cancelled" }, 2 * COOLDOWN_MS + 300);
  assert.equal(send(fleet, 2 * COOLDOWN_MS + 300, { worker: 2 }), null);
});

test("attempts sent before a cooldown began do not extend it", () => {
  const fleet = single();
  const [one, two] = [sendOne(fleet, 0), sendOne(fleet, 0)];
  settle(settler(fleet), one.request, one.attempt, RESET, 5_000);
  const until = fleet.table.cooldownUntil[0];
  settle(settler(fleet), two.request, two.attempt, RESET, 9_000);
  assert.equal(fleet.table.cooldownUntil[0], until);
});

test("an attempt sent in the moment before a cooldown began does not extend it", () => {
  const fleet = single();
  const [one, two] = [sendOne(fleet, 161), sendOne(fleet, 161)];
  settle(settler(fleet), one.request, one.attempt, REFUSED, 162);
  const until = fleet.table.cooldownUntil[0];
  settle(settler(fleet), two.request, two.attempt, { kind: "fault", fault: "connect_timeout", isUnsent: false }, 2_162);
  assert.equal(fleet.table.cooldownUntil[0], until);
});

test("attempts sent before a cooldown began do not end it", () => {
  const fleet = single();
  const [one, two] = [sendOne(fleet, 0), sendOne(fleet, 0)];
  settle(settler(fleet), one.request, one.attempt, RESET, 5_000);
  noteCommit(settler(fleet), two.attempt, two.attempt.sentAtMs);
  settle(settler(fleet), two.request, two.attempt, answer(200), 6_000);
  assert.equal(send(fleet, 7_000), null);
});

test("an attempt sent before a cooldown that fails while the node awaits its trial does not start it again", () => {
  const fleet = single();
  const [one, two] = [sendOne(fleet, 0), sendOne(fleet, 0)];
  settle(settler(fleet), one.request, one.attempt, RESET, 5_000);
  const trial = sendOne(fleet, COOLDOWN_MS + 6_000);
  settle(settler(fleet), two.request, two.attempt, RESET, COOLDOWN_MS + 7_000);
  noteCommit(settler(fleet), trial.attempt, trial.attempt.sentAtMs);
  assert.equal(sendOne(fleet, COOLDOWN_MS + 8_000).attempt.trial.node, 0);
});

test("a cooldown that began after a trial was sent outlives the trial's success", () => {
  const fleet = single();
  run(fleet, 0, RESET);
  const late = sendOne(fleet, COOLDOWN_MS + 100);
  // its lease ran out, a second trial went and failed
  run(fleet, 2 * COOLDOWN_MS + 200, RESET);
  noteCommit(settler(fleet), late.attempt, late.attempt.sentAtMs);
  assert.equal(send(fleet, 2 * COOLDOWN_MS + 300), null);
});

test("a deadline only moves later", () => {
  const fleet = single();
  fleet.table.cooldownMs[0] = 60_000;
  run(fleet, 0, RESET);
  const until = fleet.table.cooldownUntil[0] ?? 0;
  poll(fleet, 0);
  fleet.table.isSuspectFailure[0] = 1;
  fleet.table.cooldownMs[0] = 1_000;
  run(fleet, 10_000, RESET);
  assert.equal(fleet.table.cooldownUntil[0], until);
});

test("a request that fails with a 5xx on two nodes is suspect: the second gets its trial after a good poll", () => {
  const fleet = buildFleet({ nodes: [{ family: "A" }, { family: "A" }, { family: "A", tokensPerSecond: 1 }] });
  const request = fleet.request();
  const first = run(fleet, 1000, answer(500), { request });
  const second = run(fleet, 1000, answer(500), { request });
  assert.deepEqual([first.row, second.row], [0, 1]);
  assert.equal(sendOne(fleet, 2000).row, 2);
  poll(fleet, 0);
  poll(fleet, 1);
  const trial = sendOne(fleet, 3000);
  assert.equal(trial.row, 1);
  assert.notEqual(trial.attempt.trial.node, 0);
  assert.equal(sendOne(fleet, 3000).row, 2);
});

test("connection errors on two nodes do not make a request suspect", () => {
  const fleet = buildFleet({ nodes: [{ family: "A" }, { family: "A" }, { family: "A", tokensPerSecond: 1 }] });
  const request = fleet.request();
  run(fleet, 1000, RESET, { request });
  run(fleet, 1000, RESET, { request });
  poll(fleet, 0);
  poll(fleet, 1);
  assert.equal(sendOne(fleet, 3000).row, 2);
});

test("when every node cools, one that answered a poll since its failure gets a trial, and only one request", () => {
  const fleet = buildFleet({ nodes: [{ family: "A" }, { family: "B" }], workers: 3 });
  run(fleet, 1000, RESET);
  run(fleet, 1000, RESET);
  assert.equal(send(fleet, 2000), null);
  poll(fleet, 1);
  const sent = [0, 1, 2].map((worker) => send(fleet, 3000, { worker }));
  assert.deepEqual(
    sent.map((one) => one?.row),
    [1, undefined, undefined],
  );
});

test("a cooling node is not tried early while another node is merely full", () => {
  const fleet = buildFleet({ nodes: [{ family: "A" }, { family: "A", maxInFlight: 0 }] });
  run(fleet, 1000, RESET);
  poll(fleet, 0);
  assert.equal(send(fleet, 2000), null);
});

test("an answer broken after its commit point cools the node and is delivered", () => {
  const fleet = single();
  const sent = sendOne(fleet, 0);
  noteCommit(settler(fleet), sent.attempt, sent.attempt.sentAtMs);
  const end = { kind: "interrupted", fault: "reset" } as const;
  const { outcome, move } = settle(settler(fleet), sent.request, sent.attempt, end, 100);
  assert.deepEqual([outcome, move.kind], ["interrupted", "deliver"]);
  assert.equal(send(fleet, 200), null);
});

test("an overloaded node is out for as long as it said, at most its cooldown, and needs no trial", () => {
  const fleet = single();
  run(fleet, 0, answer(429, 5_000));
  assert.equal(send(fleet, 4_900), null);
  assert.equal(sendOne(fleet, 5_100).attempt.trial.node, 0);
  run(fleet, 6_000, answer(429, 3_600_000));
  assert.equal(send(fleet, 6_000 + COOLDOWN_MS - 100), null);
  assert.notEqual(send(fleet, 6_000 + COOLDOWN_MS + 100), null);
});

test("an overloaded node that did not say for how long ranks last until its next good poll", () => {
  const fleet = buildFleet({
    nodes: [
      { family: "A", tokensPerSecond: 4000 },
      { family: "A", foreign: 50 },
    ],
  });
  assert.equal(run(fleet, 0, answer(429)).row, 0);
  assert.equal(sendOne(fleet, 100).row, 1);
  poll(fleet, 0);
  assert.equal(sendOne(fleet, 200).row, 0);
});

test("a node that refuses the model is out for that model alone", () => {
  const fleet = buildFleet({ nodes: [{ family: "A" }], models: [{ name: "m" }] });
  run(fleet, 0, answer(404));
  assert.equal(send(fleet, 100), null);
  assert.equal(fleet.table.cooldownUntil[0], 0);
});

for (const [what, status, cell] of [
  ["model", 401, (fleet: Fleet) => fleet.table.misconfiguredUntil[0] ?? 0],
  ["endpoint", 501, (fleet: Fleet) => fleet.table.endpointUntil[0] ?? 0],
] as const) {
  for (const cooldownMs of [30_000, 1_000, 1_007]) {
    test(`a trial refused at once puts the ${what} out for another cooldown of ${cooldownMs} ms`, () => {
      for (let offsetMs = 0; offsetMs < 2 * TICK_MS; offsetMs++) {
        const fleet = buildFleet({ nodes: [{ family: "A", cooldownMs }] });
        run(fleet, 0, answer(status));
        const atMs = cooldownMs + 100 + offsetMs;
        run(fleet, atMs, answer(status));
        assert.ok(msOfTick(cell(fleet)) >= atMs + cooldownMs, `out until ${msOfTick(cell(fleet))} from ${atMs}`);
        assert.equal(send(fleet, atMs + cooldownMs - TICK_MS), null);
      }
    });
  }
}

test("a 501 takes the node out for that endpoint alone", () => {
  const fleet = single();
  const embed = () => fleet.request({ endpoint: "embeddings" });
  run(fleet, 0, answer(501), { request: embed() });
  assert.equal(send(fleet, 100, { request: embed() }), null);
  assert.notEqual(send(fleet, 100), null);
  assert.equal(fleet.table.endpointUntil[ENDPOINTS.indexOf("embeddings")], tickAfter(COOLDOWN_MS));
});

test("after a refusal one trial goes, and its success returns the model", () => {
  const fleet = single();
  run(fleet, 0, answer(404));
  const trial = sendOne(fleet, COOLDOWN_MS + 100);
  assert.equal(send(fleet, COOLDOWN_MS + 100), null);
  settle(settler(fleet), trial.request, trial.attempt, answer(200), COOLDOWN_MS + 200);
  assert.equal(fleet.table.misconfiguredUntil[0], 0);
});

test("a request too large for a node goes to one with a larger context, and to no other", () => {
  const nodes = [8000, 4000, 8000, 16_000].map((contextTokens, row) => {
    return { family: "A", contextTokens, tokensPerSecond: 4000 - row };
  });
  const fleet = buildFleet({ nodes });
  const request = fleet.request();
  assert.equal(run(fleet, 0, answer(413), { request }).move.kind, "redispatch");
  assert.equal(run(fleet, 0, answer(413), { request }).row, 3);
  const decision = createDecision();
  assert.equal(decide(fleet.decider(), request, 0, 0, decision), null);
  assert.deepEqual([decision.kind, REASONS[decision.reason]], ["exhausted", "nodes_exhausted"]);
});

test("a connection that carried nothing is no failure: once more on the same node, on a fresh connection", () => {
  const fleet = single();
  const { request, outcome, move } = run(fleet, 0, UNSENT);
  assert.deepEqual([outcome, move.kind, request.attempts], ["unsent", "retry_connection", 0]);
  assert.equal(fleet.table.cooldownUntil[0], 0);
  assert.notEqual(send(fleet, 1, { request }), null);
});

test("a fresh connection that carries nothing either is a failure like any other", () => {
  const fleet = single();
  const first = run(fleet, 0, UNSENT);
  const second = run(fleet, 10, UNSENT, { request: first.request, isFresh: true });
  assert.deepEqual([second.outcome, second.move.kind], ["failure", "redispatch"]);
  assert.equal(first.request.freeRetries, 1);
  assert.notEqual(fleet.table.cooldownUntil[0], 0);
  assert.equal(send(fleet, 20, { request: first.request }), null);
});

test("a connect that failed is a failure, even when it is said to have carried nothing", () => {
  const fleet = single();
  const { outcome, move } = run(fleet, 0, { kind: "fault", fault: "connect_refused", isUnsent: true });
  assert.deepEqual([outcome, move.kind], ["failure", "redispatch"]);
});

test("at most max_attempts are made, and connects that failed are not among them", () => {
  const fleet = buildFleet({ nodes: Array.from({ length: 10 }, () => ({ family: "A" })) });
  const request = fleet.request();
  for (let connect = 0; connect < 4; connect++) {
    assert.equal(run(fleet, 0, REFUSED, { request }).move.kind, "redispatch");
  }
  assert.equal(run(fleet, 0, RESET, { request }).move.kind, "redispatch");
  assert.equal(run(fleet, 0, RESET, { request }).move.kind, "redispatch");
  assert.deepEqual(run(fleet, 0, RESET, { request }).move, { kind: "give_up", reason: "attempts_exhausted" });
});

test("nothing is re-dispatched later than window_ms after the first failure, and time before it does not count", () => {
  const fleet = buildFleet({ nodes: Array.from({ length: 4 }, () => ({ family: "A" })) });
  const request = fleet.request({ admittedAtMs: 0 });
  assert.equal(run(fleet, 500_000, RESET, { request, endMs: 600_000 }).move.kind, "redispatch");
  assert.equal(run(fleet, 600_000, RESET, { request, endMs: 630_000 }).move.kind, "redispatch");
  const late = run(fleet, 630_000, REFUSED, { request, endMs: 630_001 });
  assert.deepEqual(late.move, { kind: "give_up", reason: "window_exhausted" });
});

test("the first re-dispatch after a failure and those after failed connects need no retry budget", () => {
  const fleet = buildFleet({ nodes: Array.from({ length: 8 }, () => ({ family: "A" })) });
  const empty: Settler = { ...settler(fleet), budget: { ...createRetryBudget(0, 1), alwaysPerWindow: 0 } };
  const request = fleet.request();
  const move = (end: AttemptEnd) => {
    const sent = sendOne(fleet, 0, { request });
    return settle(empty, sent.request, sent.attempt, end, 0).move;
  };
  assert.equal(move(REFUSED).kind, "redispatch");
  assert.equal(move(RESET).kind, "redispatch");
  assert.equal(move(REFUSED).kind, "redispatch");
  assert.deepEqual(move(RESET), { kind: "give_up", reason: "retry_budget_exhausted" });
});

test("a re-dispatch after an overload is taken out of the budget", () => {
  const fleet = buildFleet({ nodes: Array.from({ length: 2 }, () => ({ family: "A" })) });
  const empty: Settler = { ...settler(fleet), budget: { ...createRetryBudget(0, 1), alwaysPerWindow: 0 } };
  const sent = sendOne(fleet, 0);
  const { move } = settle(empty, sent.request, sent.attempt, answer(429), 0);
  assert.deepEqual(move, { kind: "give_up", reason: "retry_budget_exhausted" });
});

for (const end of [answer(200), answer(422), { kind: "interrupted", fault: null } as const]) {
  test(`what belongs to the caller is delivered: ${JSON.stringify(end)}`, () => {
    assert.equal(run(single(), 0, end).move.kind, "deliver");
  });
}

test("when the caller is gone nothing follows, and the node is not blamed", () => {
  const fleet = single();
  assert.deepEqual(run(fleet, 0, { kind: "cancelled" }).move, { kind: "abandon" });
  assert.notEqual(send(fleet, 1), null);
});

test("a node that failed a request is not chosen for it again, whatever becomes of its cooldown", () => {
  const fleet = buildFleet({
    nodes: [
      { family: "A", cooldownMs: 0 },
      { family: "A", tokensPerSecond: 1 },
    ],
  });
  const request = fleet.request();
  assert.equal(run(fleet, 0, RESET, { request }).row, 0);
  assert.equal(run(fleet, 1000, RESET, { request }).row, 1);
  assert.equal(send(fleet, 2000, { request }), null);
});

test("a booking is released once: settling twice throws", () => {
  const fleet = single();
  const sent = sendOne(fleet, 0);
  settle(settler(fleet), sent.request, sent.attempt, answer(200), 1);
  assert.throws(() => settle(settler(fleet), sent.request, sent.attempt, answer(200), 2), /released once/);
  assert.deepEqual(outstanding(fleet.table), {});
});
