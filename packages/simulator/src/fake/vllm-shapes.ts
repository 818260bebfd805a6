import { randomUUID } from "node:crypto";
import type { FinishReason, GenerationRun } from "./generation.ts";
import type { JsonObject } from "./inference-request.ts";

export type AnswerHead = { readonly id: string; readonly model: string; readonly created: number };
export type TokenPart = {
  readonly choice: number;
  readonly index: number;
  readonly text: string;
  readonly reason: FinishReason | null;
};

/** Turns a run into the bytes of one route: events of a stream in order, or the whole answer. */
export type StreamWriter = {
  readonly idPrefix: string;
  begin(head: AnswerHead, run: GenerationRun): readonly string[];
  token(head: AnswerHead, token: TokenPart, run: GenerationRun): readonly string[];
  end(head: AnswerHead, run: GenerationRun): readonly string[];
  whole(head: AnswerHead, run: GenerationRun): JsonObject;
};

export function sse(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** vLLM makes the id from the caller's `X-Request-Id` when there is one. */
export function chatId(prefix: string, requestId: string | undefined): string {
  return `${prefix}-${requestId ?? randomUUID().replaceAll("-", "")}`;
}

export function usageOf(run: GenerationRun): JsonObject {
  const prompt = run.request.promptTokens;
  const completion = run.completionTokens;
  return { prompt_tokens: prompt, total_tokens: prompt + completion, completion_tokens: completion };
}

const chat: StreamWriter = {
  idPrefix: "chatcmpl",
  begin: (head, run) =>
    run.request.isStream
      ? Array.from({ length: run.request.choiceCount }, (_, index) =>
          sse(chatChunk(head, [chatChoice(index, { role: "assistant", content: "" }, null)])),
        )
      : [],
  token: (head, token) => [sse(chatChunk(head, [chatChoice(token.choice, { content: token.text }, token.reason)]))],
  end: (head, run) => [
    ...(run.request.includeUsage ? [sse({ ...chatChunk(head, []), usage: usageOf(run) })] : []),
    "data: [DONE]\n\n",
  ],
  whole: (head, run) => ({
    id: head.id,
    object: "chat.completion",
    created: head.created,
    model: head.model,
    choices: run.choices.map((_, index) => ({
      index,
      message: {
        role: "assistant",
        content: run.text(index),
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        tool_calls: [],
        reasoning: null,
      },
      logprobs: null,
      finish_reason: run.reason(index),
      stop_reason: null,
      token_ids: null,
    })),
    service_tier: null,
    system_fingerprint: null,
    usage: { ...usageOf(run), prompt_tokens_details: null },
    prompt_logprobs: null,
    prompt_token_ids: null,
    kv_transfer_params: null,
  }),
};

function chatChunk(head: AnswerHead, choices: readonly JsonObject[]): JsonObject {
  return { id: head.id, object: "chat.completion.chunk", created: head.created, model: head.model, choices };
}

function chatChoice(index: number, delta: JsonObject, reason: FinishReason | null): JsonObject {
  const choice = { index, delta, logprobs: null, finish_reason: reason };
  return reason === null ? choice : { ...choice, stop_reason: null };
}

const completion: StreamWriter = {
  idPrefix: "cmpl",
  begin: () => [],
  token: (head, token) => [
    sse({
      ...textChunk(head),
      choices: [
        { index: token.choice, text: token.text, logprobs: null, finish_reason: token.reason, stop_reason: null },
      ],
    }),
  ],
  end: (head, run) => [
    ...(run.request.includeUsage ? [sse({ ...textChunk(head), choices: [], usage: usageOf(run) })] : []),
    "data: [DONE]\n\n",
  ],
  whole: (head, run) => ({
    ...textChunk(head),
    choices: run.choices.map((_, index) => ({
      index,
      text: run.text(index),
      logprobs: null,
      finish_reason: run.reason(index),
      stop_reason: null,
      prompt_logprobs: null,
    })),
    service_tier: null,
    system_fingerprint: null,
    usage: { ...usageOf(run), prompt_tokens_details: null },
    kv_transfer_params: null,
  }),
};

function textChunk(head: AnswerHead): JsonObject {
  return { id: head.id, object: "text_completion", created: head.created, model: head.model };
}

const responses: StreamWriter = {
  idPrefix: "resp",
  begin: (head) => {
    const response = { ...responseBody(head, "in_progress"), output: [], usage: null };
    return [
      named("response.created", { response }),
      named("response.output_item.added", { output_index: 0, item: responseItem(head, "", "in_progress") }),
    ];
  },
  token: (head, token) =>
    token.text === ""
      ? []
      : [
          named("response.output_text.delta", {
            item_id: `msg_${head.id}`,
            output_index: 0,
            content_index: 0,
            delta: token.text,
          }),
        ],
  end: (head, run) => [
    named("response.output_text.done", {
      item_id: `msg_${head.id}`,
      output_index: 0,
      content_index: 0,
      text: run.text(0),
    }),
    named("response.completed", { response: responses.whole(head, run) }),
  ],
  whole: (head, run) => ({
    ...responseBody(head, run.reason(0) === "stop" ? "completed" : "incomplete"),
    output: [responseItem(head, run.text(0), "completed")],
    usage: {
      input_tokens: run.request.promptTokens,
      output_tokens: run.completionTokens,
      total_tokens: run.request.promptTokens + run.completionTokens,
    },
  }),
};

function named(type: string, fields: JsonObject): string {
  return `event: ${type}\n${sse({ type, ...fields })}`;
}

function responseBody(head: AnswerHead, status: string): JsonObject {
  return { id: head.id, object: "response", created_at: head.created, model: head.model, status, error: null };
}

function responseItem(head: AnswerHead, text: string, status: string): JsonObject {
  const content = text === "" ? [] : [{ type: "output_text", text, annotations: [] }];
  return { id: `msg_${head.id}`, type: "message", role: "assistant", status, content };
}

const messages: StreamWriter = {
  idPrefix: "msg",
  begin: (head, run) => [
    named("message_start", {
      message: {
        ...messageBody(head),
        content: [],
        stop_reason: null,
        usage: { input_tokens: run.request.promptTokens, output_tokens: 0 },
      },
    }),
    named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
  ],
  token: (_head, token) =>
    token.text === ""
      ? []
      : [named("content_block_delta", { index: 0, delta: { type: "text_delta", text: token.text } })],
  end: (_head, run) => [
    named("content_block_stop", { index: 0 }),
    named("message_delta", {
      delta: { stop_reason: stopReason(run.reason(0)), stop_sequence: null },
      usage: { input_tokens: run.request.promptTokens, output_tokens: run.completionTokens },
    }),
    named("message_stop", {}),
  ],
  whole: (head, run) => ({
    ...messageBody(head),
    content: [{ type: "text", text: run.text(0) }],
    stop_reason: stopReason(run.reason(0)),
    stop_sequence: null,
    usage: { input_tokens: run.request.promptTokens, output_tokens: run.completionTokens },
  }),
};

function messageBody(head: AnswerHead): JsonObject {
  return { id: head.id, type: "message", role: "assistant", model: head.model };
}

function stopReason(reason: FinishReason): string {
  if (reason === "length") return "max_tokens";
  return reason === "stop" ? "end_turn" : reason;
}

/** The generating routes of vLLM. */
export const VLLM_WRITERS: Readonly<Record<string, StreamWriter>> = {
  "/v1/chat/completions": chat,
  "/v1/completions": completion,
  "/v1/responses": responses,
  "/v1/messages": messages,
};
