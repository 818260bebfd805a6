/** vLLM's `/v1/messages`: Anthropic's API, made of the events of a chat. */
import type { JsonObject } from "./json-object.ts";
import type { AnswerHead, StreamWriter } from "./stream-writer.ts";
import { argumentsOf, messageStopReason, namedEvent } from "./stream-writer.ts";

export const messages: StreamWriter = {
  idPrefix: "chatcmpl",
  begin: (head, run) => {
    const tool = run.request.forced?.tool ?? null;
    const block =
      tool === null ? { type: "text", text: "" } : { type: "tool_use", id: toolId(head), name: tool.name, input: {} };
    return [
      namedEvent("message_start", {
        message: {
          ...messageBody(head),
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: run.request.promptTokens, output_tokens: 0 },
        },
      }),
      namedEvent("content_block_start", { index: 0, content_block: block }),
    ];
  },
  token: (_head, token, run) => {
    if (token.text === "") return [];
    const delta = run.request.forced?.tool
      ? { type: "input_json_delta", partial_json: token.text }
      : { type: "text_delta", text: token.text };
    return [namedEvent("content_block_delta", { index: 0, delta })];
  },
  end: (_head, run) => [
    namedEvent("content_block_stop", { index: 0 }),
    namedEvent("message_delta", {
      delta: { stop_reason: messageStopReason(run) },
      usage: { input_tokens: run.request.promptTokens, output_tokens: run.completionTokens },
    }),
    namedEvent("message_stop", {}),
  ],
  whole: (head, run) => {
    const tool = run.request.forced?.tool ?? null;
    return {
      ...messageBody(head),
      content: [
        tool === null
          ? { type: "text", text: run.text(0) }
          : { type: "tool_use", id: toolId(head), name: tool.name, input: argumentsOf(run) },
      ],
      stop_reason: messageStopReason(run),
      usage: { input_tokens: run.request.promptTokens, output_tokens: run.completionTokens },
    };
  },
};

function messageBody(head: AnswerHead): JsonObject {
  return { id: head.id, type: "message", role: "assistant", model: head.model };
}

function toolId(head: AnswerHead): string {
  return `chatcmpl-tool-${head.id.slice(-32)}`;
}
