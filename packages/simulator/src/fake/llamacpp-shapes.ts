import type { GenerationRun } from "./generation.ts";
import type { JsonObject } from "./inference-request.ts";
import type { AnswerHead, StreamWriter } from "./vllm-shapes.ts";
import { sse, usageOf } from "./vllm-shapes.ts";

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

function timings(run: GenerationRun): JsonObject {
  const { startedMs, firstTokenMs, lastTokenMs } = run.times;
  const promptMs = Number.isNaN(firstTokenMs) ? 0 : firstTokenMs - startedMs;
  const predictedMs = Number.isNaN(lastTokenMs) ? 0 : lastTokenMs - firstTokenMs;
  return {
    cache_n: 0,
    prompt_n: run.request.promptTokens,
    prompt_ms: promptMs,
    predicted_n: run.completionTokens,
    predicted_ms: predictedMs,
  };
}

const chat: StreamWriter = {
  idPrefix: "chatcmpl",
  begin: (head) => [
    sse(
      frame(head, "chat.completion.chunk", [
        { finish_reason: null, index: 0, delta: { role: "assistant", content: null } },
      ]),
    ),
  ],
  token: (head, token) =>
    token.text === ""
      ? []
      : [
          sse(
            frame(head, "chat.completion.chunk", [
              { finish_reason: null, index: token.choice, delta: { content: token.text } },
            ]),
          ),
        ],
  end: (head, run) => [
    ...run.choices.map((_, index) =>
      sse({
        ...frame(head, "chat.completion.chunk", [{ finish_reason: run.reason(index), index, delta: {} }]),
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
        finish_reason: run.reason(index),
        index,
        message: { role: "assistant", content: run.text(index) },
      })),
    ),
    usage: usageOf(run),
    timings: timings(run),
  }),
};

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
export const LLAMACPP_WRITERS = { chat, text } as const;
