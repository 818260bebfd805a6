/**
 * Figures of requests and what became of them: dollars, attainment, quantiles, families, saturation. In blocks of time, so
 * that intervals come from drawing blocks (a block bootstrap: requests of one time are not independent).
 */

import type { PolicyData } from "@zml/engine";
import { seededRandom } from "../seeded-random.ts";
import type { ReplayPlan } from "./replay-plan.ts";
import { END, FLAG, type Results, type Traffic } from "./traffic.ts";

/** Blocks of a window. */
const BLOCKS = 60;
/** Drawings of blocks. */
const DRAWINGS = 200;
/** Share of the drawings that an interval holds. */
const INTERVAL = 0.95;

/** Bins of times: 0.5 % wide, from 10 µs to 3 h. */
const BIN_GROWTH = Math.log(1.005);
const BIN_LEAST_MS = 0.01;
const BINS = Math.ceil(Math.log(1e7 / BIN_LEAST_MS) / BIN_GROWTH);

const TIMES = ["ttft", "token", "response"] as const;
type Time = (typeof TIMES)[number];

/** Counts of one block. */
interface Block {
  requests: number;
  served: number;
  refused: number;
  failed: number;
  cancelled: number;
  waited: number;
  judged: number;
  met: number;
  usd: number;
  outputTokens: number;
  readonly families: Float64Array;
  readonly times: Readonly<Record<Time, Uint32Array>>;
}

export interface Quantiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

export interface Figures {
  readonly requests: number;
  readonly served: number;
  /** No node had room, at once or after waiting. */
  readonly refused: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Waited for room, in vain or not. */
  readonly queued: number;
  readonly usd: number;
  readonly usd_per_million_output_tokens: number | null;
  /** Share of the requests with a target that met it. */
  readonly attainment: number | null;
  readonly ttft_ms: Quantiles;
  readonly token_ms: Quantiles;
  readonly response_ms: Quantiles;
  /** Share of the served requests by family. */
  readonly families: Readonly<Record<string, number>>;
}

/** A figure of a run, by name. */
export type FigureName = (typeof FIGURES)[number]["name"];
/** Every figure that is compared, and how. */
export const FIGURES = [
  { name: "usd", of: (figures: Figures) => figures.usd },
  { name: "usd_per_million_output_tokens", of: (figures: Figures) => figures.usd_per_million_output_tokens },
  { name: "attainment", of: (figures: Figures) => figures.attainment },
  { name: "ttft_p50_ms", of: (figures: Figures) => figures.ttft_ms.p50 },
  { name: "ttft_p95_ms", of: (figures: Figures) => figures.ttft_ms.p95 },
  { name: "ttft_p99_ms", of: (figures: Figures) => figures.ttft_ms.p99 },
  { name: "token_p50_ms", of: (figures: Figures) => figures.token_ms.p50 },
  { name: "token_p95_ms", of: (figures: Figures) => figures.token_ms.p95 },
  { name: "token_p99_ms", of: (figures: Figures) => figures.token_ms.p99 },
  { name: "response_p50_ms", of: (figures: Figures) => figures.response_ms.p50 },
  { name: "response_p95_ms", of: (figures: Figures) => figures.response_ms.p95 },
  { name: "response_p99_ms", of: (figures: Figures) => figures.response_ms.p99 },
  { name: "refused_share", of: ({ refused, requests }: Figures) => (requests === 0 ? null : refused / requests) },
  { name: "queued_share", of: ({ queued, requests }: Figures) => (requests === 0 ? null : queued / requests) },
  { name: "failed_share", of: ({ failed, requests }: Figures) => (requests === 0 ? null : failed / requests) },
] as const;

/** Everything about one run. */
export class Summary {
  readonly blocks: readonly Block[];
  readonly #families: readonly string[];

  /**
   * O(requests).
   *
   * @param targets policies whose targets are judged by, by the index that requests name.
   * @param only requests under these policies; null: all.
   */
  constructor(
    plan: Pick<ReplayPlan, "families" | "nodes">,
    targets: readonly PolicyData[],
    traffic: Traffic,
    results: Results,
    only: ReadonlySet<number> | null = null,
    blocks = BLOCKS,
  ) {
    this.#families = plan.families;
    this.blocks = Array.from({ length: blocks }, () => emptyBlock(plan.families.length));
    const familyOf = Int32Array.from(plan.nodes, ({ family }) => family);
    const latency = Float64Array.from(targets, ({ latencyTargetMs }) => latencyTargetMs);
    const first = Float64Array.from(targets, ({ ttftTargetMs }) => ttftTargetMs);
    const perToken = Float64Array.from(targets, ({ tokenTargetMs }) => tokenTargetMs);
    const { count } = traffic;
    const lengthMs = Math.max(1e-9, (traffic.atMs[count - 1] ?? 0) - (traffic.atMs[0] ?? 0));
    for (let index = 0; index < count; index++) {
      const policy = traffic.policy[index] as number;
      if (only !== null && !only.has(policy)) continue;
      const share = ((traffic.atMs[index] as number) - (traffic.atMs[0] as number)) / lengthMs;
      const block = this.blocks[Math.min(blocks - 1, Math.floor(share * blocks))] as Block;
      const end = results.end[index] as number;
      block.requests += 1;
      block.usd += results.usd[index] as number;
      if ((results.waitMs[index] as number) > WAITED_MS) block.waited += 1;
      const isStream = ((traffic.flags[index] as number) & FLAG.stream) !== 0;
      const hasTarget =
        (latency[policy] as number) > 0 ||
        (isStream && ((first[policy] as number) > 0 || (perToken[policy] as number) > 0));
      if (end === END.cancelled) {
        block.cancelled += 1;
        block.outputTokens += traffic.outputTokens[index] as number;
        continue;
      }
      if (hasTarget) block.judged += 1;
      if (end !== END.served) {
        if (end === END.failed) block.failed += 1;
        else block.refused += 1;
        continue;
      }
      block.served += 1;
      const outputTokens = traffic.outputTokens[index] as number;
      block.outputTokens += outputTokens;
      const family = familyOf[results.node[index] as number];
      if (family !== undefined) block.families[family] = (block.families[family] as number) + 1;
      const responseMs = results.responseMs[index] as number;
      count1(block.times.response, responseMs);
      const ttftMs = isStream ? (results.ttftMs[index] as number) : Number.NaN;
      const tokenMs = outputTokens < 2 ? Number.NaN : (responseMs - ttftMs) / (outputTokens - 1);
      count1(block.times.ttft, ttftMs);
      count1(block.times.token, tokenMs);
      const isMissed =
        responseMs > (latency[policy] as number) ||
        (isStream && (ttftMs > (first[policy] as number) || tokenMs > (perToken[policy] as number)));
      if (hasTarget && !isMissed) block.met += 1;
    }
  }

  figures(): Figures {
    return figuresOf(sumOf(this.blocks, null, this.#families.length), this.#families);
  }

  /** @param drawn how often each block is taken. */
  drawn(drawn: Uint8Array): Figures {
    return figuresOf(sumOf(this.blocks, drawn, this.#families.length), this.#families);
  }

  /** Cumulative shares of a time, for a plot: ms at each share. */
  quantileCurve(time: Time, shares: readonly number[]): (number | null)[] {
    const { times } = sumOf(this.blocks, null, this.#families.length);
    return shares.map((share) => quantileOf(times[time], share));
  }

  /** USD and the 95th percentile of the response of each block. */
  series(): { usd: number; requests: number; response_p95_ms: number | null }[] {
    return this.blocks.map(({ usd, requests, times }) => ({
      usd,
      requests,
      response_p95_ms: quantileOf(times.response, 0.95),
    }));
  }
}

/** What is queued in the data plane for less is no waiting. */
const WAITED_MS = 1;

/** A figure under two policies, with intervals. */
export interface Comparison {
  readonly figure: FigureName;
  readonly current: number | null;
  readonly draft: number | null;
  /** Draft less current. */
  readonly difference: number | null;
  /** 95 % of the drawings lie between. */
  readonly current_interval: readonly [number, number] | null;
  readonly draft_interval: readonly [number, number] | null;
  readonly difference_interval: readonly [number, number] | null;
}

/** Compares two runs of the same traffic; each drawing takes the same blocks of both. O(drawings × blocks × bins). */
export function compare(current: Summary, draft: Summary, seed: number): Comparison[] {
  const random = seededRandom(seed);
  const values = FIGURES.map(() => ({ current: [] as number[], draft: [] as number[], difference: [] as number[] }));
  const blocks = current.blocks.length;
  for (let drawing = 0; drawing < DRAWINGS; drawing++) {
    const drawn = new Uint8Array(blocks);
    for (let take = 0; take < blocks; take++) {
      const block = Math.floor(random() * blocks);
      drawn[block] = (drawn[block] as number) + 1;
    }
    const [a, b] = [current.drawn(drawn), draft.drawn(drawn)];
    FIGURES.forEach(({ of }, index) => {
      const [x, y] = [of(a), of(b)];
      const into = values[index];
      if (x !== null) into?.current.push(x);
      if (y !== null) into?.draft.push(y);
      if (x !== null && y !== null) into?.difference.push(y - x);
    });
  }
  const [a, b] = [current.figures(), draft.figures()];
  return FIGURES.map(({ name, of }, index) => {
    const [x, y] = [of(a), of(b)];
    const drawn = values[index];
    return {
      figure: name,
      current: x,
      draft: y,
      difference: x === null || y === null ? null : y - x,
      current_interval: intervalOf(drawn?.current ?? []),
      draft_interval: intervalOf(drawn?.draft ?? []),
      difference_interval: intervalOf(drawn?.difference ?? []),
    };
  });
}

function intervalOf(values: number[]): [number, number] | null {
  if (values.length < 20) return null;
  values.sort((a, b) => a - b);
  const cut = Math.floor(((1 - INTERVAL) / 2) * values.length);
  return [values[cut] as number, values[values.length - 1 - cut] as number];
}

function emptyBlock(families: number): Block {
  const counts = { requests: 0, served: 0, refused: 0, failed: 0, cancelled: 0, waited: 0, judged: 0, met: 0 };
  const times = { ttft: new Uint32Array(BINS), token: new Uint32Array(BINS), response: new Uint32Array(BINS) };
  return { ...counts, usd: 0, outputTokens: 0, families: new Float64Array(families), times };
}

function sumOf(blocks: readonly Block[], drawn: Uint8Array | null, families: number): Block {
  const sum = emptyBlock(families);
  blocks.forEach((block, index) => {
    const times = drawn === null ? 1 : (drawn[index] as number);
    if (times === 0) return;
    for (const name of COUNTS) sum[name] += times * block[name];
    for (let family = 0; family < families; family++) {
      sum.families[family] = (sum.families[family] as number) + times * (block.families[family] as number);
    }
    for (const name of TIMES) {
      const [from, to] = [block.times[name], sum.times[name]];
      for (let bin = 0; bin < BINS; bin++) to[bin] = (to[bin] as number) + times * (from[bin] as number);
    }
  });
  return sum;
}

const COUNTS = [
  "requests",
  "served",
  "refused",
  "failed",
  "cancelled",
  "waited",
  "judged",
  "met",
  "usd",
  "outputTokens",
] as const;

function figuresOf(block: Block, families: readonly string[]): Figures {
  const { requests, served, refused, failed, cancelled, waited, judged, met, usd, outputTokens, times } = block;
  return {
    ...{ requests, served, refused, failed, cancelled, queued: waited, usd },
    usd_per_million_output_tokens: outputTokens > 0 ? (usd / outputTokens) * 1e6 : null,
    attainment: judged > 0 ? met / judged : null,
    ttft_ms: quantilesOf(times.ttft),
    token_ms: quantilesOf(times.token),
    response_ms: quantilesOf(times.response),
    families: Object.fromEntries(
      families.map((name, index) => [name, served > 0 ? (block.families[index] as number) / served : 0]),
    ),
  };
}

function quantilesOf(bins: Uint32Array): Quantiles {
  return { p50: quantileOf(bins, 0.5), p95: quantileOf(bins, 0.95), p99: quantileOf(bins, 0.99) };
}

function quantileOf(bins: Uint32Array, share: number): number | null {
  let count = 0;
  for (let bin = 0; bin < BINS; bin++) count += bins[bin] as number;
  if (count === 0) return null;
  let left = Math.ceil(count * share);
  for (let bin = 0; bin < BINS; bin++) {
    left -= bins[bin] as number;
    if (left <= 0) return BIN_LEAST_MS * Math.exp((bin + 0.5) * BIN_GROWTH);
  }
  return null;
}

function count1(bins: Uint32Array, ms: number): void {
  if (Number.isNaN(ms)) return;
  const bin = ms <= BIN_LEAST_MS ? 0 : Math.min(BINS - 1, Math.floor(Math.log(ms / BIN_LEAST_MS) / BIN_GROWTH));
  bins[bin] = (bins[bin] as number) + 1;
}
