import { randomUUID } from "node:crypto";
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
import { SglangMetrics } from "./sglang-metrics.ts";
import { SGLANG_WRITERS } from "./sglang-shapes.ts";
import type { StreamWriter } from "./stream-writer.ts";
import { sse } from "./stream-writer.ts";

const VERSION = "0.5.20";
const GET_ROUTES = new Set([
  "/health",
  "/health_generate",
  "/ping",
  "/metrics",
  "/v1/models",
  "/v1/loads",
  "/model_info",
  "/get_model_info",
  "/server_info",
  "/get_server_info",
]);
const POST_ROUTES = new Set([...Object.keys(SGLANG_WRITERS), "/v1/embeddings", "/v1/rerank"]);
/** Seconds after which `/health` gives up on its token. */
const HEALTH_TRIES = 20;

/** An SGLang 0.5 server. It serves any model name; metrics are there with a flag only. */
export class FakeSglang implements EngineBehaviour {
  readonly #context: NodeContext;
  readonly #metrics: SglangMetrics;
  #isStarting: boolean;
  #isLeaving = false;
  /** Tokens that came back since the start: proof for `/health`. */
  #tokensSeen = 0;

  constructor(context: NodeContext) {
    this.#context = context;
    this.#metrics = new SglangMetrics(context);
    const { loadMs } = context.settings;
    this.#isStarting = loadMs > 0;
    // the warm-up request: routes answer before it is over, and only /health says so
    if (this.#isStarting) {
      context.after(loadMs, () => {
        this.#isStarting = false;
      });
    }
  }

  handle(exchange: Exchange): void {
    const { path, method } = exchange;
    const isOpen = path.startsWith("/health") || path.startsWith("/metrics");
    const isKnown = GET_ROUTES.has(path)
      ? path !== "/metrics" || this.#context.settings.hasMetrics
      : POST_ROUTES.has(path);
    if (!isOpen && !exchange.hasKey(this.#context.settings.apiKey)) exchange.json(401, { error: "Unauthorized" });
    else if (!isKnown) exchange.json(404, { detail: "Not Found" });
    else if (method !== (GET_ROUTES.has(path) ? "GET" : "POST")) exchange.json(405, { detail: "Method Not Allowed" });
    else if (method === "GET") this.#get(exchange);
    else this.#post(exchange);
  }

  overloaded(exchange: Exchange, retryAfterS: number): void {
    const body = parseObject(exchange.body);
    const isStream = body !== undefined && readInferenceRequest(body).isStream;
    if (!isStream) {
      exchange.json(503, errorBody(503, "The request queue is full."), retryAfterHeader(retryAfterS));
      return;
    }
    const stream = exchange.openStream({ "content-type": "text/event-stream; charset=utf-8" }, undefined);
    this.#failStream(stream, errorBody(503, "The request queue is full."));
  }

  misconfigured(exchange: Exchange, code: 401 | 404): void {
    if (code === 401) exchange.json(401, { error: "Unauthorized" });
    else exchange.json(404, { detail: "Not Found" });
  }

  bodyTooLarge(exchange: Exchange): void {
    exchange.json(413, { detail: "Request Entity Too Large" });
  }

  /** Drains with its port open: it takes new requests all the while, and only `/health` refuses. */
  terminate(): void {
    this.#isLeaving = true;
    this.#exitWhenDrained();
  }

  /** The scheduler's death takes the whole process with it, in the middle of everything. */
  engineDeath(): void {
    this.#context.exit("fin");
  }

  #get(exchange: Exchange): void {
    const { settings, startedUnixS } = this.#context;
    switch (exchange.path) {
      case "/health":
      case "/health_generate":
        this.#health(exchange);
        return;
      case "/ping":
        exchange.send(200, "");
        return;
      case "/metrics":
        exchange.send(200, this.#metrics.text(), { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
        return;
      case "/v1/loads":
        exchange.json(200, {
          timestamp: new Date().toISOString(),
          version: VERSION,
          accelerator: settings.accelerator,
          num_accelerators: 1,
          loads: this.#metrics.loads(),
        });
        return;
      case "/model_info":
      case "/get_model_info":
        exchange.json(200, {
          model_path: `/models/${settings.model}`,
          tokenizer_path: `/models/${settings.model}`,
          is_generation: true,
          preferred_sampling_params: null,
          weight_version: "default",
          has_image_understanding: false,
          has_audio_understanding: false,
          model_type: "llama",
          architectures: ["LlamaForCausalLM"],
        });
        return;
      case "/server_info":
      case "/get_server_info":
        exchange.json(200, this.#serverInfo());
        return;
      default:
        exchange.json(200, {
          object: "list",
          data: [
            {
              id: settings.model,
              object: "model",
              created: Math.floor(startedUnixS),
              owned_by: "sglang",
              root: settings.model,
              parent: null,
              max_model_len: settings.maxModelLen,
            },
          ],
        });
    }
  }

  /** Among the arguments stand the keys, as in the real one. */
  #serverInfo(): JsonObject {
    const { settings } = this.#context;
    const { maxQueuedRequests } = settings;
    return {
      model_path: `/models/${settings.model}`,
      served_model_name: settings.model,
      device: "cuda",
      api_key: settings.apiKey === "" ? null : settings.apiKey,
      admin_api_key: null,
      dp_size: settings.dataParallelRanks,
      tp_size: 1,
      max_running_requests: Math.floor(settings.maxSequences / settings.dataParallelRanks),
      max_queued_requests: Number.isFinite(maxQueuedRequests) ? maxQueuedRequests : null,
      enable_metrics: settings.hasMetrics,
      max_total_num_tokens: Math.floor(settings.kvCapacityTokens / settings.dataParallelRanks),
      internal_states: [],
      version: VERSION,
    };
  }

  /** A real token through the batch, looked for once a second; any other answer of the engine is as good. */
  #health(exchange: Exchange): void {
    if (this.#isStarting || this.#isLeaving) {
      exchange.send(503, "");
      return;
    }
    const { driver, settings } = this.#context;
    const seenBefore = this.#tokensSeen;
    const sequence = driver.submit(1, 1, {
      onToken: () => {
        this.#tokensSeen += 1;
      },
      onFinished: () => {},
    });
    exchange.onOver(() => driver.cancel(sequence));
    const look = (triesLeft: number) => {
      if (exchange.isOver) return;
      if (this.#tokensSeen > seenBefore) exchange.send(200, "");
      else if (triesLeft === 0) exchange.send(503, "");
      else this.#context.after(settings.healthWaitMs, () => look(triesLeft - 1));
    };
    this.#context.after(settings.healthWaitMs, () => look(HEALTH_TRIES - 1));
  }

  #post(exchange: Exchange): void {
    const body = parseObject(exchange.body);
    if (exchange.header("content-type")?.split(";")[0]?.trim().toLowerCase() !== "application/json") {
      const message = "Unsupported Media Type: Only 'application/json' is allowed";
      exchange.json(400, errorBody(400, message, "Bad Request"));
    } else if (body === undefined)
      exchange.json(400, errorBody(400, "1 validation error: json_invalid", "Bad Request"));
    else {
      const request = readInferenceRequest(body);
      const writer = SGLANG_WRITERS[exchange.path];
      const refusal = this.#refusalOf(exchange, request, writer);
      if (refusal !== null) exchange.json(400, errorBody(400, refusal, "BadRequestError"));
      else if (writer === undefined) this.#rerank(exchange, request);
      else if (this.#isFull(request)) {
        this.#metrics.abort();
        this.overloaded(exchange, Number.NaN);
      } else this.#generate(exchange, request, writer);
    }
  }

  /** What is refused before the head of a stream is out. */
  #refusalOf(exchange: Exchange, request: InferenceRequest, writer: StreamWriter | undefined): string | null {
    const { maxModelLen } = this.#context.settings;
    if (exchange.path === "/v1/embeddings") {
      return "This model does not appear to be an embedding model by default. Please add `--is-embedding`.";
    }
    if (request.inputCount < 1) return writer === undefined ? "Documents cannot be empty" : "Messages cannot be empty.";
    if (request.maxTokens < 1) return `max_new_tokens must be at least 1, got ${request.maxTokens}.`;
    if (!(request.choiceCount >= 1)) return `n must be at least 1, got ${request.choiceCount}.`;
    if (request.promptTokens >= maxModelLen) {
      return `The input (${request.promptTokens} tokens) is longer than the model's context length (${maxModelLen} tokens).`;
    }
    const completion = Number.isNaN(request.maxTokens) ? 0 : request.maxTokens;
    if (request.promptTokens + completion <= maxModelLen) return null;
    return (
      `Requested token count exceeds the model's maximum context length of ${maxModelLen} tokens. You requested a total ` +
      `of ${request.promptTokens + completion} tokens: ${request.promptTokens} tokens from the input messages and ` +
      `${completion} tokens for the completion.`
    );
  }

  /** Each rank counts its own queue, without what runs. */
  #isFull(request: InferenceRequest): boolean {
    const { driver, settings } = this.#context;
    const room = settings.maxQueuedRequests * settings.dataParallelRanks;
    return driver.batch.waitingCount + request.choiceCount > room;
  }

  #generate(exchange: Exchange, request: InferenceRequest, writer: StreamWriter): void {
    const fault = exchange.faults.takeStream();
    const created = Math.floor(Date.now() / 1e3);
    const head = { id: randomUUID().replaceAll("-", ""), model: this.#modelOf(request), created };
    const answer = new RunAnswer(exchange, writer, head, fault);
    let previousTokenMs = Number.NaN;
    const sink: GenerationSink = {
      onToken: (token) => {
        this.#tokensSeen += 1;
        if (token.text !== "") this.#metrics.token(run, previousTokenMs);
        previousTokenMs = run.times.lastTokenMs;
        answer.token(token, run);
      },
      onDone: () => {
        this.#metrics.finish(run);
        answer.finish(run);
        this.#exitWhenDrained();
      },
      onLeft: () => {
        this.#metrics.abort();
        this.#exitWhenDrained();
      },
    };
    const run = new GenerationRun(this.#context, exchange, request, sink);
    const isFailing = fault?.kind === "error-first";
    if (!request.isStream) {
      if (isFailing) exchange.json(500, BROKEN);
      else run.start(fault, () => false);
      return;
    }
    const stream = answer.open({ "content-type": "text/event-stream; charset=utf-8" });
    if (isFailing) this.#failStream(stream, BROKEN);
    else run.start(fault, () => false);
  }

  /** Scores of a model that generates come out of its prefill alone; the answer is a bare list. */
  #rerank(exchange: Exchange, request: InferenceRequest): void {
    const fault = exchange.faults.takeStream();
    const { documents: given } = request.body;
    const documents: readonly unknown[] = Array.isArray(given) ? given : [];
    const { driver } = this.#context;
    const sequence = driver.submit(request.promptTokens, 0, {
      onToken: () => {},
      onFinished: () => {
        const scores = documents.map((document, index) => ({
          score: 1 / (1 + index),
          document: String(document),
          index,
          meta_info: { prompt_tokens: request.promptTokens },
        }));
        sendPlain(exchange, fault, scores);
      },
    });
    exchange.onOver(() => driver.cancel(sequence));
  }

  #failStream(stream: EventStream, error: JsonObject): void {
    stream.event(sse({ error }));
    stream.event("data: [DONE]\n\n");
    stream.end();
  }

  /** Whatever is asked for is served, and the answer repeats its name. */
  #modelOf(request: InferenceRequest): string {
    return request.model === "" ? this.#context.settings.model : request.model;
  }

  #exitWhenDrained(): void {
    if (this.#isLeaving && this.#context.runs.size === 0) this.#context.after(0, () => this.#context.exit("fin"));
  }
}

const BROKEN = errorBody(500, "Internal server error: the scheduler raised an exception", "InternalServerError");

/** Flat, with the code as its type where there is no better word. */
function errorBody(code: number, message: string, type = String(code)): JsonObject {
  return { object: "error", message, type, param: null, code };
}
