import assert from "node:assert/strict";
import { test } from "node:test";
import { fetchOnce } from "../testing/feed-call.ts";
import { json, priceServer } from "../testing/price-server.ts";
import { azurePage, azureRow } from "../testing/provider-cases.ts";

const SKU = "Standard_ND96isr_H100_v5";
const yaml = (url: string, regions = "[eastus]") =>
  `endpoint: "${url}", regions: ${regions}, instance_types: [{ name: ${SKU}, gpus: 8 }]`;

test("azure_retail: Windows, Low Priority and other products of a SKU are told from it by their texts", async (t) => {
  const server = await priceServer(t, () =>
    azurePage([
      azureRow({ retailPrice: 16 }),
      azureRow({ retailPrice: 8, skuName: "ND96isr H100 v5 Spot", meterName: "ND96isr H100 v5 Spot" }),
      azureRow({ retailPrice: 4, skuName: "ND96isr H100 v5 Low Priority", meterName: "ND96isr H100 v5 Low Priority" }),
      azureRow({ retailPrice: 99, productName: "Virtual Machines NDsr H100 v5 Series Windows" }),
      azureRow({ retailPrice: 98, productName: "Virtual Machines NDsr H100 v5 Series Windows", skuName: "x Spot" }),
      azureRow({ retailPrice: 97, productName: "NDsr H100 v5 Series Cloud Services" }),
      azureRow({ retailPrice: 96, type: "DevTestConsumption" }),
      azureRow({ retailPrice: 95, type: "Reservation", unitOfMeasure: "1 Hour" }),
    ]),
  );
  const { prices, notes } = await fetchOnce("azure_retail", yaml(server.url));
  assert.deepEqual(prices, { [`eastus/${SKU}/on_demand`]: 2, [`eastus/${SKU}/spot`]: 1 });
  assert.deepEqual(notes, []);
});

test("azure_retail: values of the filter are quoted and keep their case", async (t) => {
  const server = await priceServer(t, () => azurePage([azureRow({ retailPrice: 16 })]));
  await fetchOnce("azure_retail", yaml(server.url));
  const query = server.asked[0]?.url.searchParams;
  assert.equal(server.asked[0]?.url.pathname, "/api/retail/prices");
  assert.equal(query?.get("api-version"), "2023-01-01-preview");
  assert.equal(query?.get("currencyCode"), "'USD'");
  assert.equal(
    query?.get("$filter"),
    "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq 'eastus' and " +
      `(armSkuName eq '${SKU}')`,
  );
  await assert.rejects(async () => {
    await fetchOnce("azure_retail", yaml(server.url, `["o'hare"]`));
    throw new Error(server.asked.at(-1)?.url.searchParams.get("$filter") ?? "");
  }, /armRegionName eq 'o''hare'/);
});

test("azure_retail: pages are followed by the query of their link, never to another host", async (t) => {
  const elsewhere = await priceServer(t, () => azurePage([]));
  const server = await priceServer(t, (asked) =>
    asked.url.searchParams.get("$skip") === "1000"
      ? azurePage([azureRow({ retailPrice: 16 })])
      : azurePage([], `${elsewhere.url}/api/retail/prices?api-version=2023-01-01-preview&$skip=1000`),
  );
  const { prices } = await fetchOnce("azure_retail", yaml(server.url));
  assert.equal(prices[`eastus/${SKU}/on_demand`], 2);
  assert.equal(elsewhere.asked.length, 0);
});

test("azure_retail: links that never end are given up", async (t) => {
  const server = await priceServer(t, (asked) => azurePage([], `https://prices.azure.com${asked.url.search}`));
  await assert.rejects(fetchOnce("azure_retail", yaml(server.url)), /more than 50 pages/);
  assert.equal(server.asked.length, 50);
});

test("azure_retail: the row that came into force last counts, one of the future does not", async (t) => {
  const server = await priceServer(t, () =>
    azurePage([
      azureRow({ retailPrice: 16, effectiveStartDate: "2024-03-01T00:00:00Z" }),
      azureRow({ retailPrice: 24, effectiveStartDate: "2026-01-01T00:00:00Z" }),
      azureRow({ retailPrice: 80, effectiveStartDate: "2027-01-01T00:00:00Z" }),
    ]),
  );
  const { prices, quotes } = await fetchOnce("azure_retail", yaml(server.url));
  assert.equal(prices[`eastus/${SKU}/on_demand`], 3);
  assert.equal(quotes[0]?.observedAtMs, Date.parse("2026-01-01T00:00:00Z"));
});

test("azure_retail: rows of another region, unit or shape are left out and said", async (t) => {
  const server = await priceServer(t, () =>
    azurePage([
      azureRow({ retailPrice: 16, armRegionName: "westus" }),
      azureRow({ retailPrice: 16, unitOfMeasure: "1/Month", skuName: "ND96isr H100 v5 Spot" }),
      { armSkuName: SKU },
      azureRow({ retailPrice: 16 }),
    ]),
  );
  const { prices, notes } = await fetchOnce("azure_retail", yaml(server.url));
  assert.deepEqual(prices, { [`eastus/${SKU}/on_demand`]: 2 });
  assert.equal(notes.length, 2);
  assert.match(notes.join("\n"), /1 of 4 rows have an unknown shape/);
  assert.match(notes.join("\n"), /USD per 1 Hour was expected, got "USD" per "1\/Month"/);
});

test("azure_retail: an error of the interface is one", async (t) => {
  const server = await priceServer(t, () => json({ Error: { Code: "BadRequest", Message: "Invalid OData" } }, 400));
  await assert.rejects(fetchOnce("azure_retail", yaml(server.url)), /answered 400/);
  server.answer = () => json({ Error: { Code: "BadRequest" } });
  await assert.rejects(fetchOnce("azure_retail", yaml(server.url)), /unknown shape at Items/);
});
