/** How a run becomes the bytes of one route. */
import type { FinishReason, GenerationRun } from "./generation.ts";
import type { JsonObject } from "./json-object.ts";

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

/** An event of the Responses or the Anthropic kind, which says its type twice. */
export function namedEvent(type: string, fields: JsonObject): string {
  return `event: ${type}\n${sse({ type, ...fields })}`;
}

/** A call that came to its end says so; one that the caller named looks like any other end. */
export function chatFinishReason<T extends FinishReason | null>(run: GenerationRun, reason: T): T | "tool_calls" {
  const tool = run.request.forced?.tool ?? null;
  return reason === "stop" && tool !== null && !tool.isNamedByCaller ? "tool_calls" : reason;
}

/** Why a message of Anthropic's API ended. */
export function messageStopReason(run: GenerationRun): string {
  const reason = run.reason(0);
  if (reason === "length") return "max_tokens";
  if (reason !== "stop") return reason;
  return chatFinishReason(run, reason) === "tool_calls" ? "tool_use" : "end_turn";
}

/** The arguments of a call, as far as they came; broken JSON is an empty object, as Anthropic's API has no text there. */
export function argumentsOf(run: GenerationRun): unknown {
  try {
    return JSON.parse(run.text(0));
  } catch {
    return {};
  }
}
