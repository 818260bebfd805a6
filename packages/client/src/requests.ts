/**
 * What callers hand in. Parameters of the OpenAI API keep the wire's snake_case and go into the body as they are, those
 * that no type names included; our own are camelCase and never reach the body.
 */
import type { GivenHeaders } from "./settings.ts";

/** A part of a message's content. */
export type ContentPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string; readonly detail?: string | undefined } }
  | { readonly type: string };

/** A call of a tool, as the model made it. */
export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

/** One message of a conversation. */
export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | (string & {});
  readonly content?: string | readonly ContentPart[] | null | undefined;
  readonly name?: string | undefined;
  readonly tool_calls?: readonly (ToolCall | { readonly type: string })[] | undefined;
  readonly tool_call_id?: string | undefined;
}

/** A message with members that {@link ChatMessage} doesn't name, such as an engine's own. */
export interface OpenChatMessage {
  readonly role: string;
  readonly [member: string]: unknown;
}

/** A function that the model may call. */
export interface Tool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string | undefined;
    /** JSON Schema of the arguments. */
    readonly parameters?: { readonly [member: string]: unknown } | undefined;
    readonly strict?: boolean | null | undefined;
  };
}

/** How one call is made. */
export interface CallOptions {
  /** Ends the call: it rejects with the signal's reason, and the node stops. */
  readonly signal?: AbortSignal | undefined;
  /** Deadline of the call with all its retries, ms; of a stream: to its head, then the longest silence. */
  readonly timeoutMs?: number | undefined;
  /** How often the call is sent again after a failure that may pass. */
  readonly maxRetries?: number | undefined;
  /** More headers; they win over those of the client. */
  readonly extraHeaders?: GivenHeaders | undefined;
}

/** What `infer` takes with `messages` and with `prompt`. */
export interface SharedInferParameters extends CallOptions {
  /** The model's name at the gateway. */
  readonly model: string;
  /** The wish for an accelerator family, such as `MI300X`. */
  readonly accelerator?: string | undefined;
  /** The routing policy of this call. */
  readonly policy?: string | undefined;
  readonly max_tokens?: number | null | undefined;
  readonly temperature?: number | null | undefined;
  readonly top_p?: number | null | undefined;
  readonly n?: number | null | undefined;
  readonly seed?: number | null | undefined;
  readonly stop?: string | readonly string[] | null | undefined;
  readonly frequency_penalty?: number | null | undefined;
  readonly presence_penalty?: number | null | undefined;
  readonly user?: string | undefined;
  readonly stream_options?: { readonly include_usage?: boolean | undefined } | null | undefined;
  /** Every other parameter goes to the node as it is. */
  readonly [parameter: string]: unknown;
}

/** `infer` with messages: `/v1/chat/completions`. */
export interface ChatParameters extends SharedInferParameters {
  readonly messages: readonly (ChatMessage | OpenChatMessage)[];
  readonly prompt?: undefined;
  readonly stream?: boolean | null | undefined;
  readonly max_completion_tokens?: number | null | undefined;
  readonly tools?: readonly (Tool | { readonly type: string })[] | undefined;
  readonly tool_choice?: "none" | "auto" | "required" | { readonly type: string } | undefined;
  readonly response_format?: { readonly type: string } | undefined;
}

/** `infer` with a prompt: `/v1/completions`. */
export interface CompletionParameters extends SharedInferParameters {
  readonly prompt: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  readonly messages?: undefined;
  readonly stream?: boolean | null | undefined;
  readonly echo?: boolean | null | undefined;
  readonly suffix?: string | null | undefined;
}

/** What `embed` takes: `/v1/embeddings`. */
export interface EmbedParameters extends CallOptions {
  readonly model: string;
  readonly input: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  readonly accelerator?: string | undefined;
  readonly policy?: string | undefined;
  /** `base64` gives each embedding as text. */
  readonly encoding_format?: "float" | "base64" | undefined;
  readonly dimensions?: number | undefined;
  readonly user?: string | undefined;
  /** Every other parameter goes to the node as it is. */
  readonly [parameter: string]: unknown;
}
