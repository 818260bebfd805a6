import { performance } from "node:perf_hooks";
import { embeddingOf } from "./embedding.ts";
import type { EngineBehaviour, NodeContext } from "./engine-behaviour.ts";
import { retryAfterHeader } from "./engine-behaviour.ts";
import type { EventStream, Exchange } from "./exchange.ts";
import type { GenerationSink } from "./generation.ts";
import { GenerationRun, sendPlain } from "./generation.ts";
import type { InferenceRequest } from "./inference-request.ts";
import { readInferenceRequest } from "./inference-request.ts";
import type { JsonObject } from "./json-object.ts";
import { parseObject } from "./json-object.ts";
import { RunAnswer } from "./run-answer.ts";
import type { StreamWriter } from "./stream-writer.ts";
import { sse } from "./stream-writer.ts";
import { VllmMetrics } from "./vllm-metrics.ts";
import { chatId, VLLM_WRITERS } from "./vllm-shapes.ts";

const VERSION = "0.32.0";
const MODEL_ROUTES = new Set([
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/responses",
  "/v1/messages",
  "/v1/embeddings",
  "/v1/rerank",
  "/rerank",
]);
const GET_ROUTES = new Set(["/health", "/ping", "/version", "/load", "/metrics", "/v1/models"]);
const UNCOUNTED = new Set(["/health", "/metrics", "/load", "/ping", "/version"]);

/** A vLLM 0.32 OpenAI server. */
export class FakeVllm implements EngineBehaviour {
  readonly #context: NodeContext;
  readonly #metrics: VllmMetrics;
  #isDraining = false;
  #isEngineDead = false;
  #loadCount = 0;

  constructor(context: NodeContext) {
    this.#context = context;
    this.#metrics = new VllmMetrics(context);
  }

  handle(exchange: Exchange): void {
    const { path, method } = exchange;
    const isKnown = GET_ROUTES.has(path) || MODEL_ROUTES.has(path);
    if (!UNCOUNTED.has(path)) this.#countHttp(exchange, isKnown ? path : "none");
    if (path.startsWith("/v1/") && !exchange.hasKey(this.#context.settings.apiKey)) {
      exchange.json(401, { error: "Unauthorized" });
    } else if (!isKnown) {
      exchange.json(404, { detail: "Not Found" });
    } else if (
      method === "GET" ? !GET_ROUTES.has(path) : method !== "POST" || (GET_ROUTES.has(path) && path !== "/ping")
    ) {
      exchange.json(405, { detail: "Method Not Allowed" });
    } else if (GET_ROUTES.has(path)) this.#get(exchange);
    else this.#post(exchange);
  }

  overloaded(exchange: Exchange, retryAfterS: number): void {
    const body = errorBody(503, "ServiceUnavailableError", "The server is overloaded: the request queue is full.");
    exchange.json(503, body, retryAfterHeader(retryAfterS));
  }

  misconfigured(exchange: Exchange, code: 401 | 404): void {
    if (code === 401) exchange.json(401, { error: "Unauthorized" });
    else this.#unknownModel(exchange, readModel(exchange));
  }

  bodyTooLarge(exchange: Exchange): void {
    exchange.json(413, errorBody(413, "BadRequestError", "Request body too large."));
  }

  /** Without a shutdown time-out answers end "well" with `abort`; with one it drains behind green pages. */
  terminate(): void {
    const { settings, runs } = this.#context;
    if (settings.shutdownTimeoutMs === 0) {
      this.#context.closeListener();
      this.#abortAllAndExit();
      return;
    }
    this.#isDraining = true;
    if (runs.size === 0) this.#context.exit("fin");
    else this.#context.after(settings.shutdownTimeoutMs, () => this.#abortAllAndExit());
  }

  /** An error event and `[DONE]` in streams, 500 for plain requests, then the API server goes too. */
  engineDeath(): void {
    this.#isEngineDead = true;
    for (const run of [...this.#context.runs]) run.fail();
    this.#context.after(200, () => this.#context.exit("fin"));
  }

  #abortAllAndExit(): void {
    for (const run of [...this.#context.runs]) run.finishAll("abort");
    this.#context.after(0, () => this.#context.exit("fin"));
  }

  #get(exchange: Exchange): void {
    const { settings, startedUnixS } = this.#context;
    switch (exchange.path) {
      case "/health":
      case "/ping":
        exchange.send(this.#isEngineDead ? 503 : 200, "");
        return;
      case "/version":
        exchange.json(200, { version: VERSION });
        return;
      case "/load":
        exchange.json(200, { server_load: this.#loadCount });
        return;
      case "/metrics":
        exchange.send(200, this.#metrics.text(), { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
        return;
      default:
        exchange.json(200, {
          object: "list",
          data: [settings.model, ...settings.aliases].map((id) => ({
            id,
            object: "model",
            created: Math.floor(startedUnixS),
            owned_by: "vllm",
            root: `/models/${settings.model}`,
            parent: null,
            max_model_len: settings.maxModelLen,
            permission: [],
          })),
        });
    }
  }

  #post(exchange: Exchange): void {
    const contentType = exchange.header("content-type")?.split(";")[0]?.trim().toLowerCase();
    if (contentType !== "application/json") {
      const message = "Unsupported Media Type: Only 'application/json' is allowed";
      exchange.json(415, errorBody(415, "Unsupported Media Type", message));
      return;
    }
    const body = parseObject(exchange.body);
    if (body === undefined) {
      exchange.json(
        400,
        errorBody(400, "Bad Request", "[{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error'}]"),
      );
      return;
    }
    const request = readInferenceRequest(body);
    const { model, aliases } = this.#context.settings;
    const asked = request.model === "" ? model : request.model;
    if (asked !== model && !aliases.includes(asked)) this.#unknownModel(exchange, asked);
    else if (this.#isDraining) {
      exchange.json(500, errorBody(500, "InternalServerError", "cannot schedule new futures after shutdown"));
    } else if (this.#isEngineDead) this.#failed(exchange);
    else if (this.#isValid(exchange, request)) this.#infer(exchange, request, asked);
  }

  #isValid(exchange: Exchange, request: InferenceRequest): boolean {
    const { maxModelLen } = this.#context.settings;
    const refuse = (message: string, param: string | null = null) => {
      exchange.json(400, errorBody(400, "BadRequestError", message, param));
      return false;
    };
    if (request.inputCount < 1) return refuse("Field required: the input must not be empty.");
    if (request.maxTokens < 1) return refuse(`max_tokens must be at least 1, got ${request.maxTokens}.`, "max_tokens");
    if (!(request.choiceCount >= 1)) return refuse(`n must be at least 1, got ${request.choiceCount}.`, "n");
    const completion = Number.isNaN(request.maxTokens) ? 0 : request.maxTokens;
    const total = request.promptTokens + completion;
    if (total > maxModelLen || request.promptTokens >= maxModelLen) {
      return refuse(
        `This model's maximum context length is ${maxModelLen} tokens. However, you requested ${total} tokens ` +
          `(${request.promptTokens} in the messages, ${completion} in the completion). ` +
          "Please reduce the length of the messages or completion.",
      );
    }
    const { maxQueuedRequests } = this.#context.settings;
    const { batch } = this.#context.driver;
    // The limit counts running and waiting, and `n` counts as n.
    if (batch.runningCount + batch.waitingCount + request.choiceCount <= maxQueuedRequests) return true;
    this.#metrics.reject("max_num_queued_reqs");
    this.overloaded(exchange, Number.NaN);
    return false;
  }

  #infer(exchange: Exchange, request: InferenceRequest, model: string): void {
    const requestId = exchange.header("x-request-id");
    if (requestId !== undefined && this.#context.settings.echoesRequestId) {
      exchange.response.setHeader("x-request-id", requestId);
    }
    this.#loadCount += 1;
    exchange.onOver(() => {
      this.#loadCount -= 1;
    });
    const writer = VLLM_WRITERS[exchange.path];
    if (writer === undefined) this.#pool(exchange, request, model);
    else this.#generate(exchange, request, writer, { id: chatId(writer.idPrefix, requestId), model });
  }

  #generate(
    exchange: Exchange,
    request: InferenceRequest,
    writer: StreamWriter,
    head: { readonly id: string; readonly model: string },
  ): void {
    const fault = exchange.faults.takeStream();
    const created = Math.floor(Date.now() / 1e3);
    const answer = new RunAnswer(exchange, writer, { ...head, created }, fault);
    let previousTokenMs = Number.NaN;
    const sink: GenerationSink = {
      onToken: (token) => {
        if (token.text !== "") this.#metrics.token(run, previousTokenMs);
        previousTokenMs = run.times.lastTokenMs;
        answer.token(token, run);
      },
      onDone: () => {
        this.#metrics.finish(run);
        answer.finish(run);
        this.#exitWhenDrained();
      },
      onFailed: () => {
        if (answer.stream === undefined) this.#failed(exchange);
        else this.#failStream(answer.stream);
      },
      onLeft: () => this.#exitWhenDrained(),
    };
    const run = new GenerationRun(this.#context, exchange, request, sink);
    if (fault?.kind === "error-first" && !request.isStream) {
      this.#failed(exchange);
      return;
    }
    if (request.isStream) {
      const stream = answer.open({ "content-type": "text/event-stream; charset=utf-8" });
      if (fault?.kind === "error-first") {
        this.#failStream(stream);
        return;
      }
    }
    run.start(fault, () => false);
  }

  /** Embeddings and rerank: the prompt runs through the batch, nothing is generated. */
  #pool(exchange: Exchange, request: InferenceRequest, model: string): void {
    const fault = exchange.faults.takeStream();
    const { driver } = this.#context;
    const sequence = driver.submit(request.promptTokens, 0, {
      onToken: () => {},
      onFinished: () => {
        this.#metrics.prompt(request.promptTokens);
        const usage = { prompt_tokens: request.promptTokens, total_tokens: request.promptTokens };
        const isRerank = exchange.path.endsWith("/rerank");
        sendPlain(exchange, fault, isRerank ? rerank(request.body, model, usage) : embeddings(request, model, usage));
      },
    });
    exchange.onOver(() => driver.cancel(sequence));
  }

  #exitWhenDrained(): void {
    if (this.#isDraining && this.#context.runs.size === 0) this.#context.after(0, () => this.#context.exit("fin"));
  }

  #unknownModel(exchange: Exchange, model: string): void {
    const message = `The model \`${model}\` does not exist.`;
    exchange.json(404, errorBody(404, "NotFoundError", message, "model"));
  }

  #failed(exchange: Exchange): void {
    exchange.json(500, errorBody(500, "InternalServerError", ENGINE_DEAD));
  }

  #failStream(stream: EventStream): void {
    stream.event(sse(errorBody(500, "InternalServerError", ENGINE_DEAD)));
    stream.event("data: [DONE]\n\n");
    stream.end();
  }

  #countHttp(exchange: Exchange, handler: string): void {
    const startedMs = performance.now();
    exchange.onOver(() => {
      if (exchange.entry.status < 0) return;
      const seconds = (performance.now() - startedMs) / 1e3;
      this.#metrics.http(exchange.method, handler, exchange.entry.status, exchange.body.length, seconds);
    });
  }
}

const ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause.";

function errorBody(code: number, type: string, message: string, param: string | null = null): JsonObject {
  return { error: { message, type, param, code } };
}

function readModel(exchange: Exchange): string {
  const model = parseObject(exchange.body)?.["model"];
  return typeof model === "string" ? model : "";
}

function embeddings(request: InferenceRequest, model: string, usage: JsonObject): JsonObject {
  return {
    id: chatId("embd", undefined),
    object: "list",
    created: Math.floor(Date.now() / 1e3),
    model,
    data: Array.from({ length: request.inputCount }, (_, index) => ({
      index,
      object: "embedding",
      embedding: embeddingOf(request, index),
    })),
    usage: { ...usage, completion_tokens: 0, prompt_tokens_details: null },
  };
}

function rerank(body: JsonObject, model: string, usage: JsonObject): JsonObject {
  const documents = Array.isArray(body["documents"]) ? body["documents"] : [];
  const results = documents
    .map((document: unknown, index) => ({
      index,
      document: { text: String(document), multi_modal: null },
      relevance_score: 1 / (1 + index),
    }))
    .slice(0, typeof body["top_n"] === "number" && body["top_n"] > 0 ? body["top_n"] : undefined);
  return { id: chatId("rerank", undefined), model, usage, results };
}
