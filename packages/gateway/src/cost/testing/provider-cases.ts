/** Each provider's answers in its own shape, for one instance type of 8 GPUs (RunPod: one GPU). */

import type { PriceProvider } from "@zml/protocol";
import type { Answer, Asked } from "./price-server.ts";
import { json } from "./price-server.ts";

/** A secret that must appear nowhere but in the request. */
export const SECRET = "sk-price-feed-3f9a1c";

export interface ProviderCase {
  readonly provider: PriceProvider;
  /** The feed's keys below `provider`, as YAML in one line. */
  readonly yaml: (url: string) => string;
  /** The key under which the price is found. */
  readonly key: string;
  /** The answer that states this price per GPU-hour; a text stands where the number belongs. */
  readonly answer: (usdPerGpuHour: number | string, asked: Asked) => Answer;
  /** A good answer without any price. */
  readonly nothing: Answer;
  /** The same in another currency; absent: the interface names none. */
  readonly otherCurrency?: (asked: Asked) => Answer;
  /** Whether 0 can be meant. */
  readonly canBeFree: boolean;
}

/** `value` × `factor`, texts as they are. */
const times = (value: number | string, factor: number) => (typeof value === "number" ? value * factor : value);

/** What `DescribeSpotPriceHistory` answers. */
export function awsHistory(
  rows: readonly { type?: string; zone?: string; zoneId?: string; price: number | string; at?: string }[],
  nextToken = "",
): Answer {
  const items = rows.map(
    ({ type = "p5.48xlarge", zone = "us-east-1a", zoneId, price, at = "2026-05-28T10:00:00.000Z" }) =>
      `<item><instanceType>${type}</instanceType><productDescription>Linux/UNIX</productDescription>` +
      `<spotPrice>${price}</spotPrice><timestamp>${at}</timestamp><availabilityZone>${zone}</availabilityZone>` +
      `${zoneId === undefined ? "" : `<availabilityZoneId>${zoneId}</availabilityZoneId>`}</item>`,
  );
  return {
    headers: { "content-type": "text/xml;charset=UTF-8" },
    body:
      '<?xml version="1.0" encoding="UTF-8"?>\n' +
      '<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">' +
      "<requestId>59dbff89-35bd-4eac-99ed-be587EXAMPLE</requestId>" +
      `<spotPriceHistorySet>${items.join("")}</spotPriceHistorySet><nextToken>${nextToken}</nextToken>` +
      "</DescribeSpotPriceHistoryResponse>",
  };
}

/** What EC2 answers when it refuses. */
export function awsError(code: string, status: number, message = `about ${SECRET}`): Answer {
  return {
    status,
    headers: { "content-type": "text/xml;charset=UTF-8" },
    body:
      '<?xml version="1.0" encoding="UTF-8"?>\n' +
      `<Response><Errors><Error><Code>${code}</Code><Message>${message}</Message></Error></Errors>` +
      "<RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>",
  };
}

/** A row of Azure's list, Linux on demand unless told otherwise. */
export function azureRow(row: Record<string, unknown>): Record<string, unknown> {
  return {
    currencyCode: "USD",
    tierMinimumUnits: 0,
    retailPrice: 98.32,
    unitPrice: 98.32,
    armRegionName: "eastus",
    location: "US East",
    effectiveStartDate: "2024-03-01T00:00:00Z",
    meterName: "ND96isr H100 v5",
    productName: "Virtual Machines NDsr H100 v5 Series",
    skuName: "ND96isr H100 v5",
    serviceName: "Virtual Machines",
    unitOfMeasure: "1 Hour",
    type: "Consumption",
    isPrimaryMeterRegion: true,
    armSkuName: "Standard_ND96isr_H100_v5",
    ...row,
  };
}

/** A page of Azure's list. */
export function azurePage(rows: readonly unknown[], nextPageLink: string | null = null): Answer {
  return json({
    BillingCurrency: "USD",
    CustomerEntityId: "Default",
    CustomerEntityType: "Retail",
    Items: rows,
    NextPageLink: nextPageLink,
    Count: rows.length,
  });
}

/** A SKU of Google's catalogue. */
export function gcpSku(
  description: string,
  usd: number | string,
  { usageType = "OnDemand", unit = "h", currency = "USD", regions = ["us-central1"] } = {},
): Record<string, unknown> {
  const whole = typeof usd === "number" ? Math.trunc(usd) : usd;
  const nanos = typeof usd === "number" ? Math.round((usd - Math.trunc(usd)) * 1e9) : 0;
  return {
    name: "services/6F81-5844-456A/skus/0000-0000-0000",
    skuId: "0000-0000-0000",
    description,
    category: { serviceDisplayName: "Compute Engine", resourceFamily: "Compute", resourceGroup: "GPU", usageType },
    serviceRegions: regions,
    pricingInfo: [
      {
        summary: "",
        pricingExpression: {
          usageUnit: unit,
          displayQuantity: 1,
          tieredRates: [{ startUsageAmount: 0, unitPrice: { currencyCode: currency, units: String(whole), nanos } }],
        },
        currencyConversionRate: 1,
        effectiveTime: "2026-05-28T00:00:00.000Z",
      },
    ],
    serviceProviderName: "Google",
  };
}

/** An offer of Vast.ai's market. */
export function vastOffer(offer: Record<string, unknown>): Record<string, unknown> {
  return {
    id: 1,
    gpu_name: "H100 SXM",
    num_gpus: 8,
    gpu_ram: 81559,
    dph_base: 16,
    dph_total: 16,
    min_bid: 9,
    reliability: 0.99,
    geolocation: "Sweden, SE",
    rentable: true,
    verification: "verified",
    ...offer,
  };
}

const list = (price: number | string): string =>
  `region,instance_type,gpus,market,usd_per_gpu_hour,currency\neast,h100x8,8,on_demand,${price},USD\n`;

const KEY = "api_key_env: PRICE_KEY";

export const PROVIDER_CASES: readonly ProviderCase[] = [
  {
    provider: "aws_spot",
    yaml: (url) => `endpoint: "${url}", regions: [us-east-1], instance_types: [{ name: p5.48xlarge, gpus: 8 }]`,
    key: "f/us-east-1/p5.48xlarge/spot",
    answer: (price) => awsHistory([{ price: times(price, 8) }]),
    nothing: awsHistory([]),
    canBeFree: false,
  },
  {
    provider: "azure_retail",
    yaml: (url) =>
      `endpoint: "${url}", regions: [eastus], instance_types: [{ name: Standard_ND96isr_H100_v5, gpus: 8 }]`,
    key: "f/eastus/Standard_ND96isr_H100_v5/on_demand",
    answer: (price) => azurePage([azureRow({ retailPrice: times(price, 8) })]),
    nothing: azurePage([]),
    otherCurrency: () => azurePage([azureRow({ currencyCode: "EUR" })]),
    canBeFree: false,
  },
  {
    provider: "gcp_catalog",
    yaml: (url) =>
      `endpoint: "${url}", ${KEY}, regions: [us-central1], ` +
      'instance_types: [{ name: a3-highgpu-8g, gpus: 8, gpu_sku: "Nvidia H100 80GB GPU", gpu_only: true }]',
    key: "f/us-central1/a3-highgpu-8g/on_demand",
    answer: (price) => json({ skus: [gcpSku("Nvidia H100 80GB GPU running in Americas", price)], nextPageToken: "" }),
    nothing: json({ skus: [], nextPageToken: "" }),
    otherCurrency: () =>
      json({ skus: [gcpSku("Nvidia H100 80GB GPU running in Americas", 2, { currency: "EUR" })], nextPageToken: "" }),
    canBeFree: false,
  },
  {
    provider: "vastai",
    yaml: (url) => `endpoint: "${url}", ${KEY}, instance_types: [H100 SXM]`,
    key: "f/any/H100 SXM/on_demand",
    answer: (price) => json({ offers: [vastOffer({ dph_total: times(price, 8) })] }),
    nothing: json({ offers: [] }),
    canBeFree: false,
  },
  {
    provider: "runpod",
    yaml: (url) => `endpoint: "${url}", ${KEY}`,
    key: "f/secure/NVIDIA H100 80GB HBM3/on_demand",
    answer: (price) =>
      json({
        gpus: [
          {
            id: "NVIDIA H100 80GB HBM3",
            name: "H100 SXM",
            manufacturer: "NVIDIA",
            memory: 80,
            secure: true,
            community: false,
            price: { secure: price, community: 0.01, serverless: 4.18 },
            maxCount: { secure: 8, community: 0 },
          },
        ],
      }),
    nothing: json({ gpus: [] }),
    canBeFree: false,
  },
  {
    provider: "lambda",
    yaml: (url) => `endpoint: "${url}", ${KEY}`,
    key: "f/any/gpu_8x_h100_sxm5/on_demand",
    answer: (price) =>
      json({
        data: {
          gpu_8x_h100_sxm5: {
            instance_type: {
              name: "gpu_8x_h100_sxm5",
              description: "8x H100 (80 GB SXM5)",
              gpu_description: "H100 (80 GB SXM5)",
              price_cents_per_hour: times(price, 800),
              specs: { vcpus: 208, memory_gib: 1800, storage_gib: 22528, gpus: 8 },
            },
            regions_with_capacity_available: [],
          },
        },
      }),
    nothing: json({ data: {} }),
    canBeFree: false,
  },
  {
    provider: "url",
    yaml: (url) => `url: "${url}/prices.csv?token=${SECRET}", ${KEY}`,
    key: "f/east/h100x8/on_demand",
    answer: (price) => ({ headers: { "content-type": "text/csv" }, body: list(price) }),
    nothing: { headers: { "content-type": "text/csv" }, body: list(2).split("\n", 1)[0] as string },
    otherCurrency: () => ({ body: list(2).replace(",USD", ",EUR") }),
    canBeFree: true,
  },
];
