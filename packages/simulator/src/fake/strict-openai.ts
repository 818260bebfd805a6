import type { EngineBehaviour, NodeContext } from "./engine-behaviour.ts";
import type { EventStream, Exchange } from "./exchange.ts";
import type { GenerationSink } from "./generation.ts";
import { GenerationRun } from "./generation.ts";
import type { InferenceRequest } from "./inference-request.ts";
import { readInferenceRequest } from "./inference-request.ts";
import { parseObject } from "./json-object.ts";
import { RunAnswer } from "./run-answer.ts";
import { chatId, VLLM_WRITERS } from "./vllm-shapes.ts";

/** Members that OpenAI's chat and completion requests have; both NVIDIA servers take them. */
const OPENAI_FIELDS = [
  ...["model", "messages", "prompt", "input", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens"],
  ...["max_output_tokens", "temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs"],
  ...["top_logprobs", "response_format", "seed", "stop", "tools", "tool_choice", "parallel_tool_calls", "user"],
  ...["suffix", "echo", "best_of", "reasoning_effort", "ignore_eos", "min_tokens", "top_k", "min_p"],
  ...["repetition_penalty", "instructions", "dimensions", "encoding_format"],
];

/** Counters of an engine that hears of each request's end. */
export type RequestCounters = {
  /** A request ended well, or the engine broke it off. */
  finish(run: GenerationRun): void;
  /** The engine failed it. */
  fail(): void;
  /** Its caller left. */
  cancel(): void;
};

/** What pydantic finds wrong with a body. */
export type Invalid = {
  readonly type: "extra_forbidden" | "value_error";
  readonly field: string;
  readonly message: string;
};

/**
 * What trtllm-serve and Triton's OpenAI front end have in common: uvicorn, request models that forbid unknown members,
 * OpenAI's frames. How they refuse is their own.
 */
export abstract class StrictOpenAi implements EngineBehaviour {
  protected readonly context: NodeContext;
  readonly #counters: RequestCounters;
  readonly #fields: ReadonlySet<string>;
  #isTerminating = false;

  constructor(context: NodeContext, counters: RequestCounters, ownFields: readonly string[]) {
    this.context = context;
    this.#counters = counters;
    this.#fields = new Set([...OPENAI_FIELDS, ...ownFields]);
  }

  abstract handle(exchange: Exchange): void;
  abstract overloaded(exchange: Exchange, retryAfterS: number): void;
  abstract misconfigured(exchange: Exchange, code: 401 | 404): void;
  abstract bodyTooLarge(exchange: Exchange): void;
  abstract engineDeath(): void;
  /** A body that is no JSON object, lacks its input, or has a member that nobody knows. */
  protected abstract invalid(exchange: Exchange, problem: Invalid): void;
  protected abstract tooLong(exchange: Exchange, request: InferenceRequest): void;
  protected abstract unknownModel(exchange: Exchange, model: string): void;
  /** Answers a failed request, or ends its stream as the engine does. */
  protected abstract failed(exchange: Exchange, stream: EventStream | undefined): void;

  /** uvicorn's: no new connections, what runs ends, then it goes. */
  terminate(): void {
    this.#isTerminating = true;
    this.context.closeListener();
    this.#exitWhenDrained();
  }

  /** Reads, validates and runs a request. `mayServe` knows the model's names. */
  protected infer(exchange: Exchange, mayServe: (model: string) => boolean): void {
    const body = parseObject(exchange.body);
    if (body === undefined) {
      this.invalid(exchange, { type: "value_error", field: "", message: "JSON decode error" });
      return;
    }
    const unknown = Object.keys(body).find((field) => !this.#fields.has(field));
    const request = readInferenceRequest(body);
    const { settings, driver } = this.context;
    const completion = Number.isNaN(request.maxTokens) ? 0 : request.maxTokens;
    const room = settings.maxQueuedRequests - driver.batch.runningCount - driver.batch.waitingCount;
    if (unknown !== undefined) {
      this.invalid(exchange, { type: "extra_forbidden", field: unknown, message: "Extra inputs are not permitted" });
    } else if (request.inputCount < 1) {
      this.invalid(exchange, { type: "value_error", field: "messages", message: "Field required" });
    } else if (!mayServe(request.model)) this.unknownModel(exchange, request.model);
    else if (request.promptTokens + completion > settings.maxModelLen) this.tooLong(exchange, request);
    else if (request.choiceCount > room) this.overloaded(exchange, Number.NaN);
    else this.#generate(exchange, request);
  }

  /** Fails what runs. */
  protected failAll(): void {
    for (const run of [...this.context.runs]) run.fail();
  }

  #generate(exchange: Exchange, request: InferenceRequest): void {
    const writer = VLLM_WRITERS[exchange.path];
    if (writer === undefined) throw new Error(`no shape for ${exchange.path}: add it to the routes`);
    const { settings } = this.context;
    const fault = exchange.faults.takeStream();
    const head = {
      id: chatId(writer.idPrefix, undefined),
      model: request.model === "" ? settings.model : request.model,
      created: Math.floor(Date.now() / 1e3),
    };
    const answer = new RunAnswer(exchange, writer, head, fault);
    const sink: GenerationSink = {
      onToken: (token) => answer.token(token, run),
      onDone: () => {
        this.#counters.finish(run);
        answer.finish(run);
        this.#exitWhenDrained();
      },
      onFailed: () => {
        this.#counters.fail();
        this.failed(exchange, answer.stream);
      },
      onLeft: () => {
        this.#counters.cancel();
        this.#exitWhenDrained();
      },
    };
    const run = new GenerationRun(this.context, exchange, request, sink);
    if (request.isStream) answer.open({ "content-type": "text/event-stream; charset=utf-8" });
    if (fault?.kind === "error-first") {
      this.#counters.fail();
      this.failed(exchange, answer.stream);
      return;
    }
    const { disconnectPollMs } = settings;
    run.start(fault, () => disconnectPollMs > 0);
    // who left is noticed at the next look
    if (disconnectPollMs > 0) exchange.onOver(() => this.context.after(disconnectPollMs, () => run.leave()));
  }

  #exitWhenDrained(): void {
    if (this.#isTerminating && this.context.runs.size === 0) this.context.after(0, () => this.context.exit("fin"));
  }
}
