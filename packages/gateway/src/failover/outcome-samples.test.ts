import assert from "node:assert/strict";
import { test } from "node:test";
import type { AttemptTiming } from "@zml/engine";
import { readSamples } from "../control/read-samples.ts";
import { SAMPLE_FIELDS, TIMING_FIELDS } from "../thread-messages.ts";
import { type OutcomeSample, OutcomeSamples } from "./outcome-samples.ts";

test("each number of a sample arrives under its own name", () => {
  let sent: Float64Array = new Float64Array(0);
  const samples = new OutcomeSamples((flat) => {
    sent = flat;
  });
  const timing = {
    ...Object.fromEntries(TIMING_FIELDS.map((name, index) => [name, 101 + index])),
    isPromptOnly: true,
  } as unknown as AttemptTiming;
  const names = SAMPLE_FIELDS.filter((name) => !name.startsWith("timing.") && name !== "outcome");
  const sample = {
    ...Object.fromEntries(names.map((name, index) => [name, 1 + index])),
    outcome: "success",
    timing,
  } as unknown as OutcomeSample;
  // more than what it has room for at first
  for (let each = 0; each < 65; each++) samples.add(sample);
  samples.flush();
  assert.equal(sent.length, 65 * SAMPLE_FIELDS.length);
  const [first] = readSamples(sent, 0);
  assert.deepEqual(first?.timing, timing);
  names.forEach((name) => {
    assert.equal(sent[SAMPLE_FIELDS.indexOf(name)], Reflect.get(sample, name), name);
  });
  assert.equal(first?.outcome, "success");
});
