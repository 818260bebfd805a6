/** What an answer of each endpoint must have, so that reading it as its type says never fails on a missing member. */
import type { ChatAnswer, CompletionAnswer, EmbeddingAnswer, ModelAnswer, ModelList } from "./answers.ts";
import type { Decision } from "./decision.ts";
import { isObject, type JsonObject } from "./json-object.ts";
import { type AnswerShape, hidden, type WireOf } from "./read-answer.ts";

export const chatShape: AnswerShape<ChatAnswer> = {
  name: "JSON with choices",
  matches: (json): json is JsonObject & WireOf<ChatAnswer> =>
    isListOf(json["choices"], (each) => isObject(each["message"])),
  complete: (wire, facts) => hidden(wire, { ...facts, text: textIn(wire.choices[0]?.message.content) }),
};

export const completionShape: AnswerShape<CompletionAnswer> = {
  name: "JSON with choices",
  matches: (json): json is JsonObject & WireOf<CompletionAnswer> => isListOf(json["choices"], () => true),
  complete: (wire, facts) => hidden(wire, { ...facts, text: textIn(wire.choices[0]?.text) }),
};

export const embeddingShape: AnswerShape<EmbeddingAnswer> = {
  name: "JSON with embeddings",
  matches: (json): json is JsonObject & WireOf<EmbeddingAnswer> =>
    isListOf(json["data"], ({ embedding }) => Array.isArray(embedding) || typeof embedding === "string"),
  complete: hidden,
};

export const modelListShape: AnswerShape<ModelList> = {
  name: "JSON with a list of models",
  matches: (json): json is JsonObject & WireOf<ModelList> => isListOf(json["data"], ({ id }) => typeof id === "string"),
  complete: hidden,
};

export const modelShape: AnswerShape<ModelAnswer> = {
  name: "JSON with a model",
  matches: (json): json is JsonObject & WireOf<ModelAnswer> => typeof json["id"] === "string",
  complete: hidden,
};

export const decisionShape: AnswerShape<Decision> = {
  name: "JSON with a decision",
  matches: (json): json is JsonObject & WireOf<Decision> =>
    typeof json["decision"] === "string" && isObject(json["choice"]),
  complete: hidden,
};

function isListOf(value: unknown, matches: (item: JsonObject) => boolean): boolean {
  return Array.isArray(value) && value.every((item) => isObject(item) && matches(item));
}

function textIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}
