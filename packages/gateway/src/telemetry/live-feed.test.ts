import assert from "node:assert/strict";
import { test } from "node:test";
import { createFleetTable, ENDINGS, type FleetTable } from "@zml/engine";
import { type LiveJson, liveSchema } from "@zml/protocol/admin";
import { createNameRegistry } from "../control/name-registry.ts";
import { LiveFeed, type LiveNode } from "./live-feed.ts";
import { type RequestFlow, RequestMetrics, type RequestTotals } from "./request-metrics.ts";

const NO_TOTALS = new RequestMetrics({
  names: createNameRegistry(),
  targetMs: () => Number.NaN,
  seriesMax: () => 100,
}).totals();

interface Scene {
  readonly table: FleetTable;
  nodes: LiveNode[];
  nowMs: number;
  totals: RequestTotals;
  /** Times that the fleet was read. */
  looks: number;
  feed: LiveFeed;
  ask(since?: string | null): LiveJson;
}

/** A fleet that a test writes into. */
function scene(count: number): Scene {
  const table = createFleetTable({ nodes: Math.max(1, count), workers: 1 });
  const made: Scene = {
    table,
    nodes: Array.from({ length: count }, (_, row) => node(row)),
    nowMs: 10_000,
    totals: NO_TOTALS,
    looks: 0,
    feed: null as unknown as LiveFeed,
    ask: (since = null) => JSON.parse(made.feed.answer(since)) as LiveJson,
  };
  for (let row = 0; row < count; row++) {
    table.isLive[row] = 1;
    table.goodPolls[row] = 1;
    table.maxInFlight[row] = 8;
    table.polledAtMs[row] = 9_000;
    table.priceUsdPerHour[row] = 23.92;
    table.waiting[row] = 12;
  }
  made.feed = restarted(made, "first");
  return made;
}

function restarted(made: Scene, start: string): LiveFeed {
  return new LiveFeed(
    {
      nodes: () => {
        made.looks += 1;
        return made.nodes;
      },
      table: made.table,
      version: () => 3,
      totals: () => made.totals,
      money: () => ({ costUsd: 3, failedUsd: 1, comparedUsd: 2, baselineUsd: 5 }),
      parked: () => 2,
      nowMs: () => made.nowMs,
      unixMs: () => 0,
    },
    start,
  );
}

function node(row: number, engine: "vllm" | "sglang" = "vllm"): LiveNode {
  const id = `n${String(row).padStart(4, "0")}`;
  return { row, engine, placements: new Map(), config: { id, family: "H100", account: "default" } };
}

test("the first answer has everything, and is what the schema says", () => {
  const made = scene(2);
  const json = made.ask();
  assert.deepEqual(liveSchema.parse(json), json);
  assert.deepEqual(json.nodes?.id, ["n0000", "n0001"]);
  assert.deepEqual(json.columns.depth, { rows: null, values: [0, 0] });
  assert.equal(json.states[json.columns.state.values[0] ?? -1], "healthy");
  assert.deepEqual(json.columns.tokens_per_second.values, [null, null], "what is unknown is null");
  assert.deepEqual([json.totals.parked, json.totals.price_usd_per_hour], [2, 47.84]);
  assert.deepEqual(Object.keys(json.totals.endings), [...ENDINGS]);
});

test("then only what changed is told, however many steps the reader missed", () => {
  const made = scene(6);
  const first = made.ask();
  made.table.polledAtMs[1] = 10_500;
  made.nowMs += 1_000;
  const second = made.ask(first.mark);
  assert.equal(second.nodes, null);
  assert.deepEqual(second.columns.polled_at_ms, { rows: [1], values: [10_500] });
  assert.deepEqual(second.columns.depth, { rows: [], values: [] });
  made.table.waiting[5] = Number.NaN;
  made.nowMs += 1_000;
  const late = made.ask(first.mark);
  assert.deepEqual(late.columns.polled_at_ms, { rows: [1], values: [10_500] });
  assert.deepEqual(late.columns.waiting, { rows: [5], values: [null] });
  assert.deepEqual(made.ask(second.mark).columns.polled_at_ms, { rows: [], values: [] });
});

test("a column of which more than half changed is told whole", () => {
  const made = scene(4);
  const { mark } = made.ask();
  made.table.waiting.fill(3);
  made.nowMs += 1_000;
  assert.deepEqual(made.ask(mark).columns.waiting, { rows: null, values: [3, 3, 3, 3] });
});

test("everything is told anew when a node joined, left, became another engine, or the gateway started again", () => {
  const made = scene(2);
  const changes: (() => void)[] = [
    () => {
      made.nodes = [node(0)];
    },
    () => {
      made.nodes = [node(0), node(1)];
    },
    () => {
      made.nodes = [node(0), node(1, "sglang")];
    },
    () => {
      made.feed = restarted(made, "second");
    },
  ];
  let { mark } = made.ask();
  for (const change of changes) {
    change();
    made.nowMs += 1_000;
    const json = made.ask(mark);
    assert.equal(json.nodes?.id.length, made.nodes.length);
    assert.equal(json.columns.depth.rows, null);
    mark = json.mark;
  }
  for (const since of ["", "x", "first-1-1", "second-1-zzzz", "second-1", "second-1-1-1"]) {
    assert.notEqual(made.ask(since).nodes, null, since);
  }
});

test("flows and targets that did not change are not told again", () => {
  const made = scene(1);
  const flow = (policy: string, requests: number): RequestFlow => {
    return { account: "default", policy, family: "H100", requests, delivered: requests };
  };
  const target = (policy: string, judged: number) => ({ account: "default", policy, judged, within: 1 });
  made.totals = { ...NO_TOTALS, flows: [flow("a", 1), flow("b", 1)], targets: [target("a", 1), target("b", 1)] };
  const first = made.ask();
  assert.equal(first.flows.length, 2);
  made.totals = { ...NO_TOTALS, flows: [flow("a", 1), flow("b", 2)], targets: [target("a", 1), target("b", 2)] };
  made.nowMs += 1_000;
  assert.deepEqual(
    made.ask(first.mark).flows.map(({ policy, requests }) => [policy, requests]),
    [["b", 2]],
  );
  assert.deepEqual(made.ask(first.mark).attainment, [{ account: "default", policy: "b", judged: 2, within_target: 1 }]);
});

test("the fleet is read once per step for all readers, and never while nobody asks", () => {
  const made = scene(3);
  assert.equal(made.looks, 0);
  const { mark } = made.ask();
  for (let reader = 0; reader < 20; reader++) made.ask(reader % 2 === 0 ? mark : null);
  assert.equal(made.looks, 1);
  made.nowMs += 60_000;
  made.ask(mark);
  assert.equal(made.looks, 2);
});

test("a larger fleet is told of less often", () => {
  assert.equal(scene(11).ask().every_ms, 1_000);
  const made = scene(16_384);
  const { every_ms, mark } = made.ask();
  assert.equal(every_ms, 4_096);
  made.nowMs += 3_000;
  made.ask(mark);
  assert.equal(made.looks, 1);
});

test("a second of 1,000 nodes of which a fifth was polled is less than 8 KB, for twenty tabs less CPU than one whole answer", () => {
  const made = scene(1_000);
  let { mark } = made.ask();
  /** CPU of so many steps with so many readers each, ms. */
  const cpuOf = (steps: number, readers: number, isWhole: boolean): number => {
    const before = process.threadCpuUsage();
    for (let step = 0; step < steps; step++) {
      made.nowMs += 1_000;
      for (let row = step % 5; row < 1_000; row += 5) made.table.polledAtMs[row] = made.nowMs;
      let next = mark;
      for (let reader = 0; reader < readers; reader++) {
        const text = made.feed.answer(isWhole ? null : mark);
        if (reader === 0) next = (/"mark":"([^"]+)"/.exec(text) as RegExpExecArray)[1] as string;
        if (!isWhole) assert.ok(text.length < 8_000, `${text.length} bytes`);
      }
      mark = next;
    }
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1000 / steps;
  };
  cpuOf(50, 20, false);
  cpuOf(50, 1, true);
  const [changes, whole] = [cpuOf(200, 20, false), cpuOf(200, 1, true)];
  assert.ok(changes < whole, `${changes} ms for changes, ${whole} ms for everything`);
});

test("dollars since the start stand beside the counts", () => {
  const { cost_usd, failed_cost_usd, compared_cost_usd, baseline_cost_usd } = scene(0).ask().totals;
  assert.deepEqual([cost_usd, failed_cost_usd, compared_cost_usd, baseline_cost_usd], [3, 1, 2, 5]);
});
