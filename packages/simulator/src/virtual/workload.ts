/**
 * The requests of a run: taken from traces, scaled to a rate, with classes drawn from the seed. Made before the run, so
 * that every policy meets the same requests.
 */

import { type RandomSource, seededRandom } from "../seeded-random.ts";
import type { Trace, TraceRow } from "./traces/trace.ts";

/** Requests as columns; index = request. Sorted by time of arrival, later turns of sessions stand behind their first. */
export interface Workload {
  readonly count: number;
  /** Arrival, ms; NaN: `pauseMs` after the end of request `after`. */
  readonly atMs: Float64Array;
  readonly promptTokens: Int32Array;
  readonly outputTokens: Int32Array;
  /** Index of the class. */
  readonly classes: Uint8Array;
  /** Session, -1: none. */
  readonly session: Int32Array;
  /** The turn before, -1: none. */
  readonly after: Int32Array;
  readonly pauseMs: Float64Array;
  /** Next turn of the same session, -1: none. */
  readonly next: Int32Array;
  readonly blocks: readonly (Int32Array | null)[];
  /** Time after which nothing arrives but later turns, ms. */
  readonly durationMs: number;
}

/** Where requests come from. */
export interface WorkloadSource {
  readonly trace: Trace;
  /** Share of the requests, any positive number. */
  readonly share: number;
  readonly arrivals: ArrivalProcess;
}

export type ArrivalProcess =
  /** As recorded, scaled. Sessions: first turns come at random at the rate that makes the wanted number of requests. */
  | { readonly kind: "trace" }
  | { readonly kind: "poisson" }
  /** Gaps of a Gamma law with this coefficient of variation, under a day curve with this ratio of peak to mean. */
  | { readonly kind: "diurnal"; readonly cv: number; readonly peakToMean: number; readonly dayS: number };

export interface WorkloadOptions {
  readonly sources: readonly WorkloadSource[];
  /** All sources together, requests per second. */
  readonly rps: number;
  readonly durationS: number;
  /** Shares of the classes, any positive numbers. */
  readonly classShares: readonly number[];
  readonly seed: number;
}

interface Planned {
  readonly atMs: number;
  readonly row: TraceRow;
  /** Tells copies of a trace apart, which share no prefix and no session. */
  readonly copy: number;
  /** Later turns, in order. */
  readonly turns: readonly TraceRow[];
}

/** Above this factor a trace is laid over itself rather than pressed together: that would raise its bursts as well. */
const COMPRESSION_MAX = 4;

/** Room for the block ids of one trace; copies stand that far apart, and after 512 of them ids come again. */
const COPY_STRIDE = 1 << 22;
const COPIES_MAX = 2 ** 31 / COPY_STRIDE;

/** Requests of one run: some hundred bytes each, and minutes of simulation. */
const REQUESTS_MAX = 10_000_000;
/** Rows of a trace that making a workload may look at: some seconds. A trace of few rows over months takes more. */
const LOOKED_AT_MAX = 1_000_000_000;

/** Requests that nobody can make: too many, or too many for a trace that is so thin. */
export class WorkloadError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "WorkloadError";
  }
}

/**
 * Makes the requests. O(n log n).
 *
 * @throws WorkloadError when there are too many. Error when the wanted rate or duration is no positive number.
 */
export function createWorkload(options: WorkloadOptions): Workload {
  const { sources, rps, durationS, classShares, seed } = options;
  if (!(rps > 0) || !Number.isFinite(rps)) throw new Error(`rps is ${rps}: it must be more than 0`);
  if (!(durationS > 0)) throw new Error(`duration_s is ${durationS}: it must be more than 0`);
  const shares = sources.reduce((sum, { share }) => sum + share, 0);
  if (!(shares > 0)) throw new Error(`the shares of the sources sum to ${shares}: they must be more than 0`);
  if (rps * durationS > REQUESTS_MAX) {
    throw new WorkloadError(
      `${rps.toPrecision(3)} requests/s for ${durationS} s are ${(rps * durationS).toPrecision(3)} requests: ` +
        `at most ${REQUESTS_MAX} are simulated`,
    );
  }
  const durationMs = durationS * 1000;
  const planned: Planned[] = [];
  let copies = 0;
  for (const [index, source] of sources.entries()) {
    const random = seededRandom(seed + 7919 * (index + 1));
    const own = planSource(source, (rps * source.share) / shares, durationMs, random);
    let most = 0;
    for (const request of own) {
      most = Math.max(most, request.copy);
      planned.push({ ...request, copy: request.copy + copies });
    }
    copies += most + 1;
  }
  planned.sort((a, b) => a.atMs - b.atMs);
  return columnsOf(planned, { classShares, durationMs, random: seededRandom(seed + 104_729) });
}

function planSource(
  { trace, arrivals }: WorkloadSource,
  rps: number,
  durationMs: number,
  random: RandomSource,
): Planned[] {
  if (trace.format === "agent_sessions") return planSessions(trace, rps, durationMs, random);
  const hasTimes = trace.rps > 0;
  if (arrivals.kind === "trace" && hasTimes) return planRecorded(trace, rps, durationMs, random);
  const gaps =
    arrivals.kind === "diurnal"
      ? diurnalTimes(arrivals, rps, durationMs, random)
      : poissonTimes(rps, durationMs, random);
  const order = shuffled(trace.rows.length, random);
  return gaps.map((atMs, index) => {
    const round = Math.floor(index / order.length);
    return { atMs, row: trace.rows[order[index % order.length] as number] as TraceRow, copy: round, turns: [] };
  });
}

/**
 * Recorded times at another rate: fewer by leaving rows out at random, up to four times as many by compression, more by
 * laying shifted copies over each other, each thinned.
 */
function planRecorded(
  { rows, rps: recorded }: Trace,
  rps: number,
  durationMs: number,
  random: RandomSource,
): Planned[] {
  const factor = rps / recorded;
  const lastMs = (rows.at(-1) as TraceRow).atMs;
  const roundMs = lastMs + lastMs / Math.max(1, rows.length - 1);
  const compression = factor > COMPRESSION_MAX ? 1 : Math.max(1, factor);
  const copies = factor > COMPRESSION_MAX ? Math.ceil(factor) : 1;
  const keep = factor > COMPRESSION_MAX ? factor / copies : Math.min(1, factor);
  const planned: Planned[] = [];
  const rounds = Math.ceil((durationMs * compression) / roundMs);
  if (copies * rounds * rows.length > LOOKED_AT_MAX) {
    throw new WorkloadError(
      `a trace of ${recorded.toPrecision(3)} requests/s can't be scaled to ${rps.toPrecision(3)}: ` +
        "lower the rate, or let its lengths arrive by arrivals: { kind: poisson }",
    );
  }
  for (let copy = 0; copy < copies; copy++) {
    const shiftMs = (copy / copies) * roundMs;
    for (let round = 0; round < rounds; round++) {
      for (const row of rows) {
        const atMs = (round * roundMs + ((row.atMs + shiftMs) % roundMs)) / compression;
        if (keep < 1 && random() >= keep) continue;
        if (atMs < durationMs) planned.push({ atMs, row, copy: copy * rounds + round, turns: [] });
      }
    }
  }
  return planned;
}

/** Sessions begin at random; their turns follow by themselves. */
function planSessions({ rows }: Trace, rps: number, durationMs: number, random: RandomSource): Planned[] {
  const sessions = new Map<number, TraceRow[]>();
  for (const row of rows) {
    const turns = sessions.get(row.session);
    if (turns === undefined) sessions.set(row.session, [row]);
    else turns.push(row);
  }
  const all = [...sessions.values()];
  const starts = poissonTimes((rps * all.length) / rows.length, durationMs, random);
  const order = shuffled(all.length, random);
  return starts.map((atMs, index) => {
    const [row, ...turns] = all[order[index % order.length] as number] as TraceRow[];
    return { atMs, row: row as TraceRow, copy: Math.floor(index / order.length), turns };
  });
}

function poissonTimes(rps: number, durationMs: number, random: RandomSource): number[] {
  const times: number[] = [];
  for (let atMs = 0; ; ) {
    atMs -= (Math.log(1 - random()) / rps) * 1000;
    if (atMs >= durationMs) return times;
    times.push(atMs);
  }
}

/** Gamma gaps in operational time, which runs with the day curve 1 + (peak − 1)·cos: fast at the peak of the day. */
function diurnalTimes(
  { cv, peakToMean, dayS }: Extract<ArrivalProcess, { kind: "diurnal" }>,
  rps: number,
  durationMs: number,
  random: RandomSource,
): number[] {
  const dayMs = dayS * 1000;
  // a cosine has a trough of 2 − peak: above 2 it is cut at a tenth of the mean
  const rateAt = (atMs: number) => rps * Math.max(0.1, 1 - (peakToMean - 1) * Math.cos((2 * Math.PI * atMs) / dayMs));
  const times: number[] = [];
  for (let atMs = 0; ; ) {
    atMs += (gammaGap(cv, random) / rateAt(atMs)) * 1000;
    if (atMs >= durationMs) return times;
    times.push(atMs);
  }
}

/** A number of a Gamma law with mean 1 (Marsaglia and Tsang 2000). */
function gammaGap(cv: number, random: RandomSource): number {
  const shape = 1 / (cv * cv);
  const boosted = shape < 1 ? shape + 1 : shape;
  const d = boosted - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const v = (1 + c * normal) ** 3;
    if (v <= 0) continue;
    if (Math.log(1 - random()) > 0.5 * normal * normal + d - d * v + d * Math.log(v)) continue;
    const value = shape < 1 ? d * v * (1 - random()) ** (1 / shape) : d * v;
    return value / shape;
  }
}

function shuffled(count: number, random: RandomSource): number[] {
  const order = Array.from({ length: count }, (_, index) => index);
  for (let index = count - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [order[index], order[other]] = [order[other] as number, order[index] as number];
  }
  return order;
}

function columnsOf(
  planned: readonly Planned[],
  { classShares, durationMs, random }: { classShares: readonly number[]; durationMs: number; random: RandomSource },
): Workload {
  const count = planned.reduce((sum, { turns }) => sum + 1 + turns.length, 0);
  const workload = {
    count,
    atMs: new Float64Array(count).fill(Number.NaN),
    promptTokens: new Int32Array(count),
    outputTokens: new Int32Array(count),
    classes: new Uint8Array(count),
    session: new Int32Array(count).fill(-1),
    after: new Int32Array(count).fill(-1),
    pauseMs: new Float64Array(count).fill(Number.NaN),
    next: new Int32Array(count).fill(-1),
    blocks: new Array<Int32Array | null>(count).fill(null),
    durationMs,
  };
  const put = (index: number, row: TraceRow, copy: number, klass: number, session: number) => {
    workload.promptTokens[index] = row.promptTokens;
    workload.outputTokens[index] = row.outputTokens;
    workload.classes[index] = klass;
    workload.session[index] = session;
    workload.blocks[index] =
      row.blocks === null || copy === 0 ? row.blocks : row.blocks.map((id) => id + (copy % COPIES_MAX) * COPY_STRIDE);
  };
  let turnIndex = planned.length;
  for (const [index, { atMs, row, copy, turns }] of planned.entries()) {
    const klass = drawIndex(classShares, random());
    const session = row.session < 0 ? -1 : index;
    workload.atMs[index] = atMs;
    put(index, row, copy, klass, session);
    let before = index;
    for (const turn of turns) {
      put(turnIndex, turn, copy, klass, session);
      workload.after[turnIndex] = before;
      workload.pauseMs[turnIndex] = turn.pauseMs;
      workload.next[before] = turnIndex;
      before = turnIndex++;
    }
  }
  return workload;
}

function drawIndex(shares: readonly number[], draw: number): number {
  let rest = draw * shares.reduce((sum, share) => sum + share, 0);
  for (const [index, share] of shares.entries()) {
    rest -= share;
    if (rest < 0) return index;
  }
  return shares.length - 1;
}
