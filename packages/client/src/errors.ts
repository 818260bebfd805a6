/**
 * Every error that the client throws, but for the reason of a caller's own `AbortSignal`, which is passed on as it is.
 *
 * ```text
 * ZMLError
 *   ConfigurationError        an argument or a setting is wrong; nothing was sent
 *   APIConnectionError        no answer came
 *     APITimeoutError         not within timeoutMs
 *     TLSError                the certificate or the handshake
 *   APIStatusError            an answer with an error status, or an error event in a stream
 *     BadRequestError           400 and the other 4xx
 *     AuthenticationError       401
 *     PermissionDeniedError     403
 *     NotFoundError             404
 *     RequestTimeoutError       408
 *     RateLimitError            429
 *     SaturationError           503 of type "saturation"
 *     UpstreamError             5xx of type "upstream_error"
 *     InternalServerError       the other 5xx
 *   ResponseFormatError       an answer that ZML doesn't give: HTML, broken JSON, JSON of another shape, a redirect
 *   StreamInterruptedError    a stream ended before its end
 * ```
 */
import type { ReceivedRouting } from "@zml/protocol/wire";

/** Base of them all. */
export class ZMLError extends Error {
  override get name(): string {
    return "ZMLError";
  }
}

/** An argument, an environment variable or a setting is wrong. Nothing was sent. */
export class ConfigurationError extends ZMLError {
  override get name(): string {
    return "ConfigurationError";
  }
}

/** No answer came: refused, reset, no such host. `cause` is what the platform's fetch said. */
export class APIConnectionError extends ZMLError {
  override get name(): string {
    return "APIConnectionError";
  }
}

/** The answer was not complete within `timeoutMs`, or a stream was silent for that long. */
export class APITimeoutError extends APIConnectionError {
  override get name(): string {
    return "APITimeoutError";
  }
}

/** The TLS handshake failed: a certificate that is not trusted, or a port that doesn't speak TLS. Browsers don't tell. */
export class TLSError extends APIConnectionError {
  override get name(): string {
    return "TLSError";
  }
}

/** What is known of an answer with an error status. */
export interface APIStatusErrorDetails {
  readonly status: number;
  readonly code?: string | number | undefined;
  readonly type?: string | undefined;
  readonly param?: string | undefined;
  readonly body?: unknown;
  readonly routing?: ReceivedRouting | null;
  readonly requestId?: string | undefined;
  readonly retryAfter?: number | undefined;
  readonly shouldRetry?: boolean | undefined;
}

/** An answer with an error status, or an error event in a stream. */
export class APIStatusError extends ZMLError {
  override get name(): string {
    return "APIStatusError";
  }
  /** HTTP status. Of an error event: what its type stands for, else 200, that of the stream's head. */
  readonly status: number;
  /** `error.code`: stable, what programs should look at. A number from some engines. */
  readonly code: string | number | undefined;
  /** `error.type`. */
  readonly type: string | undefined;
  /** `error.param`: the member or header that is wrong. */
  readonly param: string | undefined;
  /** The answer's JSON; `undefined` when it was none. Not enumerable, so that no log shows it by accident. */
  declare readonly body: unknown;
  /** Where the request went; `null` when the answer did not say. */
  readonly routing: ReceivedRouting | null;
  readonly requestId: string | undefined;
  /** What the server asked to wait, s. */
  readonly retryAfter: number | undefined;
  /** `x-should-retry`; `undefined` when absent. `false`: the gateway has tried everything. */
  readonly shouldRetry: boolean | undefined;

  constructor(message: string, details: APIStatusErrorDetails) {
    super(message);
    this.status = details.status;
    this.code = details.code;
    this.type = details.type;
    this.param = details.param;
    Object.defineProperty(this, "body", { value: details.body });
    this.routing = details.routing ?? null;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
    this.shouldRetry = details.shouldRetry;
  }
}

/** 400, and every 4xx without a class of its own (405, 409, 413, 415, 417, 422, 431, …): the request is wrong. */
export class BadRequestError extends APIStatusError {
  override get name(): string {
    return "BadRequestError";
  }
}

/** 401: no key, or one that the gateway doesn't know. */
export class AuthenticationError extends APIStatusError {
  override get name(): string {
    return "AuthenticationError";
  }
}

/** 403: the key lacks a scope. */
export class PermissionDeniedError extends APIStatusError {
  override get name(): string {
    return "PermissionDeniedError";
  }
}

/** 404: no such model, decision or path. */
export class NotFoundError extends APIStatusError {
  override get name(): string {
    return "NotFoundError";
  }
}

/** 408: the request arrived too slowly. */
export class RequestTimeoutError extends APIStatusError {
  override get name(): string {
    return "RequestTimeoutError";
  }
}

/** 429: a limit of the caller is reached. */
export class RateLimitError extends APIStatusError {
  override get name(): string {
    return "RateLimitError";
  }
}

/** Why a family could not take the request. */
export interface SaturatedFamily {
  readonly family: string;
  /** A word of the engine's list of exclusions, such as `at_capacity`. */
  readonly reason: string;
  /** How many of its nodes were left out for that reason. */
  readonly nodes: number;
}

/** 503 of type `saturation`: no node has room now. `retryAfter` says when there may be. */
export class SaturationError extends APIStatusError {
  override get name(): string {
    return "SaturationError";
  }
  /** Why each family of the policy could not take it; empty when the gateway did not say. */
  readonly families: readonly SaturatedFamily[];

  constructor(message: string, details: APIStatusErrorDetails) {
    super(message, details);
    this.families = familiesOf(details.body);
  }
}

/** 502 and 504 of type `upstream_error`: the nodes failed; the gateway has tried those that made sense. */
export class UpstreamError extends APIStatusError {
  override get name(): string {
    return "UpstreamError";
  }
}

/** The other 5xx. */
export class InternalServerError extends APIStatusError {
  override get name(): string {
    return "InternalServerError";
  }
}

/** What is known of an answer that can't be read. */
export interface ResponseFormatErrorDetails {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly routing?: ReceivedRouting | null;
  readonly requestId?: string | undefined;
  readonly cause?: unknown;
}

/** An answer that ZML doesn't give: something in between may have answered in its place. Never holds the body. */
export class ResponseFormatError extends ZMLError {
  override get name(): string {
    return "ResponseFormatError";
  }
  readonly status: number;
  readonly contentType: string | undefined;
  readonly routing: ReceivedRouting | null;
  readonly requestId: string | undefined;

  constructor(message: string, details: ResponseFormatErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.status = details.status;
    this.contentType = details.contentType;
    this.routing = details.routing ?? null;
    this.requestId = details.requestId;
  }
}

/** What is known of a stream that broke off. */
export interface StreamInterruptedErrorDetails {
  readonly events: number;
  readonly text: string;
  readonly routing: ReceivedRouting | null;
  readonly requestId: string | undefined;
  readonly cause?: unknown;
}

/** A stream ended before its end: the connection broke, or neither `[DONE]` nor a finish reason for every choice came. */
export class StreamInterruptedError extends ZMLError {
  override get name(): string {
    return "StreamInterruptedError";
  }
  /** How many events came before. */
  readonly events: number;
  /** The text of the first choice as far as it came. Not enumerable, so that no log shows it by accident. */
  declare readonly text: string;
  readonly routing: ReceivedRouting | null;
  readonly requestId: string | undefined;

  constructor(message: string, details: StreamInterruptedErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.events = details.events;
    Object.defineProperty(this, "text", { value: details.text });
    this.routing = details.routing;
    this.requestId = details.requestId;
  }
}

function familiesOf(body: unknown): SaturatedFamily[] {
  const families = (body as { error?: { families?: unknown } } | null | undefined)?.error?.families;
  if (!Array.isArray(families)) return [];
  return families.filter(
    (entry): entry is SaturatedFamily =>
      typeof entry?.family === "string" && typeof entry.reason === "string" && typeof entry.nodes === "number",
  );
}
