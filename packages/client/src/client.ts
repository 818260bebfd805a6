/** The client: what an application calls. */
import { ACCELERATOR_HEADER, POLICY_HEADER } from "@zml/protocol/wire";
import type {
  AnswerFacts,
  ChatAnswer,
  ChatChunk,
  CompletionAnswer,
  CompletionChunk,
  EmbeddingAnswer,
  ModelAnswer,
  ModelList,
} from "./answers.ts";
import type { Decision } from "./decision.ts";
import { ConfigurationError } from "./errors.ts";
import { type InferStream, openStream } from "./infer-stream.ts";
import { isObject } from "./json-object.ts";
import { type AnswerShape, readAnswer } from "./read-answer.ts";
import type { CallOptions, ChatParameters, CompletionParameters, EmbedParameters } from "./requests.ts";
import { type Opened, send } from "./send.ts";
import { type ClientOptions, readSettings, type Settings } from "./settings.ts";
import { chatShape, completionShape, decisionShape, embeddingShape, modelListShape, modelShape } from "./shapes.ts";

/**
 * A client of one gateway. Cheap to make; holds no connection of its own, the platform's fetch pools them.
 *
 * ```ts
 * const client = new ZML({ baseUrl: "http://127.0.0.1:8080" });
 * const answer = await client.infer({ model: "llama3-70b", messages: [{ role: "user", content: "hello" }] });
 * console.log(answer.text, answer.routing?.family);
 * ```
 */
export class ZML {
  readonly #settings: Settings;
  /** The models of the gateway. */
  readonly models: Models;
  /** Routing decisions, from the admin port. */
  readonly decisions: Decisions;

  /** @throws ConfigurationError when an option, or the environment variable in its place, is wrong */
  constructor(options: ClientOptions = {}) {
    this.#settings = readSettings(options);
    this.models = new Models(this.#settings);
    this.decisions = new Decisions(this.#settings);
  }

  /**
   * Asks a model: `messages` for a chat, `prompt` for a completion. `accelerator` and `policy` travel as headers;
   * everything but the {@link CallOptions} is the body, unknown parameters included.
   *
   * @returns the answer; with `stream: true` the stream, as soon as its head is in
   * @throws (rejects with) ConfigurationError, APIConnectionError, APIStatusError, ResponseFormatError, or the reason of
   * `signal`
   */
  infer(parameters: ChatParameters & { readonly stream: true }): Promise<InferStream<ChatChunk>>;
  infer(parameters: ChatParameters & { readonly stream?: false | null | undefined }): Promise<ChatAnswer>;
  infer(parameters: ChatParameters): Promise<ChatAnswer | InferStream<ChatChunk>>;
  infer(parameters: CompletionParameters & { readonly stream: true }): Promise<InferStream<CompletionChunk>>;
  infer(parameters: CompletionParameters & { readonly stream?: false | null | undefined }): Promise<CompletionAnswer>;
  infer(parameters: CompletionParameters): Promise<CompletionAnswer | InferStream<CompletionChunk>>;
  async infer(
    parameters: ChatParameters | CompletionParameters,
  ): Promise<ChatAnswer | CompletionAnswer | InferStream<ChatChunk> | InferStream<CompletionChunk>> {
    const isChat = given(parameters?.messages);
    if (isChat === given(parameters?.prompt)) {
      throw new ConfigurationError(
        `infer was called with ${isChat ? "both" : "neither"} messages ${isChat ? "and" : "nor"} prompt: give messages ` +
          "for a chat, or prompt for a completion",
      );
    }
    const opened = await post(this.#settings, isChat ? "/v1/chat/completions" : "/v1/completions", parameters);
    if (parameters.stream === true) {
      return isChat
        ? openStream<ChatChunk>(opened, choicesOf(parameters))
        : openStream<CompletionChunk>(opened, choicesOf(parameters));
    }
    if (isChat) return readAnswer(opened, chatShape);
    return readAnswer(opened, completionShape);
  }

  /**
   * Turns texts into vectors.
   * @throws (rejects with) as {@link ZML.infer}
   */
  async embed(parameters: EmbedParameters): Promise<EmbeddingAnswer> {
    return readAnswer(await post(this.#settings, "/v1/embeddings", parameters), embeddingShape);
  }
}

/** The models of the gateway. */
class Models {
  readonly #settings: Settings;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** All models that the key may use. @throws (rejects with) as {@link ZML.infer} */
  list(options: CallOptions = {}): Promise<ModelList> {
    return get(this.#settings, "data", "/v1/models", modelListShape, options);
  }

  /** One model. @throws (rejects with) NotFoundError when there is none, else as {@link ZML.infer} */
  async get(id: string, options: CallOptions = {}): Promise<ModelAnswer> {
    return get(this.#settings, "data", `/v1/models/${segment("the id of a model", id)}`, modelShape, options);
  }
}

/** Routing decisions, from the admin port. */
class Decisions {
  readonly #settings: Settings;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /**
   * Why a request went where it went. The id is `routing.decision` of its answer; each worker of the gateway remembers its
   * last decisions.
   * @throws (rejects with) NotFoundError when it is not remembered, else as {@link ZML.infer}
   */
  async explain(id: string, options: CallOptions = {}): Promise<Decision> {
    const path = `/admin/v1/decisions/${segment("the id of a decision", id)}`;
    return get(this.#settings, "admin", path, decisionShape, options);
  }
}

async function get<T extends AnswerFacts>(
  settings: Settings,
  port: "data" | "admin",
  path: string,
  shape: AnswerShape<T>,
  options: CallOptions,
): Promise<T> {
  return readAnswer(await send(settings, { port: settings[port], method: "GET", path }, options), shape);
}

/** Parts our own parameters from the wire's, and sends them. */
async function post(
  settings: Settings,
  path: string,
  parameters: ChatParameters | CompletionParameters | EmbedParameters,
): Promise<Opened> {
  if (!isObject(parameters)) throw new ConfigurationError("a call was made without parameters: give at least a model");
  const { signal, timeoutMs, maxRetries, extraHeaders, accelerator, policy, ...wire } = parameters;
  let body: string;
  try {
    body = JSON.stringify(wire);
  } catch (cause) {
    throw new ConfigurationError("the parameters are no JSON: leave out circular references and bigints", { cause });
  }
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (accelerator !== undefined && accelerator !== null) headers[ACCELERATOR_HEADER] = name("accelerator", accelerator);
  if (policy !== undefined && policy !== null) headers[POLICY_HEADER] = name("policy", policy);
  const options = { signal, timeoutMs, maxRetries, extraHeaders };
  return send(settings, { port: settings.data, method: "POST", path, body, headers }, options);
}

/** How many choices a stream will have. */
function choicesOf(parameters: ChatParameters | CompletionParameters): number {
  const { n, prompt } = parameters;
  const each = typeof n === "number" && Number.isInteger(n) && n > 0 ? n : 1;
  const isList = Array.isArray(prompt) && typeof prompt[0] !== "number";
  return each * (isList ? Math.max(1, prompt.length) : 1);
}

/** A name that becomes a header. */
function name(what: string, value: unknown): string {
  if (typeof value === "string" && /^[!-~]{1,128}$/.test(value)) return value;
  throw new ConfigurationError(`${what} is no name: give 1 to 128 characters of printable ASCII without blanks`);
}

/** A part of a path. */
function segment(what: string, value: unknown): string {
  // URLs take `.` and `..` for a way up, however they are encoded
  if (typeof value === "string" && value !== "" && value !== "." && value !== "..") {
    try {
      return encodeURIComponent(value);
    } catch {
      // half a surrogate pair
    }
  }
  throw new ConfigurationError(`${what} is empty or no name: give it as models.list or a routing tells it`);
}

function given(value: unknown): boolean {
  return value !== undefined && value !== null;
}
