/**
 * The one error table. A code is stable: callers, SDKs, metrics and documentation use it, so it is never renamed and
 * never gets another meaning. Texts may change: what failed, the value, the limit, what to do, in lower case, with no
 * secret and no prompt text.
 */

/** Where the cause lies. */
export type ErrorSide = "caller" | "gateway" | "upstream";

interface ErrorRow {
  /** `error.type` of OpenAI's shape. */
  readonly type: string;
  /** `error.type` of Anthropic's shape. */
  readonly anthropicType: string;
  readonly status: number;
  readonly side: ErrorSide;
  /** Whether the same request may be sent again: nothing was generated, or nothing that counts, and it may succeed. */
  readonly retry: boolean;
  // Each row has its own parameters; `never` is the one argument type that all of them take.
  readonly message: (parameters: never) => string;
}

const invalid = {
  type: "invalid_request_error",
  anthropicType: "invalid_request_error",
  side: "caller",
  retry: false,
} as const;
const unauthorized = { type: "authentication_error", anthropicType: "authentication_error", status: 401 } as const;
const saturation = {
  type: "saturation",
  anthropicType: "overloaded_error",
  status: 503,
  side: "gateway",
  retry: true,
} as const;
const upstream = { type: "upstream_error", anthropicType: "api_error", side: "upstream", retry: false } as const;

export const ERRORS = table({
  // The body.
  invalid_json: {
    ...invalid,
    status: 400,
    message: ({ at, expected }: { at?: number; expected?: string }) =>
      `the body is not JSON${at === undefined ? "" : ` (byte ${at}${expected === undefined ? "" : `: expected ${expected}`})`}: send one JSON object in UTF-8 without a byte order mark, and nothing after it`,
  },
  body_empty: { ...invalid, status: 400, message: () => "the body is empty: send one JSON object" },
  body_not_object: {
    ...invalid,
    status: 400,
    message: () => 'the body is JSON but no object: send an object such as {"model": …}',
  },
  body_too_large: {
    ...invalid,
    anthropicType: "request_too_large",
    status: 413,
    message: ({ limitBytes }: { limitBytes: number }) =>
      `the body is larger than ${limitBytes} bytes: send less, or raise limits.body_bytes`,
  },
  body_budget_exhausted: {
    type: "server_error",
    anthropicType: "overloaded_error",
    status: 503,
    side: "gateway",
    retry: true,
    message: ({ limitBytes }: { limitBytes: number }) =>
      `the request bodies that are held reached ${limitBytes} bytes: try again, or raise limits.body_bytes_total`,
  },
  body_timeout: {
    ...invalid,
    anthropicType: "timeout_error",
    status: 408,
    retry: true,
    message: ({ limitMs }: { limitMs: number }) => `the body did not arrive within ${limitMs} ms: send it faster`,
  },
  unsupported_encoding: {
    ...invalid,
    status: 415,
    message: ({ encoding, supported }: { encoding: string; supported: readonly string[] }) =>
      `content-encoding ${quoted(encoding)} is not supported: use ${supported.join(", ")} or none`,
  },
  invalid_encoding: {
    ...invalid,
    status: 400,
    message: ({ encoding }: { encoding: string }) =>
      `the body is not valid ${encoding}: encode it as content-encoding says, or leave that header out`,
  },

  // Routing fields.
  duplicate_field: {
    ...invalid,
    status: 400,
    message: ({ field }: { field: string }) => `${quoted(field)} stands more than once in the body: send it once`,
  },
  missing_model: { ...invalid, status: 400, message: () => 'the body has no "model": name the model to use' },
  invalid_model: {
    ...invalid,
    status: 400,
    message: () => '"model" is no text of 1 to 256 bytes without control characters: send the name of a model',
  },
  invalid_field: {
    ...invalid,
    status: 400,
    message: ({ field, expected }: { field: string; expected: string }) =>
      `${quoted(field)} has the wrong type: send ${expected}`,
  },
  model_not_found: {
    ...invalid,
    anthropicType: "not_found_error",
    status: 404,
    message: ({ model, known }: { model: string; known: readonly string[] }) =>
      `there is no model ${quoted(model)}: ${listed("models", known)}`,
  },
  policy_not_found: {
    ...invalid,
    status: 400,
    message: ({ policy, known }: { policy: string; known: readonly string[] }) =>
      `there is no policy ${quoted(policy)}: ${listed("policies", known)}`,
  },
  family_not_found: {
    ...invalid,
    status: 400,
    message: ({ family, known }: { family: string; known: readonly string[] }) =>
      `there is no accelerator family ${quoted(family)}: ${listed("families", known)}`,
  },

  // What no node that serves the model can do.
  context_length_exceeded: {
    ...invalid,
    status: 400,
    // clients tell this error by "prompt is too long" (Anthropic's) and "this model's maximum context length is" (OpenAI's)
    message: ({ model, atLeast, largest }: { model: string; atLeast: number; largest: number }) =>
      `the prompt is too long: this model's maximum context length is ${largest} tokens on the nodes that serve ${quoted(model)}, and the prompt has at least ${atLeast}: send less`,
  },
  images_unsupported: {
    ...invalid,
    status: 400,
    message: ({ model }: { model: string }) =>
      `no node that serves ${quoted(model)} reads images: take them out, or name a model that does`,
  },
  endpoint_unsupported: {
    ...invalid,
    anthropicType: "not_found_error",
    status: 404,
    message: ({ model, path }: { model: string; path: string }) =>
      `no node that serves ${quoted(model)} answers ${path}: use another endpoint, or name a model that does`,
  },

  // Access and routes.
  missing_api_key: {
    ...invalid,
    ...unauthorized,
    message: () => "no API key: send it as authorization: Bearer KEY",
  },
  invalid_api_key: {
    ...invalid,
    ...unauthorized,
    message: ({ fault }: { fault: KeyFault }) => KEY_FAULTS[fault],
  },
  expired_api_key: {
    ...invalid,
    ...unauthorized,
    message: ({ key, expiredAt }: { key: string; expiredAt: string }) =>
      `the key ${quoted(key)} expired at ${expiredAt}: use a new one`,
  },
  key_scope: {
    ...invalid,
    type: "permission_error",
    anthropicType: "permission_error",
    status: 403,
    message: ({ key, scope }: { key: string; scope: string }) =>
      `the key ${quoted(key)} lacks the scope ${quoted(scope)}: use a key that has it`,
  },
  model_not_allowed: {
    ...invalid,
    type: "permission_error",
    anthropicType: "permission_error",
    status: 403,
    message: ({ key, model, allowed }: { key: string; model: string; allowed: readonly string[] }) =>
      `the key ${quoted(key)} may not use the model ${quoted(model)}: ${allowedOnly("models", allowed)}`,
  },
  policy_not_allowed: {
    ...invalid,
    type: "permission_error",
    anthropicType: "permission_error",
    status: 403,
    message: ({ key, policy, allowed }: { key: string; policy: string; allowed: readonly string[] }) =>
      `the key ${quoted(key)} may not use the policy ${quoted(policy)}: ${allowedOnly("policies", allowed)}`,
  },

  // Limits of a key or of its account. Clients know these two codes from OpenAI.
  rate_limit_exceeded: {
    type: "requests",
    anthropicType: "rate_limit_error",
    status: 429,
    side: "caller",
    retry: true,
    message: ({ owner, what, limit, used, requested, retry }: RateParameters) =>
      `rate limit reached for ${owner} on ${what}: limit ${limit}, used ${used}, requested ${requested}: ${retry === null ? "the request alone is above the limit: send less" : `try again in ${retry}`}`,
  },
  insufficient_quota: {
    type: "insufficient_quota",
    anthropicType: "rate_limit_error",
    status: 429,
    side: "caller",
    retry: false,
    message: ({ owner, period, limit, used, isHeld, resetAt }: QuotaParameters) =>
      isHeld
        ? `what is left of the budget of ${owner} is held by requests that run (${usd(used)} of ${usd(limit)} USD this ${period}): try again when they have ended`
        : `the budget of ${owner} is used up: ${usd(used)} of ${usd(limit)} USD this ${period}: it begins anew at ${resetAt}`,
  },
  not_found: {
    ...invalid,
    anthropicType: "not_found_error",
    status: 404,
    message: ({ path }: { path: string }) => `there is nothing at ${quoted(path)}: check the base URL and the path`,
  },
  method_not_allowed: {
    ...invalid,
    status: 405,
    message: ({ method, allow }: { method: string; allow: readonly string[] }) =>
      `${quoted(method)} is not allowed here: use ${allow.join(" or ")}`,
  },
  header_too_large: {
    ...invalid,
    anthropicType: "request_too_large",
    status: 431,
    message: ({ limitBytes }: { limitBytes: number }) =>
      `the request head is larger than ${limitBytes} bytes: send less, or raise limits.header_bytes`,
  },
  bad_request: {
    ...invalid,
    status: 400,
    message: () => "this is no valid HTTP request: check the client or the proxy in between",
  },
  expectation_failed: {
    ...invalid,
    status: 417,
    message: ({ expect }: { expect: string }) =>
      `expect: ${quoted(expect)} can't be met: send 100-continue, or leave that header out`,
  },

  // No room.
  queue_saturated: {
    ...saturation,
    message: ({ model }: { model: string }) =>
      `every healthy node that serves ${quoted(model)} is full: try again after Retry-After`,
  },
  no_node_available: {
    ...saturation,
    message: ({ model, policy }: { model: string; policy?: string }) =>
      `no node that serves ${quoted(model)}${policy === undefined ? "" : ` in a family of policy ${quoted(policy)}`} is available now: try again after Retry-After`,
  },
  queue_full: {
    ...saturation,
    message: ({ limit }: { limit: string }) =>
      `every node is full and so is the queue (${limit}): try again after Retry-After`,
  },
  queue_timeout: {
    ...saturation,
    message: ({ waitedMs }: { waitedMs: number }) =>
      `no node had room within ${waitedMs} ms (max_queue_ms): try again after Retry-After`,
  },
  shutting_down: {
    type: "server_error",
    anthropicType: "overloaded_error",
    status: 503,
    side: "gateway",
    retry: true,
    message: () => "this gateway is shutting down: try again on a new connection",
  },

  // Attempts.
  upstream_failed: {
    ...upstream,
    status: 502,
    message: ({ attempts, cause }: { attempts: number; cause: string }) =>
      `all ${attempts} attempts failed, the last with: ${cause}`,
  },
  upstream_timeout: {
    ...upstream,
    anthropicType: "timeout_error",
    status: 504,
    message: ({ attempts, limit, limitMs }: { attempts: number; limit: string; limitMs: number }) =>
      `all ${attempts} attempts failed, the last by reaching ${limit} (${limitMs} ms)`,
  },
  stream_interrupted: {
    ...upstream,
    // As the head has been sent, no caller sees this status; records and metrics do.
    status: 502,
    message: ({ cause }: { cause: string }) => `the answer broke off after it had begun: ${cause}`,
  },
  request_timeout: {
    type: "timeout_error",
    anthropicType: "timeout_error",
    status: 504,
    side: "gateway",
    retry: false,
    message: ({ limitMs }: { limitMs: number }) => `the request took longer than timeouts.total_ms (${limitMs} ms)`,
  },
  internal_error: {
    type: "server_error",
    anthropicType: "api_error",
    status: 500,
    side: "gateway",
    retry: false,
    message: ({ requestId }: { requestId: string }) =>
      `the gateway failed in a way that it does not know: report the request id ${requestId}`,
  },
});

/** A code of the table. */
export type ErrorCode = keyof typeof ERRORS;

/** What the text of a code needs. */
export type ErrorParameters<C extends ErrorCode> = Parameters<(typeof ERRORS)[C]["message"]>;

/** All codes, in the table's order. */
export const ERROR_CODES = Object.keys(ERRORS).filter(isErrorCode);

/** Whether a text is a code of the table. */
export function isErrorCode(value: string): value is ErrorCode {
  return Object.hasOwn(ERRORS, value);
}

/** Whose shape an error body has: Anthropic's on `/v1/messages`, OpenAI's elsewhere. */
export type ErrorShape = "openai" | "anthropic";

/** Why a family could not take the request, in the body of a saturation error. */
export interface SaturatedFamily {
  readonly family: string;
  readonly reason: string;
  /** How many of its nodes were left out for that reason. */
  readonly nodes: number;
}

export interface OpenAiErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: ErrorCode;
    readonly [extra: string]: unknown;
  };
}

export interface AnthropicErrorBody {
  readonly type: "error";
  readonly error: {
    readonly type: string;
    readonly message: string;
    /** Anthropic has no codes; ours stands here too, since it is what callers can rely on. */
    readonly code: ErrorCode;
    readonly [extra: string]: unknown;
  };
}

export interface ErrorDetails {
  /** From the row's `message`. */
  readonly message: string;
  /** In the place of the row's type in OpenAI's shape, where one code stands for several: what ran out. */
  readonly type?: string;
  /** The member of the body, or the header, that is wrong. */
  readonly param?: string | null;
  /** Further members of `error`, such as `{ families }`. They can't replace the fixed ones. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** The body of an error answer, or the data of an error event in a stream. */
export function errorBody(shape: "openai", code: ErrorCode, details: ErrorDetails): OpenAiErrorBody;
export function errorBody(shape: "anthropic", code: ErrorCode, details: ErrorDetails): AnthropicErrorBody;
export function errorBody(
  shape: ErrorShape,
  code: ErrorCode,
  details: ErrorDetails,
): OpenAiErrorBody | AnthropicErrorBody;
export function errorBody(
  shape: ErrorShape,
  code: ErrorCode,
  { message, type, param = null, extra = {} }: ErrorDetails,
): OpenAiErrorBody | AnthropicErrorBody {
  const row = ERRORS[code];
  if (shape === "anthropic") {
    return { type: "error", error: { ...extra, type: row.anthropicType, message, code } };
  }
  return { error: { ...extra, message, type: type ?? row.type, param, code } };
}

/** What a caller sent goes into a text cut and escaped: it may be a whole prompt in the wrong place. */
function quoted(value: string): string {
  return JSON.stringify(value.length > 128 ? `${value.slice(0, 128)}…` : value);
}

/** A limit per minute, or of requests at one time. */
interface RateParameters {
  /** The key, or the account, with its name. */
  readonly owner: string;
  readonly what: string;
  readonly limit: number;
  readonly used: number;
  readonly requested: number;
  /** Null: it never fits. */
  readonly retry: string | null;
}

interface QuotaParameters {
  readonly owner: string;
  readonly period: "day" | "month";
  /** USD. */
  readonly limit: number;
  readonly used: number;
  /** What is left is held by requests that run. */
  readonly isHeld: boolean;
  readonly resetAt: string;
}

/** To a hundredth of a cent. */
function usd(amount: number): string {
  return String(Math.round(amount * 10_000) / 10_000);
}

/** What is wrong with a key that was sent. */
const KEY_FAULTS = {
  unknown: "the API key is not known here: check that it is a key of this gateway",
  malformed: "the API key can't be read: send one key as authorization: Bearer KEY, or as x-api-key: KEY",
  several: "the request has several API keys: send one, as authorization: Bearer KEY or as x-api-key: KEY",
} as const;
/** What is wrong with a key that was sent. */
export type KeyFault = keyof typeof KEY_FAULTS;

/** The same for what a key is restricted to. */
function allowedOnly(what: string, allowed: readonly string[]): string {
  if (allowed.length === 0) return `there are no ${what} that it may use`;
  const first = allowed.slice(0, 20).map(quoted).join(", ");
  return allowed.length > 20 ? `it may use ${first} and ${allowed.length - 20} more` : `it may use ${first}`;
}

/** A list of names that helps: all of them when they are few. */
function listed(what: string, known: readonly string[]): string {
  if (known.length === 0) return `there are no ${what} yet`;
  const first = known.slice(0, 20).map(quoted).join(", ");
  return known.length > 20 ? `the ${what} are ${first} and ${known.length - 20} more` : `the ${what} are ${first}`;
}

/** Checks every row against its shape and keeps its literal type. */
function table<const T extends Readonly<Record<string, ErrorRow>>>(rows: T): T {
  return rows;
}
