/**
 * Why the admin port can't do what was asked: `application/problem+json` (RFC 9457). A code is stable; `detail` may change:
 * what failed, the value, the limit, what to do, in lower case and without a secret. Without zod, as the port itself
 * answers with some of them before the rest of the API is loaded.
 */

interface ProblemRow {
  readonly status: number;
  /** The same for every problem of the code. */
  readonly title: string;
}

export const ADMIN_PROBLEMS = table({
  bad_request: { status: 400, title: "not a valid HTTP request" },
  invalid_path: { status: 400, title: "a part of the path is not valid" },
  invalid_query: { status: 400, title: "the query is not valid" },
  invalid_header: { status: 400, title: "a header is not valid" },
  invalid_json: { status: 400, title: "the body is not JSON" },
  invalid_yaml: { status: 400, title: "the body is not YAML" },
  invalid_body: { status: 400, title: "the body has not the shape of this route" },
  missing_api_key: { status: 401, title: "a key is needed" },
  invalid_api_key: { status: 401, title: "the key is not known" },
  key_scope: { status: 403, title: "the key lacks a scope" },
  other_account: { status: 403, title: "it belongs to another account" },
  operator_only: { status: 403, title: "only operators may" },
  cross_site: { status: 403, title: "a page of another site asks" },
  host_not_allowed: { status: 403, title: "the Host is no name of this machine" },
  not_found: { status: 404, title: "there is no such thing" },
  method_not_allowed: { status: 405, title: "the method is not allowed here" },
  request_timeout: { status: 408, title: "the request took too long to arrive" },
  owned_by_file: { status: 409, title: "the configuration file owns it" },
  owned_by_discovery: { status: 409, title: "discovery owns it" },
  in_use: { status: 409, title: "something else needs it" },
  not_kept: { status: 409, title: "no decisions are kept" },
  already_running: { status: 409, title: "one runs already" },
  needs_restart: { status: 409, title: "a running gateway can't change it" },
  precondition_failed: { status: 412, title: "it has changed" },
  body_too_large: { status: 413, title: "the body is too large" },
  unsupported_media_type: { status: 415, title: "the content type is not taken here" },
  invalid_object: { status: 422, title: "the configuration would not be valid" },
  configuration_refused: { status: 422, title: "the configuration was refused" },
  expectation_failed: { status: 417, title: "the expectation can't be met" },
  too_many_backtests: { status: 429, title: "too many back-tests wait" },
  header_too_large: { status: 431, title: "the request head is too large" },
  internal_error: { status: 500, title: "the gateway failed" },
  store_unavailable: { status: 503, title: "the store takes no changes now" },
  shutting_down: { status: 503, title: "the gateway is shutting down" },
});

/** A code of the table. */
export type AdminProblemCode = keyof typeof ADMIN_PROBLEMS;

/** All codes, in the table's order. */
export const ADMIN_PROBLEM_CODES = Object.keys(ADMIN_PROBLEMS) as [AdminProblemCode, ...AdminProblemCode[]];

/** A field that is wrong. */
export interface ProblemError {
  /** Such as `spec.cost_priority`; empty: the whole. */
  readonly path: string;
  readonly message: string;
  /** Empty where the message says it. */
  readonly hint: string;
}

/** The body of a problem. */
export interface ProblemJson {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: AdminProblemCode;
  readonly errors?: readonly ProblemError[];
  readonly request_id: string;
}

/** What a problem says beside its code. */
export interface ProblemDetails {
  readonly detail: string;
  readonly requestId: string;
  readonly errors?: readonly ProblemError[];
}

/** The body of a problem. */
export function problemBody(code: AdminProblemCode, { detail, requestId, errors }: ProblemDetails): ProblemJson {
  const { status, title } = ADMIN_PROBLEMS[code];
  const body = { type: `urn:zml:problem:${code}`, title, status, detail, code };
  return { ...body, ...(errors === undefined ? {} : { errors }), request_id: requestId };
}

/** Its content type. */
export const PROBLEM_TYPE = "application/problem+json";

/** Checks every row against its shape and keeps its codes. */
function table<const T extends Readonly<Record<string, ProblemRow>>>(rows: T): T {
  return rows;
}
