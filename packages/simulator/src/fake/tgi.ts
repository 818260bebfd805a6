import { performance } from "node:perf_hooks";
import type { EngineBehaviour, HttpHabits, NodeContext, NodeSettings } from "./engine-behaviour.ts";
import { retryAfterHeader } from "./engine-behaviour.ts";
import type { EventStream, Exchange } from "./exchange.ts";
import type { GenerationSink } from "./generation.ts";
import { GenerationRun } from "./generation.ts";
import type { InferenceRequest } from "./inference-request.ts";
import { readInferenceRequest } from "./inference-request.ts";
import type { JsonObject } from "./json-object.ts";
import { isObject } from "./json-object.ts";
import { RunAnswer } from "./run-answer.ts";
import type { TgiFailure } from "./tgi-metrics.ts";
import { TgiMetrics } from "./tgi-metrics.ts";
import { TGI_VERSION, TGI_WRITERS, tgiEvent } from "./tgi-shapes.ts";

/** hyper: HTTP/1.1 without an idle limit; bodies up to 2,000,000 bytes. */
export function tgiHttpHabits(settings: NodeSettings): HttpHabits {
  return {
    headers: {},
    jsonType: "application/json",
    keepAliveMs: settings.keepAliveMs,
    maxRequestsPerConnection: 0,
    hasConnectionHint: false,
    maxBodyBytes: 2_000_000,
  };
}

type Failure = { readonly kind: TgiFailure; readonly status: number; readonly message: string };

const OVERLOADED: Failure = { kind: "overloaded", status: 429, message: "Model is overloaded" };
const FAILED: Failure = { kind: "generation", status: 424, message: "Request failed during generation: Server error" };

/** A TGI 3.3 router. */
export class FakeTgi implements EngineBehaviour {
  readonly #context: NodeContext;
  readonly #metrics: TgiMetrics;
  #isTerminating = false;
  #isUnhealthy = false;

  constructor(context: NodeContext) {
    this.#context = context;
    this.#metrics = new TgiMetrics(context);
  }

  handle(exchange: Exchange): void {
    const { settings } = this.#context;
    const route = `${exchange.method} ${exchange.path}`;
    switch (route) {
      case "GET /":
      case "GET /health":
      case "GET /ping":
        if (this.#isUnhealthy) {
          // The next call after a failure probes the back end for real: one 503 says little.
          this.#isUnhealthy = false;
          exchange.json(503, { error: "unhealthy", error_type: "healthcheck" });
        } else exchange.send(200, "");
        return;
      case "GET /info":
        exchange.json(200, this.#info());
        return;
      case "GET /metrics":
        exchange.send(200, this.#metrics.text(), { "content-type": "text/plain; charset=utf-8" });
        return;
      case "GET /v1/models": {
        const entry = { id: settings.model, object: "model", created: 0, owned_by: settings.model };
        exchange.json(200, { object: "list", data: [entry] });
        return;
      }
      case "POST /v1/chat/completions":
      case "POST /v1/completions":
      case "POST /generate":
      case "POST /generate_stream":
        if (exchange.hasKey(settings.apiKey)) this.#post(exchange);
        else exchange.send(401, "");
        return;
      default:
        exchange.send(exchange.path in TGI_WRITERS ? 405 : 404, "");
    }
  }

  overloaded(exchange: Exchange, retryAfterS: number): void {
    const body = parse(exchange.body);
    const request = isObject(body) ? readRequest(exchange, body) : undefined;
    this.#refuse(exchange, request?.isStream ?? false, OVERLOADED, retryAfterS);
  }

  misconfigured(exchange: Exchange, code: 401 | 404): void {
    exchange.send(code, "");
  }

  bodyTooLarge(exchange: Exchange): void {
    exchange.send(413, "Failed to buffer the request body: length limit exceeded", {
      "content-type": "text/plain; charset=utf-8",
    });
  }

  /** Stops accepting, finishes what runs, then goes. */
  terminate(): void {
    this.#isTerminating = true;
    this.#context.closeListener();
    this.#exitWhenDone();
  }

  /** The shard dies: what runs fails, and the next health call says so. */
  engineDeath(): void {
    this.#isUnhealthy = true;
    for (const run of [...this.#context.runs]) run.fail();
  }

  #info(): JsonObject {
    const { settings } = this.#context;
    return {
      model_id: settings.model,
      model_sha: null,
      model_pipeline_tag: "text-generation",
      max_concurrent_requests: settings.maxConcurrentRequests,
      max_best_of: 2,
      max_stop_sequences: 4,
      max_input_tokens: settings.maxModelLen - 1,
      max_total_tokens: settings.maxModelLen,
      validation_workers: 2,
      max_client_batch_size: 4,
      router: "text-generation-router",
      version: TGI_VERSION,
      sha: null,
      docker_label: null,
    };
  }

  #post(exchange: Exchange): void {
    const plain = { "content-type": "text/plain; charset=utf-8" };
    if (exchange.header("content-type")?.split(";")[0]?.trim() !== "application/json") {
      exchange.send(415, "Expected request with `Content-Type: application/json`", plain);
      return;
    }
    const body = parse(exchange.body);
    if (body === undefined) {
      exchange.send(400, "Failed to parse the request body as JSON: expected value at line 1 column 1", plain);
      return;
    }
    if (!isObject(body)) {
      exchange.send(422, "Failed to deserialize the JSON body into the target type: invalid type", plain);
      return;
    }
    const isOpenAi = exchange.path.startsWith("/v1/");
    this.#metrics.count("tgi_request_count");
    // The OpenAI routes call the inner generate handler, which counts once more.
    if (isOpenAi) this.#metrics.count("tgi_request_count");
    const request = readRequest(exchange, body);
    const { settings, runs } = this.#context;
    const failure = this.#validate(request);
    if (request.inputCount < 0) {
      const field = isOpenAi ? "messages" : "inputs";
      exchange.send(422, `Failed to deserialize the JSON body into the target type: missing field \`${field}\``, plain);
    } else if (runs.size >= settings.maxConcurrentRequests) {
      this.#refuse(exchange, request.isStream, OVERLOADED, Number.NaN);
    } else if (failure !== undefined) this.#refuse(exchange, request.isStream, failure, Number.NaN);
    else this.#generate(exchange, request);
  }

  #validate(request: InferenceRequest): Failure | undefined {
    const { maxModelLen } = this.#context.settings;
    const invalid = (message: string): Failure => ({
      kind: "validation",
      status: 422,
      message: `Input validation error: ${message}`,
    });
    if (request.promptTokens >= maxModelLen) {
      return invalid(`\`inputs\` must have less than ${maxModelLen - 1} tokens. Given: ${request.promptTokens}`);
    }
    if (request.inputCount === 0) return invalid("`inputs` cannot be empty");
    if (request.maxTokens < 1) return invalid("`max_new_tokens` must be strictly positive");
    if (request.promptTokens + request.maxTokens > maxModelLen) {
      return invalid(
        `\`inputs\` tokens + \`max_new_tokens\` must be <= ${maxModelLen}. ` +
          `Given: ${request.promptTokens} \`inputs\` tokens and ${request.maxTokens} \`max_new_tokens\``,
      );
    }
    return undefined;
  }

  /** Plain requests get the status; streams get 200 and an error event, whatever went wrong. */
  #refuse(exchange: Exchange, isStream: boolean, failure: Failure, retryAfterS: number): void {
    this.#metrics.fail(failure.kind);
    const body = { error: failure.message, error_type: failure.kind };
    if (!isStream) {
      exchange.json(failure.status, body, retryAfterHeader(retryAfterS));
      return;
    }
    const stream = exchange.openStream({ "x-accel-buffering": "no" }, undefined);
    this.#errorEvent(exchange, stream, failure);
  }

  #errorEvent(exchange: Exchange, stream: EventStream, failure: Failure): void {
    const isOpenAi = exchange.path.startsWith("/v1/");
    const flat = { error: failure.message, error_type: failure.kind };
    stream.event(tgiEvent(isOpenAi ? { error: { message: failure.message, http_status_code: 422 } } : flat));
    stream.end();
  }

  #generate(exchange: Exchange, request: InferenceRequest): void {
    const writer = TGI_WRITERS[exchange.path];
    if (writer === undefined) return;
    const { settings } = this.#context;
    const fault = exchange.faults.takeStream();
    const head = { id: "", model: settings.model, created: Math.floor(Date.now() / 1e3) };
    const answer = new RunAnswer(exchange, writer, head, fault);
    const sink: GenerationSink = {
      onToken: (token) => answer.token(token, run),
      onDone: () => {
        this.#metrics.finish(run);
        if (answer.stream === undefined) {
          exchange.response.setHeader("x-compute-type", "gpu+optimized");
          exchange.response.setHeader("x-compute-characters", String(run.request.promptTokens * 4));
        }
        answer.finish(run);
        this.#exitWhenDone();
      },
      onFailed: () => this.#fail(exchange, answer.stream),
      onLeft: () => {
        this.#metrics.fail("dropped");
        this.#exitWhenDone();
      },
    };
    const run = new GenerationRun(this.#context, exchange, request, sink);
    if (request.isStream) {
      const stream = answer.open({ "x-compute-type": "gpu+optimized", "x-accel-buffering": "no" });
      this.#ping(exchange, stream);
    }
    if (fault?.kind === "error-first") this.#fail(exchange, answer.stream);
    else run.start(fault, () => false);
  }

  #fail(exchange: Exchange, stream: EventStream | undefined): void {
    this.#isUnhealthy = true;
    this.#metrics.fail(FAILED.kind);
    if (stream === undefined) exchange.json(FAILED.status, { error: FAILED.message, error_type: FAILED.kind });
    else this.#errorEvent(exchange, stream, FAILED);
  }

  #ping(exchange: Exchange, stream: EventStream): void {
    const { pingIntervalMs } = this.#context.settings;
    const timer = setInterval(() => {
      if (performance.now() - stream.lastWriteMs >= pingIntervalMs * 0.9) stream.comment(":\n\n");
    }, pingIntervalMs);
    exchange.onOver(() => clearInterval(timer));
  }

  #exitWhenDone(): void {
    if (this.#isTerminating && this.#context.runs.size === 0) this.#context.after(0, () => this.#context.exit("fin"));
  }
}

function parse(body: Buffer): unknown {
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    return value;
  } catch {
    return undefined;
  }
}

/** The native routes keep their limits under `parameters`, and the route says whether it streams. */
function readRequest(exchange: Exchange, body: JsonObject): InferenceRequest {
  // its own way of tools is not copied: it writes words
  const request = { ...readInferenceRequest(body), choiceCount: 1, forced: null };
  if (exchange.path.startsWith("/v1/")) return request;
  const parameters = isObject(body["parameters"]) ? body["parameters"] : {};
  const limit = parameters["max_new_tokens"];
  return {
    ...request,
    isStream: exchange.path === "/generate_stream",
    maxTokens: typeof limit === "number" ? limit : Number.NaN,
  };
}
