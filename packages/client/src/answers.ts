/**
 * What callers get: the wire's JSON as it came, members that no type names included. What the client adds is not
 * enumerable, so that `JSON.stringify` and spreading give the wire's members only.
 */
import type { ReceivedRouting } from "@zml/protocol/wire";
import type { ToolCall } from "./requests.ts";

/** What the client adds to every answer. */
export interface AnswerFacts {
  /**
   * Where the request went and why; each member `undefined` when unknown. `null` when the answer has no readable
   * `x-zml-routing`: an endpoint that isn't routed, an older gateway, another server, or a browser to which the server
   * doesn't expose the header.
   */
  readonly routing: ReceivedRouting | null;
  /** `x-request-id`: ties the attempts of the request together. */
  readonly requestId: string | undefined;
}

/** Tokens of a request. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens?: number;
  total_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number; [member: string]: unknown } | null;
  completion_tokens_details?: { reasoning_tokens?: number; [member: string]: unknown } | null;
}

/** Why a choice ended; engines have further words. */
export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter" | "function_call" | (string & {});

/** The message that the model wrote. */
export interface AnswerMessage {
  role: string;
  content: string | null;
  refusal?: string | null;
  reasoning_content?: string | null;
  tool_calls?: ToolCall[];
}

/** The answer to `infer` with messages. */
export interface ChatAnswer extends AnswerFacts {
  id: string;
  object: "chat.completion";
  /** Unix time, s. */
  created: number;
  model: string;
  choices: {
    index: number;
    message: AnswerMessage;
    finish_reason: FinishReason | null;
    logprobs?: unknown;
  }[];
  usage?: Usage | null;
  system_fingerprint?: string | null;
  service_tier?: string | null;
  /** The text of the first choice, `""` when there is none. */
  readonly text: string;
}

/** The answer to `infer` with a prompt. */
export interface CompletionAnswer extends AnswerFacts {
  id: string;
  object: "text_completion";
  /** Unix time, s. */
  created: number;
  model: string;
  choices: { index: number; text: string; finish_reason: FinishReason | null; logprobs?: unknown }[];
  usage?: Usage | null;
  system_fingerprint?: string | null;
  /** The text of the first choice, `""` when there is none. */
  readonly text: string;
}

/** A piece of a call of a tool. */
export interface ToolCallDelta {
  index: number;
  id?: string;
  type?: "function";
  function?: { name?: string; arguments?: string };
}

/** An event of a stream that answers messages. */
export interface ChatChunk {
  id: string;
  object: "chat.completion.chunk";
  /** Unix time, s. */
  created: number;
  model: string;
  /** Empty in an event that only has `usage`. */
  choices: {
    index: number;
    delta: {
      role?: string;
      content?: string | null;
      refusal?: string | null;
      reasoning_content?: string | null;
      tool_calls?: ToolCallDelta[];
    };
    finish_reason: FinishReason | null;
    logprobs?: unknown;
  }[];
  usage?: Usage | null;
  system_fingerprint?: string | null;
}

/** An event of a stream that answers a prompt. */
export interface CompletionChunk {
  id: string;
  object: "text_completion";
  /** Unix time, s. */
  created: number;
  model: string;
  /** Empty in an event that only has `usage`. */
  choices: { index: number; text: string; finish_reason: FinishReason | null; logprobs?: unknown }[];
  usage?: Usage | null;
}

/** The answer to `embed`. */
export interface EmbeddingAnswer extends AnswerFacts {
  object: "list";
  model: string;
  /** In the order of the input; text with `encoding_format: "base64"`. */
  data: { object: "embedding"; index: number; embedding: number[] | string }[];
  usage?: Usage | null;
}

/** A model that the gateway serves. */
export interface Model {
  id: string;
  object: "model";
  /** Unix time, s. */
  created: number;
  owned_by: string;
}

/** The answer to `models.list`. */
export interface ModelList extends AnswerFacts {
  object: "list";
  data: Model[];
}

/** The answer to `models.get`. */
export interface ModelAnswer extends Model, AnswerFacts {}
