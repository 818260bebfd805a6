/**
 * Speed of a decision: steps 2–4 for one request, with the booking and the evidence record, on fleets of 10 to 10,000
 * candidate rows. Releases happen between the timed sections.
 */

import {
  type Attempt,
  COST_PRIORITIES,
  type CostPriority,
  createDecision,
  createEvidenceRing,
  createRetryBudget,
  decide,
  ESTIMATORS,
  type EstimatorName,
  PLACEMENTS_PER_NODE,
  settle,
  writeDecision,
} from "@zml/engine";
import { attemptOf, buildFleet, type Fleet } from "../packages/engine/src/testing/fleet.ts";
import { type Figure, isJsonAsked, quantile, report } from "./report.ts";

const ROWS = [10, 100, 1_000, 10_000];
const FAMILIES = [2, 6];
/**
 * Rounds go through all cases one after another, so that a busy moment of the machine hits one round of each, and each
 * figure is that of its best round: other work only ever adds time. A virtual core that shares its hardware runs at
 * little more than half its speed for seconds at a time: five rounds (7 s) can lie in one such phase, so there are
 * twenty, half a minute.
 */
const ROUNDS = 20;
/** Requests in flight: the oldest is released when the next was booked. */
const IN_FLIGHT = 64;

/** xorshift32: the same fleet and draws in every run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/**
 * One table for all cases, as a thread of the product has one: for each number of families its own nodes, and a model
 * for each number of rows among them.
 */
function createBenchFleet(): Fleet {
  const random = seeded(31);
  const familiesOf = (count: number) => Array.from({ length: count }, (_, index) => `${count}-${index}`);
  const most = Math.max(...ROWS);
  const fleet = buildFleet({
    nodes: FAMILIES.flatMap((count) =>
      Array.from({ length: most }, (_, row) => ({
        family: familiesOf(count)[row % count] ?? "",
        foreign: Math.floor(random() * 32),
        waiting: Math.floor(random() * 8),
        concurrencyLimit: 64,
        priceUsdPerHour: 1 + random() * 8,
        tokensPerSecond: 500 + random() * 4000,
        streamTokensPerSecond: 20 + random() * 80,
        maxInFlight: 320,
        isDraining: random() < 0.02,
      })),
    ),
    policies: FAMILIES.flatMap((count) =>
      COST_PRIORITIES.flatMap((costPriority) =>
        ESTIMATORS.map((estimator) => ({
          name: `${count}-${costPriority}-${estimator}`,
          chain: familiesOf(count).map((family) => [family]),
          costPriority,
          estimator,
          latencyTargetMs: 10_000,
        })),
      ),
    ),
    models: FAMILIES.flatMap((count, block) =>
      ROWS.map((rows) => ({
        name: `${count}-${rows}`,
        nodes: Array.from({ length: rows }, (_, index) => block * most + index),
      })),
    ),
  });
  teach(fleet, random);
  return fleet;
}

/** What a predictor has learned of an 8B model on mixed hardware: some nodes meet the target, some do not. */
function teach({ table }: Fleet, random: () => number): void {
  for (let row = 0; row < table.nodeRows; row++) {
    const placement = row * PLACEMENTS_PER_NODE;
    const speed = 1 + 3 * random();
    table.stepBaseMs[placement] = 6 * speed;
    table.stepPerRequestMs[placement] = 0.02 * speed;
    table.stepPerKvTokenMs[placement] = 4e-5 * speed;
    table.stepPerPromptTokenMs[placement] = 0.015 * speed;
    table.firstPerTokenMs[placement] = 0.02 * speed;
    table.firstPerAheadMs[placement] = 0.02 * speed;
    table.kvCapacityTokens[placement] = 400_000;
    table.predictorSamples[placement] = 1_000;
    table.predictionError[placement] = 0.1;
  }
}

/** One case of the bench: its fleet, and the requests that are in flight on it. */
class Bench {
  private readonly fleet: Fleet;
  private readonly model: string;
  private readonly policy: string;
  private readonly ring = createEvidenceRing(1024);
  private readonly budget = createRetryBudget(0.2, 1);
  private readonly decision = createDecision();
  private readonly random = seeded(7);
  private readonly running: { attempt: Attempt; request: ReturnType<Fleet["request"]> }[] = [];
  private nowMs = 1000;

  constructor(fleet: Fleet, rows: number, families: number, mode: CostPriority, estimator: EstimatorName) {
    this.fleet = fleet;
    this.model = `${families}-${rows}`;
    this.policy = `${families}-${mode}-${estimator}`;
  }

  /** Times so many decisions, µs each, into a column. */
  run(times: Float64Array): void {
    const { fleet, ring, decision, random, model, policy } = this;
    const { table } = fleet;
    const decider = fleet.decider(0);
    for (let index = 0; index < times.length; index++) {
      const request = fleet.request({ model, policy });
      const draw = random();
      this.nowMs += 1;
      const start = performance.now();
      const booking = decide(decider, request, this.nowMs, draw, decision);
      writeDecision(ring, table, request, decision, { nowMs: this.nowMs, previous: -1 });
      times[index] = (performance.now() - start) * 1000;
      if (booking === null) throw new Error("the fleet of the bench has room");
      this.running.push({ request, attempt: attemptOf(booking, decision, { sentAtMs: this.nowMs }) });
      if (this.running.length > IN_FLIGHT) this.release();
    }
  }

  private release(): void {
    const oldest = this.running.shift();
    if (oldest === undefined) return;
    const settler = {
      table: this.fleet.table,
      worker: 0,
      limits: { maxAttempts: 3, windowMs: 30_000 },
      budget: this.budget,
    };
    const end = { kind: "answer", status: 200, verdict: null, retryAfterMs: Number.NaN } as const;
    settle(settler, oldest.request, oldest.attempt, end, this.nowMs);
  }
}

/** Heap that one decision leaves behind, bytes; needs `--expose-gc` to be exact, else the least of several tries. */
function heapPerDecision(bench: Bench): number {
  const times = new Float64Array(2_000);
  bench.run(times);
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 7; tries++) {
    globalThis.gc?.();
    const before = process.memoryUsage().heapUsed;
    bench.run(times);
    const grown = process.memoryUsage().heapUsed - before;
    // a collection in between makes the difference useless
    if (grown > 0) least = Math.min(least, grown / times.length);
  }
  return least;
}

function main(): void {
  const fleet = createBenchFleet();
  const cases = ROWS.flatMap((rows) =>
    FAMILIES.flatMap((families) =>
      COST_PRIORITIES.flatMap((mode) => ESTIMATORS.map((estimator) => ({ rows, families, mode, estimator }))),
    ),
  ).map((labels) => ({
    ...labels,
    bench: new Bench(fleet, labels.rows, labels.families, labels.mode, labels.estimator),
    rounds: [] as Float64Array[],
  }));
  for (let round = -1; round < ROUNDS; round++) {
    for (const one of cases) {
      const times = new Float64Array(Math.min(5_000, Math.max(500, 2_000_000 / one.rows)));
      one.bench.run(times);
      if (round >= 0) one.rounds.push(times.sort());
    }
  }
  const figures: Figure[] = [];
  for (const { rows, families, mode, estimator, rounds } of cases) {
    const labels = `{rows=${rows},families=${families},mode=${mode}${estimator === "simple" ? "" : `,estimator=${estimator}`}}`;
    const at = (share: number) => Math.min(...rounds.map((times) => quantile(times, share)));
    const meanUs = Math.min(...rounds.map((times) => times.reduce((sum, time) => sum + time, 0) / times.length));
    figures.push({ name: `decide_p50_us${labels}`, value: at(0.5), unit: "us" });
    figures.push({ name: `decide_p99_us${labels}`, value: at(0.99), unit: "us" });
    figures.push({ name: `decide_per_second${labels}`, value: 1e6 / meanUs, unit: "1/s" });
  }
  for (const estimator of ESTIMATORS) {
    const labels = estimator === "simple" ? "" : `{estimator=${estimator}}`;
    const small = heapPerDecision(new Bench(fleet, 10, 2, "balanced", estimator));
    const large = heapPerDecision(new Bench(fleet, 1_000, 2, "balanced", estimator));
    figures.push({ name: `decide_heap_bytes${labels}`, value: small, unit: "bytes" });
    figures.push({
      name: `decide_heap_bytes_per_node${labels}`,
      value: Math.max(0, large - small) / 990,
      unit: "bytes",
    });
  }
  report({ bench: "decide", figures, json: isJsonAsked(process.argv.slice(2)) });
}

main();
