import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { embeddingOf, isBase64 } from "./embedding.ts";
import type { EngineBehaviour, HttpHabits, NodeContext, NodeSettings } from "./engine-behaviour.ts";
import { retryAfterHeader } from "./engine-behaviour.ts";
import type { EventStream, Exchange } from "./exchange.ts";
import type { StreamFault } from "./faults.ts";
import { GenerationRun, sendPlain } from "./generation.ts";
import type { InferenceRequest } from "./inference-request.ts";
import { readInferenceRequest } from "./inference-request.ts";
import type { JsonObject } from "./json-object.ts";
import { isObject } from "./json-object.ts";
import { LlamacppMetrics } from "./llamacpp-metrics.ts";
import { LLAMACPP_BUILD, LLAMACPP_WRITERS } from "./llamacpp-shapes.ts";
import type { StreamWriter } from "./stream-writer.ts";
import { sse } from "./stream-writer.ts";

/** cpp-httplib: 5 s idle, 100 requests per connection, and it says both. */
export function llamacppHttpHabits(settings: NodeSettings): HttpHabits {
  return {
    headers: { server: "llama.cpp", "access-control-allow-origin": "*" },
    jsonType: "application/json; charset=utf-8",
    keepAliveMs: settings.keepAliveMs,
    maxRequestsPerConnection: 100,
    hasConnectionHint: true,
    maxBodyBytes: 100 * 1024 * 1024,
  };
}

/** A llama.cpp `llama-server` started with `--metrics`. */
export class FakeLlamacpp implements EngineBehaviour {
  readonly #context: NodeContext;
  readonly #metrics: LlamacppMetrics;
  readonly #startedMs = performance.now();
  #scrapeCount = 0;
  #isTerminating = false;

  constructor(context: NodeContext) {
    this.#context = context;
    this.#metrics = new LlamacppMetrics(context);
  }

  handle(exchange: Exchange): void {
    const { path, method } = exchange;
    const isHealth = path === "/health" || path === "/v1/health";
    // A worker that waits for the end takes requests of open connections and never answers them.
    if (this.#isTerminating) return;
    if (!isHealth && !exchange.hasKey(this.#context.settings.apiKey)) {
      this.#error(exchange, 401, "authentication_error", "Invalid API Key");
      return;
    }
    if (performance.now() - this.#startedMs < this.#context.settings.loadMs) {
      this.#error(exchange, 503, "unavailable_error", "Loading model");
      return;
    }
    const route = `${method} ${path}`;
    switch (route) {
      case "GET /health":
      case "GET /v1/health":
        exchange.json(200, { status: "ok" });
        return;
      case "GET /metrics":
        this.#scrapeCount += 1;
        exchange.send(200, this.#metrics.text(), {
          "content-type": "text/plain; version=0.0.4",
          "process-start-time-unix": Math.floor(this.#context.startedUnixS),
        });
        return;
      case "GET /v1/models":
      case "GET /models":
        exchange.json(200, this.#models());
        return;
      case "GET /props":
        exchange.json(200, this.#props());
        return;
      case "GET /slots":
        this.#slots(exchange);
        return;
      case "POST /v1/chat/completions":
      case "POST /chat/completions":
      case "POST /v1/completions":
      case "POST /v1/responses":
      case "POST /v1/messages":
      case "POST /v1/embeddings":
      case "POST /v1/rerank":
        this.#post(exchange);
        return;
      default:
        this.#error(exchange, 404, "not_found_error", "File Not Found");
    }
  }

  overloaded(exchange: Exchange, retryAfterS: number): void {
    const error = { code: 503, message: "no slot available", type: "unavailable_error" };
    exchange.json(503, { error }, retryAfterHeader(retryAfterS));
  }

  misconfigured(exchange: Exchange, code: 401 | 404): void {
    if (code === 401) this.#error(exchange, 401, "authentication_error", "Invalid API Key");
    else this.#error(exchange, 404, "not_found_error", "File Not Found");
  }

  bodyTooLarge(exchange: Exchange): void {
    exchange.send(413, "");
  }

  /**
   * Closes the listener at once and leaves callers hanging: a stream gets silence, one comment, then a cut; a plain
   * request gets nothing for ten times as long.
   */
  terminate(): void {
    const { settings, runs } = this.#context;
    this.#isTerminating = true;
    this.#context.closeListener();
    if (runs.size === 0) {
      this.#context.exit("fin");
      return;
    }
    const hasPlain = [...runs].some((run) => !run.request.isStream);
    for (const run of [...runs]) run.fail();
    this.#context.after(settings.terminateSilenceMs, () => {
      this.#context.cutExchanges((exchange) => exchange.isStreaming);
      if (!hasPlain) this.#context.exit("fin");
    });
    this.#context.after(settings.terminateSilenceMs * 10, () => this.#context.exit("fin"));
  }

  /** There is no engine apart from the server: the process dies. */
  engineDeath(): void {
    this.#context.exit("rst");
  }

  #models(): JsonObject {
    const { settings, startedUnixS } = this.#context;
    const entry = {
      id: settings.model,
      object: "model",
      created: Math.floor(startedUnixS),
      owned_by: "llamacpp",
      meta: { vocab_type: 2, n_vocab: 128256, n_ctx_train: settings.maxModelLen, n_embd: 4096 },
    };
    return { models: [{ name: settings.model, model: settings.model }], object: "list", data: [entry] };
  }

  #props(): JsonObject {
    const { settings } = this.#context;
    return {
      default_generation_settings: { id: 0, n_ctx: settings.maxModelLen, is_processing: false },
      total_slots: settings.maxSequences,
      model_alias: settings.model,
      model_path: `/models/${settings.model}.gguf`,
      modalities: { vision: false, audio: false },
      build_info: LLAMACPP_BUILD,
      is_sleeping: false,
    };
  }

  #slots(exchange: Exchange): void {
    const { settings, driver } = this.#context;
    const busy = Math.min(settings.maxSequences, driver.batch.runningCount);
    if (exchange.query.has("fail_on_no_slot") && busy >= settings.maxSequences) {
      this.#error(exchange, 503, "unavailable_error", "no slot available");
      return;
    }
    const slots = Array.from({ length: settings.maxSequences }, (_, id) => ({
      id,
      n_ctx: settings.maxModelLen,
      speculative: false,
      is_processing: id < busy,
    }));
    exchange.json(200, slots);
  }

  #post(exchange: Exchange): void {
    let body: unknown;
    try {
      body = JSON.parse(exchange.body.toString("utf8"));
    } catch {
      const message =
        "[json.exception.parse_error.101] parse error at line 1, column 1: syntax error while parsing value";
      this.#error(exchange, 500, "server_error", message);
      return;
    }
    if (!isObject(body)) {
      this.#error(exchange, 500, "server_error", "[json.exception.type_error.304] cannot use at() with array");
      return;
    }
    const request = readInferenceRequest(body);
    const { maxModelLen } = this.#context.settings;
    if (request.inputCount < 0) {
      this.#error(exchange, 400, "invalid_request_error", "'messages' is required");
    } else if (request.promptTokens >= maxModelLen) {
      exchange.json(400, contextError(request.promptTokens, maxModelLen));
    } else {
      const writer = LLAMACPP_WRITERS[exchange.path];
      if (writer === undefined) this.#pool(exchange, request);
      else this.#generate(exchange, request, writer);
    }
  }

  #generate(exchange: Exchange, request: InferenceRequest, writer: StreamWriter): void {
    const { settings } = this.#context;
    const fault = exchange.faults.takeStream();
    const head = {
      id: `${writer.idPrefix}-${randomUUID().replaceAll("-", "")}`,
      // Whatever the caller asked for: the server has one model and answers as that.
      model: settings.model,
      created: Math.floor(Date.now() / 1e3),
    };
    if (fault?.kind === "error-first") {
      this.#failFirst(exchange, request, fault);
      return;
    }
    let stream: EventStream | undefined;
    let hasBegun = false;
    // The head of a stream waits for the first token, or for the first ping.
    const open = () => {
      stream ??= exchange.openStream({}, fault);
      return stream;
    };
    const begin = () => {
      for (const event of hasBegun ? [] : writer.begin(head, run)) open().event(event);
      hasBegun = true;
    };
    const scrapesBefore = this.#scrapeCount;
    const run = new GenerationRun(this.#context, exchange, request, {
      onToken: (token) => {
        if (!request.isStream) return;
        begin();
        for (const event of writer.token(head, token, run)) open().event(event);
      },
      onDone: () => {
        this.#metrics.finish(run);
        if (!request.isStream) {
          sendPlain(exchange, fault, writer.whole(head, run));
          return;
        }
        begin();
        for (const event of writer.end(head, run)) open().event(event);
        open().end();
      },
      // The process is on its way out: a stream hears one comment before the cut, a plain request nothing.
      onFailed: () => {
        if (request.isStream) this.#context.after(settings.terminateSilenceMs * 0.95, () => open().comment(":\n\n"));
      },
    });
    if (request.isStream) this.#ping(exchange, open);
    // A plain request that its caller left goes on to its limit when `/metrics` was read in the meantime.
    run.start(fault, () => !request.isStream && this.#scrapeCount > scrapesBefore);
  }

  #failFirst(exchange: Exchange, request: InferenceRequest, fault: StreamFault): void {
    if (!request.isStream) {
      this.#error(exchange, 500, "server_error", "Compute error.");
      return;
    }
    const stream = exchange.openStream({}, fault);
    stream.event(sse({ error: { code: 500, message: "Compute error.", type: "server_error" } }));
    stream.end();
  }

  /** Embeddings and rerank, as if the server had been started with both of its flags. */
  #pool(exchange: Exchange, request: InferenceRequest): void {
    const fault = exchange.faults.takeStream();
    const { driver, settings } = this.#context;
    const sequence = driver.submit(request.promptTokens, 0, {
      onToken: () => {},
      onFinished: () => {
        const usage = { prompt_tokens: request.promptTokens, total_tokens: request.promptTokens };
        const head = { model: settings.model, object: "list", usage };
        if (exchange.path === "/v1/rerank") sendPlain(exchange, fault, { ...head, results: rankings(request) });
        else sendPlain(exchange, fault, { ...head, data: embeddingsOf(request) });
      },
    });
    exchange.onOver(() => driver.cancel(sequence));
  }

  /** Comments while nothing else is written, so that callers see life during a long prefill or in the queue. */
  #ping(exchange: Exchange, open: () => EventStream): void {
    const { pingIntervalMs } = this.#context.settings;
    const timer = setInterval(() => {
      if (this.#isTerminating || exchange.isOver) return;
      const stream = open();
      const quietMs = performance.now() - stream.lastWriteMs;
      if (stream.isFresh || quietMs >= pingIntervalMs * 0.9) stream.comment(":\n\n");
    }, pingIntervalMs);
    exchange.onOver(() => clearInterval(timer));
  }

  #error(exchange: Exchange, code: number, type: string, message: string): void {
    exchange.json(code, { error: { code, message, type } });
  }
}

function embeddingsOf(request: InferenceRequest): readonly JsonObject[] {
  return Array.from({ length: request.inputCount }, (_, index) => ({
    embedding: embeddingOf(request, index),
    index,
    object: "embedding",
    ...(isBase64(request) ? { encoding_format: "base64" } : {}),
  }));
}

/** Best first. */
function rankings(request: InferenceRequest): readonly JsonObject[] {
  const results = Array.from({ length: request.inputCount }, (_, index) => ({
    index,
    relevance_score: 1 / (1 + index),
  }));
  const { top_n: count } = request.body;
  return typeof count === "number" ? results.slice(0, count) : results;
}

function contextError(promptTokens: number, contextTokens: number): JsonObject {
  return {
    error: {
      code: 400,
      message: `request (${promptTokens} tokens) exceeds the available context size (${contextTokens} tokens), try increasing it`,
      type: "exceed_context_size_error",
      n_prompt_tokens: promptTokens,
      n_ctx: contextTokens,
    },
  };
}
