import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeView } from "./fleet-view.ts";
import { readFleet } from "./fleet-view.ts";
import { chooseVictim } from "./outage.ts";

const node = (id: string, inFlight: number): NodeView => ({
  id,
  family: "H100",
  engine: "vllm",
  state: "healthy",
  depth: inFlight,
  inFlight,
  tokensPerSecond: 1000,
  healthScore: 100,
  usdPerHour: 2,
});
const nodes = [node("a", 2), node("b", 5), node("c", 1)];
const evenly = { shareOf: () => 0.3 };

test("the node to kill is the one with most answers under way", () => {
  assert.equal(chooseVictim(nodes, [{ isStream: false, node: null }], evenly)?.id, "b");
});

test("a node that streams is not killed, and none is while a stream's node is unknown", () => {
  assert.equal(chooseVictim(nodes, [{ isStream: true, node: "b" }], evenly)?.id, "a");
  assert.equal(chooseVictim(nodes, [{ isStream: true, node: null }], evenly), null);
});

test("an idle node and one with hardly any traffic are not worth killing", () => {
  assert.equal(chooseVictim([node("a", 1), node("b", NaN)], [], evenly), null);
  assert.equal(chooseVictim(nodes, [], { shareOf: (id) => (id === "b" ? 0.01 : 0.3) })?.id, "a");
  assert.equal(chooseVictim(nodes, [], { shareOf: () => NaN }), null);
});

test("a fleet report is read with null as unknown, and refused without nodes", () => {
  const [view] = readFleet({ nodes: [{ id: "a", state: "not_polled", depth: 0, in_flight: 0, health_score: null }] });
  assert.equal(view?.state, "not_polled");
  assert.equal(view?.depth, 0);
  assert.ok(Number.isNaN(view?.healthScore));
  assert.throws(() => readFleet({}), /no list of nodes/);
  assert.throws(() => readFleet(null), /no list of nodes/);
});
