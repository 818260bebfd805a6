/** Vast.ai, RunPod and Lambda. */

import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FeedError } from "../feed-context.ts";
import { fetchOnce } from "../testing/feed-call.ts";
import { json, priceServer } from "../testing/price-server.ts";
import { SECRET, vastOffer } from "../testing/provider-cases.ts";

const KEY = "api_key_env: PRICE_KEY";

test("vastai: a price is the median per GPU, not the cheapest offer", async (t) => {
  const server = await priceServer(t, (asked) => {
    const { type } = JSON.parse(asked.body) as { type: string };
    const factor = type === "bid" ? 0.5 : 1;
    return json({
      offers: [
        vastOffer({ num_gpus: 1, dph_total: 0.2 * factor }),
        vastOffer({ num_gpus: 8, dph_total: 16 * factor, geolocation: "Sweden, SE" }),
        vastOffer({ num_gpus: 4, dph_total: 12 * factor, geolocation: "Texas, US" }),
        vastOffer({ gpu_name: "H100 PCIE", dph_total: 1000 }),
      ],
    });
  });
  const { prices } = await fetchOnce(
    "vastai",
    `endpoint: "${server.url}", ${KEY}, regions: [US], instance_types: [H100 SXM]`,
  );
  assert.deepEqual(prices, {
    "any/H100 SXM/on_demand": 2,
    "US/H100 SXM/on_demand": 3,
    "any/H100 SXM/spot": 1,
    "US/H100 SXM/spot": 1.5,
  });
  const [asked] = server.asked;
  assert.deepEqual([asked?.method, asked?.url.pathname], ["POST", "/api/v0/bundles/"]);
  assert.equal(asked?.headers.authorization, `Bearer ${SECRET}`);
  assert.deepEqual(JSON.parse(asked?.body ?? ""), {
    gpu_name: { eq: "H100 SXM" },
    verified: { eq: true },
    rentable: { eq: true },
    reliability: { gte: 0.95 },
    type: "ondemand",
    order: [["reliability", "desc"]],
    limit: 1000,
  });
});

test("vastai: offers of another shape or without a price are left out and said", async (t) => {
  const offers = [
    vastOffer({}),
    vastOffer({ dph_total: 0 }),
    vastOffer({ num_gpus: 0 }),
    { gpu_name: "H100 SXM" },
    null,
  ];
  const server = await priceServer(t, () => json({ offers }));
  const { prices, notes } = await fetchOnce("vastai", `endpoint: "${server.url}", ${KEY}, instance_types: [H100 SXM]`);
  assert.equal(prices["any/H100 SXM/on_demand"], 2);
  assert.match(notes.join("\n"), /3 of 5 offers have an unknown shape/);
  assert.match(notes.join("\n"), /1 of 5 offers cost nothing or less/);
});

const gpu = (more: object) => ({
  id: "NVIDIA H100 80GB HBM3",
  name: "H100 SXM",
  memory: 80,
  secure: true,
  community: true,
  price: { secure: 2.69, community: 2.1, serverless: 4.18 },
  ...more,
});

test("runpod: its two clouds are regions, and a cloud that a type is not on has no price, whatever is filled in", async (t) => {
  const server = await priceServer(t, () =>
    json({
      gpus: [
        gpu({}),
        gpu({
          id: "AMD Instinct MI300X OAM",
          community: false,
          availability: "NONE",
          price: { secure: 2.49, community: 0.5 },
        }),
        { id: "half" },
      ],
    }),
  );
  const { prices, notes } = await fetchOnce("runpod", `endpoint: "${server.url}", ${KEY}`);
  assert.deepEqual(prices, {
    "secure/NVIDIA H100 80GB HBM3/on_demand": 2.69,
    "community/NVIDIA H100 80GB HBM3/on_demand": 2.1,
    "secure/AMD Instinct MI300X OAM/on_demand": 2.49,
  });
  assert.match(notes.join(), /1 of 3 GPU types have an unknown shape/);
  assert.equal(server.asked[0]?.url.pathname, "/v2/catalog/gpus");
});

test("runpod: a limit of its rate says when to come back", async (t) => {
  const server = await priceServer(t, () =>
    json({ error: SECRET }, 429, {
      "x-ratelimit-limit": "60",
      "x-ratelimit-remaining": "0",
      "x-ratelimit-reset": "17",
    }),
  );
  const retry = async (): Promise<FeedError> => {
    try {
      await fetchOnce("runpod", `endpoint: "${server.url}", ${KEY}`);
    } catch (error) {
      assert.ok(error instanceof FeedError);
      assert.match(error.message, /answered 429: too many requests/);
      assert.ok(!error.message.includes(SECRET));
      return error;
    }
    throw new Error("it was refused");
  };
  assert.equal((await retry()).retryAfterMs, 17_000);
  server.answer = () => json({}, 429, { "retry-after": "9" });
  assert.equal((await retry()).retryAfterMs, 9_000);
  server.answer = () => json({}, 429, { "retry-after": new Date(Date.now() + 60_000).toUTCString() });
  const { retryAfterMs } = await retry();
  assert.ok(retryAfterMs > 50_000 && retryAfterMs <= 60_000, String(retryAfterMs));
  for (const reset of [Math.ceil(Date.now() / 1000) + 60, Date.now() + 60_000]) {
    server.answer = () => json({}, 429, { "x-ratelimit-reset": String(reset) });
    const waitMs = (await retry()).retryAfterMs;
    assert.ok(waitMs > 40_000 && waitMs <= 62_000, `${waitMs} ms until the moment ${reset}`);
  }
  server.answer = () => json({}, 429, { "retry-after": "99999999" });
  assert.equal((await retry()).retryAfterMs, 3_600_000, "bounded");
  server.answer = () => json({}, 429, { "retry-after": "soon" });
  assert.equal((await retry()).retryAfterMs, 0);
});

test("lambda: cents of the whole instance become dollars per GPU, under any region", async (t) => {
  const type = (name: string, cents: number, gpus: number) => ({
    instance_type: { name, description: "", price_cents_per_hour: cents, specs: { vcpus: 8, memory_gib: 8, gpus } },
    regions_with_capacity_available: [{ name: "us-west-1", description: "California, USA" }],
  });
  const server = await priceServer(t, () =>
    json({
      data: {
        gpu_8x_h100_sxm5: type("gpu_8x_h100_sxm5", 2392, 8),
        gpu_1x_a10: type("gpu_1x_a10", 75, 1),
        cpu_4x_general: type("cpu_4x_general", 20, 0),
        half: { instance_type: { name: "half", price_cents_per_hour: 1.5 } },
      },
    }),
  );
  const { prices, notes } = await fetchOnce("lambda", `endpoint: "${server.url}", ${KEY}, regions: [us-east-1]`);
  assert.deepEqual(prices, {
    "any/gpu_8x_h100_sxm5/on_demand": 2.99,
    "us-east-1/gpu_8x_h100_sxm5/on_demand": 2.99,
    "any/gpu_1x_a10/on_demand": 0.75,
    "us-east-1/gpu_1x_a10/on_demand": 0.75,
  });
  assert.match(notes.join(), /1 instance types have an unknown shape/);
});

test("a key in a file is read at each fetch, and what is wrong with the file is said without its path", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zml-key-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "key");
  const server = await priceServer(t, () => json({ data: {} }));
  const fetched = () => fetchOnce("lambda", `endpoint: "${server.url}", api_key_file: "${path}"`);
  await assert.rejects(fetched(), /api_key_file can't be read \(ENOENT\)/);
  writeFileSync(path, "first-key\n");
  await fetched();
  writeFileSync(path, "second-key\n");
  await fetched();
  assert.deepEqual(
    server.asked.map(({ headers }) => headers.authorization),
    ["Bearer first-key", "Bearer second-key"],
  );
  writeFileSync(path, "two\nlines");
  await assert.rejects(fetched(), /api_key_file holds no key/);
  writeFileSync(path, "");
  await assert.rejects(fetched(), /api_key_file holds no key/);
  chmodSync(path, 0o600);
});

test("a redirect is not followed, so that a key never reaches a host that nobody configured", async (t) => {
  const elsewhere = await priceServer(t, () => json({ data: {} }));
  const server = await priceServer(t, () => ({ status: 307, headers: { location: elsewhere.url }, body: "" }));
  await assert.rejects(
    fetchOnce("lambda", `endpoint: "${server.url}", ${KEY}`),
    /307: a redirect, which is not followed/,
  );
  assert.equal(elsewhere.asked.length, 0);
});
