/** Prices from feeds, through the whole gateway. */

import assert from "node:assert/strict";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { PriceHistoryJson } from "@zml/protocol/admin";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import type { Gateway } from "../src/control/gateway-interface.ts";
import type { PricesReportJson } from "../src/cost/index.ts";
import { priceServer } from "../src/cost/testing/price-server.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const POLICY =
  "policies:\n  - { name: cheap, accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }], " +
  "cost_priority: cost }\nmodels:\n  - { name: m, policy: cheap }\n";

const node = (id: string, url: string, family: string, cost: string) =>
  `  - { id: ${id}, url: "${url}", family: ${family}, models: [m], cost: { ${cost} } }\n`;

const list = (h100: number, mi300x: number) =>
  `region,instance_type,market,usd_per_gpu_hour\neast,h100,spot,${h100}\neast,mi300x,on_demand,${mi300x}\n`;

async function familyOf(gateway: Gateway): Promise<string | undefined> {
  const response = await chat(gateway);
  await response.text();
  assert.equal(response.status, 200);
  return decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.family;
}

async function pricesOf(gateway: Gateway): Promise<PricesReportJson> {
  return (await fetch(`${gateway.adminUrl}/admin/v1/prices`)).json() as Promise<PricesReportJson>;
}

test("a price change of a feed turns the choice of the next decision within a second of its fetch", async (t) => {
  const [h100, mi300x] = [await fakeNode(t), await fakeNode(t)];
  const server = await priceServer(t, () => ({ body: list(2, 3) }));
  const { gateway } = await startOn(
    t,
    `${PORTS}prices:\n  feeds:\n    - { name: spot, provider: url, url: "${server.url}/list", interval_ms: 100 }\n` +
      `nodes:\n${node("h", h100.url, "H100", "price: spot/east/h100/spot")}` +
      `${node("m", mi300x.url, "MI300X", "price: spot/east/mi300x/on_demand")}${POLICY}`,
  );
  await until("both prices are there", () =>
    gateway.stats().fleet.nodes.every(({ price_usd_per_hour }) => price_usd_per_hour !== null),
  );
  assert.equal(await familyOf(gateway), "H100", "2 is less than 3");

  let fetchedAtMs = Number.NaN;
  server.answer = () => {
    if (Number.isNaN(fetchedAtMs)) fetchedAtMs = performance.now();
    return { body: list(4, 3) };
  };
  await until("the other family is chosen", async () => (await familyOf(gateway)) === "MI300X");
  const tookMs = performance.now() - fetchedAtMs;
  t.diagnostic(`${tookMs.toFixed(0)} ms from the fetch to an answer of the other family`);
  assert.ok(tookMs < 1_000, `the choice turned ${tookMs.toFixed(0)} ms after the fetch`);

  const [m] = gateway.stats().fleet.nodes.filter(({ id }) => id === "m");
  assert.equal(m?.price_key, "spot/east/mi300x/on_demand");
  assert.ok(m.price_age_ms !== null && m.price_age_ms >= 0);
  const { feeds, prices } = await pricesOf(gateway);
  assert.deepEqual(
    feeds.map(({ name, provider, state, keys, error }) => ({ name, provider, state, keys, error })),
    [{ name: "spot", provider: "url", state: "ok", keys: 2, error: null }],
  );
  const [dearer] = prices.filter(({ key }) => key === "spot/east/h100/spot");
  assert.deepEqual(dearer?.nodes, ["h"]);
  assert.deepEqual(
    dearer.changes.map(({ usd_per_gpu_hour }) => usd_per_gpu_hour),
    [2, 4],
    "the change is recorded",
  );
  const history = await fetch(`${gateway.adminUrl}/admin/v1/prices/spot%2Feast%2Fh100%2Fspot/history?days=7`);
  const { usd_per_gpu_hour, is_kept } = (await history.json()) as PriceHistoryJson;
  assert.deepEqual([usd_per_gpu_hour, is_kept], [[2, 4], false]);
});

test("L05: a feed that never answers holds up neither the start nor a request, and the stated price counts", async (t) => {
  const fake = await fakeNode(t);
  const server = await priceServer(t, () => () => {});
  const { gateway } = await startOn(
    t,
    `${PORTS}prices:\n  feeds:\n    - { name: spot, provider: url, url: "${server.url}/list" }\n` +
      `nodes:\n${node("h", fake.url, "H100", "price: spot/east/h100/spot, usd_per_gpu_hour: 5")}${POLICY}`,
  );
  assert.equal(await familyOf(gateway), "H100");
  const [h] = gateway.stats().fleet.nodes;
  assert.equal(h?.price_usd_per_hour, 5);
  assert.equal(h.price_age_ms, null);
  const { feeds, prices } = await pricesOf(gateway);
  assert.equal(feeds[0]?.state, "waiting");
  assert.equal(prices[0]?.usd_per_gpu_hour, null);
});

test("prices of the last run count from the start on, until a fetch says otherwise", async (t) => {
  const fake = await fakeNode(t);
  const gate = Promise.withResolvers<void>();
  const server = await priceServer(t, () => ({ body: list(7, 3) }));
  const storeFolder = folder(t);
  const text =
    `${PORTS}prices:\n  feeds:\n    - { name: spot, provider: url, url: "${server.url}/list" }\n` +
    `nodes:\n${node("h", fake.url, "H100", "price: spot/east/h100/spot, usd_per_gpu_hour: 5")}${POLICY}`;
  const priceOf = (gateway: Gateway) => gateway.stats().fleet.nodes[0]?.price_usd_per_hour;

  const first = await startOn(t, text, { storeFolder });
  await until("the price is fetched", () => priceOf(first.gateway) === 7);
  await first.gateway.stop();

  server.answer = () => (response) => {
    void gate.promise.then(() => response.end(list(2, 3)));
  };
  const second = await startOn(t, text, { storeFolder });
  await until("the price of the last run counts", () => priceOf(second.gateway) === 7);
  const history = await fetch(`${second.gateway.adminUrl}/admin/v1/prices/spot%2Feast%2Fh100%2Fspot/history`);
  const kept = (await history.json()) as PriceHistoryJson;
  assert.deepEqual([kept.usd_per_gpu_hour, kept.is_kept], [[7], true], "and is told from the store");
  gate.resolve();
  await until("it is fetched", () => priceOf(second.gateway) === 2);
  await second.gateway.stop();
});

test("a node whose reference changes has its new price with the reload, and a feed that stayed is not asked again", async (t) => {
  const fake = await fakeNode(t);
  const server = await priceServer(t, () => ({ body: list(2, 3) }));
  const text = (key: string) =>
    `${PORTS}prices:\n  feeds:\n    - { name: spot, provider: url, url: "${server.url}/list" }\n` +
    `nodes:\n${node("h", fake.url, "H100", `price: ${key}`)}${POLICY}`;
  const { gateway, write } = await startOn(t, text("spot/east/h100/spot"));
  const price = () => gateway.stats().fleet.nodes[0]?.price_usd_per_hour;
  await until("the price is there", () => price() === 2);
  write(text("spot/east/mi300x/on_demand"));
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal(price(), 3);
  write(text("spot/west/h100/spot"));
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal(price(), null, "a price that the feed never delivered is unknown, not an error");
  const { feeds } = await pricesOf(gateway);
  assert.deepEqual(
    feeds[0]?.alarms.map(({ kind, key }) => ({ kind, key })),
    [{ kind: "missing", key: "spot/west/h100/spot" }],
  );
  assert.equal(server.asked.length, 1);
});

test("a price list beside the configuration file is read when it changes, whichever way it is written", async (t) => {
  const fake = await fakeNode(t);
  const text =
    `${PORTS}prices:\n  feeds:\n    - { name: mine, provider: file, path: prices.csv, interval_ms: 3600000 }\n` +
    `nodes:\n${node("h", fake.url, "H100", "price: mine/east/h100/spot")}`;
  const { gateway, path } = await startOn(t, text);
  const file = join(path, "..", "prices.csv");
  const price = () => gateway.stats().fleet.nodes[0]?.price_usd_per_hour;
  writeFileSync(file, list(2, 3));
  await until("the list is read", () => price() === 2);
  writeFileSync(file, list(4, 3));
  await until("it is read again", () => price() === 4);
  const beside = join(folder(t), "prices.csv");
  writeFileSync(beside, list(6, 3));
  renameSync(beside, file);
  await until("the list that replaced it is read", () => price() === 6);
});
