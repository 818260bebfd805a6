import assert from "node:assert/strict";
import { test } from "node:test";
import { createFleetTable } from "@zml/engine";
import { currentSamples } from "./current-samples.ts";
import { Fleet } from "./fleet.ts";
import { createNameRegistry } from "./name-registry.ts";
import type { ReportedSample } from "./read-samples.ts";
import { configured } from "./testing/configured.ts";

function setUp(rows = 1) {
  const names = createNameRegistry();
  const table = createFleetTable({ nodes: rows, workers: 1 });
  const fleet = new Fleet(table, names);
  const apply = (nodes: string) => {
    const { config, secrets } = configured(`nodes: [${nodes}]\n`);
    fleet.setConfig(config, secrets);
    return fleet.commit();
  };
  const sampleOf = (id: string, model: string): ReportedSample => {
    const node = [...fleet.nodes].find(({ config }) => config.id === id);
    assert.ok(node !== undefined);
    return {
      row: node.row,
      identity: table.identity[node.row] as number,
      placement: node.placements.get(model) ?? -1,
      model: names.models.find(node.config.account, model),
      outcome: "success",
      outputTokens: 8,
      promptTokens: 8,
      durationMs: 100,
      firstTokenMs: 10,
      atMs: 1,
    };
  };
  return {
    fleet,
    apply,
    sampleOf,
    current: (...samples: ReportedSample[]) => currentSamples(samples, { fleet, names }),
  };
}

const node = (id: string, model = "m") => `{ id: ${id}, url: "http://${id}:8000", family: H100, models: [${model}] }`;

test("a sample of a node that is there is taken as it is", () => {
  const { apply, sampleOf, current } = setUp();
  apply(node("a"));
  const sample = sampleOf("a", "m");
  assert.ok(sample.placement >= 0 && sample.identity >= 0);
  assert.deepEqual(current(sample), [sample]);
});

test("a late sample is not learned by the node that has the row by then", () => {
  const { fleet, apply, sampleOf, current } = setUp();
  apply(node("a"));
  const late = sampleOf("a", "m");
  const { version } = apply("");
  assert.equal(fleet.collect(version), 1);
  assert.deepEqual(current(late), [], "nobody has the row");
  apply(node("b"));
  assert.equal(sampleOf("b", "m").row, late.row);
  assert.deepEqual(current(late), []);
  assert.equal(current(sampleOf("b", "m")).length, 1);
});

test("a late sample is not learned by the model that has the placement by then", () => {
  const { fleet, apply, sampleOf, current } = setUp();
  apply(node("a", "m"));
  const late = sampleOf("a", "m");
  const { version } = apply(node("a", "n"));
  fleet.collect(version);
  apply(node("a", "n, o"));
  assert.ok([sampleOf("a", "n"), sampleOf("a", "o")].some(({ placement }) => placement === late.placement));
  assert.deepEqual(current(late), [{ ...late, placement: -1 }], "the node itself still learns from it");
});
