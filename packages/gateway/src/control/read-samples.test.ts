import assert from "node:assert/strict";
import { test } from "node:test";
import { OUTCOMES } from "@zml/engine";
import { SAMPLE_FIELDS } from "../thread-messages.ts";
import { readSamples } from "./read-samples.ts";

function flat(values: Partial<Record<(typeof SAMPLE_FIELDS)[number], number>>): Float64Array {
  return Float64Array.from(SAMPLE_FIELDS, (name) => values[name] ?? 0);
}

const success = OUTCOMES.indexOf("success");

test("a count of tokens that no answer has is unknown, so that no node moves the mean of a model that others serve", () => {
  for (const tokens of [1e308, 2 ** 24, Number.POSITIVE_INFINITY, -1]) {
    const [sample] = readSamples(flat({ outcome: success, outputTokens: tokens, promptTokens: tokens }), 5);
    assert.ok(Number.isNaN(sample?.outputTokens), `${tokens} output tokens`);
    assert.ok(Number.isNaN(sample?.promptTokens), `${tokens} prompt tokens`);
  }
  const [sound] = readSamples(flat({ outcome: success, outputTokens: 131_072, promptTokens: 0 }), 5);
  assert.deepEqual([sound?.outputTokens, sound?.promptTokens, sound?.atMs], [131_072, 0, 5]);
});

test("a sample that was cut off, or of no known outcome, is none", () => {
  assert.deepEqual(readSamples(flat({ outcome: OUTCOMES.length }), 5), []);
  assert.deepEqual(readSamples(flat({ outcome: success }).subarray(1), 5), []);
});
