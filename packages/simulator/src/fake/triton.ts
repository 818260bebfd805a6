import type { HttpHabits, NodeContext, NodeSettings } from "./engine-behaviour.ts";
import { retryAfterHeader } from "./engine-behaviour.ts";
import type { EventStream, Exchange } from "./exchange.ts";
import type { InferenceRequest } from "./inference-request.ts";
import { sse } from "./stream-writer.ts";
import type { Invalid } from "./strict-openai.ts";
import { StrictOpenAi } from "./strict-openai.ts";
import { TritonMetrics } from "./triton-metrics.ts";
import { uvicornHabits } from "./uvicorn.ts";

const BODY_BYTES_MAX = 64 * 2 ** 20;
const POST_ROUTES = new Set(["/v1/chat/completions", "/v1/completions"]);
const GET_ROUTES = new Set(["/health/ready", "/v2/health/ready", "/v2/health/live", "/metrics", "/v1/models"]);

/** uvicorn in front of Triton. */
export function tritonHttpHabits(settings: NodeSettings): HttpHabits {
  return uvicornHabits(settings, BODY_BYTES_MAX);
}

/**
 * A Triton with the TensorRT-LLM backend behind its OpenAI front end, KServe's health pages beside it. The model stands
 * among the parts of its ensemble. Without `hasMetrics` the metrics are on another port only, which a fake has not.
 */
export class FakeTriton extends StrictOpenAi {
  readonly #metrics: TritonMetrics;
  #isReady: boolean;

  constructor(context: NodeContext) {
    const metrics = new TritonMetrics(context);
    super(context, metrics, []);
    this.#metrics = metrics;
    const { loadMs } = context.settings;
    this.#isReady = loadMs === 0;
    if (!this.#isReady) {
      context.after(loadMs, () => {
        this.#isReady = true;
      });
    }
  }

  handle(exchange: Exchange): void {
    const { path, method } = exchange;
    const { settings } = this.context;
    if (path.startsWith("/v1/") && !exchange.hasKey(settings.apiKey)) {
      exchange.json(401, { error: "This API is restricted, expecting header 'authorization'" });
    } else if (GET_ROUTES.has(path) && method === "GET") this.#get(exchange);
    else if (POST_ROUTES.has(path) && method === "POST") {
      if (this.#isReady) this.infer(exchange, (model) => model === settings.model || settings.aliases.includes(model));
      else exchange.json(500, { detail: "Server is not ready" });
    } else if (GET_ROUTES.has(path) || POST_ROUTES.has(path)) exchange.json(405, { detail: "Method Not Allowed" });
    else exchange.json(404, { detail: "Not Found" });
  }

  overloaded(exchange: Exchange, retryAfterS: number): void {
    this.#metrics.reject();
    exchange.json(503, { detail: "Exceeds maximum queue size" }, retryAfterHeader(retryAfterS));
  }

  misconfigured(exchange: Exchange, code: 401 | 404): void {
    if (code === 401) exchange.json(401, { error: "This API is restricted, expecting header 'authorization'" });
    else this.unknownModel(exchange, "m");
  }

  bodyTooLarge(exchange: Exchange): void {
    const message = `Request size exceeds the maximum allowed input size of ${BODY_BYTES_MAX} bytes.`;
    exchange.json(413, { error: { message, type: "invalid_request_error", code: "content_too_large" } });
  }

  /** The backend dies: what runs fails, and the server is there and not ready. */
  engineDeath(): void {
    this.#isReady = false;
    this.failAll();
  }

  protected invalid(exchange: Exchange, { type, field, message }: Invalid): void {
    exchange.json(422, { detail: [{ type, loc: ["body", field], msg: message }] });
  }

  protected tooLong(exchange: Exchange, { promptTokens }: InferenceRequest): void {
    this.#metrics.fail();
    const limit = this.context.settings.maxModelLen;
    exchange.json(500, { detail: `Prompt length (${promptTokens}) exceeds maximum input length (${limit}).` });
  }

  protected unknownModel(exchange: Exchange, model: string): void {
    exchange.json(400, { detail: `Unknown model: ${model}` });
  }

  /** An exception in a stream ends it where it is; before the first event it is an event, as of `generate_stream`. */
  protected failed(exchange: Exchange, stream: EventStream | undefined): void {
    const detail = "in ensemble 'ensemble', Executor failed";
    if (stream === undefined) exchange.json(500, { detail });
    else if (stream.isFresh) {
      stream.event(sse({ error: detail }));
      stream.end();
    } else exchange.cut("fin");
  }

  #get(exchange: Exchange): void {
    const { settings, startedUnixS } = this.context;
    switch (exchange.path) {
      case "/health/ready":
        if (this.#isReady) exchange.send(200, "");
        else exchange.json(400, { detail: "Attached inference engine is not ready for inference requests." });
        return;
      case "/v2/health/live":
        exchange.send(200, "");
        return;
      case "/v2/health/ready":
        exchange.send(this.#isReady ? 200 : 400, "");
        return;
      case "/metrics":
        if (!settings.hasMetrics) exchange.json(404, { detail: "Not Found" });
        else exchange.send(200, this.#metrics.text(), { "content-type": "text/plain; charset=utf-8" });
        return;
      default:
        exchange.json(200, {
          object: "list",
          data: [settings.model, ...settings.aliases, "preprocessing", "postprocessing"].map((id) => ({
            id,
            created: Math.floor(startedUnixS),
            object: "model",
            owned_by: "Triton Inference Server",
          })),
        });
    }
  }
}
