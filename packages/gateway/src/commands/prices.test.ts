import assert from "node:assert/strict";
import { test } from "node:test";
import type { PricesReportJson } from "../cost/index.ts";
import { pricesLines } from "./prices.ts";

const feed = {
  name: "spot",
  provider: "aws",
  cloud_account: "default",
  state: "ok",
  last_success_age_ms: 65_000,
  last_attempt_age_ms: 65_000,
  next_fetch_in_ms: 235_000,
  failures: 0,
  error: null,
  notes: [],
  refused: [],
  refused_total: 0,
  keys: 1200,
  alarms: [],
} as const;

const price = {
  key: "spot/us-east-1/p5.48xlarge/spot",
  feed: "spot",
  usd_per_gpu_hour: 0.0512,
  gpus: 8,
  observed_at_ms: 0,
  age_ms: 65_000,
  is_stale: false,
  is_restored: false,
  nodes: ["h100-a"],
  changes: [],
} as const;

const REPORT: PricesReportJson = {
  feeds: [
    feed,
    {
      ...feed,
      name: "vast",
      provider: "vast",
      state: "failing",
      last_success_age_ms: null,
      next_fetch_in_ms: null,
      failures: 3,
      keys: 0,
      error: "the list is\nHTML",
      alarms: [{ kind: "jump", key: "vast/x", text: "vast/x went from 2 to 200" }],
      notes: ["2 offers left out"],
    },
  ],
  prices: [
    price,
    { ...price, key: "spot/us-east-1/other/spot", usd_per_gpu_hour: 3.5, is_stale: true, is_restored: true, nodes: [] },
    { ...price, key: "vast/any/h100/on_demand", usd_per_gpu_hour: null, gpus: null, age_ms: null, nodes: ["a", "b"] },
  ],
};

const draw = (width: number, all = false) => pricesLines(REPORT, { width, isColoured: false, all });

test("feeds with their state and what is wrong, prices with their age and nodes, and how many nobody names", () => {
  assert.deepEqual(draw(Number.POSITIVE_INFINITY), [
    "FEED  PROVIDER  STATE    KEYS  CONFIRMED  NEXT  FAILURES",
    "spot  aws       ok       1200        65s    4m         0",
    "vast  vast      failing     0          –   now         3",
    "vast: the list is HTML",
    "vast: jump: vast/x went from 2 to 200",
    "vast: 2 offers left out",
    "",
    "KEY                              USD/GPU-H  GPUS  AGE               NODES",
    "spot/us-east-1/p5.48xlarge/spot     0.0512     8  65s               h100-a",
    "vast/any/h100/on_demand                  –     –    –  not fetched  a, b",
    "1 price that no node names: --all shows them",
  ]);
});

test("--all shows prices that no node names, and that one is stale or from before the start", () => {
  const lines = draw(Number.POSITIVE_INFINITY, true);
  assert.match(lines.join("\n"), /spot\/us-east-1\/other\/spot +3\.50 +8 +65s {2}stale, from before the start {2}–\n/);
});

test("a narrow window keeps key, price and age", () => {
  const lines = draw(40);
  assert.deepEqual(
    lines.slice(7, 10).filter((line) => line.length > 40),
    [],
  );
  assert.match(lines.join("\n"), /KEY +USD\/GPU-H +AGE/);
});

test("without feeds it says how to get prices", () => {
  const [line] = pricesLines({ feeds: [], prices: [] }, { width: 80, isColoured: false, all: false });
  assert.match(
    line ?? "",
    /no price feed is configured: nodes cost what they state .*; feeds are named under prices\.feeds/,
  );
});

test("a price that its feed lacks is named, with the nearest one that the feed has", () => {
  const missing = "spot/us-east-1/p5.48xlrge/spot";
  const text = "the feed's last answer has no such price: check the parts of the name";
  const lines = pricesLines(
    {
      feeds: [{ ...feed, state: "degraded", alarms: [{ kind: "missing", key: missing, text }] }],
      prices: [price, { ...price, key: missing, usd_per_gpu_hour: null, gpus: null, age_ms: null, nodes: ["b"] }],
    },
    { width: Number.POSITIVE_INFINITY, isColoured: false, all: false },
  );
  assert.equal(lines[2], `spot: missing: ${missing}: ${text} (did you mean ${price.key}?)`);
  assert.match(lines.at(-1) ?? "", /p5\.48xlrge\/spot +– +– +– {2}missing {2}b$/);
});
