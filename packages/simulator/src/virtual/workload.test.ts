import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Trace, TraceRow } from "./traces/trace.ts";
import { type ArrivalProcess, createWorkload } from "./workload.ts";

const row = (atMs: number, more: Partial<TraceRow> = {}): TraceRow => ({
  atMs,
  promptTokens: 100,
  outputTokens: 10,
  session: -1,
  pauseMs: Number.NaN,
  blocks: null,
  ...more,
});
const traceOf = (rows: TraceRow[], rps: number): Trace => ({ format: "azure", rows, emptyRows: 0, rps });
/** One request a second for 100 s. */
const steady = traceOf(
  Array.from({ length: 100 }, (_, index) => row(index * 1_000, { blocks: Int32Array.of(index) })),
  100 / 99,
);

function workloadOf(rps: number, durationS: number, trace = steady, arrivals: ArrivalProcess = { kind: "trace" }) {
  return createWorkload({
    sources: [{ trace, share: 1, arrivals }],
    rps,
    durationS,
    classShares: [0.5, 0.35, 0.15],
    seed: 4,
  });
}

describe("a workload", () => {
  it("has the wanted rate and is in order, by thinning, compression and laying over", () => {
    for (const rps of [0.3, 1, 3, 20]) {
      const { count, atMs } = workloadOf(rps, 400);
      assert.ok(Math.abs(count / 400 - rps) < 0.12 * rps, `${rps}: ${count / 400}`);
      assert.deepEqual(atMs, atMs.toSorted());
      assert.ok((atMs.at(-1) ?? 0) < 400_000);
    }
  });
  it("keeps the gaps in proportion when it is compressed, and none of its prefixes twice when it is laid over", () => {
    const { atMs } = workloadOf(100 / 49.5, 40);
    assert.ok(Math.abs((atMs[5] as number) - (atMs[4] as number) - 500) < 5);
    const { blocks } = workloadOf(20, 90);
    assert.equal(new Set(blocks.map((ids) => ids?.[0])).size, blocks.length);
  });
  it("draws classes by their shares", () => {
    const { classes, count } = workloadOf(20, 400);
    const shares = [0, 1, 2].map((klass) => classes.filter((other) => other === klass).length / count);
    assert.ok(
      shares.every((share, klass) => Math.abs(share - ([0.5, 0.35, 0.15][klass] ?? 0)) < 0.02),
      String(shares),
    );
  });
  it("has Poisson gaps, whose counts vary as much as their mean", () => {
    const { atMs } = workloadOf(10, 2_000, traceOf([row(Number.NaN)], Number.NaN));
    const counts = new Array<number>(2_000).fill(0);
    for (const at of atMs) counts[Math.floor(at / 1000)] = (counts[Math.floor(at / 1000)] ?? 0) + 1;
    const mean = atMs.length / 2_000;
    const variance = counts.reduce((sum, count) => sum + (count - mean) ** 2, 0) / 2_000;
    assert.ok(Math.abs(mean - 10) < 0.3 && Math.abs(variance / mean - 1) < 0.15, `${mean} ${variance / mean}`);
  });
  it("follows the day: nearly twice the mean at its peak", () => {
    const arrivals = { kind: "diurnal", cv: 1.3, peakToMean: 1.9, dayS: 1_000 } as const;
    const { atMs } = workloadOf(20, 4_000, steady, arrivals);
    const at = (from: number, to: number) =>
      atMs.filter((time) => time % 1e6 >= from && time % 1e6 < to).length / 4 / ((to - from) / 1000);
    assert.ok(Math.abs(atMs.length / 4_000 - 20) < 1.5, `${atMs.length / 4_000}`);
    assert.ok(Math.abs(at(450_000, 550_000) - 38) < 4, `${at(450_000, 550_000)}`);
    assert.ok(at(0, 100_000) < 6);
  });
  it("starts sessions so that their turns make the rate, and links each turn to the one before", () => {
    const turns = [0, 1, 2, 3].map((turn) => row(Number.NaN, { session: 0, pauseMs: turn === 0 ? Number.NaN : 1_000 }));
    const workload = workloadOf(2, 1_000, { ...traceOf(turns, Number.NaN), format: "agent_sessions" });
    assert.ok(Math.abs(workload.count / 1_000 - 2) < 0.3, `${workload.count}`);
    for (let request = 0; request < workload.count; request++) {
      const next = workload.next[request] as number;
      if (next >= 0) assert.equal(workload.after[next], request);
      assert.equal(Number.isNaN(workload.atMs[request]), (workload.after[request] as number) >= 0);
    }
  });
  it("mixes sources by their shares, and is the same for the same seed", () => {
    const other = traceOf(
      steady.rows.map((one) => ({ ...one, promptTokens: 7 })),
      1,
    );
    const make = (seed: number) =>
      createWorkload({
        sources: [
          { trace: steady, share: 3, arrivals: { kind: "poisson" } },
          { trace: other, share: 1, arrivals: { kind: "trace" } },
        ],
        rps: 20,
        durationS: 200,
        classShares: [1],
        seed,
      });
    const { promptTokens, count } = make(1);
    assert.ok(Math.abs(promptTokens.filter((tokens) => tokens === 7).length / count - 0.25) < 0.03);
    assert.deepEqual(make(1), make(1));
    assert.notDeepEqual(make(1).atMs, make(2).atMs);
  });
  it("refuses a rate or a duration of nothing", () => {
    assert.throws(() => workloadOf(0, 1), /rps is 0: it must be more than 0/);
    assert.throws(() => workloadOf(1, 0), /duration_s is 0/);
  });
});
