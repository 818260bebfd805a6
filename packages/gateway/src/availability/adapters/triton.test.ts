import { reportedModel } from "./adapter.ts";
import { plain, response, sampleText, streamed, testAdapter } from "./testing/adapter-suite.ts";
import { triton } from "./triton.ts";

const health = response("");
const models = response({
  data: [
    { id: "ensemble", owned_by: "Triton Inference Server" },
    { id: "tensorrt_llm", owned_by: "Triton Inference Server" },
  ],
});
const FULL = "Exceeds maximum queue size";
const TOO_LONG = "Prompt length (9000) exceeds maximum input length (8192). Set log level to info.";

testAdapter(triton, {
  readings: [
    {
      claim: "a loaded server, the ensemble's numbers left aside",
      responses: { health, metrics: response(sampleText("triton-load.prom")), models },
      expected: {
        isReady: true,
        running: 6,
        waiting: 2,
        concurrencyLimit: 256,
        kvUse: 0.4875,
        kvHeadroomTokens: 1640 * 64,
        freeMemoryGib: (85520809984 - 81118461133) / 2 ** 30,
        generationTokensTotal: Number.NaN,
        successesTotal: 9031,
        errorsTotal: 3,
        byModel: null,
        platform: "cuda",
        models: [reportedModel("ensemble"), reportedModel("tensorrt_llm")],
      },
    },
    {
      claim: "requests that Triton still holds as waiting",
      responses: {
        health,
        metrics: response(
          'nv_trt_llm_request_metrics{model="a",request_type="waiting",version="1"} 2\n' +
            'nv_inference_pending_request_count{model="a",version="1"} 5\n' +
            'nv_inference_pending_request_count{model="preprocessing",version="1"} 40\n',
        ),
      },
      expected: { running: Number.NaN, waiting: 7 },
    },
    {
      claim: "two models, together and by themselves",
      responses: {
        health,
        metrics: response(
          ["a", "b"]
            .flatMap((id) => [
              `nv_trt_llm_request_metrics{model="${id}",request_type="scheduled",version="1"} 4`,
              `nv_trt_llm_request_metrics{model="${id}",request_type="waiting",version="1"} 1\n`,
            ])
            .join("\n"),
        ),
      },
      expected: {
        running: 8,
        waiting: 2,
        byModel: ["a", "b"].map((id) => ({ id, running: 4, waiting: 1, generationTokensTotal: Number.NaN })),
      },
    },
    {
      claim: "the counters of another backend, whose load is unknown",
      responses: { health, metrics: response('nv_inference_request_success{model="x",version="1"} 8\n') },
      expected: { running: Number.NaN, waiting: Number.NaN, successesTotal: 8, byModel: null },
    },
    {
      claim: "a server without GPU metrics as one of unknown memory",
      responses: { health, metrics: response('nv_gpu_memory_total_bytes{gpu_uuid="g"} 85520809984\n') },
      expected: { freeMemoryGib: Number.NaN },
    },
    {
      claim: "a server that is not ready, which says so with 400",
      responses: { health: response({ detail: "not ready" }, 400), metrics: response("") },
      expected: { isReady: false },
    },
  ],
  verdicts: [
    { claim: "a full queue", answer: plain(503, { error: FULL }), expected: "overloaded" },
    { claim: "a full queue by the front end", answer: plain(500, { detail: FULL }), expected: "overloaded" },
    { claim: "a full queue as first event", answer: streamed({ error: FULL }), expected: "overloaded" },
    { claim: "a prompt that is too long", answer: plain(500, { detail: TOO_LONG }), expected: "too_large" },
    {
      claim: "a body that is too large",
      answer: plain(413, { error: { code: "content_too_large" } }),
      expected: "too_large",
    },
    { claim: "an unknown model", answer: plain(400, { detail: "Unknown model: m" }), expected: "misconfigured" },
    {
      claim: "a model that is not loaded",
      answer: plain(400, { error: "Request for unknown model: 'm' is not found" }),
      expected: "misconfigured",
    },
    { claim: "an unknown route", answer: plain(404, { detail: "Not Found" }), expected: "endpoint_unsupported" },
    {
      claim: "an unknown member",
      answer: plain(422, { detail: [{ type: "extra_forbidden" }] }),
      expected: "caller_error",
    },
    { claim: "a failed inference", answer: plain(500, { detail: "inference failed" }), expected: "failure" },
  ],
});
