import { randomUUID } from "node:crypto";
import type { FinishReason, GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";
import type { AnswerHead, StreamWriter } from "./stream-writer.ts";
import { chatFinishReason, sse } from "./stream-writer.ts";
import { messages } from "./vllm-messages.ts";
import { responses } from "./vllm-responses.ts";

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
      ? Array.from({ length: run.request.choiceCount }, (_, index) => index).flatMap((index) => [
          sse(chatChunk(head, [chatChoice(index, { role: "assistant", content: "" }, null)])),
          ...toolBegin(head, run, index),
        ])
      : [],
  token: (head, token, run) => {
    const isTool = (run.request.forced?.tool ?? null) !== null;
    const delta = isTool
      ? { tool_calls: [{ index: 0, function: { arguments: token.text } }] }
      : { content: token.text };
    return [sse(chatChunk(head, [chatChoice(token.choice, delta, chatFinishReason(run, token.reason))]))];
  },
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
        ...(run.request.forced?.tool ? { content: null } : { content: run.text(index) }),
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        tool_calls: run.request.forced?.tool
          ? [
              {
                id: toolId(head, index),
                type: "function",
                function: { name: run.request.forced.tool.name, arguments: run.text(index) },
              },
            ]
          : [],
        reasoning: null,
      },
      logprobs: null,
      finish_reason: chatFinishReason(run, run.reason(index)),
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

/** The call's name comes before its arguments, in an event of its own. */
function toolBegin(head: AnswerHead, run: GenerationRun, choice: number): readonly string[] {
  const tool = run.request.forced?.tool ?? null;
  if (tool === null) return [];
  const call = {
    id: toolId(head, choice),
    type: "function",
    index: 0,
    function: { name: tool.name, arguments: "" },
  };
  return [sse(chatChunk(head, [chatChoice(choice, { tool_calls: [call] }, null)]))];
}

function toolId(head: AnswerHead, choice: number): string {
  return `chatcmpl-tool-${head.id.slice(-31)}${choice}`;
}

function chatChunk(head: AnswerHead, choices: readonly JsonObject[]): JsonObject {
  return { id: head.id, object: "chat.completion.chunk", created: head.created, model: head.model, choices };
}

function chatChoice(index: number, delta: JsonObject, reason: FinishReason | "tool_calls" | null): JsonObject {
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

/** The generating routes of vLLM. */
export const VLLM_WRITERS: Readonly<Record<string, StreamWriter>> = {
  "/v1/chat/completions": chat,
  "/v1/completions": completion,
  "/v1/responses": responses,
  "/v1/messages": messages,
};
