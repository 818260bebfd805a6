import type { FinishReason, GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";
import type { AnswerHead, StreamWriter, TokenPart } from "./stream-writer.ts";
import { chatFinishReason, sse } from "./stream-writer.ts";
import { usageOf as plainUsageOf, VLLM_WRITERS } from "./vllm-shapes.ts";

function usageOf(run: GenerationRun): JsonObject {
  return { ...plainUsageOf(run), prompt_tokens_details: null, reasoning_tokens: 0 };
}

/** Every chunk has a `usage` member, null but in the last one. */
function chunk(head: AnswerHead, object: string, choices: readonly JsonObject[], usage: JsonObject | null): string {
  return sse({ id: head.id, object, created: head.created, model: head.model, choices, usage });
}

function delta(index: number, part: JsonObject, reason: FinishReason | "tool_calls" | null): JsonObject {
  const rest = { reasoning_content: null, tool_calls: null };
  return { index, delta: { ...rest, ...part }, logprobs: null, finish_reason: reason, matched_stop: null };
}

const CHUNK = "chat.completion.chunk";

/** The reason stands in a chunk of its own, behind the last token. */
const chat: StreamWriter = {
  idPrefix: "",
  begin: (head, run) =>
    run.choices.map((_, index) => chunk(head, CHUNK, [delta(index, { role: "assistant", content: "" }, null)], null)),
  token: (head, token, run) => [
    ...(token.text === "" ? [] : [chunk(head, CHUNK, [delta(token.choice, partOf(head, token, run), null)], null)]),
    ...(token.reason === null
      ? []
      : [
          chunk(
            head,
            CHUNK,
            [delta(token.choice, { role: null, content: null }, chatFinishReason(run, token.reason))],
            null,
          ),
        ]),
  ],
  end: (head, run) => [...(run.request.includeUsage ? [chunk(head, CHUNK, [], usageOf(run))] : []), "data: [DONE]\n\n"],
  whole: (head, run) => ({
    id: head.id,
    object: "chat.completion",
    created: head.created,
    model: head.model,
    choices: run.choices.map((_, index) => ({
      index,
      message: messageOf(head, run, index),
      logprobs: null,
      finish_reason: chatFinishReason(run, run.reason(index)),
      matched_stop: null,
    })),
    usage: usageOf(run),
    metadata: { weight_version: "default" },
  }),
};

/** A call has its name with the first piece of its arguments. */
function partOf(head: AnswerHead, token: TokenPart, run: GenerationRun): JsonObject {
  const tool = run.request.forced?.tool ?? null;
  if (tool === null) return { role: null, content: token.text };
  const isFirst = token.index === 0;
  const call = {
    id: isFirst ? toolId(head) : null,
    index: 0,
    type: "function",
    function: { name: isFirst ? tool.name : null, arguments: token.text },
  };
  return { role: null, content: null, tool_calls: [call] };
}

function messageOf(head: AnswerHead, run: GenerationRun, index: number): JsonObject {
  const tool = run.request.forced?.tool ?? null;
  const message = { role: "assistant", content: run.text(index), reasoning_content: null, tool_calls: null };
  if (tool === null) return message;
  const call = {
    id: toolId(head),
    index: 0,
    type: "function",
    function: { name: tool.name, arguments: run.text(index) },
  };
  return { ...message, content: null, tool_calls: [call] };
}

function toolId(head: AnswerHead): string {
  return `call_${head.id.slice(-24)}`;
}

const completion: StreamWriter = {
  idPrefix: "",
  begin: () => [],
  token: (head, token) => {
    const choice = {
      index: token.choice,
      text: token.text,
      logprobs: null,
      finish_reason: token.reason,
      matched_stop: null,
    };
    return [chunk(head, "text_completion", [choice], null)];
  },
  end: (head, run) => [
    ...(run.request.includeUsage ? [chunk(head, "text_completion", [], usageOf(run))] : []),
    "data: [DONE]\n\n",
  ],
  whole: (head, run) => ({
    id: head.id,
    object: "text_completion",
    created: head.created,
    model: head.model,
    choices: run.choices.map((_, index) => ({
      index,
      text: run.text(index),
      logprobs: null,
      finish_reason: run.reason(index),
      matched_stop: null,
    })),
    usage: usageOf(run),
    metadata: { weight_version: "default" },
  }),
};

/** The generating routes of SGLang. Responses and Messages are the shapes of their own interfaces, as in vLLM. */
export const SGLANG_WRITERS: Readonly<Record<string, StreamWriter>> = {
  ...VLLM_WRITERS,
  "/v1/chat/completions": chat,
  "/v1/completions": completion,
};
