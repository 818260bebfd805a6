import assert from "node:assert/strict";
import { test } from "node:test";
import { endingOf as endOf } from "./ending.ts";

const NOTHING = { ending: null, code: null, interruption: null } as const;

function endingOf({
  interruption,
  ...seen
}: Parameters<typeof endOf>[0] & { readonly interruption: Parameters<typeof endOf>[1] }): ReturnType<typeof endOf> {
  return endOf(seen, interruption);
}

test("an answer without an error of ours was delivered", () => {
  assert.equal(endingOf(NOTHING), "delivered");
});

test("an error tells by its code how a request ended, a refusal unless another word fits", () => {
  assert.equal(endingOf({ ...NOTHING, code: "model_not_found" }), "refused");
  assert.equal(endingOf({ ...NOTHING, code: "queue_timeout" }), "parked_in_vain");
  assert.equal(endingOf({ ...NOTHING, code: "upstream_timeout" }), "given_up");
  assert.equal(endingOf({ ...NOTHING, code: "stream_interrupted" }), "interrupted");
  assert.equal(endingOf({ ...NOTHING, code: "internal_error" }), "internal_error");
});

test("what interrupts a request is its end, whatever was told because of it", () => {
  assert.equal(endingOf({ ...NOTHING, interruption: "caller_gone" }), "cancelled");
  assert.equal(endingOf({ ...NOTHING, interruption: "total_timeout", code: "stream_interrupted" }), "over_time");
  assert.equal(endingOf({ ...NOTHING, interruption: "shutting_down" }), "drained");
});

test("the last answer of a node that was given up on is no delivery", () => {
  assert.equal(endingOf({ ...NOTHING, ending: "given_up" }), "given_up");
});
