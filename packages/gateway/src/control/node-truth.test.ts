import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { createFleetTable, takeNodeRow, takePlacementRow } from "@zml/engine";
import { UNKNOWN_CELLS, UNKNOWN_WHYS } from "@zml/protocol";
import { UNKNOWN_READING } from "../availability/adapters/adapter.ts";
import type { NodeFacts } from "../availability/index.ts";
import { HEARD_NOTHING } from "../availability/node-facts.ts";
import type { FleetNode } from "./fleet.ts";
import { nodeTruth } from "./node-truth.ts";

const FACTS: NodeFacts = {
  engine: "vllm",
  reading: UNKNOWN_READING,
  heardAt: HEARD_NOTHING,
  metricsAnswer: "ok",
  rates: { generation: Number.NaN, prompt: Number.NaN },
  downCause: null,
  isKeptIn: false,
  lastError: null,
  redetectedAtMs: Number.NaN,
  gpuMemoryFault: null,
};

function truthOf(facts: Partial<NodeFacts> | null, change: { node?: Partial<FleetNode>; isPolled?: boolean } = {}) {
  const table = createFleetTable({ nodes: 1, workers: 1 });
  takeNodeRow(table, 0, { family: 0, identity: 0, maxInFlight: 8, cooldownMs: 1, priceUsdPerHour: Number.NaN });
  takePlacementRow(table, 3);
  if (change.isPolled !== false) {
    table.goodPolls[0] = 1;
    table.polledAtMs[0] = 900;
    table.healthScore[0] = 100;
  }
  const node = {
    row: 0,
    engine: "vllm",
    config: { priceKey: null },
    placements: new Map([["m", 3]]),
    ...change.node,
  } as unknown as FleetNode;
  const sources = { table, node, facts: facts === null ? null : { ...FACTS, ...facts } };
  return { table, truth: () => nodeTruth({ ...sources, nowMs: 1_000, unixOriginMs: 0, priceAgeMs: Number.NaN }) };
}

describe("what the report says of a node", () => {
  it("gives every unknown cell a reason", () => {
    const { unknown } = truthOf({}).truth();
    const known = new Set(["engine", "health_score", "data_age_ms"]);
    assert.deepEqual(
      Object.keys(unknown),
      UNKNOWN_CELLS.filter((cell) => !known.has(cell)),
    );
  });

  it("tells metrics that are refused, late, or not told apart", () => {
    const running = (facts: Partial<NodeFacts>) => truthOf(facts).truth().unknown.running;
    assert.equal(running({ metricsAnswer: "refused" }), "metrics_refused");
    assert.equal(running({ metricsAnswer: "failed" }), "metrics_failed");
    assert.equal(running({ metricsAnswer: "too_large" }), "metrics_too_large");
    assert.equal(running({ metricsAnswer: "encoded" }), "metrics_compressed");
    assert.equal(running({ metricsAnswer: "redirect" }), "metrics_redirected");
    assert.equal(running({ metricsAnswer: "ok" }), "engine_does_not_tell");
    assert.equal(running({ metricsAnswer: "none_there" }), "engine_does_not_tell");
  });

  it("tells a GPU exporter that fails from one that has no GPU of the node", () => {
    const memory = (facts: Partial<NodeFacts>) => truthOf(facts).truth().unknown.free_memory_gib;
    assert.equal(memory({ gpuMemoryFault: "no_match" }), "gpu_exporter_no_match");
    for (const gpuMemoryFault of ["timeout", "bad_status", "unknown_value", "refused"] as const) {
      assert.equal(memory({ gpuMemoryFault }), "gpu_exporter_failed");
    }
    assert.equal(memory({ gpuMemoryFault: null }), "engine_does_not_tell");
  });

  it("says of a node that was never polled, or whose engine is not known, that nothing else could be", () => {
    assert.equal(truthOf({}, { isPolled: false }).truth().unknown.version, "not_polled");
    assert.equal(truthOf(null).truth().unknown.kv_use, "not_polled");
    const undetected = truthOf({ engine: null }, { node: { engine: null } }).truth().unknown;
    assert.equal(undetected.engine, "engine_not_detected");
    assert.equal(undetected.running, "engine_not_detected");
  });

  it("tells no price from a price that no feed has told", () => {
    assert.equal(truthOf({}).truth().unknown.price_usd_per_hour, "no_price");
    const node = { config: { priceKey: "aws/x" } } as unknown as Partial<FleetNode>;
    assert.equal(truthOf({}, { node }).truth().unknown.price_usd_per_hour, "price_not_fetched");
  });

  it("says that one look at a counter is no rate yet", () => {
    const reading = { ...UNKNOWN_READING, generationTokensTotal: 7 };
    assert.equal(truthOf({ reading }).truth().unknown.generation_tokens_per_second, "one_look_only");
  });

  it("shows the factors of the health score, whose product it is", () => {
    const { table, truth } = truthOf({});
    table.errorRate[0] = 0.25;
    table.foreign[0] = 16;
    assert.deepEqual(truth().health_parts, { errors: 0.75, depth: 0.5 });
  });

  it("ages each source on its own, and leaves out those never heard", () => {
    const heardAt = { ...HEARD_NOTHING, healthMs: 400, metricsMs: 990 };
    const { sources } = truthOf({ heardAt }).truth();
    assert.deepEqual(sources, {
      health_page: 600,
      metrics: 10,
      models: null,
      limits: null,
      own_traffic: null,
      price: null,
    });
  });

  it("tells a node that is out from one that only the share keeps in", () => {
    assert.equal(truthOf({}).truth().state_detail, null);
    const out = truthOf({ downCause: "stalled" }).truth();
    assert.deepEqual([out.state_detail, out.down_cause], ["stalled", "stalled"]);
    const kept = truthOf({ downCause: "timeout", isKeptIn: true }).truth();
    assert.deepEqual([kept.state_detail, kept.down_cause], ["kept_in_by_max_ejected_share", "timeout"]);
  });

  it("dates a re-detection, and ages the last failed poll", () => {
    const lastError = { words: "no answer within 4000 ms", atMs: 250 };
    const truth = truthOf({ redetectedAtMs: 500, lastError }).truth();
    assert.equal(truth.redetected_at, "1970-01-01T00:00:00.500Z");
    assert.deepEqual([truth.last_poll_error, truth.last_poll_error_age_ms], [lastError.words, 750]);
    assert.equal(truthOf({}).truth().redetected_at, null);
  });
});

describe("the page about health", () => {
  it("says of each reason of an unknown cell what it means", () => {
    const page = readFileSync(new URL("../../../../docs/operations/health.md", import.meta.url), "utf8");
    const missing = UNKNOWN_WHYS.filter((why) => !page.includes(`| \`${why}\` |`));
    assert.deepEqual(missing, []);
  });
});
