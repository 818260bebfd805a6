import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { reportedModel, UNKNOWN_READING } from "./adapter.ts";
import { llamacpp } from "./llamacpp.ts";
import { plain, response, sampleText, streamed, testAdapter } from "./testing/adapter-suite.ts";
import { testMetricRules } from "./testing/metric-rules.ts";

const health = response({ status: "ok" });
const props = response({ default_generation_settings: { id: 0, n_ctx: 2048 }, total_slots: 4, is_sleeping: false });
const models = response({ data: [{ id: "tiny", owned_by: "llamacpp", meta: { n_ctx_train: 131072 } }] });
const error = (code: number, type: string, message: string) => ({ error: { code, message, type } });

/** As b10434 writes them with --models-dir; arguments and presets left out. */
const routerProps = response({
  role: "router",
  max_instances: 4,
  default_generation_settings: { params: null, n_ctx: 0 },
  build_info: "b1-7e4c0a9",
});
const routed = (id: string, value: string, more: object = {}) => ({
  id,
  aliases: [],
  owned_by: "llamacpp",
  status: { value },
  architecture: { input_modalities: id === "seer" ? ["text", "image"] : ["text"], output_modalities: ["text"] },
  ...more,
});
const routerModels = response({
  data: [
    routed("one", "loaded", { meta: { n_ctx: 1024, n_ctx_train: 32768 } }),
    routed("a b", "loaded", { meta: { n_ctx: 512 } }),
    routed("seer", "unloaded"),
  ],
});
const nameless = response(error(400, "invalid_request_error", "model name is missing from the request"), 400);
const unloaded = response(error(400, "invalid_request_error", "model is not loaded"), 400);
const router = llamacpp.read(
  { health, metrics: nameless, models: routerModels, facts: { "/props": routerProps } },
  null,
);
const ONE = "/metrics?model=one&autoload=false";
const TWO = "/metrics?model=a%20b&autoload=false";

testAdapter(llamacpp, {
  readings: [
    {
      claim: "its build and whether it reads images",
      responses: {
        health,
        models,
        facts: { "/props": response({ total_slots: 4, build_info: "b1-7e4c0a9", modalities: { vision: true } }) },
      },
      expected: { version: "b1-7e4c0a9", models: [reportedModel("tiny", { readsImages: true })] },
    },
    {
      claim: "a router's models, running or not, before the load of any is told",
      responses: { health, metrics: nameless, models: routerModels, facts: { "/props": routerProps } },
      expected: {
        isReady: true,
        running: Number.NaN,
        version: "b1-7e4c0a9",
        models: [
          reportedModel("one", { contextTokens: 1024, readsImages: false }),
          reportedModel("a b", { contextTokens: 512, readsImages: false }),
          reportedModel("seer", { readsImages: true }),
        ],
      },
    },
    {
      claim: "a router's load by model, and their sum without counters that go with a model",
      responses: {
        health,
        metrics: nameless,
        facts: { [ONE]: response(sampleText("llamacpp-load.prom")), [TWO]: response(sampleText("llamacpp-idle.prom")) },
      },
      previous: router,
      expected: {
        running: 4,
        waiting: 16,
        generationTokensTotal: Number.NaN,
        byModel: [
          { id: "one", running: 4, waiting: 16, generationTokensTotal: 2292 },
          { id: "a b", running: 0, waiting: 0, generationTokensTotal: 24 },
        ],
      },
    },
    {
      claim: "a router's model that was unloaded in between as unknown until the next list",
      responses: { health, metrics: nameless, facts: { [ONE]: unloaded, [TWO]: unloaded } },
      previous: router,
      expected: { running: Number.NaN },
    },
    {
      claim: "a router that runs nothing as idle",
      responses: {
        health,
        metrics: nameless,
        models: response({ data: [routed("seer", "unloaded")] }),
        facts: { "/props": routerProps },
      },
      expected: { running: 0, waiting: 0, byModel: [] },
    },
    {
      claim: "an idle server",
      responses: { health, metrics: response(sampleText("llamacpp-idle.prom")) },
      expected: { isReady: true, running: 0, waiting: 0, generationTokensTotal: 24, promptTokensTotal: 63 },
    },
    {
      claim: "a loaded server with its slots and the window of one slot",
      responses: { health, metrics: response(sampleText("llamacpp-load.prom")), models, facts: { "/props": props } },
      expected: {
        running: 4,
        waiting: 16,
        generationTokensTotal: 2292,
        concurrencyLimit: 4,
        kvUse: Number.NaN,
        models: [reportedModel("tiny", { contextTokens: 2048 })],
      },
    },
    {
      claim: "busy slots where metrics are switched off",
      responses: {
        health,
        metrics: response([
          { id: 0, is_processing: true },
          { id: 1, is_processing: false },
        ]),
        facts: { "/props": props },
      },
      expected: { isReady: true, running: 1, waiting: Number.NaN, concurrencyLimit: 4 },
    },
    {
      claim: "a server without metrics and slots as living and unknown",
      responses: { health, metrics: response(error(501, "not_supported_error", "no metrics"), 501) },
      expected: { isReady: true, running: Number.NaN },
    },
    {
      claim: "a loading server as not ready",
      responses: { health: response(error(503, "unavailable_error", "Loading model"), 503) },
      expected: { isReady: false },
    },
    {
      claim: "a late health with metrics in time as busy, not dead",
      responses: { metrics: response(sampleText("llamacpp-load.prom")) },
      expected: { isReady: true, running: 4 },
    },
    {
      claim: "a model list without new limits with the lengths known before",
      responses: { health, models },
      previous: llamacpp.read({ health, metrics: null, models, facts: { "/props": props } }, null),
      expected: { models: [reportedModel("tiny", { contextTokens: 2048 })], concurrencyLimit: 4 },
    },
  ],
  verdicts: [
    {
      claim: "a prompt that is too long",
      answer: plain(400, { error: { code: 400, type: "exceed_context_size_error", message: "m", n_ctx: 4 } }),
      expected: "too_large",
    },
    {
      claim: "an embedding input above the batch size",
      answer: plain(
        500,
        error(500, "server_error", "input (600 tokens) is too large to process. increase the physical batch size"),
      ),
      expected: "too_large",
    },
    {
      claim: "a server that loads",
      answer: plain(503, error(503, "unavailable_error", "Loading model")),
      expected: "failure",
    },
    {
      claim: "no free slot",
      answer: plain(503, error(503, "unavailable_error", "no slot available")),
      expected: "overloaded",
    },
    {
      claim: "an endpoint that is switched off",
      answer: plain(501, error(501, "not_supported_error", "This server does not support embeddings.")),
      expected: "endpoint_unsupported",
    },
    {
      claim: "an unknown route",
      answer: plain(404, error(404, "not_found_error", "File Not Found")),
      expected: "endpoint_unsupported",
    },
    {
      claim: "an unknown model of router mode",
      answer: plain(404, error(404, "not_found_error", "model 'x' not found")),
      expected: "misconfigured",
    },
    {
      claim: "an unknown model of router mode as b10434 says it",
      answer: plain(400, error(400, "invalid_request_error", "model 'nope' not found")),
      expected: "misconfigured",
    },
    {
      claim: "a 500, since what we send was read as JSON before",
      answer: plain(500, error(500, "server_error", "[json.exception.parse_error.101] parse error")),
      expected: "failure",
    },
    {
      claim: "an error as first event",
      answer: streamed(error(500, "server_error", "Compute error.")),
      expected: "failure",
    },
  ],
});

describe("a llama.cpp router", () => {
  it("is asked for the load of the models that it runs, without loading any", () => {
    assert.deepEqual(llamacpp.loadPaths?.(router), [ONE, TWO]);
    assert.deepEqual(llamacpp.loadPaths?.(UNKNOWN_READING), []);
  });

  it("is told from others by its role", () => {
    assert.equal(
      llamacpp.detect({ health, metrics: nameless, models: null, facts: { "/props": routerProps } }),
      "certain",
    );
  });
});

testMetricRules(llamacpp, {
  names: {
    running: "llamacpp:requests_processing",
    waiting: "llamacpp:requests_deferred",
    generationTokensTotal: "llamacpp:tokens_predicted_total",
    promptTokensTotal: "llamacpp:prompt_tokens_total",
  },
  rankLabel: null,
});
