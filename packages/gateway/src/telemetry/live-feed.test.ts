import assert from "node:assert/strict";
import { test } from "node:test";
import { ENDINGS } from "@zml/engine";
import type { FleetReportJson, NodeReportJson } from "../control/fleet-report.ts";
import { createNameRegistry } from "../control/name-registry.ts";
import { liveFeed } from "./live-feed.ts";
import { RequestMetrics } from "./request-metrics.ts";

const CONTEXT = { knownTag: null, clockMs: 5, unixMs: 0 };

function report(nodes: readonly Partial<NodeReportJson>[]): FleetReportJson {
  const whole = nodes.map((node, index) => ({
    id: `n${index}`,
    family: "H100",
    account: "default",
    engine: "vllm",
    state: "healthy",
    depth: 1,
    in_flight: 1,
    waiting: null,
    max_in_flight: 8,
    tokens_per_second: 1234.567,
    health_score: 99.999,
    price_usd_per_hour: null,
    data_age_ms: 10,
    cooldown_remaining_ms: null,
    ...node,
  }));
  const totals = { parked: 2, in_flight: 1, depth: 1, price_usd_per_hour: null };
  return { version: 3, nodes: whole, models: [], totals } as unknown as FleetReportJson;
}

const totals = () =>
  new RequestMetrics({ names: createNameRegistry(), targetMs: () => Number.NaN, seriesMax: () => 100 }).totals();

test("names come once, and again when a node joined, left or became another engine", () => {
  const first = liveFeed(report([{}, {}]), totals(), CONTEXT);
  assert.deepEqual(first.nodes?.id, ["n0", "n1"]);
  const tagged = { ...CONTEXT, knownTag: first.nodes_tag };
  assert.equal(liveFeed(report([{}, { depth: 7 }]), totals(), tagged).nodes, null);
  assert.notEqual(liveFeed(report([{}]), totals(), tagged).nodes, null);
  assert.notEqual(liveFeed(report([{}, { engine: "sglang" }]), totals(), tagged).nodes, null);
});

test("what is unknown is null, and states are named once", () => {
  const { columns, states } = liveFeed(
    report([{ state: "cooling_down", cooldown_remaining_ms: 900 }]),
    totals(),
    CONTEXT,
  );
  assert.equal(states[columns.state[0] ?? -1], "cooling_down");
  assert.deepEqual([columns.waiting, columns.price_usd_per_hour], [[null], [null]]);
  assert.deepEqual([columns.tokens_per_second, columns.health_score], [[1235], [100]]);
});

test("every way to end has a total from the start", () => {
  assert.deepEqual(Object.keys(liveFeed(report([]), totals(), CONTEXT).totals.endings), [...ENDINGS]);
});

test("a second of a fleet of 1,000 nodes is less than 80 KB", () => {
  const nodes = Array.from({ length: 1_000 }, () => ({ waiting: 12, price_usd_per_hour: 23.92 }));
  const { nodes_tag } = liveFeed(report(nodes), totals(), CONTEXT);
  const bytes = JSON.stringify(liveFeed(report(nodes), totals(), { ...CONTEXT, knownTag: nodes_tag })).length;
  assert.ok(bytes < 80_000, `${bytes} bytes`);
});
