/** Errors as engines write them, read into one shape: an HTTP error's body, or an error as first event of a stream. */

import { type AdapterVerdict, classifyStatus } from "@zml/engine";
import type { Answer } from "./adapter.ts";
import { asObject, type Json, parseJson, textOf } from "./json.ts";

/** Bytes of an error body that are read. Error bodies are short; a page of HTML says nothing more further down. */
const ERROR_BYTES_MAX = 16_384;

/** An error that a node reported. */
export interface NodeError {
  /** HTTP status, or the code inside an event; NaN: an event without one. */
  readonly status: number;
  /** `type` or `error_type`; "": none. */
  readonly type: string;
  /** A textual `code`; "": none. */
  readonly code: string;
  readonly param: string;
  /** Message, or the text of a body that isn't JSON. */
  readonly message: string;
  /** The error stands in the stream of a 200. */
  readonly isEvent: boolean;
}

/** The error that an answer reports, null when it reports none. */
export function errorOf(answer: Answer): NodeError | null {
  if (answer.status >= 400) {
    const text = answer.body.toString("utf8", 0, ERROR_BYTES_MAX);
    const error = fromJson(asObject(parseJson(text)), answer.status);
    return error ?? { status: answer.status, type: "", code: "", param: "", message: text, isEvent: false };
  }
  if (answer.firstEvent !== null) return fromEvent(answer.firstEvent.data, answer.firstEvent.event);
  // A 200 whose whole body is an error; the prefix keeps ordinary answers from being parsed here.
  if (
    answer.body.length > ERROR_BYTES_MAX ||
    !/^\s*\{\s*"(error|object|message)"/.test(answer.body.toString("latin1", 0, 64))
  ) {
    return null;
  }
  const body = asObject(parseJson(answer.body.toString("utf8")));
  const error = isErrorObject(body) ? fromJson(body, Number.NaN) : null;
  return error === null ? null : { ...error, status: codeOf(body) };
}

function fromEvent(data: string, event: string | null): NodeError | null {
  const isNamedError = event === "error" || event === "response.failed";
  // an ordinary event is told without parsing it
  if (!isNamedError && !data.includes('"error"') && !data.includes('"response.failed"')) return null;
  const body = asObject(parseJson(data));
  const failed = body?.["type"] === "response.failed" || event === "response.failed";
  const holder = failed ? (asObject(body?.["response"]) ?? body) : body;
  if (!isNamedError && !failed && !isErrorObject(holder)) return null;
  const error = fromJson(holder, Number.NaN);
  return {
    status: codeOf(holder),
    type: error?.type ?? "",
    code: error?.code ?? "",
    param: error?.param ?? "",
    message: error?.message ?? "",
    isEvent: true,
  };
}

function isErrorObject(body: Json | null): boolean {
  if (body === null) return false;
  const { error } = body;
  return (
    (typeof error === "object" && error !== null) ||
    (typeof error === "string" && error !== "") ||
    body["object"] === "error" ||
    body["type"] === "error"
  );
}

/** `{error: {…}}`, `{error: "…", error_type}`, `{object: "error", …}`, `{detail}`: what each engine generation writes. */
function fromJson(body: Json | null, status: number): NodeError | null {
  if (body === null) return null;
  const inner = asObject(body["error"]) ?? body;
  const detail = typeof body["detail"] === "string" ? body["detail"] : "";
  return {
    status,
    type: textOf(inner["type"]) || textOf(body["error_type"]),
    code: textOf(inner["code"]),
    param: textOf(inner["param"]),
    message: textOf(inner["message"]) || textOf(inner["error"]) || detail,
    isEvent: false,
  };
}

function codeOf(body: Json | null): number {
  const inner = asObject(body?.["error"]) ?? body;
  const code = inner?.["code"] ?? inner?.["http_status_code"] ?? inner?.["status_code"];
  const value = typeof code === "string" && /^[45]\d\d$/.test(code) ? Number(code) : code;
  return typeof value === "number" && value >= 400 && value < 600 ? value : Number.NaN;
}

/**
 * The class where the engine's words added nothing: null for an answer whose status says it. Inside a 200 the code in
 * the error stands in for the status; an error without one is the node's failure.
 */
export function verdictWithoutWords(answer: Answer, error: NodeError): AdapterVerdict | null {
  if (answer.status >= 400) return null;
  return Number.isNaN(error.status) ? "failure" : classifyStatus(error.status);
}

/**
 * True when a plain answer says that the node gave up. In JSON a quote inside a string is escaped, so these bytes are
 * a member and its value, never text of the model.
 */
export function isAborted(answer: Answer): boolean {
  const text = answer.firstEvent === null ? answer.body.toString("latin1") : answer.firstEvent.data;
  return /"finish_reason"\s*:\s*"abort"/.test(text);
}
