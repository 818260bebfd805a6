/** Error answers and error events → the typed error, with a text that says what to do. */
import type { ReceivedRouting } from "@zml/protocol/wire";
import { mediaTypeOf, requestIdOf, routingOf, shouldRetryOf } from "./answer-head.ts";
import {
  APIStatusError,
  type APIStatusErrorDetails,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  RequestTimeoutError,
  SaturationError,
  UpstreamError,
} from "./errors.ts";
import { isObject } from "./json-object.ts";
import type { BodyText } from "./read-body.ts";
import { askedWaitMs } from "./retry.ts";
import type { Port } from "./settings.ts";

/** The longest text of a server that goes into a message, UTF-16 units. */
const MAX_SERVER_TEXT = 1000;
/** The shortest key that is taken for a secret. */
const MIN_SECRET = 8;

/** An answer with an error status. `body` is `null` when it could not be read. */
export function errorOfAnswer(
  response: Response,
  body: BodyText | null,
  context: { readonly url: string; readonly port: Port; readonly dateMs: number },
): APIStatusError {
  const { status, headers } = response;
  const json = parseJson(body?.text);
  const told = errorMembers(json);
  const requestId = requestIdOf(headers);
  const waitMs = askedWaitMs(headers, context.dateMs);
  const details: APIStatusErrorDetails = {
    ...told,
    status,
    body: json,
    routing: routingOf(headers),
    requestId,
    retryAfter: waitMs === undefined ? undefined : waitMs / 1000,
    shouldRetry: shouldRetryOf(headers),
  };
  const code = told.code === undefined ? "" : ` (${told.code})`;
  const what = told.message ?? describeBody(response, body);
  // a text that comes with a code of its own says what to do, as all of the gateway's do
  const hasAdvice = told.message !== undefined && typeof told.code === "string";
  const advice = hasAdvice ? "" : `: ${adviceOf(response, told.message !== undefined)}`;
  // people give the key of one port and wonder at the other
  const key = status === 401 || status === 403 ? `; the key of this port is ${context.port.keyOption}` : "";
  const wait = details.retryAfter === undefined ? "" : `; the server asks to wait ${details.retryAfter} s`;
  const id = requestId === undefined ? "" : `; request id ${requestId}`;
  return make(
    hide(`${context.url} answered ${status}${code}: ${what}${advice}${key}${wait}${id}`, context.port),
    details,
  );
}

/** An error event in a stream whose head was 200. `json` is its data, a text when it is no JSON. */
export function errorOfEvent(
  json: unknown,
  context: {
    readonly url: string;
    readonly port: Port;
    readonly events: number;
    readonly routing: ReceivedRouting | null;
    readonly requestId: string | undefined;
  },
): APIStatusError {
  const told: ToldMembers = typeof json === "string" ? { message: shorten(json) } : errorMembers(json);
  const { routing, requestId, events } = context;
  const code = told.code === undefined ? "" : ` (${told.code})`;
  const id = requestId === undefined ? "" : `; request id ${requestId}`;
  const text =
    `the stream of ${context.url} told of an error${code} after ${events} events: ${told.message ?? "without a text"}: ` +
    `what came before is not the whole answer, ask again${id}`;
  const status = statusOfEvent(told);
  return make(hide(text, context.port), { ...told, status, body: json, routing, requestId });
}

/**
 * The status that an error event would have as an answer: an event has none. By its type, and by its code where an engine
 * puts the status there; 200, that of the stream's head, when neither says.
 */
function statusOfEvent({ code, type }: ToldMembers): number {
  if (typeof code === "number" && code >= 400 && code <= 599) return code;
  switch (type) {
    case "invalid_request_error":
      return 400;
    case "authentication_error":
      return 401;
    case "permission_error":
      return 403;
    case "not_found_error":
      return 404;
    case "rate_limit_error":
      return 429;
    case "server_error":
    case "api_error":
      return 500;
    case "upstream_error":
      return 502;
    case "saturation":
    case "overloaded_error":
      return 503;
    case "timeout_error":
      return 504;
    default:
      return 200;
  }
}

function make(message: string, details: APIStatusErrorDetails): APIStatusError {
  const { status, type } = details;
  if (status === 401) return new AuthenticationError(message, details);
  if (status === 403) return new PermissionDeniedError(message, details);
  if (status === 404) return new NotFoundError(message, details);
  if (status === 408) return new RequestTimeoutError(message, details);
  if (status === 429) return new RateLimitError(message, details);
  if (status >= 400 && status < 500) return new BadRequestError(message, details);
  if (status === 503 && type === "saturation") return new SaturationError(message, details);
  if (status >= 500 && type === "upstream_error") return new UpstreamError(message, details);
  if (status >= 500) return new InternalServerError(message, details);
  return new APIStatusError(message, details);
}

interface ToldMembers {
  readonly message?: string | undefined;
  readonly code?: string | number | undefined;
  readonly type?: string | undefined;
  readonly param?: string | undefined;
}

/** What an error body tells: OpenAI's and Anthropic's shape, and those of engines and frameworks behind older gateways. */
function errorMembers(json: unknown): ToldMembers {
  if (!isObject(json)) return {};
  const error = isObject(json["error"]) ? json["error"] : json;
  const message = text(error["message"]) ?? text(json["error"]) ?? text(json["detail"]);
  const code = error["code"];
  return {
    message: message === undefined ? undefined : shorten(message),
    code: typeof code === "string" || typeof code === "number" ? code : undefined,
    type: text(error["type"]) ?? text(json["error_type"]),
    param: text(error["param"]),
  };
}

function describeBody(response: Response, body: BodyText | null): string {
  const type = mediaTypeOf(response.headers) ?? "a body without content-type";
  if (body === null) return `${type} that could not be read`;
  if (body.bytes === 0) return "no body";
  return `${type} of ${body.isCut ? "more than " : ""}${body.bytes} bytes, which is no error of ZML`;
}

function adviceOf(response: Response, hasText: boolean): string {
  const { status } = response;
  if (!hasText) return "something between may have answered in place of ZML: check the base URL and the proxies";
  if (status === 401) return "check the key";
  if (status === 403) return "use a key that may do this";
  if (status === 404) return "check the name and the base URL";
  if (status === 408 || status === 429 || status >= 500) return "try again later";
  return "change the request";
}

/** A server that echoes the key does not get it into a message. */
function hide(message: string, { key = "" }: Port): string {
  // a key such as "none" is no secret, and may be a word of the text
  return key.length < MIN_SECRET ? message : message.replaceAll(key, "[key]");
}

function shorten(message: string): string {
  return message.length > MAX_SERVER_TEXT ? `${message.slice(0, MAX_SERVER_TEXT)}…` : message;
}

function parseJson(source: string | undefined): unknown {
  if (source === undefined) return undefined;
  try {
    return JSON.parse(source);
  } catch {
    return undefined;
  }
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
