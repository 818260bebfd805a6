/** What Prometheus reads, against what callers saw. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { chat, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

const POLICY = `policies:
  - { name: fast, accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }], cost_priority: latency }
models: [{ name: m, policy: fast }]
`;

/** Value of the one series whose line starts so; labels in any order. */
function sumOf(page: string, name: string, labels: Record<string, string> = {}): number {
  const lines = page.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  const found = lines.filter((line) =>
    Object.entries(labels).every(([label, value]) => line.includes(`${label}="${value}"`)),
  );
  return found.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

async function startTwo(t: TestContext) {
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const nodes = `nodes:
  - { id: a, url: "${a.url}", family: H100, cost: { usd_per_gpu_hour: 2 }, max_in_flight: 4 }
  - { id: b, url: "${b.url}", family: MI300X }
`;
  const started = await startOn(t, PORTS + nodes + POLICY);
  const pageWith = async (requests: number): Promise<string> => {
    let page = "";
    await until(`${requests} requests are counted`, () => {
      page = started.gateway.metrics();
      return sumOf(page, "zml_requests_total") >= requests;
    });
    return page;
  };
  return { a, b, ...started, pageWith };
}

test("each way in which a request ends is counted as what the caller saw", async (t) => {
  const { a, gateway, pageWith } = await startTwo(t);
  await (await chat(gateway)).text();
  await (await chat(gateway, { stream: true, stream_options: { include_usage: true } })).text();
  await (await chat(gateway, { model: "nobody" })).text();
  await (await chat(gateway, {}, { body: "{" })).text();
  a.faults.status(500, '{"error":{"message":"boom","type":"x","param":null,"code":500}}');
  await (await chat(gateway)).text();
  await a.faults.clear();

  const page = await pageWith(5);
  assert.equal(sumOf(page, "zml_requests_total"), 5);
  const served = { account: "default", policy: "fast", gen_ai_request_model: "m", outcome: "delivered" };
  assert.equal(sumOf(page, "zml_requests_total", { ...served, family: "H100" }), 2);
  assert.equal(sumOf(page, "zml_requests_total", { ...served, family: "MI300X" }), 1);
  assert.equal(sumOf(page, "zml_requests_total", { outcome: "refused", policy: "" }), 2);
  assert.equal(sumOf(page, "zml_errors_total", { code: "model_not_found" }), 1);
  assert.equal(sumOf(page, "zml_errors_total", { code: "invalid_json" }), 1);
  assert.equal(sumOf(page, "zml_failover_redispatches_total"), 1);
  assert.equal(sumOf(page, "zml_dispatch_attempts_total", { node: "a", outcome: "failure" }), 1);
  assert.equal(sumOf(page, "zml_dispatch_attempts_total", { node: "b", outcome: "success" }), 1);
  assert.equal(sumOf(page, "gen_ai_server_request_duration_seconds_count"), 3);
  // the node tells 8 tokens of each
  assert.equal(sumOf(page, "zml_tokens_total", { gen_ai_token_type: "output" }), 24);
  const firstTokens = sumOf(page, "gen_ai_server_time_to_first_token_seconds_sum");
  assert.ok(firstTokens > 0 && firstTokens < sumOf(page, "gen_ai_server_request_duration_seconds_sum"));
  assert.ok(sumOf(page, "zml_decision_duration_seconds_count") === 3);
});

test("a caller who leaves before an answer is counted as cancelled, and in no histogram", async (t) => {
  const { a, b, gateway, pageWith } = await startTwo(t);
  a.faults.silence = "blackhole";
  b.faults.silence = "blackhole";
  const leaving = new AbortController();
  const gone = chat(gateway, {}, { signal: leaving.signal });
  await until("it is on a node", () => gateway.stats().fleet.totals.in_flight === 1);
  leaving.abort();
  await assert.rejects(gone);
  const page = await pageWith(1);
  assert.equal(sumOf(page, "zml_requests_total", { outcome: "cancelled", family: "H100" }), 1);
  assert.equal(sumOf(page, "gen_ai_server_request_duration_seconds_count"), 0);
});

test("the fleet's gauges are what zml nodes shows, and what is unknown has no series", async (t) => {
  const { gateway } = await startTwo(t);
  const page = gateway.metrics();
  assert.equal(sumOf(page, "zml_availability_node_max_in_flight", { node: "a", family: "H100" }), 4);
  assert.equal(sumOf(page, "zml_availability_nodes", { state: "healthy" }), 2);
  assert.equal(sumOf(page, "zml_cost_node_price_usd_per_hour", { node: "a" }), 2);
  assert.doesNotMatch(page, /zml_cost_node_price_usd_per_hour\{node="b"/);
  assert.doesNotMatch(page, /NaN/);
  assert.equal(sumOf(page, "inference_pool_ready_pods", { name: "H100" }), 1);
  assert.equal(sumOf(page, "zml_configuration_version"), gateway.stats().fleet.version);
  assert.ok(sumOf(page, "process_resident_memory_bytes") > 2 ** 24);
});

test("promtool finds nothing to mend", async (t) => {
  const { gateway, pageWith } = await startTwo(t);
  await (await chat(gateway)).text();
  const page = await pageWith(1);
  const promtool = spawn("promtool", ["check", "metrics"], { stdio: ["pipe", "pipe", "pipe"] });
  const isThere = await Promise.race([
    once(promtool, "spawn").then(() => true),
    once(promtool, "error").then(() => false),
  ]);
  if (!isThere) {
    const hint = "promtool is not installed: apt-get install prometheus";
    assert.equal(process.env.CI, undefined, hint);
    t.skip(`left out: ${hint}`);
    return;
  }
  const said: Buffer[] = [];
  promtool.stdout.on("data", (chunk) => said.push(chunk));
  promtool.stderr.on("data", (chunk) => said.push(chunk));
  promtool.stdin.end(page);
  const [code] = await once(promtool, "close");
  assert.equal(Buffer.concat(said).toString(), "");
  assert.equal(code, 0);
});
