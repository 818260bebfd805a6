import type { NodeContext } from "./engine-behaviour.ts";
import { retryAfterHeader } from "./engine-behaviour.ts";
import type { EventStream, Exchange } from "./exchange.ts";
import type { InferenceRequest } from "./inference-request.ts";
import { sse } from "./stream-writer.ts";
import type { Invalid } from "./strict-openai.ts";
import { StrictOpenAi } from "./strict-openai.ts";
import { TrtllmMetrics } from "./trtllm-metrics.ts";

const VERSION = "1.3.0";
const POST_ROUTES = new Set(["/v1/chat/completions", "/v1/completions", "/v1/responses"]);
const GET_ROUTES = new Set([
  "/health",
  "/health_generate",
  "/version",
  "/v1/models",
  "/metrics",
  "/prometheus/metrics",
]);
const OWN_FIELDS = [
  ...[
    "use_beam_search",
    "top_p_min",
    "length_penalty",
    "early_stopping",
    "stop_token_ids",
    "include_stop_str_in_output",
  ],
  ...["skip_special_tokens", "spaces_between_special_tokens", "truncate_prompt_tokens", "lora_request", "documents"],
  ...["add_generation_prompt", "add_special_tokens", "chat_template", "chat_template_kwargs", "disaggregated_params"],
];
const GONE = "LLM is unavailable. Please check the server logs for more details.";

/**
 * A trtllm-serve 1.3. It looks at no model name; unknown members are a 400; its errors are a text; it has no key of its
 * own, so that one stands for a proxy in front.
 */
export class FakeTrtllm extends StrictOpenAi {
  readonly #metrics: TrtllmMetrics;
  #isGone = false;

  constructor(context: NodeContext) {
    const metrics = new TrtllmMetrics(context);
    super(context, metrics, OWN_FIELDS);
    this.#metrics = metrics;
  }

  handle(exchange: Exchange): void {
    const { path, method } = exchange;
    if (path.startsWith("/v1/") && !exchange.hasKey(this.context.settings.apiKey)) {
      exchange.json(401, { error: "Unauthorized" });
    } else if (GET_ROUTES.has(path) && method === "GET") this.#get(exchange);
    else if (POST_ROUTES.has(path) && method === "POST") {
      if (this.#isGone) this.failed(exchange, undefined);
      else this.infer(exchange, () => true);
    } else if (GET_ROUTES.has(path) || POST_ROUTES.has(path)) exchange.json(405, { detail: "Method Not Allowed" });
    else exchange.json(404, { detail: "Not Found" });
  }

  overloaded(exchange: Exchange, retryAfterS: number): void {
    exchange.json(503, { error: "the server is overloaded" }, retryAfterHeader(retryAfterS));
  }

  misconfigured(exchange: Exchange, code: 401 | 404): void {
    if (code === 401) exchange.json(401, { error: "Unauthorized" });
    else exchange.json(404, { detail: "Not Found" });
  }

  bodyTooLarge(exchange: Exchange): void {
    exchange.json(413, { error: "Request Entity Too Large" });
  }

  /** The executor dies: what runs fails, health says so, and the process goes. */
  engineDeath(): void {
    this.#isGone = true;
    this.failAll();
    this.context.after(200, () => this.context.exit("fin"));
  }

  protected invalid(exchange: Exchange, { type, field, message }: Invalid): void {
    exchange.json(400, { error: `[{'type': '${type}', 'loc': ('body', '${field}'), 'msg': '${message}'}]` });
  }

  protected tooLong(exchange: Exchange, { promptTokens, maxTokens }: InferenceRequest): void {
    const { maxModelLen } = this.context.settings;
    const completion = Number.isNaN(maxTokens) ? 0 : maxTokens;
    const what = `The sum of prompt length (${promptTokens}) and max tokens (${completion})`;
    exchange.json(400, { error: `${what} should not exceed max_seq_len (${maxModelLen})` });
  }

  protected unknownModel(exchange: Exchange): void {
    exchange.json(404, { detail: "Not Found" });
  }

  protected failed(exchange: Exchange, stream: EventStream | undefined): void {
    if (stream === undefined) {
      exchange.json(500, { error: "Internal server error" });
      return;
    }
    stream.event(sse({ error: "Internal server error" }));
    stream.end();
  }

  #get(exchange: Exchange): void {
    const { settings } = this.context;
    const isWithMetrics = settings.hasMetrics;
    switch (exchange.path) {
      case "/health":
      case "/health_generate":
        if (this.#isGone) exchange.send(503, GONE, { "content-type": "text/plain; charset=utf-8" });
        else exchange.send(200, "");
        return;
      case "/version":
        exchange.json(200, { version: VERSION });
        return;
      case "/metrics":
        exchange.json(200, isWithMetrics ? this.#metrics.takeIterations() : []);
        return;
      case "/prometheus/metrics":
        if (!isWithMetrics) exchange.json(404, { detail: "Not Found" });
        else exchange.send(200, this.#metrics.text(), { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
        return;
      default:
        exchange.json(200, {
          object: "list",
          // the time is that of the call
          data: [
            { id: settings.model, object: "model", created: Math.floor(Date.now() / 1e3), owned_by: "tensorrt_llm" },
          ],
        });
    }
  }
}
