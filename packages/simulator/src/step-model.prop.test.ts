import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { nodeConstants, nodeConstantsTable } from "./node-constants.ts";
import type { StepWork } from "./step-model.ts";
import { decodeRunMs, stepMs } from "./step-model.ts";

const hardware = fc.constantFrom(...nodeConstantsTable().keys()).map(nodeConstants);
const chunk = fc.record({
  newTokens: fc.integer({ min: 1, max: 2048 }),
  doneTokens: fc.integer({ min: 0, max: 8192 }),
});
const work: fc.Arbitrary<StepWork> = fc.record({
  decodeSequences: fc.integer({ min: 0, max: 256 }),
  cachedTokens: fc.integer({ min: 0, max: 400_000 }),
  prefills: fc.array(chunk, { maxLength: 4 }),
});

test("the closed form of a decode run equals the sum of its steps", () => {
  fc.assert(
    fc.property(
      hardware,
      fc.integer({ min: 1, max: 256 }),
      fc.integer({ min: 0, max: 200_000 }),
      fc.integer({ min: 1, max: 200 }),
      (constants, sequences, cachedTokens, steps) => {
        let sum = 0;
        for (let step = 0; step < steps; step += 1) {
          const cached = cachedTokens + step * sequences;
          sum += stepMs(constants, { decodeSequences: sequences, cachedTokens: cached, prefills: [] });
        }
        const closed = decodeRunMs(constants, { sequences, cachedTokens, steps });
        assert.ok(Math.abs(closed - sum) <= 1e-9 * sum + 1e-9, `${closed} against ${sum}`);
      },
    ),
  );
});

test("a step never gets shorter when any part of its work grows", () => {
  fc.assert(
    fc.property(hardware, work, chunk, fc.integer({ min: 0, max: 64 }), (constants, step, more, extra) => {
      const before = stepMs(constants, step);
      assert.ok(stepMs(constants, { ...step, decodeSequences: step.decodeSequences + extra }) >= before);
      assert.ok(stepMs(constants, { ...step, prefills: [...step.prefills, more] }) >= before);
      if (step.decodeSequences > 0) {
        assert.ok(stepMs(constants, { ...step, cachedTokens: step.cachedTokens + extra }) >= before);
      }
    }),
  );
});

test("an empty step takes no time", () => {
  const constants = nodeConstants("L4-24GB/llama-3-8b/bf16/1");
  assert.equal(stepMs(constants, { decodeSequences: 0, cachedTokens: 0, prefills: [] }), 0);
});

test("eight sequences on an H200 take the 5.8 ms per step that its constants were checked with", () => {
  const constants = nodeConstants("H200-SXM-141GB/llama-3-8b/bf16/1");
  const ms = stepMs(constants, { decodeSequences: 8, cachedTokens: 8 * 96, prefills: [] });
  assert.ok(Math.abs(ms - 5.96) < 0.02, String(ms));
});

test("an unknown hardware key names the known ones", () => {
  assert.throws(
    () => nodeConstants("H9000"),
    /unknown hardware key H9000: use one of .*MI300X-192GB\/llama-3-70b\/fp8\/8/,
  );
});
