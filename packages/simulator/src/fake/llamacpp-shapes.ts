import type { GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";
import { messages } from "./llamacpp-messages.ts";
import { responses } from "./llamacpp-responses.ts";
import { timings } from "./llamacpp-timings.ts";
import type { AnswerHead, StreamWriter } from "./stream-writer.ts";
import { chatFinishReason, sse } from "./stream-writer.ts";
import { usageOf as plainUsageOf } from "./vllm-shapes.ts";

export const LLAMACPP_BUILD = "b10434-5a1c1d2e";

function frame(head: AnswerHead, object: string, choices: readonly JsonObject[]): JsonObject {
  return {
    choices,
    created: head.created,
    id: head.id,
    model: head.model,
    system_fingerprint: LLAMACPP_BUILD,
    object,
  };
}

const chat: StreamWriter = {
  idPrefix: "chatcmpl",
  begin: (head, run) => {
    const tool = run.request.forced?.tool ?? null;
    const opening = [chunk(head, 0, { role: "assistant", content: null })];
    if (tool !== null) {
      const call = { index: 0, id: toolId(head), type: "function", function: { name: tool.name, arguments: "" } };
      opening.push(chunk(head, 0, { tool_calls: [call] }));
    }
    return opening;
  },
  token: (head, token, run) => {
    if (token.text === "") return [];
    const isTool = (run.request.forced?.tool ?? null) !== null;
    const delta = isTool
      ? { tool_calls: [{ index: 0, function: { arguments: token.text } }] }
      : { content: token.text };
    return [chunk(head, token.choice, delta)];
  },
  end: (head, run) => [
    ...run.choices.map((_, index) =>
      sse({
        ...frame(head, "chat.completion.chunk", [
          { finish_reason: chatFinishReason(run, run.reason(index)), index, delta: {} },
        ]),
        ...(run.request.includeUsage ? {} : { timings: timings(run) }),
      }),
    ),
    ...(run.request.includeUsage
      ? [sse({ ...frame(head, "chat.completion.chunk", []), usage: usageOf(run), timings: timings(run) })]
      : []),
    "data: [DONE]\n\n",
  ],
  whole: (head, run) => ({
    ...frame(
      head,
      "chat.completion",
      run.choices.map((_, index) => ({
        finish_reason: chatFinishReason(run, run.reason(index)),
        index,
        message: messageOf(head, run, index),
      })),
    ),
    usage: usageOf(run),
    timings: timings(run),
  }),
};

function usageOf(run: GenerationRun): JsonObject {
  return { ...plainUsageOf(run), prompt_tokens_details: { cached_tokens: 0 } };
}

function chunk(head: AnswerHead, index: number, delta: JsonObject): string {
  return sse(frame(head, "chat.completion.chunk", [{ finish_reason: null, index, delta }]));
}

function messageOf(head: AnswerHead, run: GenerationRun, index: number): JsonObject {
  const tool = run.request.forced?.tool ?? null;
  if (tool === null) return { role: "assistant", content: run.text(index) };
  const call = { type: "function", function: { name: tool.name, arguments: run.text(index) }, id: toolId(head) };
  return { role: "assistant", content: "", tool_calls: [call] };
}

function toolId(head: AnswerHead): string {
  return head.id.slice(-32);
}

const text: StreamWriter = {
  idPrefix: "chatcmpl",
  begin: () => [],
  token: (head, token) =>
    token.text === ""
      ? []
      : [
          sse(
            frame(head, "text_completion", [
              { text: token.text, index: token.choice, logprobs: null, finish_reason: null },
            ]),
          ),
        ],
  end: (head, run) => [
    ...run.choices.map((_, index) =>
      sse({
        ...frame(head, "text_completion", [{ text: "", index, logprobs: null, finish_reason: run.reason(index) }]),
        usage: usageOf(run),
        timings: timings(run),
      }),
    ),
    "data: [DONE]\n\n",
  ],
  whole: (head, run) => ({
    ...frame(
      head,
      "text_completion",
      run.choices.map((_, index) => ({
        text: run.text(index),
        index,
        logprobs: null,
        finish_reason: run.reason(index),
      })),
    ),
    usage: usageOf(run),
    timings: timings(run),
  }),
};

/** The generating routes of llama.cpp. */
export const LLAMACPP_WRITERS: Readonly<Record<string, StreamWriter>> = {
  "/v1/chat/completions": chat,
  "/chat/completions": chat,
  "/v1/completions": text,
  "/v1/responses": responses,
  "/v1/messages": messages,
};
