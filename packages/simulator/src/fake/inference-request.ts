import { countTokens } from "../readable-words.ts";
import type { ForcedOutput } from "./forced-output.ts";
import { readForcedOutput } from "./forced-output.ts";
import type { JsonObject } from "./json-object.ts";
import { isObject } from "./json-object.ts";

/** What the fakes read from a chat, completion or embeddings body. Unknown numbers are NaN. */
export type InferenceRequest = {
  readonly model: string;
  readonly isStream: boolean;
  readonly includeUsage: boolean;
  readonly choiceCount: number;
  /** The caller's limit; NaN when none was given. */
  readonly maxTokens: number;
  readonly ignoreEos: boolean;
  readonly promptTokens: number;
  /** Number of messages, or prompts; -1 when the field is missing. */
  readonly inputCount: number;
  /** Null: the model writes words. */
  readonly forced: ForcedOutput | null;
  /** As it came, for answers that repeat parts of it. */
  readonly body: JsonObject;
};

export function readInferenceRequest(body: JsonObject): InferenceRequest {
  const options = isObject(body["stream_options"]) ? body["stream_options"] : {};
  const input = body["messages"] ?? body["prompt"] ?? body["input"] ?? body["documents"] ?? body["inputs"];
  const list = Array.isArray(input) ? input : input === undefined || input === null ? undefined : [input];
  return {
    model: typeof body["model"] === "string" ? body["model"] : "",
    isStream: body["stream"] === true,
    includeUsage: options["include_usage"] === true,
    choiceCount: numberOr(body["n"], 1),
    maxTokens: numberOr(
      body["max_completion_tokens"],
      numberOr(body["max_tokens"], numberOr(body["max_output_tokens"], NaN)),
    ),
    ignoreEos: body["ignore_eos"] === true,
    promptTokens: promptTokens(list ?? []),
    inputCount: list === undefined ? -1 : list.length,
    forced: readForcedOutput(body),
    body,
  };
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}

function promptTokens(items: readonly unknown[]): number {
  if (items.length > 0 && items.every((item) => typeof item === "number")) return items.length;
  let tokens = 0;
  for (const item of items) {
    if (typeof item === "string") tokens += countTokens(item);
    else if (Array.isArray(item)) tokens += item.length;
    // Four tokens for the role and the template around a message.
    else if (isObject(item)) tokens += 4 + contentTokens(item["content"]);
  }
  return tokens;
}

function contentTokens(content: unknown): number {
  if (typeof content === "string") return countTokens(content);
  if (!Array.isArray(content)) return 0;
  let tokens = 0;
  for (const part of content) {
    if (isObject(part) && typeof part["text"] === "string") tokens += countTokens(part["text"]);
  }
  return tokens;
}
