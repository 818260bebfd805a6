import { reportedModel } from "./adapter.ts";
import { plain, response, sampleText, streamed, testAdapter } from "./testing/adapter-suite.ts";
import { testMetricRules } from "./testing/metric-rules.ts";
import { tgi } from "./tgi.ts";

const health = response("");
const info = response({
  model_id: "org/big",
  max_concurrent_requests: 128,
  max_total_tokens: 4096,
  router: "text-generation-router",
  version: "3.3.7",
  docker_label: "sha-0a1b2c3-rocm",
});
const LONG = "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9 `inputs` tokens";
const flat = (type: string, message: string) => ({ error: message, error_type: type });
const event = (message: string) => ({ error: { message, http_status_code: 422 } });

testAdapter(tgi, {
  readings: [
    {
      claim: "a loaded router",
      responses: { health, metrics: response(sampleText("tgi-load.prom")), facts: { "/info": info } },
      expected: {
        isReady: true,
        running: 9,
        waiting: 4,
        kvUse: 97431 / 159721,
        generationTokensTotal: 1283402,
        promptTokensTotal: 4112090,
        kvHeadroomTokens: 159721 - 97431,
        successesTotal: 4810,
        errorsTotal: 2,
        version: "3.3.7",
        platform: "rocm",
        admissionLimit: 128,
        concurrencyLimit: Number.NaN,
        models: [reportedModel("org/big", { contextTokens: 4096 })],
      },
    },
    {
      claim: "a fresh router, whose series do not exist yet, as unknown",
      responses: { health, metrics: response("# nothing yet\n"), facts: { "/info": info } },
      expected: {
        isReady: true,
        running: Number.NaN,
        waiting: Number.NaN,
        generationTokensTotal: Number.NaN,
        errorsTotal: Number.NaN,
      },
    },
    {
      claim: "failures that were never counted beside successes as none, and a default image as no platform",
      responses: {
        health,
        metrics: response('tgi_request_success 3\ntgi_request_failure{err="overloaded"} 5\n'),
        facts: { "/info": response({ model_id: "m", version: "3.3.7", docker_label: "sha-0a1b2c3" }) },
      },
      expected: { successesTotal: 3, errorsTotal: 0, platform: null, kvHeadroomTokens: Number.NaN },
    },
    {
      claim: "an unhealthy router as not ready",
      responses: { health: response(flat("healthcheck", "unhealthy"), 503), metrics: response("") },
      expected: { isReady: false },
    },
    {
      claim: "the listed model with the length of the limits",
      responses: { health, models: response({ data: [{ id: "org/big", created: 0 }] }), facts: { "/info": info } },
      expected: { models: [reportedModel("org/big", { contextTokens: 4096 })] },
    },
  ],
  verdicts: [
    { claim: "an overload", answer: plain(429, flat("overloaded", "Model is overloaded")), expected: "overloaded" },
    {
      claim: "an overload inside a stream of 200",
      answer: streamed(flat("overloaded", "Model is overloaded")),
      expected: "overloaded",
    },
    {
      claim: "an overload inside an OpenAI stream, whose code is always 422",
      answer: streamed(event("Model is overloaded")),
      expected: "overloaded",
    },
    { claim: "too many tokens", answer: plain(422, flat("validation", LONG)), expected: "too_large" },
    { claim: "too many tokens inside a stream", answer: streamed(event(LONG)), expected: "too_large" },
    {
      claim: "another validation error",
      answer: plain(422, flat("validation", "Input validation error: `inputs` cannot be empty")),
      expected: "caller_error",
    },
    {
      claim: "another validation error inside a stream",
      answer: streamed(event("Input validation error: `temperature` must be strictly positive")),
      expected: "caller_error",
    },
    { claim: "a template error", answer: streamed(event("Template error: no role")), expected: "caller_error" },
    {
      claim: "a body that does not fit its type",
      answer: plain(422, "Failed to deserialize the JSON body into the target type"),
      expected: "caller_error",
    },
    {
      claim: "a failed generation",
      answer: plain(424, flat("generation", "Request failed during generation")),
      expected: "failure",
    },
    {
      claim: "a failed generation inside a stream, whose code is always 422",
      answer: streamed(event("Request failed during generation: Server error")),
      expected: "failure",
    },
    {
      claim: "an incomplete generation",
      answer: plain(500, flat("incomplete_generation", "Incomplete generation")),
      expected: "failure",
    },
    { claim: "an unknown route", answer: plain(404, ""), expected: "endpoint_unsupported" },
  ],
});

testMetricRules(tgi, {
  names: {
    running: "tgi_batch_current_size",
    waiting: "tgi_queue_size",
    generationTokensTotal: "tgi_request_generated_tokens_sum",
    promptTokensTotal: "tgi_request_input_length_sum",
  },
  rankLabel: null,
});
