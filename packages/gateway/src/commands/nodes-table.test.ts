import assert from "node:assert/strict";
import { test } from "node:test";
import { nodePage } from "./nodes-page.ts";
import { filterNodes, nodesTable } from "./nodes-table.ts";
import { node, report } from "./testing/fleet-fixture.ts";

const FLEET = report([
  node("h100-a", {
    engine: "vllm",
    version: "0.32.0",
    depth: 12,
    waiting: 2,
    tokens_per_second: 1840.4,
    measured_tokens_per_second: 1840.4,
    stream_tokens_per_second: 61.5,
    measured_stream_tokens_per_second: 61.5,
    kv_use: 0.314,
    price_usd_per_hour: 2.99,
    unknown: {},
  }),
  node("mi300x-a", {
    family: "MI300X",
    engine: "sglang",
    version: "0.5.20",
    waiting: null,
    kv_use: null,
    price_usd_per_hour: 15.92,
    price_key: "aws/us-east-1/x/spot",
    price_age_ms: 240_000,
    models: ["llama3-70b", "org/another-model"],
    unknown: { waiting: "metrics_refused", kv_use: "metrics_refused", measured_tokens_per_second: "not_measured_yet" },
  }),
  node("mi300x-b", {
    family: "MI300X",
    engine: null,
    version: null,
    state: "unhealthy",
    state_detail: "timeout",
    waiting: null,
    kv_use: null,
    health_score: null,
    data_age_ms: 61_000,
    tokens_per_second: null,
    stream_tokens_per_second: null,
    unknown: {
      engine: "engine_not_detected",
      version: "node_down",
      waiting: "node_down",
      kv_use: "node_down",
      health_score: "node_down",
      price_usd_per_hour: "no_price",
      measured_tokens_per_second: "not_measured_yet",
    },
  }),
]);

const draw = (width: number, limit = Number.POSITIVE_INFINITY) =>
  nodesTable(FLEET, FLEET.nodes, { width, isColoured: false, limit });

test("the table shows every node with what is known, what is assumed, and why the rest is unknown", () => {
  assert.deepEqual(draw(Number.POSITIVE_INFINITY), [
    "NODE      FAMILY  ENGINE         STATE                 DEPTH  WAIT  TOK/S  STREAM  HEALTH   KV  USD/H  PRICE AGE   AGE  MODELS",
    "h100-a    H100    vllm 0.32.0    healthy              12/256     2   1840      62     100  31%   2.99          –  1.5s  llama3-70b",
    "mi300x-a  MI300X  sglang 0.5.20  healthy               0/256     –  ~1000     ~40     100    –  15.92         4m  1.5s  llama3-70b, org/another-model",
    "mi300x-b  MI300X  –              unhealthy (timeout)   0/256     –      –       –       –    –      –          –   61s  llama3-70b",
    "3 nodes, 2 healthy, depth 12, ~2840 tokens/s, USD 18.91/h and 1 without a price, 0 parked, 2 of 2 workers",
    "– its metrics are switched off, or ask for a key: wait, kv of mi300x-a",
    "~ it was not busy enough to show it yet, and is assumed: tok/s of mi300x-a, mi300x-b",
    "– its engine is not known yet: engine of mi300x-b",
    "– it is out, and what it told before says nothing about now: engine, wait, health, kv of mi300x-b",
    "– no price is configured: set cost.usd_per_gpu_hour or cost.price: usd/h of mi300x-b",
  ]);
});

test("80 columns hold every line, and what they have no room for is named", () => {
  const lines = draw(80);
  assert.deepEqual(lines.slice(0, 6), [
    "NODE      FAMILY  STATE                 DEPTH  WAIT  TOK/S  HEALTH   AGE",
    "h100-a    H100    healthy              12/256     2   1840     100  1.5s",
    "mi300x-a  MI300X  healthy               0/256     –  ~1000     100  1.5s",
    "mi300x-b  MI300X  unhealthy (timeout)   0/256     –      –       –   61s",
    "left out at 80 columns: engine, kv, stream, usd/h, models, price age (--wide",
    "  shows all)",
  ]);
  assert.deepEqual(
    lines.filter((line) => line.length > 80),
    [],
  );
  assert.doesNotMatch(lines.join("\n"), /kv of|no price is configured/, "no reason for a column that is not there");
});

test("a narrow window keeps node, state and depth", () => {
  const lines = draw(40);
  assert.match(lines[0] ?? "", /^NODE +STATE +DEPTH$/);
  assert.deepEqual(
    lines.slice(0, 4).filter((line) => line.length > 40),
    [],
  );
});

test("a limit cuts the rows, says how many are left, and counts all", () => {
  const lines = draw(Number.POSITIVE_INFINITY, 1);
  assert.match(lines[2] ?? "", /^… and 2 nodes more: --family, --model, --state choose, --limit 0 shows all$/);
  assert.match(lines[3] ?? "", /^3 nodes, 2 healthy/);
});

test("filters choose by family, model, state and id, together", () => {
  const ids = (filter: Parameters<typeof filterNodes>[1]) => filterNodes(FLEET, filter).map(({ id }) => id);
  assert.deepEqual(ids({}), ["h100-a", "mi300x-a", "mi300x-b"]);
  assert.deepEqual(ids({ family: "MI300X" }), ["mi300x-a", "mi300x-b"]);
  assert.deepEqual(ids({ model: "org/another-model" }), ["mi300x-a"]);
  assert.deepEqual(ids({ family: "MI300X", state: "unhealthy" }), ["mi300x-b"]);
  assert.deepEqual(ids({ id: "h100-a", state: "unhealthy" }), []);
  const shown = filterNodes(FLEET, { family: "H100" });
  const lines = nodesTable(FLEET, shown, { width: 200, isColoured: false, limit: 10 });
  assert.match(lines.at(-1) ?? "", /^1 of 3 nodes, 1 healthy, depth 12, 1840 tokens\/s, USD 2\.99\/h,/);
  const none = nodesTable(FLEET, [], { width: 200, isColoured: false, limit: 10 });
  assert.equal(none[0], "no node fits: the families are H100, MI300X; the models are llama3-70b, org/another-model");
  assert.match(
    nodesTable(report([]), [], { width: 200, isColoured: false, limit: 10 })[0] ?? "",
    /^there is no node: write some/,
  );
});

test("a reason never names a node for a column that the node tells", () => {
  const nodes = [
    node("a", { unknown: { version: "engine_does_not_tell" } }),
    node("b", { unknown: { kv_use: "engine_does_not_tell" } }),
    node("c", { unknown: { version: "engine_does_not_tell", waiting: "engine_does_not_tell" } }),
    node("d", { unknown: { kv_use: "engine_does_not_tell" } }),
  ];
  const lines = nodesTable(report(nodes), nodes, { width: 200, isColoured: false, limit: 10 });
  assert.deepEqual(lines.slice(-3), [
    "– its engine does not tell it: engine of a, c",
    "– its engine does not tell it: kv of b, d",
    "– its engine does not tell it: wait of c",
  ]);
});

test("ten thousand nodes are drawn within two seconds", () => {
  const nodes = Array.from({ length: 10_000 }, (_, index) =>
    node(`n${index}`, { unknown: { kv_use: "engine_does_not_tell" } }),
  );
  const startedAtMs = performance.now();
  const lines = nodesTable(report(nodes), nodes, { width: 120, isColoured: false, limit: Number.POSITIVE_INFINITY });
  assert.ok(lines.length > 10_000);
  assert.match(lines.join("\n"), /kv of n0, n1, n2\s+and 9997 more/);
  assert.ok(performance.now() - startedAtMs < 2000, `${performance.now() - startedAtMs} ms`);
});

test("the page of a node has every source's age and every reason, and no path of its address", () => {
  const page = nodePage(
    node("mi300x-a", {
      url: "http://10.0.0.21:8000/tenant-secret?key=sesame",
      state: "cooling_down",
      cooldown_remaining_ms: 12_000,
      last_poll_error: "no answer within 4000 ms\nx",
      last_poll_error_age_ms: 70_000,
      waiting: null,
      unknown: {
        waiting: "metrics_failed",
        free_memory_gib: "gpu_exporter_no_match",
        platform: "engine_does_not_tell",
      },
    }),
    { isColoured: false },
  ).join("\n");
  assert.doesNotMatch(page, /sesame|tenant/);
  for (const claim of [
    /address +http:\/\/10\.0\.0\.21:8000\n/,
    /state +cooling_down 12s\n/,
    /last poll that failed +no answer within 4000 ms x, 70s ago\n/,
    /waiting there +– {2}its metrics did not answer in time\n/,
    /free memory, GiB +– {2}no GPU on its exporter's page matches\n/,
    /platform +– {2}its engine does not tell it\n/,
    /score +100 {2}= 100 × 1\.00 \(errors\) × 1\.00 \(depth\)\n/,
    /what it can give +~1000 tokens\/s/,
    /llama3-70b +8192\n/,
    /metrics +1\.5s ago\n/,
    /our own traffic +never\n/,
  ]) {
    assert.match(page, claim);
  }
});
