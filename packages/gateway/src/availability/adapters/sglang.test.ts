import { reportedModel } from "./adapter.ts";
import { sglang } from "./sglang.ts";
import { plain, response, sampleText, streamed, testAdapter } from "./testing/adapter-suite.ts";
import { testMetricRules } from "./testing/metric-rules.ts";

const rank = (dpRank: number, load: object = {}) => ({
  dp_rank: dpRank,
  num_running_reqs: 3,
  num_waiting_reqs: 2,
  token_usage: 0.5,
  max_total_num_tokens: 1000,
  max_running_requests: 48,
  queues: { waiting: 2, grammar: 1, paused: 0, retracted: 0 },
  ...load,
});
const loads = (...ranks: object[]) =>
  response({
    version: "0.5.20",
    accelerator: "NVIDIA H100 80GB HBM3",
    num_accelerators: 2,
    loads: ranks.length > 0 ? ranks : [rank(0), rank(1)],
  });
const health = loads();
const models = response({
  object: "list",
  data: [
    { id: "big", owned_by: "sglang", max_model_len: 8192 },
    { id: "legal", owned_by: "sglang", parent: "big", max_model_len: null },
  ],
});
const modelInfo = response({ model_path: "org/big", is_generation: true, has_image_understanding: false });
const ENDPOINTS = ["chat_completions", "completions", "responses", "messages", "rerank"] as const;
const known = { readsImages: false, endpoints: ENDPOINTS };
const flat = (code: number, message: string, type = `${code}`) => ({
  object: "error",
  message,
  type,
  param: null,
  code,
});
const TOO_LONG = "The input (9000 tokens) is longer than the model's context length (8192 tokens).";
const OVER_LIMIT =
  "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9000 tokens";

const line = (name: string, labels: string, value: number) => `sglang:${name}{model_name="m",${labels}} ${value}\n`;

testAdapter(sglang, {
  readings: [
    {
      claim: "two data-parallel ranks with metrics of every tensor rank as one node",
      responses: { health, metrics: response(sampleText("sglang-two-ranks.prom")) },
      expected: {
        isReady: true,
        running: 17,
        waiting: 5,
        kvUse: (0.71 + 0.66) / 2,
        kvHeadroomTokens: (1 - (0.71 + 0.66) / 2) * 2 * 429_734,
        generationTokensTotal: 1_904_411,
        promptTokensTotal: 5_210_931 + 4_800_190,
        successesTotal: 14_022 - 133,
        errorsTotal: Number.NaN,
        concurrencyLimit: 96,
        version: "0.5.20",
        platform: "cuda",
      },
    },
    {
      claim: "the load of a node whose metrics are off, which has no counters",
      responses: { health, metrics: health },
      expected: {
        running: 6,
        waiting: 6,
        kvUse: 0.5,
        kvHeadroomTokens: 1000,
        generationTokensTotal: Number.NaN,
        successesTotal: Number.NaN,
        concurrencyLimit: 96,
      },
    },
    {
      claim: "the queues of a node that only prefills or only decodes as waiting",
      responses: {
        health,
        metrics: response(
          line("num_running_reqs", 'tp_rank="0"', 1) +
            line("num_queue_reqs", 'tp_rank="0"', 1) +
            line("num_prefill_bootstrap_queue_reqs", 'tp_rank="0"', 2) +
            line("num_prefill_inflight_queue_reqs", 'tp_rank="0"', 4) +
            line("num_decode_prealloc_queue_reqs", 'tp_rank="0"', 8) +
            line("num_decode_transfer_queue_reqs", 'tp_rank="0"', 16),
        ),
      },
      expected: { running: 1, waiting: 31 },
    },
    {
      claim: "the fullest pool of each rank of a hybrid, and what can be evicted as free",
      responses: {
        health,
        metrics: response(
          line("token_usage", 'dp_rank="0"', 0.1) +
            line("mamba_usage", 'dp_rank="0"', 0.9) +
            line("token_usage", 'dp_rank="1"', 0.3) +
            line("swa_token_usage", 'dp_rank="1"', 0.2) +
            line("kv_available_tokens", 'dp_rank="0"', 100) +
            line("kv_available_tokens", 'dp_rank="1"', 50) +
            line("kv_evictable_tokens", 'dp_rank="0"', 25) +
            line("kv_evictable_tokens", 'dp_rank="1"', 25),
        ),
      },
      expected: { kvUse: (0.9 + 0.3) / 2, kvHeadroomTokens: 200, running: Number.NaN, waiting: Number.NaN },
    },
    {
      claim: "tokens of a release without the live counter by the gaps between them, never by what moves at the end",
      responses: {
        health,
        metrics: response(
          line("inter_token_latency_seconds_count", 'engine_type="unified"', 77) +
            line("generation_tokens_total", 'engine_type="unified"', 12),
        ),
      },
      expected: { generationTokensTotal: 77 },
    },
    {
      claim: "no tokens at all where only the counter is there that moves at the end",
      responses: { health, metrics: response(line("generation_tokens_total", 'engine_type="unified"', 12)) },
      expected: { generationTokensTotal: Number.NaN },
    },
    {
      claim: "a node that starts or leaves as not ready, although its load is told",
      responses: { health, metrics: health, facts: { "/health": response("", 503) } },
      expected: { isReady: false },
    },
    {
      claim: "a health that takes its second as no refusal",
      responses: { health, metrics: health, facts: { "/health": null } },
      expected: { isReady: true },
    },
    {
      claim: "an older release without /v1/loads as ready and of unknown load",
      responses: { health: response({ detail: "Not Found" }, 404), metrics: response({ detail: "Not Found" }, 404) },
      expected: { isReady: true, running: Number.NaN, concurrencyLimit: Number.NaN },
    },
    {
      claim: "a late load with metrics in time as busy, not dead",
      responses: { metrics: response(sampleText("sglang-two-ranks.prom")) },
      expected: { isReady: true, running: 17 },
    },
    {
      claim: "the limit beyond which it refuses, of all ranks' queues",
      responses: {
        health,
        metrics: health,
        facts: { "/server_info": response({ max_queued_requests: 10, version: "0.5.20", api_key: "secret" }) },
      },
      expected: { admissionLimit: 96 + 20 },
    },
    {
      claim: "an unbounded queue as no such limit",
      responses: { health, metrics: health, facts: { "/server_info": response({ max_queued_requests: null }) } },
      expected: { admissionLimit: Number.NaN },
    },
    {
      claim: "a ROCm build by the name of its accelerator",
      responses: { health: response({ version: "0.5.20", accelerator: "AMD Instinct MI300X", loads: [rank(0)] }) },
      expected: { platform: "rocm" },
    },
    {
      claim: "models, adapters, images and endpoints",
      responses: { health, models, facts: { "/model_info": modelInfo } },
      expected: {
        models: [
          reportedModel("big", { contextTokens: 8192, ...known }),
          reportedModel("legal", { contextTokens: 8192, parent: "big", ...known }),
        ],
      },
    },
    {
      claim: "a model that embeds",
      responses: { health, models, facts: { "/model_info": response({ is_generation: false }) } },
      expected: {
        models: [
          reportedModel("big", { contextTokens: 8192, endpoints: ["embeddings", "rerank"] }),
          reportedModel("legal", { contextTokens: 8192, parent: "big", endpoints: ["embeddings", "rerank"] }),
        ],
      },
    },
    {
      claim: "models whose facts came late with those known before",
      responses: { health, models },
      previous: sglang.read(
        { health, metrics: null, models, facts: { "/model_info": modelInfo, "/server_info": response({}) } },
        null,
      ),
      expected: {
        models: [
          reportedModel("big", { contextTokens: 8192, ...known }),
          reportedModel("legal", { contextTokens: 8192, parent: "big", ...known }),
        ],
        concurrencyLimit: 96,
      },
    },
    {
      claim: "ranks that lie as unknown",
      responses: {
        health: loads(rank(0, { num_running_reqs: -3, token_usage: "x" })),
        metrics: loads(rank(0), rank(1, { num_running_reqs: -3 })),
      },
      expected: { running: Number.NaN },
    },
  ],
  verdicts: [
    { claim: "a full queue", answer: plain(503, flat(503, "The request queue is full.")), expected: "overloaded" },
    {
      claim: "a full queue inside a stream of 200",
      answer: streamed({ error: flat(503, "The request queue is full.") }),
      expected: "overloaded",
    },
    {
      claim: "a request that made way for a more urgent one",
      answer: plain(503, flat(503, "The request is aborted by a higher priority request.")),
      expected: "overloaded",
    },
    {
      claim: "a request that waited too long",
      answer: streamed({ error: flat(503, "Request waiting timeout reached.") }),
      expected: "overloaded",
    },
    { claim: "an unavailable scheduler", answer: plain(503, flat(503, "Scheduler is gone")), expected: "failure" },
    {
      claim: "a prompt that is too long",
      answer: plain(400, flat(400, TOO_LONG, "BadRequestError")),
      expected: "too_large",
    },
    {
      claim: "a prompt and an answer that are too long",
      answer: plain(400, flat(400, OVER_LIMIT)),
      expected: "too_large",
    },
    {
      claim: "a prompt that is too long inside a stream of 200",
      answer: streamed({ error: flat(400, TOO_LONG, "BadRequestError") }),
      expected: "too_large",
    },
    {
      claim: "an adapter that is not loaded",
      answer: plain(400, flat(400, "Got LoRA adapter that has never been loaded: legal")),
      expected: "misconfigured",
    },
    {
      claim: "embeddings of a model that generates",
      answer: plain(400, flat(400, "This model does not appear to be an embedding model by default.")),
      expected: "endpoint_unsupported",
    },
    { claim: "an unknown route", answer: plain(404, { detail: "Not Found" }), expected: "endpoint_unsupported" },
    {
      claim: "an exception in a request",
      answer: plain(500, flat(500, "Internal server error: it broke", "InternalServerError")),
      expected: "failure",
    },
    {
      claim: "a caller's mistake as first event",
      answer: streamed({ error: flat(400, "Failed to compile the grammar", "BadRequestError") }),
      expected: "caller_error",
    },
  ],
});

testMetricRules(sglang, {
  names: {
    running: "sglang:num_running_reqs",
    waiting: "sglang:num_queue_reqs",
    generationTokensTotal: "sglang:realtime_tokens_total",
    promptTokensTotal: "sglang:prompt_tokens_total",
  },
  labels: { generationTokensTotal: { mode: "decode" } },
  rankLabel: "dp_rank",
});
