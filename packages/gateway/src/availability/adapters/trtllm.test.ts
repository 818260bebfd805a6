import { reportedModel } from "./adapter.ts";
import { plain, response, sampleText, streamed, testAdapter } from "./testing/adapter-suite.ts";
import { trtllm } from "./trtllm.ts";

const health = response("");
const models = response({ data: [{ id: "llama-3.1-8b", object: "model", owned_by: "tensorrt_llm" }] });
const loaded = sampleText("trtllm-load.prom");
const TOO_LONG = "The sum of prompt length (9000) and max tokens (100) should not exceed max_seq_len (8192)";
const EXTRA = "[{'type': 'extra_forbidden', 'loc': ('body', 'policy'), 'msg': 'Extra inputs are not permitted'}]";

const LOAD = {
  isReady: true,
  running: 11,
  waiting: 3,
  concurrencyLimit: 256,
  kvUse: 0.5371875,
  kvHeadroomTokens: 2962 * 32,
  freeMemoryGib: Number.NaN,
  generationTokensTotal: 611940,
  promptTokensTotal: 2480113,
  successesTotal: 2210,
  errorsTotal: 6,
  platform: "cuda",
};

testAdapter(trtllm, {
  readings: [
    {
      claim: "a loaded server",
      responses: { health, metrics: response(loaded), models, facts: { "/version": response({ version: "1.3.0" }) } },
      expected: {
        ...LOAD,
        version: "1.3.0",
        models: [reportedModel("llama-3.1-8b", { contextTokens: 131072 })],
      },
    },
    {
      claim: "an older build, whose names have no prefix",
      responses: { health, metrics: response(loaded.replaceAll("trtllm_", "")) },
      expected: LOAD,
    },
    {
      claim: "a server that was started without the two options as one that tells no load",
      responses: { health, metrics: response("", 404), models },
      expected: {
        isReady: true,
        running: Number.NaN,
        waiting: Number.NaN,
        models: [reportedModel("llama-3.1-8b")],
      },
    },
    {
      claim: "a server without iteration statistics as one that tells its counters only",
      responses: { health, metrics: response('trtllm_generation_tokens_total{model_name="m"} 5.0\n') },
      expected: { running: Number.NaN, waiting: Number.NaN, kvUse: Number.NaN, generationTokensTotal: 5 },
    },
    {
      claim: "the JSON page of iterations, should it come in place of metrics, as nothing",
      responses: { health, metrics: response([{ numActiveRequests: 3, numQueuedRequests: 1 }]) },
      expected: { isReady: true, running: Number.NaN, waiting: Number.NaN },
    },
    {
      claim: "aborted answers as no successes",
      responses: {
        health,
        metrics: response(
          'trtllm_request_success_total{finished_reason="stop"} 4.0\n' +
            'trtllm_request_success_total{finished_reason="cancelled"} 9.0\n',
        ),
      },
      expected: { successesTotal: 4, errorsTotal: Number.NaN },
    },
    {
      claim: "a server whose engine is gone as not ready",
      responses: { health: response("LLM is unavailable. Please check the server logs for more details.", 503) },
      expected: { isReady: false },
    },
    {
      claim: "a list without lengths with those that the metrics told before",
      responses: { health, models },
      previous: trtllm.read({ health, metrics: response(loaded), models, facts: {} }, null),
      expected: { running: 11, models: [reportedModel("llama-3.1-8b", { contextTokens: 131072 })] },
    },
  ],
  verdicts: [
    { claim: "a prompt that is too long", answer: plain(400, { error: TOO_LONG }), expected: "too_large" },
    { claim: "the same as first event", answer: streamed({ error: TOO_LONG }), expected: "too_large" },
    { claim: "an unknown member", answer: plain(400, { error: EXTRA }), expected: "caller_error" },
    { claim: "an unknown route", answer: plain(404, { detail: "Not Found" }), expected: "endpoint_unsupported" },
    { claim: "an error of the engine", answer: plain(500, { error: "executor failed" }), expected: "failure" },
    { claim: "a full queue", answer: plain(503, { error: "the server is overloaded" }), expected: "overloaded" },
    { claim: "an engine that is gone", answer: plain(503, "LLM is unavailable"), expected: "failure" },
  ],
});
