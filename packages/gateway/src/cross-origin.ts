/** What lets pages of stated origins call the data port and read its answers (CORS, fetch.spec.whatwg.org). */

import type { CallerRequest, CallerResponse } from "./caller.ts";

/** Fields that a page may read beside those that browsers always show. */
const EXPOSED = [
  "x-zml-routing",
  "x-request-id",
  "traceparent",
  "retry-after",
  "retry-after-ms",
  "x-should-retry",
  "openai-processing-ms",
  "openai-version",
  "x-ratelimit-limit-requests",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-reset-requests",
  "x-ratelimit-limit-tokens",
  "x-ratelimit-remaining-tokens",
  "x-ratelimit-reset-tokens",
  "anthropic-ratelimit-requests-limit",
  "anthropic-ratelimit-requests-remaining",
  "anthropic-ratelimit-requests-reset",
  "anthropic-ratelimit-tokens-limit",
  "anthropic-ratelimit-tokens-remaining",
  "anthropic-ratelimit-tokens-reset",
].join(", ");

/** The longest that any browser keeps what a preflight said, s. */
const MAX_AGE_S = "7200";

/** A list of header names, as a browser asks for them; `*` would leave out `authorization`. */
const FIELD_NAMES = /^[\w!#$%&'*+.^`|~-]+(?: *, *[\w!#$%&'*+.^`|~-]+)*$/;
const FIELD_NAMES_LENGTH_MAX = 2048;

/**
 * Sets the fields that tell a browser whether the page may read the answer, and answers a preflight. Keys travel in
 * headers that scripts set, never in cookies, so that `access-control-allow-credentials` is never said.
 *
 * @param origins what `data.cors_origins` lists; `*` is any
 * @returns whether it was a preflight, which is answered
 */
export function allowOrigin(request: CallerRequest, response: CallerResponse, origins: readonly string[]): boolean {
  if (origins.length === 0) return false;
  const { origin } = request.headers;
  const isAny = origins.includes("*");
  const isPreflight = request.method === "OPTIONS" && request.headers["access-control-request-method"] !== undefined;
  // caches in between keep one answer for each origin
  if (!isAny) response.setHeader("vary", "origin");
  if (typeof origin !== "string" || !(isAny || origins.includes(origin))) return false;
  response.setHeader("access-control-allow-origin", isAny ? "*" : origin);
  if (!isPreflight) {
    response.setHeader("access-control-expose-headers", EXPOSED);
    return false;
  }
  response.setHeader("vary", "origin, access-control-request-method, access-control-request-headers");
  response.setHeader("access-control-allow-methods", "GET, HEAD, POST");
  const asked = request.headers["access-control-request-headers"];
  // whatever SDKs send: it is read by nobody here, or known
  if (typeof asked === "string" && asked.length <= FIELD_NAMES_LENGTH_MAX && FIELD_NAMES.test(asked)) {
    response.setHeader("access-control-allow-headers", asked);
  }
  response.setHeader("access-control-max-age", MAX_AGE_S);
  response.writeHead(204).end();
  return true;
}
