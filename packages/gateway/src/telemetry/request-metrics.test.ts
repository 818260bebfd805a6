import assert from "node:assert/strict";
import { test } from "node:test";
import { ENDINGS, ENDPOINTS, REASONS } from "@zml/engine";
import { ERROR_CODES } from "@zml/protocol/errors";
import { createNameRegistry } from "../control/name-registry.ts";
import { REQUEST_FIELDS } from "../thread-messages.ts";
import type { MetricFamily } from "./metric-family.ts";
import { RequestMetrics } from "./request-metrics.ts";

type Field = (typeof REQUEST_FIELDS)[number];

function fixture({ seriesMax = 100 } = {}) {
  const names = createNameRegistry();
  const policy = names.policies.register("acme", "fast");
  const model = names.models.register("acme", "llama");
  const family = names.families.register("", "H100");
  const metrics = new RequestMetrics({ names, targetMs: () => 300, seriesMax: () => seriesMax });
  const served: Record<Field, number> = {
    policy,
    model,
    family,
    reason: REASONS.indexOf("cheapest"),
    endpoint: ENDPOINTS.indexOf("chat_completions"),
    ending: ENDINGS.indexOf("delivered"),
    code: -1,
    status: 200,
    dispatches: 1,
    decideMs: 0.004,
    waitedMs: 0,
    firstTokenMs: 30,
    tokensMs: 200,
    promptTokens: 12,
    outputTokens: 21,
    durationMs: 250,
  };
  const take = (change: Partial<Record<Field, number>> = {}) => {
    const values = { ...served, ...change };
    metrics.takeRequests(Float64Array.from(REQUEST_FIELDS.map((name) => values[name])), 0);
  };
  return { names, metrics, take };
}

function sumOf(metrics: RequestMetrics, name: string, labels: Record<string, string>): number {
  const family = metrics.families().find((one) => name.startsWith(one.name)) as MetricFamily;
  const found = family.values.filter(
    (sample) =>
      (sample.metricName ?? family.name) === name &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );
  return found.reduce((sum, { value }) => sum + value, 0);
}

test("a request that was served counts once, with its times in seconds and its tokens", () => {
  const { metrics, take } = fixture();
  take();
  const who = { account: "acme", policy: "fast", family: "H100" };
  assert.equal(sumOf(metrics, "zml_requests_total", { ...who, outcome: "delivered", reason: "cheapest" }), 1);
  assert.equal(sumOf(metrics, "gen_ai_server_request_duration_seconds_sum", who), 0.25);
  assert.equal(sumOf(metrics, "gen_ai_server_request_duration_seconds_bucket", { ...who, le: "0.16" }), 0);
  assert.equal(sumOf(metrics, "gen_ai_server_request_duration_seconds_bucket", { ...who, le: "0.32" }), 1);
  assert.equal(sumOf(metrics, "gen_ai_server_time_to_first_token_seconds_sum", who), 0.03);
  // 21 tokens are 20 steps
  assert.equal(sumOf(metrics, "gen_ai_server_time_per_output_token_seconds_sum", who), 0.01);
  assert.equal(sumOf(metrics, "zml_tokens_total", { ...who, gen_ai_token_type: "input" }), 12);
  assert.equal(sumOf(metrics, "zml_tokens_total", { ...who, gen_ai_token_type: "output" }), 21);
});

test("a target is met by what was served in time, missed by what was not served, and not judged where the caller left", () => {
  const { metrics, take } = fixture();
  take({ durationMs: 300 });
  take({ durationMs: 301 });
  take({ ending: ENDINGS.indexOf("saturated"), status: 503 });
  take({ ending: ENDINGS.indexOf("cancelled"), status: 0 });
  take({ status: 400 });
  assert.equal(sumOf(metrics, "zml_requests_judged_total", { policy: "fast" }), 3);
  assert.equal(sumOf(metrics, "zml_requests_within_target_total", { policy: "fast" }), 1);
  const { judged, withinTarget, requests, endings } = metrics.totals();
  assert.deepEqual({ judged, withinTarget, requests }, { judged: 3, withinTarget: 1, requests: 5 });
  assert.equal(endings.saturated, 1);
});

test("totals tell how many requests of each policy went to which family, and what nodes made of them", () => {
  const { names, metrics, take } = fixture();
  take();
  take({ ending: ENDINGS.indexOf("interrupted") });
  take({ ending: ENDINGS.indexOf("saturated"), family: -1 });
  const sample = {
    row: 0,
    placement: 0,
    model: 0,
    promptTokens: 1,
    outputTokens: 1,
    firstTokenMs: 1,
    durationMs: 1,
    atMs: 1,
  };
  const identity = names.identities.register("http://a", "a");
  metrics.takeAttempts([
    { ...sample, identity, outcome: "success" },
    { ...sample, identity, outcome: "failure" },
  ]);
  const { flows, attempts } = metrics.totals();
  assert.deepEqual(flows, [
    { account: "acme", policy: "fast", family: "H100", requests: 2, delivered: 1 },
    { account: "acme", policy: "fast", family: "", requests: 1, delivered: 0 },
  ]);
  assert.deepEqual([...attempts], [["a", { attempts: 2, failed: 1 }]]);
});

test("a request that was not served is in no histogram of answers", () => {
  const { metrics, take } = fixture();
  const code = ERROR_CODES.indexOf("queue_saturated");
  take({ ending: ENDINGS.indexOf("saturated"), family: -1, code, status: 503, dispatches: 0 });
  take({ status: 400 });
  assert.equal(sumOf(metrics, "zml_requests_total", { outcome: "saturated", family: "" }), 1);
  assert.equal(sumOf(metrics, "zml_errors_total", { code: "queue_saturated" }), 1);
  assert.equal(sumOf(metrics, "gen_ai_server_request_duration_seconds_count", {}), 0);
});

test("what is unknown is left out, and no counter sinks or becomes NaN", () => {
  const { metrics, take } = fixture();
  take({ firstTokenMs: Number.NaN, tokensMs: Number.NaN, promptTokens: Number.NaN, outputTokens: Number.NaN });
  take({ tokensMs: -5, promptTokens: -1, outputTokens: -1, durationMs: -1 });
  for (const { values } of metrics.families()) {
    for (const { value } of values) assert.ok(value >= 0, String(value));
  }
  assert.equal(sumOf(metrics, "gen_ai_server_time_to_first_token_seconds_count", {}), 1);
  assert.equal(sumOf(metrics, "gen_ai_server_request_duration_seconds_count", {}), 1);
  assert.equal(sumOf(metrics, "zml_requests_total", {}), 2);
});

test("a second dispatch counts as one re-dispatch, and a wait in its policy's histogram", () => {
  const { metrics, take } = fixture();
  take({ dispatches: 3, waitedMs: 1500 });
  take();
  assert.equal(sumOf(metrics, "zml_failover_redispatches_total", {}), 2);
  assert.equal(sumOf(metrics, "zml_admission_queue_wait_seconds_sum", { policy: "fast" }), 1.5);
  assert.equal(sumOf(metrics, "zml_admission_queue_wait_seconds_count", {}), 1);
});

test("beyond the bound of series nothing is lost and nothing grows: the rest is one series", () => {
  const { names, metrics, take } = fixture({ seriesMax: 100 });
  for (let index = 0; index < 5_000; index++) {
    take({
      model: names.models.register("acme", `m${index}`),
      policy: names.policies.register("acme", `p${index}`),
      waitedMs: 1,
    });
  }
  const count = (name: string) => metrics.families().find((one) => one.name === name)?.values.length ?? 0;
  assert.equal(sumOf(metrics, "zml_requests_total", {}), 5_000);
  assert.equal(sumOf(metrics, "zml_requests_total", { gen_ai_request_model: "other" }), 4_900);
  assert.equal(sumOf(metrics, "gen_ai_server_request_duration_seconds_count", {}), 5_000);
  assert.equal(sumOf(metrics, "zml_admission_queue_wait_seconds_count", { policy: "other" }), 4_900);
  assert.equal(count("zml_requests_total"), 101);
});

test("two requests that differ in one name only are two series, with every index at its bound", () => {
  const { metrics, take } = fixture();
  const most = { policy: 65_534, model: 16_383, family: 4_095, endpoint: ENDPOINTS.length - 1 };
  for (const name of ["policy", "model", "family", "endpoint"] as const) take({ ...most, [name]: most[name] - 1 });
  take(most);
  take({ ...most, reason: REASONS.length - 1, ending: ENDINGS.length - 1 });
  const { values } = metrics.families().find(({ name }) => name === "zml_requests_total") as MetricFamily;
  assert.deepEqual(
    values.map(({ value }) => value),
    [1, 1, 1, 1, 1, 1],
  );
});

test("attempts count by node and outcome, those of nodes beyond the bound together", () => {
  const { names, metrics } = fixture({ seriesMax: 2 });
  const sample = (id: string, outcome: "success" | "failure") => ({
    identity: names.identities.register(`http://${id}`, id),
    outcome,
    row: 0,
    placement: 0,
    model: 0,
    promptTokens: 1,
    outputTokens: 1,
    firstTokenMs: 1,
    durationMs: 1,
    atMs: 1,
  });
  metrics.takeAttempts([
    sample("a", "success"),
    sample("a", "success"),
    sample("a", "failure"),
    sample("b", "failure"),
  ]);
  assert.equal(sumOf(metrics, "zml_dispatch_attempts_total", { node: "a", outcome: "success" }), 2);
  assert.equal(sumOf(metrics, "zml_dispatch_attempts_total", { node: "a", outcome: "failure" }), 1);
  assert.equal(sumOf(metrics, "zml_dispatch_attempts_total", { node: "other", outcome: "failure" }), 1);
});
