import assert from "node:assert/strict";
import { it } from "node:test";
import { createFleetTable, takeNodeRow, takePlacementRow } from "@zml/engine";
import { type NodeReading, UNKNOWN_READING } from "./adapters/adapter.ts";
import { vllm } from "./adapters/vllm.ts";
import { KeptConnections } from "./kept-connection.ts";
import { measureCapacity } from "./measure-capacity.ts";
import type { NodeSpec } from "./node-spec.ts";
import type { RoundResult } from "./poll-round.ts";
import { createPolledNode } from "./polled-node.ts";
import { writeCapacities } from "./write-row.ts";

function nodeOf(models: readonly string[]) {
  const table = createFleetTable({ nodes: 1, workers: 1 });
  takeNodeRow(table, 0, { family: 0, identity: 0, maxInFlight: 8, cooldownMs: 1, priceUsdPerHour: 1 });
  const placements = models.map((name, placement) => {
    takePlacementRow(table, placement);
    return { model: placement, name, upstreamId: name, placement };
  });
  const spec = { row: 0, id: "n", url: "http://n", placements } as unknown as NodeSpec;
  const node = createPolledNode(spec, new KeptConnections().createPlace());
  const scrape = (atMs: number, reading: Partial<NodeReading>) => {
    const result = { scrapedAtMs: atMs, scrapeUncertainMs: 1 } as RoundResult;
    const measured = measureCapacity(node, vllm, { ...UNKNOWN_READING, ...reading }, { table, result, nowMs: atMs });
    writeCapacities(table, spec, measured);
    return measured;
  };
  return { table, node, scrape };
}

const load = (id: string, running: number, generationTokensTotal: number) => ({
  id,
  running,
  waiting: 0,
  generationTokensTotal,
});

it("each model gets its own capacity where the node splits its numbers, and an idle one none", () => {
  const { table, scrape } = nodeOf(["a", "b", "c"]);
  const at = (atMs: number, a: number, b: number) =>
    scrape(atMs, {
      running: 16,
      generationTokensTotal: a + b,
      byModel: [load("a", 8, a), load("b", 8, b), load("c", 0, 7)],
    });
  at(0, 0, 0);
  at(5_000, 10_000, 500);
  assert.equal(table.measuredTokensPerSecond[0], 2_000);
  assert.equal(table.measuredTokensPerSecond[1], 100);
  assert.ok(Number.isNaN(table.measuredTokensPerSecond[2] as number));
});

it("a node that does not split its numbers has one capacity for all its models", () => {
  const { table, scrape } = nodeOf(["a", "b"]);
  scrape(0, { running: 8, generationTokensTotal: 0 });
  scrape(5_000, { running: 8, generationTokensTotal: 5_000 });
  assert.deepEqual([table.measuredTokensPerSecond[0], table.measuredTokensPerSecond[1]], [1_000, 1_000]);
});

it("a model that is gone is forgotten, so that its counter begins anew when it is back", () => {
  const { node, scrape } = nodeOf(["a"]);
  scrape(0, { byModel: [load("a", 8, 0)] });
  scrape(5_000, { byModel: [] });
  assert.equal(node.modelMeters.size, 0);
  assert.deepEqual(scrape(10_000, { byModel: [load("a", 8, 9_000)] }), []);
});
