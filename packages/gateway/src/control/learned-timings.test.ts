import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FIT_SIZE, type TimingState } from "@zml/engine";
import fc from "fast-check";
import { FadingLeastSquares } from "../../../engine/src/learning/least-squares.ts";
import type { StoredTiming } from "../store/timing-operations.ts";
import { LearnedTimings, type TimingSources } from "./learned-timings.ts";
import { createNameRegistry } from "./name-registry.ts";

const FIT: TimingState["decode"] = {
  products: Array(FIT_SIZE ** 2).fill(0.5),
  targets: Array(FIT_SIZE).fill(0.25),
  coefficients: [12, 0.04, 0, 0.01],
  meanResidual: -0.02,
  spread: { log: 0.3, size: Number.NaN, bias: 0.01 },
};
const ROW = { minLength: FIT_SIZE, maxLength: FIT_SIZE };
const STATE: TimingState = { decode: FIT, first: FIT, samples: 700, error: Number.NaN };

/** A process that began at `origin`, Unix ms, and is at 9,000 ms of its clock. */
function processOf(origin: number, states: ReturnType<TimingSources["timing"]["states"]> = []) {
  const names = createNameRegistry();
  const restored: { model: number; family: number; state: TimingState; ageMs: number }[] = [];
  const warnings: { fields: { model?: string }; message: string }[] = [];
  const log = { warn: (fields: object, message: string) => warnings.push({ fields, message }) };
  const timings = new LearnedTimings({
    names,
    timing: {
      states: () => states,
      restore: (model, family, state, { ageMs }) => restored.push({ model, family, state, ageMs }) > 0,
    },
    log: log as unknown as TimingSources["log"],
    nowMs: () => 9_000,
    unixOriginMs: origin,
  });
  return { names, timings, restored, warnings };
}

function exported(): StoredTiming[] {
  const first = processOf(1_000_000, [{ model: 0, family: 1, state: STATE, learnedAtMs: 8_000 }]);
  first.names.models.register("default", "m");
  first.names.families.register("", "L4");
  first.names.families.register("", "H100");
  return first.timings.exportTimings();
}

describe("what was learned of timing", () => {
  it("is the same in the next process, under other indexes, with its age", () => {
    const next = processOf(1_050_000);
    next.names.models.register("default", "other");
    next.names.models.register("default", "m");
    next.names.families.register("", "H100");
    next.timings.importTimings(structuredClone(exported()));
    assert.deepEqual(next.restored, [{ model: 1, family: 0, state: STATE, ageMs: 51_000 }]);
  });

  it("waits for its model and its family, and is never asked for where they are gone", () => {
    const next = processOf(1_050_000);
    next.names.models.register("default", "m");
    next.timings.importTimings(exported());
    assert.equal(next.restored.length, 0);
    next.names.families.register("", "H100");
    next.timings.apply();
    next.timings.apply();
    assert.equal(next.restored.length, 1);
  });

  it("is passed over with a line in the log where it can't be read, and the rest is taken", () => {
    const [good] = exported();
    assert.ok(good !== undefined);
    const written: TimingState[] = [
      { ...STATE, decode: { ...FIT, coefficients: [1] } },
      { ...STATE, first: { ...FIT, coefficients: [-1, 0, 0, 0] } },
      { ...STATE, samples: Number.POSITIVE_INFINITY },
      { ...STATE, decode: { ...FIT, coefficients: [1e30, 0, 0, 0] } },
      { ...STATE, first: { ...FIT, spread: { ...FIT.spread, bias: 700 } } },
      { ...STATE, decode: { ...FIT, products: FIT.products.map((value, cell) => (cell === 1 ? -value : value)) } },
      { ...STATE, decode: { ...FIT, products: FIT.products.map((value, cell) => (cell === 0 ? -value : value)) } },
    ];
    const broken = [...written.map((state) => JSON.stringify(state)), "", "{", "null", "[]"];
    const next = processOf(1_050_000);
    for (const model of ["m", ...broken.map((_, index) => `m${index}`)]) next.names.models.register("default", model);
    next.names.families.register("", "H100");
    next.timings.importTimings([...broken.map((state, index) => ({ ...good, model: `m${index}`, state })), good]);
    assert.equal(next.restored.length, 1);
    assert.equal(next.warnings.length, broken.length);
    assert.match(next.warnings[0]?.message ?? "", /can't be read: it is learned anew/);
    assert.equal(next.warnings[0]?.fields.model, "m0");
  });

  it("can be read whatever samples it stands on", () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.double({ min: 0, max: 1e5, noNaN: true }), ROW), { maxLength: 300 }), (rows) => {
        const fit = new FadingLeastSquares([25, 1, 0, 0.1], [1, 1, 1, 1], 4_000);
        for (const row of rows) fit.add(Float64Array.from(row), 1, 0.7);
        fit.solve();
        const learned = { ...FIT, ...fit.evidence(), coefficients: Array.from(fit.coefficients) };
        const next = processOf(1_050_000);
        const [row] = exported();
        assert.ok(row !== undefined);
        next.timings.importTimings([{ ...row, state: JSON.stringify({ ...STATE, decode: learned }) }]);
        assert.deepEqual(next.warnings, []);
      }),
    );
  });

  it("is not from the future where the clock was set back", () => {
    const next = processOf(0);
    next.names.models.register("default", "m");
    next.names.families.register("", "H100");
    next.timings.importTimings(exported());
    assert.equal(next.restored[0]?.ageMs, 0);
  });
});
