import type { FinishReason, GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";
import type { AnswerHead, StreamWriter, TokenPart } from "./stream-writer.ts";
import { usageOf } from "./vllm-shapes.ts";

export const TGI_VERSION = "3.3.7";

/** TGI's event writer puts no space after the colon. */
export function tgiEvent(value: unknown): string {
  return `data:${JSON.stringify(value)}\n\n`;
}

const chat: StreamWriter = {
  idPrefix: "",
  begin: () => [],
  token: (head, token) => [
    tgiEvent(
      frame(head, "chat.completion.chunk", [
        {
          index: token.choice,
          delta: { role: "assistant", content: token.text },
          logprobs: null,
          finish_reason: token.reason,
        },
      ]),
    ),
  ],
  end: (head, run) => [
    ...(run.request.includeUsage
      ? [tgiEvent({ ...frame(head, "chat.completion.chunk", []), usage: usageOf(run) })]
      : []),
    "data:[DONE]\n\n",
  ],
  whole: (head, run) => ({
    ...frame(head, "chat.completion", [
      {
        index: 0,
        message: { role: "assistant", content: run.text(0) },
        logprobs: null,
        finish_reason: run.reason(0),
      },
    ]),
    usage: usageOf(run),
  }),
};

const text: StreamWriter = {
  idPrefix: "",
  begin: () => [],
  token: (head, token) => [
    tgiEvent(
      frame(head, "text_completion", [
        { index: token.choice, text: token.text, logprobs: null, finish_reason: token.reason },
      ]),
    ),
  ],
  end: (head, run) => [
    ...(run.request.includeUsage ? [tgiEvent({ ...frame(head, "text_completion", []), usage: usageOf(run) })] : []),
    "data:[DONE]\n\n",
  ],
  whole: (head, run) => ({
    ...frame(head, "text_completion", [{ index: 0, text: run.text(0), logprobs: null, finish_reason: run.reason(0) }]),
    usage: usageOf(run),
  }),
};

const generate: StreamWriter = {
  idPrefix: "",
  begin: () => [],
  token: (_head, token, run) => [
    tgiEvent({
      index: token.index + 1,
      token: tokenBody(token),
      generated_text: token.reason === null ? null : run.text(0),
      details: token.reason === null ? null : details(run, token.reason),
    }),
  ],
  end: () => [],
  whole: (_head, run) => ({ generated_text: run.text(0), details: details(run, run.reason(0)) }),
};

function frame(head: AnswerHead, object: string, choices: readonly JsonObject[]): JsonObject {
  return {
    object,
    id: "",
    created: head.created,
    model: head.model,
    system_fingerprint: `${TGI_VERSION}-native`,
    choices,
  };
}

function tokenBody(token: TokenPart): JsonObject {
  return { id: 1000 + token.text.length, text: token.text, logprob: -0.5, special: false };
}

function details(run: GenerationRun, reason: FinishReason): JsonObject {
  return {
    finish_reason: reason === "stop" ? "eos_token" : reason,
    generated_tokens: run.completionTokens,
    seed: null,
    input_length: run.request.promptTokens,
  };
}

/** The generating routes of TGI. */
export const TGI_WRITERS: Readonly<Record<string, StreamWriter>> = {
  "/v1/chat/completions": chat,
  "/v1/completions": text,
  "/generate": generate,
  "/generate_stream": generate,
};
