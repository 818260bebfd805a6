import assert from "node:assert/strict";
import { test } from "node:test";
import { PLACEMENTS_PER_NODE } from "./bounds.ts";
import { decide } from "./decide.ts";
import { createDecision } from "./decision.ts";
import { applyUpdate } from "./directory.ts";
import { REASONS } from "./reasons.ts";
import { buildFleet, type Fleet } from "./testing/fleet.ts";

/** Three rows of one family, of which the model `m` is served by those given. */
const fleet = (nodes: readonly number[]) =>
  buildFleet({ nodes: [{ family: "A" }, { family: "A" }, { family: "A" }], models: [{ name: "m", nodes }] });

/** A change of the configuration: the model is now served by these rows. */
function relist(on: Fleet, rows: readonly number[]): void {
  const { rowSet: _, nodesOfFamily: __, ...model } = on.request().model;
  const placements = Int32Array.from(rows, (row) => row * PLACEMENTS_PER_NODE);
  const models = [{ ...model, rows: Int32Array.from(rows), placements, families: new Int32Array(rows.length) }];
  applyUpdate(on.directory, { version: on.directory.version + 1, models });
}

test("a request that waited is sent to a node that was added meanwhile", () => {
  const on = fleet([0]);
  on.table.maxInFlight[0] = 0;
  const request = on.request();
  const decision = createDecision();
  assert.equal(decide(on.decider(), request, 0, 0, decision), null);
  relist(on, [0, 1]);
  assert.equal(decide(on.decider(), request, 0, 0, decision)?.row, 1);
});

test("a request that waited is never sent to a row that left its model and is another node's by now", () => {
  const on = fleet([0, 1]);
  on.table.maxInFlight[0] = 0;
  const request = on.request();
  relist(on, [0]);
  assert.equal(decide(on.decider(), request, 0, 0, createDecision()), null);
});

test("a request whose model is gone finds no node, and keeps the model's name", () => {
  const on = fleet([0]);
  const request = on.request();
  const removeModels = [{ account: "default", name: "m" }];
  applyUpdate(on.directory, { version: 2, removeModels });
  const decision = createDecision();
  assert.equal(decide(on.decider(), request, 0, 0, decision), null);
  assert.equal(REASONS[decision.reason], "no_node_available");
  assert.deepEqual([request.model.name, request.model.index, request.model.rows.length], ["m", 0, 0]);
});
