import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { reportedModel } from "./adapter.ts";
import { custom, customAdapter } from "./custom.ts";
import { plain, response, streamed, testAdapter } from "./testing/adapter-suite.ts";

testAdapter(custom, {
  readings: [
    {
      claim: "a healthy server with its models",
      responses: {
        health: response("ok"),
        models: response({ data: [{ id: "a", max_model_len: 4096 }, { id: "b" }] }),
      },
      expected: {
        isReady: true,
        running: Number.NaN,
        models: [reportedModel("a", { contextTokens: 4096 }), reportedModel("b")],
      },
    },
    {
      claim: "a server without a health route as ready",
      responses: { health: response("", 404), models: response("", 404) },
      expected: { isReady: true, models: null },
    },
    {
      claim: "a server that is not ready",
      responses: { health: response("", 503), models: response({ data: [] }) },
      expected: { isReady: false },
    },
    {
      claim: "a list with nonsense in it",
      responses: { health: response(""), models: response({ data: [null, 4, { id: 5 }, { id: "a" }, { id: "a" }] }) },
      expected: { models: [reportedModel("a")] },
    },
  ],
  verdicts: [
    {
      claim: "OpenAI's context error",
      answer: plain(400, {
        error: { message: "too long", type: "invalid_request_error", code: "context_length_exceeded" },
      }),
      expected: "too_large",
    },
    {
      claim: "a full queue by SGLang",
      answer: plain(503, { object: "error", message: "The request queue is full.", type: "503", code: 503 }),
      expected: "overloaded",
    },
    {
      claim: "a full queue as first event",
      answer: streamed({ error: { message: "The request queue is full.", code: 503 } }),
      expected: "overloaded",
    },
    {
      claim: "an unknown model",
      answer: plain(404, { error: { message: "no such thing", code: "model_not_found" } }),
      expected: "misconfigured",
    },
    { claim: "an unknown route", answer: plain(404, "404 page not found"), expected: "endpoint_unsupported" },
    {
      claim: "an error with status 200",
      answer: plain(200, { error: { message: "retracted", type: "rate_limit_error" } }),
      expected: "overloaded",
    },
    {
      claim: "Anthropic's overload as first event",
      answer: streamed({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }, "error"),
      expected: "overloaded",
    },
  ],
});

const described = customAdapter({
  healthPath: "/up",
  isStated: true,
  modelsPath: "/models",
  metricsPath: "/stats",
  metrics: {
    running: { name: "jobs", labels: { state: "running" } },
    waiting: { name: "jobs", labels: { state: "queued" } },
    concurrency_limit: { name: "slots", labels: {} },
    kv_use_percent: { name: "cache_percent", labels: {} },
    generation_tokens_total: { name: "tokens_out_total", labels: {} },
    free_memory_bytes: { name: "memory_free_bytes", labels: {} },
  },
});
const STATS = `jobs{state="running",rank="0"} 3
jobs{state="running",rank="1"} 4
jobs{state="queued"} 2
slots 32
cache_percent{rank="0"} 50
cache_percent{rank="1"} 70
memory_free_bytes{gpu="0"} 1073741824
memory_free_bytes{gpu="1"} 536870912
`;

describe("a custom server with a mapping", () => {
  it("is asked where the operator says", () => {
    assert.deepEqual(described.probes, {
      health: "/up",
      metrics: "/stats",
      metricsFallback: null,
      models: "/models",
      facts: [],
    });
  });

  it("is asked for no metrics when none is named", () => {
    const section = { healthPath: "/up", isStated: true, modelsPath: null, metricsPath: "/metrics", metrics: {} };
    assert.deepEqual(customAdapter(section).probes, { ...custom.probes, health: "/up", models: null });
    assert.equal(customAdapter(section), customAdapter(section));
  });
});

testAdapter(described, {
  readings: [
    {
      claim: "what the mapping names: labels chosen, ranks added, ratios averaged, units turned",
      responses: { health: response(""), metrics: response(STATS) },
      expected: {
        isReady: true,
        running: 7,
        waiting: 2,
        concurrencyLimit: 32,
        kvUse: 0.6,
        freeMemoryGib: 1.5,
        generationTokensTotal: Number.NaN,
        promptTokensTotal: Number.NaN,
      },
    },
    {
      claim: "a server that answers its metrics while its health page hangs as busy",
      responses: { metrics: response(STATS) },
      expected: { isReady: true, running: 7 },
    },
    {
      claim: "metrics that are refused as unknown",
      responses: { health: response(""), metrics: response("", 404) },
      previous: described.read({ health: response(""), metrics: response(STATS), models: null, facts: {} }, null),
      expected: { isReady: true, running: Number.NaN },
    },
    {
      claim: "metrics that did not come this time as they were",
      responses: { health: response("") },
      previous: described.read({ health: response(""), metrics: response(STATS), models: null, facts: {} }, null),
      expected: { running: 7, kvUse: 0.6 },
    },
  ],
  verdicts: [],
});
