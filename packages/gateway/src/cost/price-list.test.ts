import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fetchOnce } from "./testing/feed-call.ts";

/** A list in a file of its own. */
function listFile(t: TestContext, text: string | Uint8Array, more = "") {
  const folder = mkdtempSync(join(tmpdir(), "zml-list-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "prices");
  writeFileSync(path, text);
  return fetchOnce("file", `path: "${path}"${more}`);
}

const HEAD = "region,instance_type,gpus,market,usd_per_gpu_hour,usd_per_hour,currency,observed_at\n";

test("price list: a row states its price per GPU or per instance", async (t) => {
  const { prices, quotes } = await listFile(
    t,
    `${HEAD}east,h100,8,spot,2.5,,USD,2026-05-01T00:00:00Z\neast,mi300x,8,on_demand,,16,,\nlab,own,,on_demand,0,,,\n`,
  );
  assert.deepEqual(prices, { "east/h100/spot": 2.5, "east/mi300x/on_demand": 2, "lab/own/on_demand": 0 });
  assert.equal(quotes[0]?.observedAtMs, Date.parse("2026-05-01T00:00:00Z"));
  assert.equal(quotes[2]?.gpus, 1);
});

test("price list: columns in any order, a byte order mark, CRLF, quotes and blanks are read", async (t) => {
  const { prices } = await listFile(
    t,
    '\uFEFFusd_per_gpu_hour,market,instance_type,region\r\n 2.5 ,spot,"h100, sxm",east\r\n\r\n',
  );
  assert.deepEqual(prices, { "east/h100, sxm/spot": 2.5 });
});

test("price list: as JSON, as a list or under prices", async (t) => {
  const rows = [{ region: "east", instance_type: "h100", market: "spot", usd_per_gpu_hour: 2.5 }];
  assert.deepEqual((await listFile(t, JSON.stringify(rows))).prices, { "east/h100/spot": 2.5 });
  assert.deepEqual((await listFile(t, `\uFEFF ${JSON.stringify({ prices: rows })}`)).prices, { "east/h100/spot": 2.5 });
});

test("price list: what is no mapping in a JSON list is left out and counted", async (t) => {
  const { prices, notes } = await listFile(t, "[1, null, [], {}]");
  assert.deepEqual(prices, {});
  assert.deepEqual(notes, ["4 of 4 rows could not be read and were left out"]);
});

const SKYPILOT =
  "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n";
const GPU_INFO = `"{'Gpus': [{'Name': 'H100', 'Manufacturer': 'NVIDIA', 'Count': 8.0}], 'TotalGpuMemoryInMiB': 655360}"`;

test("price list: SkyPilot's catalogue gives each zone its price and the region their median", async (t) => {
  const row = (price: string, spot: string, zone: string) =>
    `p5.48xlarge,H100,8.0,192.0,2048.0,${GPU_INFO},${price},${spot},us-east-1,${zone}\n`;
  const { prices, notes } = await listFile(
    t,
    `${SKYPILOT}${row("55.04", "16", "us-east-1a")}${row("55.04", "24", "us-east-1b")}${row("55.04", "80", "us-east-1c")}` +
      `${row("55.04", "", "us-east-1d")}m5.large,,,2.0,8.0,,0.096,0.03,us-east-1,us-east-1a\n,H100,1,,,,3.5,1.2,us-east-1,us-east-1a\n`,
  );
  assert.deepEqual(prices, {
    "us-east-1a/p5.48xlarge/on_demand": 6.88,
    "us-east-1a/p5.48xlarge/spot": 2,
    "us-east-1b/p5.48xlarge/on_demand": 6.88,
    "us-east-1b/p5.48xlarge/spot": 3,
    "us-east-1c/p5.48xlarge/on_demand": 6.88,
    "us-east-1c/p5.48xlarge/spot": 10,
    "us-east-1d/p5.48xlarge/on_demand": 6.88,
    "us-east-1/p5.48xlarge/on_demand": 6.88,
    "us-east-1/p5.48xlarge/spot": 3,
  });
  assert.deepEqual(notes, []);
});

test("price list: SkyPilot's zone that is the region itself is one price", async (t) => {
  const { prices } = await listFile(t, `${SKYPILOT}gpu_8x_h100,H100,8,208,1800,,23.92,,us-east-1,us-east-1\n`);
  assert.deepEqual(prices, { "us-east-1/gpu_8x_h100/on_demand": 2.99 });
});

test("price list: only wanted regions and types, with the GPUs that the configuration states", async (t) => {
  const text = `${HEAD}east,h100,1,spot,,16,,\nwest,h100,8,spot,9,,,\neast,a100,8,spot,9,,,\n`;
  const { prices } = await listFile(t, text, ", regions: [east], instance_types: [{ name: h100, gpus: 8 }]");
  assert.deepEqual(prices, { "east/h100/spot": 2 });
});

test("price list: rows that can't be read are left out, counted and said", async (t) => {
  const { prices, notes } = await listFile(
    t,
    `${HEAD}east,a,8,spot,"2,99",,,\neast,b,8,spot,$2.99,,,\neast,c,8,hourly,2.99,,,\n,d,8,spot,2.99,,,\neast,e,x,spot,,2.99,,\n` +
      "east,f,8,spot,2.99,,EUR,\neast,g,8,spot,2.99,,,\n",
  );
  assert.deepEqual(prices, { "east/g/spot": 2.99 });
  assert.deepEqual(notes, ["east f: the currency is not USD", "5 of 7 rows could not be read and were left out"]);
});

const NO_LISTS: readonly (readonly [string, string | Uint8Array, RegExp])[] = [
  ["an empty file", "", /is empty/],
  ["blanks", " \n\n ", /is empty/],
  ["HTML", "<html></html>", /HTML or XML/],
  ["other columns", "a,b,c\n1,2,3\n", /names other columns/],
  ["a row that is cut off", `${HEAD}east,h100,8,spot,2.5,,,\neast,h1`, /line 3 is no row of the list, or cut off/],
  ["a quote without an end", `${HEAD}east,"h100,8,spot,2.5,,,\n${"x".repeat(70_000)}`, /line \d+ is no row/],
  ["JSON that is cut off", '[{"region": "east", "usd_per_gpu_hour": 2', /no JSON, or truncated/],
  ["JSON of another shape", '{"data": []}', /unknown shape/],
  ["bytes", Uint8Array.from({ length: 4000 }, (_, index) => (index * 31 + 129) % 256), /other columns|no row/],
  [
    "a list without a filter that is too long",
    `${HEAD}${Array.from({ length: 10_002 }, (_, index) => `east,t${index},1,spot,1,,,\n`).join("")}`,
    /more than 10000 prices/,
  ],
];

for (const [what, text, says] of NO_LISTS) {
  test(`price list: ${what} is no list, and it is said without a word of it`, async (t) => {
    await assert.rejects(listFile(t, text), (error: unknown) => {
      assert.ok(error instanceof Error);
      assert.equal(error.name, "FeedError");
      assert.match(error.message, says);
      assert.doesNotMatch(error.message, /h100|east/);
      return true;
    });
  });
}

test("price list: a folder, a device and what is not there are no lists", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zml-list-"));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, "dir"));
  await assert.rejects(fetchOnce("file", `path: "${folder}/dir"`), /no plain file/);
  await assert.rejects(fetchOnce("file", 'path: "/dev/zero"'), /no plain file/);
  await assert.rejects(fetchOnce("file", `path: "${folder}/none"`), /can't be read \(ENOENT\)/);
});
