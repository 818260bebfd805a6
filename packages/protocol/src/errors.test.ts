import assert from "node:assert/strict";
import { test } from "node:test";
import { ERROR_CODES, ERRORS, errorBody, isErrorCode } from "./errors.ts";

/** The statuses that callers rely on, once more and by hand: a change of the table must be meant. */
const STATUSES = {
  invalid_json: 400,
  body_empty: 400,
  body_not_object: 400,
  body_too_large: 413,
  body_budget_exhausted: 503,
  body_timeout: 408,
  unsupported_encoding: 415,
  invalid_encoding: 400,
  duplicate_field: 400,
  missing_model: 400,
  invalid_model: 400,
  invalid_field: 400,
  model_not_found: 404,
  policy_not_found: 400,
  family_not_found: 400,
  context_length_exceeded: 400,
  images_unsupported: 400,
  endpoint_unsupported: 404,
  missing_api_key: 401,
  invalid_api_key: 401,
  expired_api_key: 401,
  key_scope: 403,
  model_not_allowed: 403,
  policy_not_allowed: 403,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  not_found: 404,
  method_not_allowed: 405,
  header_too_large: 431,
  bad_request: 400,
  expectation_failed: 417,
  queue_saturated: 503,
  no_node_available: 503,
  queue_full: 503,
  queue_timeout: 503,
  shutting_down: 503,
  upstream_failed: 502,
  upstream_timeout: 504,
  stream_interrupted: 502,
  request_timeout: 504,
  internal_error: 500,
};

test("every code has the status that callers rely on", () => {
  assert.deepEqual(Object.fromEntries(ERROR_CODES.map((code) => [code, ERRORS[code].status])), STATUSES);
});

test("a saturation error names its families and keeps its fixed members", () => {
  const families = [{ family: "H100", reason: "full", nodes: 3 }];
  const message = ERRORS.queue_saturated.message({ model: "m" });
  assert.deepEqual(errorBody("openai", "queue_saturated", { message, extra: { families, type: "x", code: "y" } }), {
    error: {
      families,
      message: 'every healthy node that serves "m" is full: try again after Retry-After',
      type: "saturation",
      param: null,
      code: "queue_saturated",
    },
  });
  for (const code of ["queue_saturated", "no_node_available", "queue_full", "queue_timeout"] as const) {
    assert.equal(ERRORS[code].type, "saturation");
    assert.equal(ERRORS[code].retry, true);
  }
});

test("Anthropic's shape has Anthropic's types and our code", () => {
  assert.deepEqual(errorBody("anthropic", "model_not_found", { message: "m", param: "model" }), {
    type: "error",
    error: { type: "not_found_error", message: "m", code: "model_not_found" },
  });
  assert.equal(errorBody("anthropic", "queue_saturated", { message: "m" }).error.type, "overloaded_error");
});

test("an unknown name gets the known ones, and not thousands of them", () => {
  assert.equal(
    ERRORS.policy_not_found.message({ policy: "x", known: ["a", "b"] }),
    'there is no policy "x": the policies are "a", "b"',
  );
  assert.equal(
    ERRORS.model_not_found.message({ model: "x", known: [] }),
    'there is no model "x": there are no models yet',
  );
  const many = Array.from({ length: 5000 }, (_, index) => `m${index}`);
  assert.match(ERRORS.model_not_found.message({ model: "x", known: many }), /"m19" and 4980 more$/);
});

test("what a caller sent is cut and escaped in a text", () => {
  const message = ERRORS.model_not_found.message({ model: `"\n${"x".repeat(100_000)}`, known: [] });
  assert.ok(message.length < 300);
  assert.ok(!message.includes("\n"));
});

test("only codes of the table are codes", () => {
  assert.equal(isErrorCode("invalid_json"), true);
  for (const value of ["", "toString", "__proto__", "INVALID_JSON"]) assert.equal(isErrorCode(value), false);
});
