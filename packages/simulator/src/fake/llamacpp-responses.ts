/** llama.cpp's `/v1/responses`, as build b10434 writes it: events carry no indexes and no numbers. */
import type { GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";
import { timings } from "./llamacpp-timings.ts";
import type { AnswerHead, StreamWriter } from "./stream-writer.ts";
import { namedEvent } from "./stream-writer.ts";

export const responses: StreamWriter = {
  idPrefix: "resp",
  begin: (head, run) => {
    const response = { id: head.id, object: "response", status: "in_progress" };
    const item = itemOf(head, run, "in_progress");
    const events = [
      namedEvent("response.created", { response }),
      namedEvent("response.in_progress", { response }),
      namedEvent("response.output_item.added", { item }),
    ];
    if (toolOf(run) === null) {
      const part = { type: "output_text", text: "" };
      events.push(namedEvent("response.content_part.added", { item_id: itemId(head, run), part }));
    }
    return events;
  },
  token: (head, token, run) => {
    if (token.text === "") return [];
    const type = toolOf(run) === null ? "response.output_text.delta" : "response.function_call_arguments.delta";
    return [namedEvent(type, { item_id: itemId(head, run), delta: token.text })];
  },
  end: (head, run) => {
    const item = itemOf(head, run, "completed");
    const text = run.text(0);
    const isText = toolOf(run) === null;
    const { created_at, id, model, object, output, status, usage } = responses.whole(head, run);
    const response = { id, object, created_at, status, model, output, usage };
    return [
      ...(isText
        ? [
            namedEvent("response.output_text.done", { item_id: itemId(head, run), text }),
            namedEvent("response.content_part.done", { item_id: itemId(head, run), part: textPart(text) }),
          ]
        : []),
      namedEvent("response.output_item.done", { item }),
      namedEvent("response.completed", { response, timings: timings(run) }),
    ];
  },
  whole: (head, run) => ({
    completed_at: Math.floor(Date.now() / 1e3),
    created_at: head.created,
    id: head.id,
    model: head.model,
    object: "response",
    output: [itemOf(head, run, "completed")],
    // also where the limit cut it off
    status: "completed",
    usage: {
      input_tokens: run.request.promptTokens,
      output_tokens: run.completionTokens,
      total_tokens: run.request.promptTokens + run.completionTokens,
      input_tokens_details: { cached_tokens: 0 },
    },
  }),
};

function toolOf(run: GenerationRun): { readonly name: string } | null {
  return run.request.forced?.tool ?? null;
}

function itemId(head: AnswerHead, run: GenerationRun): string {
  return `${toolOf(run) === null ? "msg" : "fc"}_${head.id.slice(-32)}`;
}

function textPart(text: string): JsonObject {
  return { type: "output_text", annotations: [], logprobs: [], text };
}

function itemOf(head: AnswerHead, run: GenerationRun, status: "in_progress" | "completed"): JsonObject {
  const text = status === "completed" ? run.text(0) : "";
  const tool = toolOf(run);
  if (tool !== null) {
    return { type: "function_call", status, arguments: text, call_id: itemId(head, run), name: tool.name };
  }
  const content = status === "completed" ? [textPart(text)] : [];
  return { type: "message", status, id: itemId(head, run), content, role: "assistant" };
}
