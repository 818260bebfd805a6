import assert from "node:assert/strict";
import { test } from "node:test";
import { PLACEMENTS_PER_NODE } from "../bounds.ts";
import { decide } from "../decide.ts";
import { createDecision } from "../decision.ts";
import { publish, takeNodeRow } from "../fleet-table.ts";
import { buildFleet } from "../testing/fleet.ts";
import { learnPromise } from "./promise-mix.ts";

const PROMPT = 1_000;

/** Two nodes of which the first costs half; steps grow by 0.2 ms a request, so that 40 make 18 ms of 10. */
function setUp() {
  const fleet = buildFleet({
    nodes: [
      { family: "A", priceUsdPerHour: 1 },
      { family: "A", priceUsdPerHour: 2 },
    ],
    policies: [{ name: "loose", tokenTargetMs: 60, ttftTargetMs: 5_000, estimator: "predictive" }],
    models: [{ meanOutputTokens: 100, policy: "loose" }],
  });
  const { table } = fleet;
  table.meanPromptTokens[0] = PROMPT;
  for (const row of [0, 1]) {
    const placement = row * PLACEMENTS_PER_NODE;
    table.stepBaseMs[placement] = 10;
    table.stepPerRequestMs[placement] = 0.2;
    table.stepPerPromptTokenMs[placement] = 0;
    table.firstPerTokenMs[placement] = 0.01;
    table.firstPerAheadMs[placement] = 0;
    table.firstSpread[placement] = 1.2;
    table.tokenSpread[placement] = 1.2;
    table.predictionError[placement] = 0.1;
    table.predictorSamples[placement] = 1_000;
  }
  const send = () => {
    const decision = createDecision();
    decide(fleet.decider(), fleet.request({ promptTokens: PROMPT, isStream: true }), 1_000, 0.5, decision);
    return decision.row;
  };
  const promise = (row: number, promisedMs: number, count = 1) =>
    publish(table, () => {
      for (let seen = 0; seen < count; seen++) learnPromise(table, row, promisedMs);
    });
  return { table, send, promise };
}

test("a loose request keeps off a node that is full of others' requests, which are as tight as ours were there", () => {
  const { table, send, promise } = setUp();
  table.foreign[0] = 60;
  assert.equal(send(), 0, "nothing is known of them");
  promise(0, 25, 10);
  assert.equal(send(), 1);
});

test("promises of others count where their requests are, and not on a node that has none", () => {
  const { table, send, promise } = setUp();
  promise(0, 25, 10);
  assert.equal(send(), 0);
  table.foreign[0] = Number.NaN;
  assert.equal(send(), 0, "unknown load is no load");
});

test("a kind of request that is rare on a node says nothing of others there, and what it was is forgotten in time", () => {
  const { table, promise } = setUp();
  promise(0, 60, 100);
  promise(0, 25);
  assert.equal(table.othersTightestUs[0], 60_000);
  promise(0, 25, 30);
  assert.equal(table.othersTightestUs[0], 25_000);
  promise(0, Number.NaN, 300);
  assert.ok(Number.isNaN(table.othersTightestUs[0] as number), "requests without a promise hold nobody back");
});

test("shares are those of the last requests, and a node that takes the row begins with nothing", () => {
  const { table, promise } = setUp();
  for (let seen = 0; seen < 200; seen++) promise(1, seen % 4 === 0 ? 25 : 60);
  const share = table.othersTightShare[1] as number;
  assert.ok(share > 0.15 && share < 0.35, `${share}`);
  assert.equal(table.othersTightestUs[1], 25_000);
  table.isLive[1] = 0;
  takeNodeRow(table, 1, { family: 0, identity: 9, maxInFlight: 8, cooldownMs: 1, priceUsdPerHour: 1 });
  assert.ok(Number.isNaN(table.othersTightestUs[1] as number));
  assert.equal(
    table.othersMix.reduce((sum, one) => sum + one, 0),
    0,
  );
});

test("promises of any size and none leave numbers that decisions can read", () => {
  const { table, promise } = setUp();
  for (const promisedMs of [0, -1, 1e-9, 1e308, Number.POSITIVE_INFINITY, Number.NaN]) {
    promise(0, promisedMs);
    const us = table.othersTightestUs[0] as number;
    assert.ok(Number.isNaN(us) || (us >= 1 && us <= 2 ** 30), `${us}`);
  }
});
