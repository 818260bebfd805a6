import assert from "node:assert/strict";
import { test } from "node:test";
import { simpleEstimator } from "./cost/estimate.ts";
import { tickOf } from "./deadline.ts";
import { type Decider, decide } from "./decide.ts";
import { createDecision } from "./decision.ts";
import { releaseBooking } from "./dispatch/booking.ts";
import { REASONS } from "./reasons.ts";
import { buildFleet, type Fleet, outstanding } from "./testing/fleet.ts";

/** A decider whose estimates let another worker act between the query and the booking, so many times. */
function interrupted(fleet: Fleet, times: number, act: () => void): Decider {
  let left = times;
  return {
    ...fleet.decider(0),
    estimator: {
      ...simpleEstimator,
      responseMs(...input) {
        const estimate = simpleEstimator.responseMs(...input);
        if (left-- > 0) act();
        return estimate;
      },
    },
  };
}

test("a place that another worker took first is given back, and the next-best node is chosen", () => {
  const fleet = buildFleet({ nodes: [{ family: "A", tokensPerSecond: 1001 }, { family: "A" }] });
  const decision = createDecision();
  // the choice asks twice: for the family, and once more for the chosen node, after which depth was read
  let asked = 0;
  const decider = interrupted(fleet, 2, () => {
    asked += 1;
    if (asked === 2) Atomics.add(fleet.table.total.inFlight, 0, 5);
  });
  const booking = decide(decider, fleet.request(), 1000, 0, decision);
  assert.equal(booking?.row, 1);
  assert.equal(decision.bookingRaces, 1);
  assert.equal(fleet.table.total.inFlight[0], 5);
});

test("after three lost races a node is taken at any depth under its limit", () => {
  const fleet = buildFleet({ nodes: [{ family: "A" }] });
  const decision = createDecision();
  const decider = interrupted(fleet, 100, () => Atomics.add(fleet.table.total.inFlight, 0, 1));
  assert.notEqual(decide(decider, fleet.request(), 1000, 0, decision), null);
  assert.equal(decision.bookingRaces, 3);
});

test("a decision that lost its place and finds no other names no node", () => {
  const fleet = buildFleet({ nodes: [{ family: "A", maxInFlight: 1 }] });
  const decision = createDecision();
  const decider = interrupted(fleet, 1000, () => Atomics.store(fleet.table.total.inFlight, 0, 1));
  const booking = decide(decider, fleet.request(), 1000, 0, decision);
  assert.equal(booking, null);
  assert.equal(REASONS[decision.reason], "queue_saturated");
  assert.deepEqual(
    [decision.row, decision.placement, decision.position, decision.family, decision.depth, decision.estimateMs],
    [-1, -1, -1, -1, Number.NaN, Number.NaN],
  );
});

test("a node whose cooldown began while the decision was made is not booked", () => {
  const fleet = buildFleet({ nodes: [{ family: "A", tokensPerSecond: 1001 }, { family: "A" }] });
  const decision = createDecision();
  const decider = interrupted(fleet, 1, () => {
    fleet.table.cooldownUntil[0] = tickOf(31_000);
    fleet.table.cooldownFrom[0] = tickOf(1000);
    fleet.table.failedAtPoll[0] = (fleet.table.goodPolls[0] ?? 0) + 1;
  });
  const booking = decide(decider, fleet.request(), 1000, 0, decision);
  assert.equal(booking?.row, 1);
  assert.equal(fleet.table.trialUntil[0], 0);
});

test("a node that began to drain while the decision was made is not booked", () => {
  const fleet = buildFleet({ nodes: [{ family: "A", tokensPerSecond: 1001 }, { family: "A" }] });
  const decider = interrupted(fleet, 1, () => {
    fleet.table.isDraining[0] = 1;
  });
  assert.equal(decide(decider, fleet.request(), 1000, 0, createDecision())?.row, 1);
});

test("a place taken while the count is one too low, as when a dead worker's share is taken out, is a booking", () => {
  const fleet = buildFleet({ nodes: [{ family: "A" }], workers: 2 });
  const { table } = fleet;
  Atomics.sub(table.total.inFlight, 0, 1);
  const decision = createDecision();
  const booking = decide(fleet.decider(), fleet.request(), 1000, 0, decision);
  assert.ok(booking !== null, "the place that was taken has to be given back by somebody");
  assert.equal(decision.depth, 0);
  assert.equal(decision.bookingRaces, 0);
  releaseBooking(table, 0, booking, 1000);
  Atomics.add(table.total.inFlight, 0, 1);
  assert.deepEqual(outstanding(table), {});
});
