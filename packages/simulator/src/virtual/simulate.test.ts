import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { outstanding } from "../../../engine/src/testing/fleet.ts";
import { seededRandom } from "../seeded-random.ts";
import type { FailureSpec } from "./disturbances.ts";
import { FLEETS, type NodeGroup, planFleet } from "./fleet-plan.ts";
import { REQUEST_ENDS } from "./records.ts";
import { reportOf } from "./report.ts";
import { requestClasses } from "./request-classes.ts";
import { leastRequest, roundRobin } from "./routers/classical.ts";
import { bestFit, prefixAffinity, shortestPredictedLatency } from "./routers/scripted.ts";
import { type SimulationOptions, simulate } from "./simulate.ts";
import type { Trace } from "./traces/trace.ts";
import { createWorkload } from "./workload.ts";

const H100: NodeGroup = { ...FLEETS.F1[0], count: 1 };
const classes = requestClasses("T1");

function traceOf(count: number, seed = 1): Trace {
  const random = seededRandom(seed);
  const rows = Array.from({ length: count }, (_, index) => ({
    atMs: index * 200,
    promptTokens: 1 + Math.floor(random() * 4_000),
    outputTokens: 1 + Math.floor(random() * 400),
    session: -1,
    pauseMs: Number.NaN,
    blocks: null,
  }));
  return { format: "azure", rows, emptyRows: 0, rps: 5 };
}

function workloadOf(rps: number, durationS: number, trace = traceOf(500), seed = 1) {
  const classShares = classes.map(({ share }) => share);
  return createWorkload({
    sources: [{ trace, share: 1, arrivals: { kind: "trace" } }],
    rps,
    durationS,
    classShares,
    seed,
  });
}

function run(options: Partial<SimulationOptions> & { groups?: readonly NodeGroup[] } = {}) {
  const plan = options.plan ?? planFleet(options.groups ?? FLEETS.F3, { constantsError: 0.2, seed: 1 });
  const workload = options.workload ?? workloadOf(20, 60);
  const all = { plan, workload, classes, createRouter: null, seed: 1, ...options };
  const result = simulate(all);
  return { result, report: reportOf(result, { plan, workload, classes: all.classes }) };
}

const single = (promptTokens: number, outputTokens: number): Trace => ({
  format: "azure",
  rows: [{ atMs: 0, promptTokens, outputTokens, session: -1, pauseMs: Number.NaN, blocks: null }],
  emptyRows: 0,
  rps: Number.NaN,
});

describe("the simulation", () => {
  it("times one request as worked out by hand", () => {
    const workload = { ...workloadOf(1, 5, single(1_000, 3)) };
    assert.ok(workload.count >= 1);
    const { result } = run({ groups: [H100], workload, noiseSigma: 0 });
    // 15 + 0.5 there; 1,000 × 19.96 µs + 1,000² × 0.099 ns; 0.5 + 0.05 back
    const ttftMs = 15 + 0.5 + 19.96 + 0.099 + 0.5 + 0.05;
    // two steps of 7.1 + 0.0109 ms and 41.54 ns per cached token (1,001 and 1,002 of them), two more tokens on the way
    const decodeMs = 2 * (7.1 + 0.0109) + ((1_001 + 1_002) * 41.54) / 1e6 + 2 * 0.05;
    assert.ok(Math.abs((result.records.ttftMs[0] as number) - ttftMs) < 1e-9, `${result.records.ttftMs[0]} ${ttftMs}`);
    const endMs = result.records.responseMs[0] as number;
    assert.ok(Math.abs(endMs - ttftMs - decodeMs) < 1e-9, `${endMs}`);
  });

  it("ends every request once and leaves no booking, whatever breaks and however many gateways there are", () => {
    const failures: FailureSpec[] = [
      { kind: "down", rows: [0, 1], fromS: 10, toS: 25, noticeS: 0 },
      { kind: "down", rows: [4], fromS: 20, toS: 40, noticeS: 8 },
      { kind: "slow", rows: [2], fromS: 15, toS: 30, factor: 3 },
      { kind: "blackout", rows: [0, 1, 2, 3, 4, 5], fromS: 30, toS: 45 },
      { kind: "spot", rows: [7, 8, 9], meanUpS: 10, meanDownS: 5, noticeS: 2, coldStartS: 1, shock: 0.5 },
    ];
    for (const createRouter of [null, roundRobin, bestFit]) {
      for (const gateways of [1, 3]) {
        for (const metricsDelayMs of [0, 70]) {
          const { result, report } = run({
            createRouter,
            gateways,
            failures,
            metricsDelayMs,
            workload: workloadOf(60, 50),
          });
          for (const gateway of result.gateways) assert.deepEqual(outstanding(gateway.table), {});
          assert.equal(report.requests, result.records.end.length);
          assert.equal(report.served + report.rejected + report.failed, report.requests);
          assert.ok(!result.records.end.includes(REQUEST_ENDS.indexOf("pending")));
          assert.ok(report.restarted > 0, "the outages hit somebody");
          assert.equal(report.failed, 0, "and nobody lost an answer");
        }
      }
    }
  });

  it("loses nothing of an answer that was broken off and asked for again", () => {
    const failures: FailureSpec[] = [{ kind: "down", rows: [0], fromS: 1, toS: 2, noticeS: 0 }];
    const workload = workloadOf(40, 2);
    const { result, report } = run({ groups: [{ ...H100, count: 2 }], createRouter: roundRobin, failures, workload });
    assert.ok(report.restarted > 0);
    workload.outputTokens.forEach((tokens, request) => {
      assert.equal(result.records.outputTokens[request], tokens);
    });
  });

  it("rejects what nobody can take, and says so", () => {
    const failures: FailureSpec[] = [{ kind: "down", rows: [0], fromS: 1, toS: 100, noticeS: 0 }];
    const { report } = run({ groups: [H100], failures, workload: workloadOf(20, 20) });
    assert.ok(report.rejected > 300, `${report.rejected}`);
    assert.equal(report.served + report.rejected + report.failed, report.requests);
    assert.ok((report.attainment ?? 1) < 0.2);
  });

  it("gives the same bytes for the same seed, and others for another one", () => {
    const bytes = (seed: number) => JSON.stringify(run({ seed, gateways: 2, workload: workloadOf(40, 30) }).report);
    assert.equal(bytes(1), bytes(1));
    assert.notEqual(bytes(1), bytes(2));
  });

  it("learns speeds and lengths with the gateway's own folds", () => {
    const { result } = run({ workload: workloadOf(60, 60) });
    const table = result.gateways[0]?.table;
    assert.ok(table !== undefined);
    const mean = table.meanOutputTokens[0] as number;
    // the last ones to end are the long ones
    assert.ok(mean > 100 && mean < 400, `mean output ${mean}`);
    assert.ok((table.measuredStreamTokensPerSecond[0] as number) > 40, "a stream of an MI300X");
    assert.ok((table.measuredTokensPerSecond[0] as number) > 0, "its capacity");
  });

  it("herds by least request where several gateways know the load of a second ago, and less where it is fresh", () => {
    const at = (metricsIntervalMs: number) =>
      run({ createRouter: leastRequest, gateways: 4, metricsIntervalMs, workload: workloadOf(20, 120) }).report;
    const [fresh, stale] = [at(0), at(1_000)];
    assert.ok((stale.herd_index ?? 0) > (fresh.herd_index ?? 9) * 1.15, `${fresh.herd_index} ${stale.herd_index}`);
    assert.ok((stale.ttft_ms.p99 ?? 0) > (fresh.ttft_ms.p99 ?? 0) * 1.15);
  });

  it("goes on while polls bring no answer: nodes whose answers come through stay in", () => {
    const failures: FailureSpec[] = [
      { kind: "blackout", rows: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], fromS: 10, toS: 50 },
    ];
    const { report } = run({ failures, workload: workloadOf(20, 60) });
    assert.equal(report.rejected, 0);
  });

  it("keeps the sessions of a closed loop in order, each turn after its pause", () => {
    const turns = [0, 1, 2].map((turn) => ({
      atMs: Number.NaN,
      promptTokens: 1_100 + 600 * turn,
      outputTokens: 20,
      session: 0,
      pauseMs: turn === 0 ? Number.NaN : 500,
      blocks: Int32Array.from({ length: Math.floor((1_100 + 600 * turn) / 512) }, (_, block) => block),
    }));
    const trace: Trace = { format: "agent_sessions", rows: turns, emptyRows: 0, rps: Number.NaN };
    const workload = workloadOf(6, 30, trace);
    const { result, report } = run({ createRouter: prefixAffinity, workload });
    assert.ok(workload.count > 30);
    for (let request = 0; request < workload.count; request++) {
      const after = workload.after[request] as number;
      if (after < 0) continue;
      const { arrivedAtMs, responseMs } = result.records;
      const endMs = (arrivedAtMs[after] as number) + (responseMs[after] as number);
      assert.ok(Math.abs((arrivedAtMs[request] as number) - endMs - 500) < 1e-6);
    }
    assert.ok(report.prefix_share > 0.3, `${report.prefix_share}`);
  });

  it("judges answers that do not stream by their end", () => {
    const whole = requestClasses("T2");
    const { report } = run({ classes: whole, createRouter: shortestPredictedLatency });
    assert.ok((report.attainment ?? 0) > 0.95, `${report.attainment}`);
    assert.deepEqual(Object.keys(report.classes), ["interactive", "standard", "batch"]);
  });

  it("shows a price change to the router, and bills it", () => {
    const groups = [
      { ...H100, family: "A", usdPerHour: 1 },
      { ...H100, family: "B", usdPerHour: 2 },
    ];
    const prices = [{ kind: "step", rows: [0], atS: 30, factor: 4 } as const];
    const { result } = run({ groups, prices, costPriority: "cost", workload: workloadOf(2, 60) });
    const { arrivedAtMs, node } = result.records;
    const shareOfB = (fromMs: number, toMs: number) => {
      const nodes = [...node].filter(
        (_, request) => (arrivedAtMs[request] as number) >= fromMs && (arrivedAtMs[request] as number) < toMs,
      );
      return nodes.filter((row) => row === 1).length / nodes.length;
    };
    assert.ok(shareOfB(0, 30_000) < 0.3, `${shareOfB(0, 30_000)}`);
    assert.ok(shareOfB(30_000, 60_000) > 0.7, `${shareOfB(30_000, 60_000)}`);
    assert.deepEqual(result.prices[0], [
      [0, 1],
      [30_000, 4],
    ]);
  });
});
