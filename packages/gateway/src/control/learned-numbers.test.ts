import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  applySamples,
  createFleetTable,
  type FleetTable,
  takeModelRow,
  takeNodeRow,
  takePlacementRow,
} from "@zml/engine";
import type { LearnedNumber } from "../store/operations.ts";
import { LearnedNumbers, type LearnedSources } from "./learned-numbers.ts";

/** A process: `origin` is when it began, Unix ms; its nodes serve model `m`, each on another row. */
function processOf({ origin, ids, firstRow = 0 }: { origin: number; ids: readonly string[]; firstRow?: number }) {
  const table = createFleetTable({ nodes: 16, workers: 1 });
  takeModelRow(table, 0);
  const nodes: unknown[] = [];
  const add = (id: string, account = "default", family = "H100") => {
    const row = firstRow + nodes.length;
    takeNodeRow(table, row, { family: 0, identity: row, maxInFlight: 8, cooldownMs: 1, priceUsdPerHour: 1 });
    takePlacementRow(table, row);
    nodes.push({ row, config: { id, url: `http://${id}`, account, family }, placements: new Map([["m", row]]) });
    return row;
  };
  for (const id of ids) add(id);
  const models = new Map([["m", { account: "default", name: "m", index: 0 }]]);
  const fleet = { nodes, directory: { models } } as unknown as LearnedSources["fleet"];
  const learned = new LearnedNumbers({ table, fleet, nowMs: () => 9_000, unixOriginMs: origin });
  return { table, learned, add };
}

function serve(table: FleetTable, row: number, attempts: number): void {
  const sample = { row, placement: row, model: 0, promptTokens: 9, outputTokens: 101, firstTokenMs: 100, atMs: 8_000 };
  for (let attempt = 0; attempt < attempts; attempt++) {
    applySamples(table, [{ ...sample, durationMs: 1_100, outcome: attempt === 0 ? "failure" : "success" }]);
  }
}

describe("what was learned", () => {
  it("is the same in the next process, on other rows, with its samples and its age", () => {
    const first = processOf({ origin: 1_000_000, ids: ["a", "b"] });
    serve(first.table, 1, 40);
    first.table.measuredTokensPerSecond[1] = 1234;
    first.table.polledAtMs[1] = 8_500;
    const next = processOf({ origin: 1_050_000, ids: ["b", "a"], firstRow: 5 });
    next.learned.importLearned(structuredClone(first.learned.exportLearned()));
    const { table } = next;
    assert.equal(table.measuredTokensPerSecond[5], 1234);
    assert.equal(table.tokensPerSecond[5], 1234, "decisions read it at once");
    assert.equal(table.streamTokensPerSecond[5], first.table.streamTokensPerSecond[1]);
    assert.equal(table.placementErrorRate[5], first.table.placementErrorRate[1]);
    assert.equal(table.errorRate[5], first.table.errorRate[1]);
    assert.equal(table.meanOutputTokens[0], first.table.meanOutputTokens[0]);
    assert.equal(table.ownSamples[5], 40);
    assert.equal(table.ownSampledAtMs[5], 8_000 - 50_000);
    assert.equal(table.lastSuccessAtMs[5], 8_000 - 50_000);
    assert.ok(Number.isNaN(table.measuredTokensPerSecond[6] as number), "nothing was learned of the other node");
  });

  it("does not overwrite what this process has measured", () => {
    const first = processOf({ origin: 0, ids: ["a"] });
    serve(first.table, 0, 5);
    const next = processOf({ origin: 0, ids: ["a"] });
    serve(next.table, 0, 1);
    const before = [next.table.errorRate[0], next.table.ownSamples[0]];
    next.learned.importLearned(first.learned.exportLearned());
    assert.deepEqual([next.table.errorRate[0], next.table.ownSamples[0]], before);
  });

  it("is not believed of a node that is on another family now, but for what says nothing of the hardware", () => {
    const first = processOf({ origin: 0, ids: ["a"] });
    serve(first.table, 0, 5);
    first.table.measuredTokensPerSecond[0] = 77;
    first.table.polledAtMs[0] = 1;
    const rows = first.learned.exportLearned();
    const next = processOf({ origin: 0, ids: [] });
    const row = next.add("a", "default", "MI300X");
    next.learned.importLearned(rows);
    assert.ok(Number.isNaN(next.table.measuredTokensPerSecond[row] as number));
    assert.ok(Number.isNaN(next.table.measuredStreamTokensPerSecond[row] as number));
    assert.ok(Number.isNaN(next.table.ownSamples[row] as number));
    assert.equal(next.table.meanOutputTokens[0], first.table.meanOutputTokens[0]);
    const old = processOf({ origin: 0, ids: ["a"] });
    old.learned.importLearned(rows.map((number) => ({ ...number, family: "" })));
    assert.equal(old.table.measuredTokensPerSecond[0], 77, "an old store does not tell the family");
  });

  it("of a process whose clock ran ahead is dated now, so that what is learned from now on is newer", () => {
    const first = processOf({ origin: 86_400_000, ids: ["a", "b"] });
    serve(first.table, 0, 5);
    serve(first.table, 1, 5);
    const next = processOf({ origin: 0, ids: ["a"] });
    next.learned.importLearned(first.learned.exportLearned());
    const newest = Math.max(...next.learned.exportLearned().map(({ updatedAtMs }) => updatedAtMs));
    assert.ok(newest <= 9_000, `${newest} ms`);
  });

  it("waits for a node that comes later, is exported meanwhile, and is another account's never", () => {
    const first = processOf({ origin: 0, ids: ["a"] });
    first.table.measuredTokensPerSecond[0] = 77;
    first.table.polledAtMs[0] = 1;
    const next = processOf({ origin: 0, ids: [] });
    next.learned.importLearned(first.learned.exportLearned());
    assert.equal(next.learned.exportLearned().filter(({ name }) => name === "tokens_per_second").length, 1);
    const stranger = next.add("a", "other");
    next.learned.apply();
    assert.ok(Number.isNaN(next.table.measuredTokensPerSecond[stranger] as number));
    const row = next.add("a");
    next.learned.apply();
    assert.equal(next.table.measuredTokensPerSecond[row], 77);
    assert.deepEqual(
      next.learned.exportLearned().filter(({ name }) => name === "tokens_per_second"),
      [],
      "it was never polled here, so that it has no age",
    );
  });

  it("leaves out rows that no process can have learned", () => {
    const { table, learned } = processOf({ origin: 0, ids: ["a"] });
    const row: LearnedNumber = {
      account: "default",
      node: "a",
      url: "http://a",
      family: "H100",
      model: "m",
      name: "tokens_per_second",
      value: 5,
      samples: 1,
      updatedAtMs: 0,
    };
    learned.importLearned([
      { ...row, value: Number.POSITIVE_INFINITY },
      { ...row, value: -5 },
      { ...row, value: 1e300 },
      { ...row, samples: Number.NaN },
      { ...row, name: "error_rate", value: 1.5 },
      { ...row, name: "colour" },
      { ...row, model: "", name: "tokens_per_second" },
    ]);
    assert.ok(Number.isNaN(table.measuredTokensPerSecond[0] as number));
    assert.ok(Number.isNaN(table.placementErrorRate[0] as number));
    assert.deepEqual(learned.exportLearned(), []);
  });
});
