import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fetchOnce } from "../testing/feed-call.ts";
import { json, priceServer } from "../testing/price-server.ts";
import { gcpSku, SECRET } from "../testing/provider-cases.ts";

const WHOLE =
  'instance_types: [{ name: a3-highgpu-8g, gpus: 8, gpu_sku: "Nvidia H100 80GB GPU", cpu_sku: A3 Instance Core, ' +
  "vcpus: 208, ram_sku: A3 Instance Ram, memory_gib: 1872 }]";
const GPU_ONLY = 'instance_types: [{ name: a3, gpus: 1, gpu_sku: "Nvidia H100 80GB GPU", gpu_only: true }]';
const yaml = (url: string, types = WHOLE, key = "api_key_env: PRICE_KEY") =>
  `endpoint: "${url}", ${key}, regions: [us-central1], ${types}`;

const GPU = "Nvidia H100 80GB GPU running in Americas";
const CORE = gcpSku("A3 Instance Core running in Americas", 0.03);
const RAM = gcpSku("A3 Instance Ram running in Americas", 0.004, { unit: "GiBy.h" });

test("gcp_catalog: an instance costs its GPUs, its vCPUs and its memory; units are a string, nanos billionths", async (t) => {
  const server = await priceServer(t, () => json({ skus: [gcpSku(GPU, 9.796550569), CORE, RAM], nextPageToken: "" }));
  const { prices, quotes } = await fetchOnce("gcp_catalog", yaml(server.url));
  const expected = 9.796550569 + (208 * 0.03 + 1872 * 0.004) / 8;
  assert.deepEqual(Object.keys(prices), ["us-central1/a3-highgpu-8g/on_demand"]);
  assert.ok(Math.abs((prices["us-central1/a3-highgpu-8g/on_demand"] ?? 0) - expected) < 1e-9);
  assert.equal(quotes[0]?.observedAtMs, Date.parse("2026-05-28T00:00:00Z"));
});

test("gcp_catalog: spot is told by its text, also where the category says OnDemand, and only one way of selling fits", async (t) => {
  const server = await priceServer(t, () =>
    json({
      skus: [
        gcpSku(GPU, 10),
        gcpSku("Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Americas", 4),
        gcpSku("Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas", 7),
        gcpSku("Nvidia H100 80GB Mega GPU running in Americas", 11),
        gcpSku("Reserved Nvidia H100 80GB GPU in Americas in Calendar Mode", 6),
        gcpSku("Commitment v1: Nvidia H100 80GB GPU running in Americas for 1 Year", 5, { usageType: "Commit1Yr" }),
        gcpSku("Nvidia H100 80GB GPU running in Tokyo", 12, { regions: ["asia-northeast1"] }),
      ],
    }),
  );
  const { prices } = await fetchOnce("gcp_catalog", yaml(server.url, GPU_ONLY));
  assert.deepEqual(prices, { "us-central1/a3/on_demand": 10, "us-central1/a3/spot": 4 });
});

test("gcp_catalog: without a SKU for each part, or with two that differ, there is no price, and it is said", async (t) => {
  const server = await priceServer(t, () => json({ skus: [gcpSku(GPU, 10), CORE] }));
  const missing = await fetchOnce("gcp_catalog", yaml(server.url));
  assert.deepEqual(missing.prices, {});
  assert.match(missing.notes.join(), /no single SKU for A3 Instance Ram \(none\)/);
  server.answer = () => json({ skus: [gcpSku(GPU, 10), gcpSku(GPU, 11), CORE, RAM] });
  const several = await fetchOnce("gcp_catalog", yaml(server.url));
  assert.deepEqual(several.prices, {});
  assert.match(several.notes.join(), /Nvidia H100 80GB GPU \(several\)/);
  server.answer = () => json({ skus: [gcpSku(GPU, 10), gcpSku(GPU, 10), CORE, RAM] });
  assert.equal(Object.keys((await fetchOnce("gcp_catalog", yaml(server.url))).prices).length, 1);
});

test("gcp_catalog: memory is priced per GiB and hour, another unit does not fit", async (t) => {
  const monthly = gcpSku("A3 Instance Ram running in Americas", 3, { unit: "GiBy.mo" });
  const server = await priceServer(t, () => json({ skus: [gcpSku(GPU, 10), CORE, monthly] }));
  assert.deepEqual((await fetchOnce("gcp_catalog", yaml(server.url))).prices, {});
});

test("gcp_catalog: pages are followed; the key is in a header and never in the address", async (t) => {
  const server = await priceServer(t, (asked) =>
    asked.url.searchParams.get("pageToken") === "p2"
      ? json({ skus: [gcpSku(GPU, 10)], nextPageToken: "" })
      : json({ skus: [{ description: "Something else" }], nextPageToken: "p2" }),
  );
  const { prices } = await fetchOnce("gcp_catalog", yaml(server.url, GPU_ONLY));
  assert.equal(prices["us-central1/a3/on_demand"], 10);
  assert.equal(server.asked.length, 2);
  for (const { headers, url } of server.asked) {
    assert.equal(headers["x-goog-api-key"], SECRET);
    assert.ok(!url.href.includes(SECRET));
    assert.equal(url.pathname, "/v1/services/6F81-5844-456A/skus");
  }
});

test("gcp_catalog: page tokens that never end are given up", async (t) => {
  const server = await priceServer(t, () => json({ skus: [], nextPageToken: "again" }));
  await assert.rejects(fetchOnce("gcp_catalog", yaml(server.url, GPU_ONLY)), /more than 200 pages/);
});

/** Credentials of workload identity federation, whose token endpoint is here. */
function credentialsFile(t: TestContext, tokenUrl: string): string {
  const folder = mkdtempSync(join(tmpdir(), "zml-gcp-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const subject = join(folder, "subject");
  writeFileSync(subject, `subject-${SECRET}`);
  const path = join(folder, "federation.json");
  const file = {
    type: "external_account",
    audience: "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_url: `${tokenUrl}/v1/token`,
    credential_source: { file: subject },
    quota_project_id: "pays-for-it",
  };
  writeFileSync(path, JSON.stringify(file));
  return path;
}

/** A file that is no JSON. */
function brokenFile(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "zml-gcp-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "broken.json");
  writeFileSync(path, "{ not json");
  return path;
}

test("gcp_catalog: credentials of a file get a token of their endpoint, and the catalogue is asked with it", async (t) => {
  const tokens = await priceServer(t, () =>
    json({
      access_token: `ya29.${SECRET}`,
      issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
      expires_in: 3600,
      token_type: "Bearer",
    }),
  );
  const server = await priceServer(t, () => json({ skus: [gcpSku(GPU, 10)] }));
  const key = `credentials_file: "${credentialsFile(t, tokens.url)}"`;
  const { prices } = await fetchOnce("gcp_catalog", yaml(server.url, GPU_ONLY, key));
  assert.equal(prices["us-central1/a3/on_demand"], 10);
  assert.equal(server.asked[0]?.headers.authorization, `Bearer ya29.${SECRET}`);
  assert.equal(server.asked[0]?.headers["x-goog-user-project"], "pays-for-it");
  const form = new URLSearchParams(tokens.asked[0]?.body);
  assert.equal(form.get("subject_token"), `subject-${SECRET}`);
  assert.equal(form.get("scope"), "https://www.googleapis.com/auth/cloud-billing.readonly");
});

test("gcp_catalog: without a key or a file the application default credentials are used", async (t) => {
  const tokens = await priceServer(t, () =>
    json({ access_token: "ya29.default", expires_in: 3600, token_type: "Bearer" }),
  );
  const server = await priceServer(t, () => json({ skus: [gcpSku(GPU, 10)] }));
  const before = process.env["GOOGLE_APPLICATION_CREDENTIALS"];
  process.env["GOOGLE_APPLICATION_CREDENTIALS"] = credentialsFile(t, tokens.url);
  t.after(() => {
    if (before === undefined) delete process.env["GOOGLE_APPLICATION_CREDENTIALS"];
    else process.env["GOOGLE_APPLICATION_CREDENTIALS"] = before;
  });
  const { prices } = await fetchOnce("gcp_catalog", yaml(server.url, GPU_ONLY, "cloud_account: research"));
  assert.equal(prices["us-central1/a3/on_demand"], 10);
  assert.equal(server.asked[0]?.headers.authorization, "Bearer ya29.default");
});

test("gcp_catalog: a token endpoint that refuses, and a file that is none, are said without what stands in them", async (t) => {
  const server = await priceServer(t, () => json({ skus: [] }));
  const tokens = await priceServer(t, () => json({ error: "invalid_grant", error_description: SECRET }, 400));
  for (const path of [credentialsFile(t, tokens.url), brokenFile(t), "nowhere.json"]) {
    await assert.rejects(
      fetchOnce("gcp_catalog", yaml(server.url, GPU_ONLY, `credentials_file: "${path}"`)),
      (error: unknown) => {
        assert.ok(error instanceof Error);
        assert.match(error.message, /Google gave no access token/);
        assert.doesNotMatch(error.message, new RegExp(`${SECRET}|PRIVATE|nowhere`));
        return true;
      },
    );
  }
  assert.equal(server.asked.length, 0);
});
