/** vLLM's `/v1/responses`. The last event is always `response.completed`; the response in it tells how it ended. */
import type { GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";
import type { AnswerHead, StreamWriter } from "./stream-writer.ts";
import { namedEvent } from "./stream-writer.ts";

export const responses: StreamWriter = {
  idPrefix: "resp",
  begin: (head, run) => {
    const response = { ...responseBody(head, run, "in_progress"), output: [], usage: null };
    const item = itemOf(head, run, "in_progress");
    const events: Named[] = [
      ["response.created", { response }],
      ["response.in_progress", { response }],
      ["response.output_item.added", { output_index: 0, item }],
    ];
    if (toolOf(run) === null) {
      events.push(["response.content_part.added", { ...placeOf(item), content_index: 0, part: textPart("") }]);
    }
    return numbered(events, 0);
  },
  token: (head, token, run) => {
    if (token.text === "") return [];
    const place = placeOf(itemOf(head, run, "in_progress"));
    const event: Named =
      toolOf(run) === null
        ? ["response.output_text.delta", { ...place, content_index: 0, delta: token.text, logprobs: [] }]
        : ["response.function_call_arguments.delta", { ...place, delta: token.text }];
    return numbered([event], beginCount(run) + token.index);
  },
  end: (head, run) => {
    const item = itemOf(head, run, "completed");
    const place = placeOf(item);
    const tool = toolOf(run);
    const text = run.text(0);
    const events: Named[] =
      tool === null
        ? [
            ["response.output_text.done", { ...place, content_index: 0, text, logprobs: [] }],
            ["response.content_part.done", { ...place, content_index: 0, part: textPart(text) }],
          ]
        : [["response.function_call_arguments.done", { ...place, arguments: text, name: tool.name }]];
    events.push(["response.output_item.done", { output_index: 0, item }]);
    events.push(["response.completed", { response: responses.whole(head, run) }]);
    return numbered(events, beginCount(run) + run.completionTokens);
  },
  whole: (head, run) => {
    const isCut = run.reason(0) !== "stop";
    return {
      ...responseBody(head, run, isCut ? "incomplete" : "completed"),
      incomplete_details: isCut ? { reason: run.reason(0) === "length" ? "max_output_tokens" : run.reason(0) } : null,
      output: [itemOf(head, run, "completed")],
      usage: {
        input_tokens: run.request.promptTokens,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: run.completionTokens,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: run.request.promptTokens + run.completionTokens,
      },
    };
  },
};

type Named = readonly [type: string, fields: JsonObject];

function numbered(events: readonly Named[], from: number): string[] {
  return events.map(([type, fields], index) => namedEvent(type, { ...fields, sequence_number: from + index }));
}

/** Events before the first token. */
function beginCount(run: GenerationRun): number {
  return toolOf(run) === null ? 4 : 3;
}

function toolOf(run: GenerationRun): { readonly name: string } | null {
  return run.request.forced?.tool ?? null;
}

function placeOf(item: JsonObject): JsonObject {
  return { item_id: item["id"], output_index: 0 };
}

function textPart(text: string): JsonObject {
  return { type: "output_text", text, annotations: [], logprobs: null };
}

/** The parameters are repeated, those that were not given with their defaults. */
function responseBody(head: AnswerHead, run: GenerationRun, status: string): JsonObject {
  const { body, maxTokens } = run.request;
  return {
    id: head.id,
    object: "response",
    created_at: head.created,
    model: head.model,
    status,
    error: null,
    incomplete_details: null,
    instructions: body["instructions"] ?? null,
    metadata: body["metadata"] ?? null,
    parallel_tool_calls: body["parallel_tool_calls"] ?? true,
    temperature: body["temperature"] ?? 1,
    tool_choice: body["tool_choice"] ?? "auto",
    tools: body["tools"] ?? [],
    top_p: body["top_p"] ?? 1,
    background: false,
    max_output_tokens: Number.isNaN(maxTokens) ? null : maxTokens,
    previous_response_id: null,
    reasoning: null,
    service_tier: "auto",
    text: body["text"] ?? null,
    truncation: "disabled",
    user: null,
  };
}

function itemOf(head: AnswerHead, run: GenerationRun, status: "in_progress" | "completed"): JsonObject {
  const tool = toolOf(run);
  const text = status === "completed" ? run.text(0) : "";
  const id = head.id.slice(-32);
  if (tool !== null) {
    const call = { id: `fc_${id}`, call_id: `call_${id}`, type: "function_call", name: tool.name };
    return { ...call, arguments: text, status };
  }
  const content = status === "completed" ? [textPart(text)] : [];
  return { id: `msg_${id}`, type: "message", role: "assistant", status, content };
}
