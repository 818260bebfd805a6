import { reportedModel } from "./adapter.ts";
import { plain, response, sampleText, streamed, testAdapter } from "./testing/adapter-suite.ts";
import { testMetricRules } from "./testing/metric-rules.ts";
import { vllm } from "./vllm.ts";

const health = response("");
const error = (code: number, type: string, message: string, param: string | null = null) => ({
  error: { message, type, param, code },
});
const TOO_LONG =
  "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens. Please reduce the length.";

testAdapter(vllm, {
  readings: [
    {
      claim: "an idle engine",
      responses: { health, metrics: response(sampleText("vllm-idle.prom")) },
      expected: {
        isReady: true,
        running: 0,
        waiting: 0,
        kvUse: 0,
        generationTokensTotal: 32,
        promptTokensTotal: 196,
        kvHeadroomTokens: 2_097_152,
      },
    },
    {
      claim: "a loaded engine, its queue counted once",
      responses: { health, metrics: response(sampleText("vllm-load.prom")) },
      expected: {
        running: 4,
        waiting: 20,
        kvUse: 0.0007324665812122877,
        generationTokensTotal: 2257,
        promptTokensTotal: 147,
        concurrencyLimit: Number.NaN,
      },
    },
    {
      claim: "two data-parallel ranks as one node, the KV gauge of each process counted once",
      responses: { health, metrics: response(sampleText("vllm-two-ranks.prom")) },
      expected: { running: 21, waiting: 7, kvUse: (0.8125 + 0.4063) / 2, generationTokensTotal: 4_145_287 },
    },
    {
      claim: "what ended well without aborts and errors, and what failed without full queues",
      responses: { health, metrics: response(sampleText("vllm-two-ranks.prom")) },
      expected: {
        successesTotal: 6021 + 412 + 5873 + 399,
        errorsTotal: 2,
        kvHeadroomTokens: (1 - (0.8125 + 0.4063) / 2) * 2 * 21_844 * 16,
      },
    },
    {
      claim: "a cache whose size it does not know as unknown room",
      responses: {
        health,
        metrics: response(
          'vllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\n',
        ),
      },
      expected: { kvUse: 0.5, kvHeadroomTokens: Number.NaN, successesTotal: Number.NaN, errorsTotal: Number.NaN },
    },
    {
      claim: "its version, and the platform where the version names it",
      responses: { health, facts: { "/version": response({ version: "0.31.1.dev3+gabc.rocm642" }) } },
      expected: { version: "0.31.1.dev3+gabc.rocm642", platform: "rocm" },
    },
    {
      claim: "a version without a platform, and keeps it while it is not asked",
      responses: { health, metrics: response("vllm:num_requests_running 1\n") },
      previous: vllm.read(
        { health, metrics: null, models: null, facts: { "/version": response({ version: "0.32.0" }) } },
        null,
      ),
      expected: { version: "0.32.0", platform: null, running: 1 },
    },
    {
      claim: "the KV gauge under its old name",
      responses: { health, metrics: response('vllm:gpu_cache_usage_perc{model_name="m"} 0.25\n') },
      expected: { kvUse: 0.25, running: Number.NaN },
    },
    {
      claim: "a sleeping engine as not ready, although its health says 200",
      responses: {
        health,
        metrics: response(
          'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0\n' +
            'vllm:engine_sleep_state{engine="0",sleep_state="weights_offloaded"} 1.0\n',
        ),
      },
      expected: { isReady: false },
    },
    {
      claim: "a dead engine core as not ready",
      responses: { health: response("", 503), metrics: response(sampleText("vllm-load.prom")) },
      expected: { isReady: false },
    },
    {
      claim: "a node whose health path a proxy hides as ready",
      responses: { health: response("", 404), metrics: response("", 404) },
      expected: { isReady: true, running: Number.NaN },
    },
    {
      claim: "a late health with metrics in time as busy, not dead",
      responses: { health: null, metrics: response(sampleText("vllm-load.prom")) },
      expected: { isReady: true, running: 4 },
    },
    {
      claim: "models, a LoRA adapter with its parent's length",
      responses: {
        health,
        models: response({
          data: [
            { id: "base", max_model_len: 4096, parent: null, owned_by: "vllm" },
            { id: "legal", max_model_len: null, parent: "base" },
            { id: "orphan", max_model_len: null, parent: "gone" },
          ],
        }),
      },
      expected: {
        models: [
          reportedModel("base", { contextTokens: 4096 }),
          reportedModel("legal", { contextTokens: 4096, parent: "base" }),
          reportedModel("orphan", { parent: "gone" }),
        ],
      },
    },
    {
      claim: "metrics that are refused as unknown numbers of a living node",
      responses: { health, metrics: response("", 404) },
      expected: { isReady: true, running: Number.NaN, waiting: Number.NaN },
    },
  ],
  verdicts: [
    {
      claim: "credentials refused inside a stream",
      answer: streamed({ error: { message: "no", code: 401 } }),
      expected: "misconfigured",
    },
    {
      claim: "a method refused inside a 200",
      answer: plain(200, { error: { message: "no", code: 405 } }),
      expected: "endpoint_unsupported",
    },
    {
      claim: "a prompt that is too long",
      answer: plain(400, error(400, "BadRequestError", TOO_LONG)),
      expected: "too_large",
    },
    {
      claim: "a prompt that is too long, in the flat form of old releases",
      answer: plain(400, { object: "error", message: TOO_LONG, type: "BadRequestError", param: null, code: 400 }),
      expected: "too_large",
    },
    {
      claim: "an unknown model",
      answer: plain(404, error(404, "NotFoundError", "The model `x` does not exist.", "model")),
      expected: "misconfigured",
    },
    { claim: "an unknown route", answer: plain(404, { detail: "Not Found" }), expected: "endpoint_unsupported" },
    {
      claim: "a model that lacks the endpoint",
      answer: plain(400, error(400, "BadRequestError", "The model does not support Embeddings API")),
      expected: "endpoint_unsupported",
    },
    {
      claim: "a request to an engine that drains",
      answer: plain(500, error(500, "InternalServerError", "cannot schedule new futures after shutdown")),
      expected: "failure",
    },
    {
      claim: "a full queue",
      answer: plain(503, error(503, "ServiceUnavailableError", "The server is overloaded: the request queue is full.")),
      expected: "overloaded",
    },
    {
      claim: "an engine that died as first event",
      answer: streamed(error(500, "InternalServerError", "EngineCore encountered an issue.")),
      expected: "failure",
    },
    {
      claim: "a caller's mistake as first event",
      answer: streamed(error(400, "BadRequestError", "guided grammar is invalid")),
      expected: "caller_error",
    },
    {
      claim: "an abort as first event",
      answer: streamed({ choices: [{ index: 0, delta: {}, finish_reason: "abort" }] }),
      expected: "failure",
    },
    {
      claim: "a failed Responses stream",
      answer: streamed({ type: "response.failed", response: { error: { code: "server_error" } } }, "response.failed"),
      expected: "failure",
    },
    {
      claim: "a Responses stream that begins, its empty error included",
      answer: streamed({ type: "response.created", response: { error: null } }, "response.created"),
      expected: "success",
    },
    {
      claim: "a plain Responses answer, its empty error included",
      answer: plain(200, { id: "resp_1", object: "response", error: null, status: "completed" }),
      expected: "success",
    },
  ],
});

testMetricRules(vllm, {
  names: {
    running: "vllm:num_requests_running",
    waiting: "vllm:num_requests_waiting",
    generationTokensTotal: "vllm:generation_tokens_total",
    promptTokensTotal: "vllm:prompt_tokens_total",
  },
  rankLabel: "engine",
});
