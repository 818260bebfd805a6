/** What an answer of each endpoint must have, so that reading it as its type says never fails on a missing member. */
import { isObject } from "./json-object.ts";
import type { AnswerShape } from "./read-answer.ts";

export const chatShape: AnswerShape = {
  name: "JSON with choices",
  matches: ({ choices }) =>
    Array.isArray(choices) && choices.every((each) => isObject(each) && isObject(each["message"])),
  textOf: ({ choices }) => textIn((choices as { message: { content?: unknown } }[])[0]?.message.content),
};

export const completionShape: AnswerShape = {
  name: "JSON with choices",
  matches: ({ choices }) => Array.isArray(choices) && choices.every(isObject),
  textOf: ({ choices }) => textIn((choices as { text?: unknown }[])[0]?.text),
};

export const embeddingShape: AnswerShape = {
  name: "JSON with embeddings",
  matches: ({ data }) => Array.isArray(data) && data.every((each) => isObject(each) && given(each["embedding"])),
};

export const modelListShape: AnswerShape = {
  name: "JSON with a list of models",
  matches: ({ data }) => Array.isArray(data) && data.every((each) => isObject(each) && typeof each["id"] === "string"),
};

export const modelShape: AnswerShape = { name: "JSON with a model", matches: ({ id }) => typeof id === "string" };

export const decisionShape: AnswerShape = {
  name: "JSON with a decision",
  matches: ({ decision, choice }) => typeof decision === "string" && isObject(choice),
};

function given(value: unknown): boolean {
  return Array.isArray(value) || typeof value === "string";
}

function textIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}
