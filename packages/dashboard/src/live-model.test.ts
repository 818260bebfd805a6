import assert from "node:assert/strict";
import { test } from "node:test";
import type { LiveJson } from "@zml/protocol/admin";
import { ForeignAnswer, merged } from "./live-model.ts";

type Told = { rows: number[] | null; values: (number | null)[] };

const NOTHING: Told = { rows: [], values: [] };
const COLUMNS = [
  ...["state", "depth", "in_flight", "waiting", "max_in_flight", "tokens_per_second", "health_score"],
  ...["price_usd_per_hour", "polled_at_ms", "cooldown_until_ms", "attempts", "failed"],
];

function answer(over: Partial<LiveJson>, columns: Record<string, Told> = {}): LiveJson {
  const all = Object.fromEntries(COLUMNS.map((name) => [name, NOTHING]));
  return {
    at: "",
    clock_ms: 10_000,
    version: 1,
    mark: "s-1-1",
    every_ms: 1_000,
    nodes: null,
    states: ["healthy"],
    columns: { ...all, ...columns } as unknown as LiveJson["columns"],
    totals: { endings: {} } as unknown as LiveJson["totals"],
    attainment: [],
    flows: [],
    ...over,
  };
}

const TWO = { id: ["a", "b"], family: ["F", "F"], account: ["x", "x"], engine: [null, null] };
const flow = (policy: string, requests: number) => {
  return { account: "x", policy, family: "F", requests, delivered: 0 };
};

test("rows that changed are put into what was known, which stays as it was", () => {
  const first = merged(null, answer({ nodes: TWO }, { depth: { rows: null, values: [1, 2] } }));
  const second = merged(first, answer({ mark: "s-1-2" }, { depth: { rows: [1], values: [7] } }));
  assert.deepEqual([first.columns.depth, second.columns.depth], [[1, 2], [1, 7]]); // biome-ignore format: one line
  assert.deepEqual(second.names.id, ["a", "b"]);
  assert.equal(first.layout, second.layout);
});

test("ages and times left run on the gateway's clock", () => {
  const told = { polled_at_ms: { rows: null, values: [9_000, null] }, cooldown_until_ms: { rows: null, values: [null, 12_000] } }; // biome-ignore format: one line
  const first = merged(null, answer({ nodes: TWO }, told));
  assert.deepEqual(first.columns.data_age_ms, [1_000, null]);
  assert.deepEqual(first.columns.cooldown_ms, [null, 2_000]);
  assert.deepEqual(merged(first, answer({ clock_ms: 11_500 })).columns.data_age_ms, [2_500, null]);
});

test("another list of nodes begins anew", () => {
  const first = merged(null, answer({ nodes: TWO, flows: [flow("p", 1)] }, { depth: { rows: null, values: [1, 2] } }));
  const one = { id: ["c"], family: ["G"], account: ["x"], engine: [null] };
  const next = merged(first, answer({ mark: "s-2-2", nodes: one }, { depth: { rows: null, values: [5] } }));
  assert.deepEqual([next.names.id, next.columns.depth, next.flows], [["c"], [5], []]);
  assert.notEqual(next.layout, first.layout);
});

test("flows that changed replace those of their name", () => {
  const first = merged(null, answer({ nodes: TWO, flows: [flow("p", 1), flow("q", 1)] }));
  const { flows } = merged(first, answer({ flows: [flow("q", 4), flow("r", 1)] }));
  assert.deepEqual(
    flows.map(({ policy, requests }) => `${policy}${requests}`),
    ["p1", "q4", "r1"],
  );
});

test("a gateway without a column leaves it unknown, and an answer of another kind is told apart", () => {
  const { waiting, ...columns } = answer({}).columns;
  assert.ok(waiting);
  const older = merged(null, { ...answer({ nodes: TWO }), columns: columns as LiveJson["columns"] });
  assert.deepEqual(older.columns.waiting, [null, null]);
  for (const foreign of [answer({}), { ok: true }, { ...answer({ nodes: TWO }), flows: null }]) {
    assert.throws(() => merged(null, foreign as unknown as LiveJson), ForeignAnswer);
  }
});
