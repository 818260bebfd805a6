import assert from "node:assert/strict";
import { test } from "node:test";
import { bookAgain, decide } from "./decide.ts";
import { createDecision, type TrialLeases } from "./decision.ts";
import type { AttemptEnd } from "./failover/outcome.ts";
import { createRetryBudget } from "./failover/retry-budget.ts";
import type { RouteRequest } from "./route-request.ts";
import { type Attempt, noteCommit, type Settler, settle } from "./settle.ts";
import { attemptOf, buildFleet, type Fleet, type NodeSpec, outstanding } from "./testing/fleet.ts";

const NOW_MS = 160_000;
const UNSENT: AttemptEnd = { kind: "fault", fault: "reset", isUnsent: true };
const OK: AttemptEnd = { kind: "answer", status: 200, verdict: null, retryAfterMs: Number.NaN };
const NO_TRIAL: TrialLeases = { node: 0, placement: 0, endpoint: 0 };

const single = (node: Partial<NodeSpec> = {}) => buildFleet({ nodes: [{ family: "A", ...node }], workers: 2 });

function settler(fleet: Fleet): Settler {
  const limits = { maxAttempts: 3, windowMs: 30_000 };
  return { table: fleet.table, worker: 0, limits, budget: createRetryBudget(0.2, 1) };
}

/** A request whose kept connection turned out to carry nothing. */
function unsent(fleet: Fleet): { request: RouteRequest; attempt: Attempt } {
  const request = fleet.request();
  const decision = createDecision();
  const booking = decide(fleet.decider(), request, NOW_MS, 0, decision);
  assert.ok(booking !== null, "a node was expected");
  const attempt = attemptOf(booking, decision, { sentAtMs: NOW_MS });
  const { move } = settle(settler(fleet), request, attempt, UNSENT, NOW_MS);
  assert.equal(move.kind, "retry_connection");
  return { request, attempt };
}

/** The second try, with its attempt; null: the node no longer takes it. */
function again(fleet: Fleet, { request, attempt }: ReturnType<typeof unsent>): Attempt | null {
  const place = { row: attempt.booking.row, placement: attempt.placement };
  const booking = bookAgain(fleet.decider(), request, place, attempt.trial, NOW_MS);
  return booking === null ? null : { ...attempt, booking, isFreshConnection: true };
}

function mayAnotherGo(fleet: Fleet): boolean {
  return decide(fleet.decider(1), fleet.request(), NOW_MS, 0, createDecision()) !== null;
}

test("an ordinary second try is booked, and is no trial", () => {
  const fleet = single();
  const attempt = again(fleet, unsent(fleet));
  assert.ok(attempt !== null);
  assert.equal(fleet.table.total.inFlight[0], 1);
  assert.deepEqual(attempt.trial, NO_TRIAL);
  settle(settler(fleet), fleet.request(), attempt, OK, NOW_MS);
  assert.deepEqual(outstanding(fleet.table), {});
});

test("the second try of a trial is the trial: nobody else goes, and its commit point ends the cooldown", () => {
  const fleet = single({ cooldownUntilMs: NOW_MS - 16_000 });
  const attempt = again(fleet, unsent(fleet));
  assert.ok(attempt !== null);
  assert.notEqual(attempt.trial.node, 0);
  assert.equal(mayAnotherGo(fleet), false);
  noteCommit(settler(fleet), attempt, attempt.sentAtMs);
  assert.equal(fleet.table.cooldownUntil[0], 0);
  assert.equal(fleet.table.trialUntil[0], 0);
});

test("the second try of a trial of a model and of an endpoint returns both to traffic", () => {
  const fleet = single({
    misconfiguredUntilMs: NOW_MS - 16_000,
    endpointUntilMs: { chat_completions: NOW_MS - 16_000 },
  });
  const attempt = again(fleet, unsent(fleet));
  assert.ok(attempt !== null);
  assert.ok(attempt.trial.placement !== 0 && attempt.trial.endpoint !== 0);
  noteCommit(settler(fleet), attempt, attempt.sentAtMs);
  assert.equal(fleet.table.misconfiguredUntil[attempt.placement], 0);
  assert.equal(fleet.table.endpointUntil[0], 0);
});

test("a second try comes after the trial that another request became meanwhile", () => {
  const fleet = single({ cooldownUntilMs: NOW_MS - 16_000 });
  const first = unsent(fleet);
  assert.equal(mayAnotherGo(fleet), true);
  assert.equal(again(fleet, first), null);
  assert.deepEqual(first.attempt.trial, NO_TRIAL);
  assert.equal(fleet.table.total.inFlight[0], 1);
});

const CHANGES: [string, (fleet: Fleet) => void][] = [
  ["is full", (fleet) => Atomics.store(fleet.table.maxInFlight, 0, 0)],
  ["cools down", (fleet) => Atomics.store(fleet.table.cooldownUntil, 0, 2 ** 30)],
  ["is unhealthy", (fleet) => Atomics.store(fleet.table.isUnhealthy, 0, 1)],
  ["drains", (fleet) => Atomics.store(fleet.table.isDraining, 0, 1)],
  ["backs off", (fleet) => Atomics.store(fleet.table.backoffUntil, 0, 2 ** 30)],
];
for (const [what, change] of CHANGES) {
  test(`a node that ${what} by now is not booked again, and nothing stays on it`, () => {
    const fleet = single();
    const first = unsent(fleet);
    change(fleet);
    assert.equal(again(fleet, first), null);
    assert.deepEqual(outstanding(fleet.table), {});
  });
}

test("a second try does not mind those who came meanwhile while there is room", () => {
  const fleet = single({ maxInFlight: 3 });
  const first = unsent(fleet);
  assert.ok(mayAnotherGo(fleet) && mayAnotherGo(fleet));
  assert.notEqual(again(fleet, first), null);
  assert.equal(again(fleet, first), null, "the fourth place is one too many");
  assert.equal(fleet.table.total.inFlight[0], 3);
});
