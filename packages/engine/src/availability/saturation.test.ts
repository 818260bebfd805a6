import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../decide.ts";
import { createDecision } from "../decision.ts";
import { noteFailedRow } from "../route-request.ts";
import { buildFleet, type NodeSpec } from "../testing/fleet.ts";

const NOW_MS = 1_600_000;
/** Its cooldown lasts, and polls have succeeded since. */
const COOLING: Partial<NodeSpec> = { cooldownUntilMs: NOW_MS + 16_000, goodPolls: 2, goodPollsAtFailure: 1 };

/** Row that a request gets in a fleet of one cooling node and this one, on which it has failed or not. */
function rowBeside(other: Partial<NodeSpec>, hasFailed: boolean): number {
  const fleet = buildFleet({
    nodes: [
      { family: "A", ...COOLING },
      { family: "A", ...other },
    ],
  });
  const request = fleet.request();
  if (hasFailed) noteFailedRow(request, 1);
  return decide(fleet.decider(), request, NOW_MS, 0, createDecision())?.row ?? -1;
}

test("while every node cools, one that answers polls again is tried, though the request failed on the other", () => {
  assert.equal(rowBeside({ ...COOLING, goodPollsAtFailure: 2 }, true), 0);
});

test("a node that failed the request without a cooldown is well: no cooling one is tried early", () => {
  assert.equal(rowBeside({ isOverloaded: true }, true), -1);
  assert.equal(rowBeside({ misconfiguredUntilMs: NOW_MS + 16_000 }, true), -1);
});

test("a node that drains, is down or was never polled keeps no cooling one from being tried", () => {
  for (const out of [{ isDraining: true }, { isUnhealthy: true }, { goodPolls: 0 }]) {
    for (const hasFailed of [false, true]) assert.equal(rowBeside(out, hasFailed), 0);
  }
});

test("Retry-After counts who waits for the model, not who waits for others", () => {
  const fleet = buildFleet({
    nodes: [{ family: "A", maxInFlight: 0, drainPerSecond: 0.5 }],
    models: [{ name: "m" }, { name: "other" }],
  });
  fleet.park({ model: "m" });
  for (let each = 0; each < 9; each++) fleet.park({ model: "other" });
  const decision = createDecision();
  decide(fleet.decider(), fleet.request(), NOW_MS, 0, decision);
  assert.equal(decision.retryAfterMs, 4_000);
});
