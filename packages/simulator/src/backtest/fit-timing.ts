/**
 * How long a model takes on a family, from attempts that were recorded: the constants of the node model (step-model.ts), and
 * a constant for what lies beside the node's steps. First a least-squares fit of
 *
 *   first  = overhead + perPromptToken × prompt + 1.5 × step
 *   decode = (tokens − 1) × step + perPromptToken × prompts of others computed meanwhile
 *   step   = base + perSequence × B + perCachedToken × K
 *
 * with B and K the company that the attempt really had. Then the same attempts are played on a virtual node, each where and
 * when it really was sent, and the constants are scaled until the medians agree: what the fit takes for linear (chunks of
 * prompts, waiting for a step) is the node model's own business there.
 */

import type { NodeConstants } from "../step-model.ts";
import { VirtualNode } from "../virtual/virtual-node.ts";
import { type FittedTiming, KV_UNKNOWN_TOKENS, type Lesson, SEQUENCES_UNKNOWN, STEP_TOKENS } from "./replay-plan.ts";

/** An attempt that succeeded. Times in ms, since any moment. */
export interface RecordedAttempt {
  readonly sentAtMs: number;
  /** NaN: its answer did not stream. */
  readonly firstTokenMs: number;
  readonly durationMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** Attempts of one model on one node, by time of sending. */
export interface NodeAttempts {
  readonly node: number;
  readonly model: number;
  readonly family: number;
  readonly concurrencyLimit: number;
  readonly kvCapacityTokens: number;
  readonly attempts: readonly RecordedAttempt[];
}

type Constants = Omit<NodeConstants, "kvCapacityTokens">;

/** Fewer say nothing about five numbers. */
const SAMPLES_MIN = 8;
/** Times that the constants are scaled. */
const ROUNDS = 6;
/** Shorter answers say more about the first token than about the step. */
const DECODE_TOKENS_MIN = 4;
/** A node that differs by less is its family. */
const SLOWNESS_MIN = 0.05;

/** An 8-billion-parameter model on a large GPU: what is taken where nobody recorded anything. */
const UNKNOWN: Constants = {
  baseMs: 8,
  usPerSequence: 30,
  nsPerCachedToken: 40,
  usPerPrefillToken: 40,
  nsPerSquaredPrefillToken: 0,
};

/** Everything that was fitted. */
export interface Fit {
  readonly timings: readonly FittedTiming[];
  /** Factor of each node against its family, by node. */
  readonly slowness: ReadonlyMap<number, number>;
}

/**
 * Fits each (model, family) that has nodes. Those without records are taken to be as the same model elsewhere.
 *
 * @param groups every (node, model) there is, with its attempts.
 */
export function fitTimings(groups: readonly NodeAttempts[]): Fit {
  const families = new Map<string, NodeAttempts[]>();
  for (const group of groups) {
    const key = `${group.model} ${group.family}`;
    const known = families.get(key);
    if (known === undefined) families.set(key, [group]);
    else known.push(group);
  }
  const timings: FittedTiming[] = [];
  const slowness = new Map<number, number>();
  const unknown: { model: number; family: number }[] = [];
  for (const members of families.values()) {
    const { model, family } = members[0] as NodeAttempts;
    const samples = members.reduce((sum, { attempts }) => sum + attempts.length, 0);
    if (samples < SAMPLES_MIN) unknown.push({ model, family });
    else timings.push(fitFamily(model, family, members, samples, slowness));
  }
  const measured = [...timings];
  for (const { model, family } of unknown) {
    const like = measured.filter((timing) => timing.model === model);
    const others = like.length > 0 ? like : measured;
    const median = (of: (timing: FittedTiming) => number, fallback: number) =>
      others.length === 0 ? fallback : medianOf(others.map(of));
    const constants: Constants = {
      baseMs: median(({ constants: c }) => c.baseMs, UNKNOWN.baseMs),
      usPerSequence: median(({ constants: c }) => c.usPerSequence, UNKNOWN.usPerSequence),
      nsPerCachedToken: median(({ constants: c }) => c.nsPerCachedToken, UNKNOWN.nsPerCachedToken),
      usPerPrefillToken: median(({ constants: c }) => c.usPerPrefillToken, UNKNOWN.usPerPrefillToken),
      nsPerSquaredPrefillToken: 0,
    };
    const overheadMs = median((timing) => timing.overheadMs, 2);
    timings.push({
      model,
      family,
      constants,
      overheadMs,
      samples: 0,
      tokenError: Number.NaN,
      responseError: Number.NaN,
    });
  }
  return { timings, slowness };
}

function fitFamily(
  model: number,
  family: number,
  members: readonly NodeAttempts[],
  samples: number,
  slowness: Map<number, number>,
): FittedTiming {
  let { constants, overheadMs } = leastSquares(members);
  let played = play(members, constants, overheadMs, null);
  for (let round = 0; round < ROUNDS; round++) {
    const token = ratioOf(played, "token");
    const response = ratioOf(played, "response");
    // of answers that do not stream the whole response tells what a token takes
    const decode = Number.isNaN(token) ? response : token;
    const damped = Number.isNaN(decode) ? 1 : Math.max(0.5, Math.min(2, decode));
    constants = {
      baseMs: constants.baseMs * damped,
      usPerSequence: constants.usPerSequence * damped,
      nsPerCachedToken: constants.nsPerCachedToken * damped,
      usPerPrefillToken: constants.usPerPrefillToken,
      nsPerSquaredPrefillToken: 0,
    };
    const missingMs = medianOf(
      played.flatMap(({ real, first }) => {
        const off = real.firstTokenMs - first;
        return Number.isNaN(off) ? [] : [off];
      }),
    );
    if (!Number.isNaN(missingMs)) {
      overheadMs += missingMs;
      if (overheadMs < 0) {
        // the node itself is faster with prompts than the fit took it for
        constants = { ...constants, usPerPrefillToken: constants.usPerPrefillToken * 0.7 };
        overheadMs = 0;
      }
    }
    played = play(members, constants, overheadMs, null);
    if (Math.abs(damped - 1) < 0.005 && !(Math.abs(missingMs) > 0.01 * (overheadMs + constants.baseMs))) break;
  }
  for (const { node, attempts } of members) {
    if (attempts.length < SAMPLES_MIN) continue;
    const own = played.filter((one) => one.node === node);
    const factor = ratioOf(own, Number.isNaN(ratioOf(own, "token")) ? "response" : "token");
    if (factor > 0 && Math.abs(factor - 1) >= SLOWNESS_MIN) slowness.set(node, factor);
  }
  if (slowness.size > 0) played = play(members, constants, overheadMs, slowness);
  const errorOf = (of: "token" | "response") =>
    medianOf(played.map((one) => Math.abs(simulated(one, of) / recorded(one, of) - 1)).filter(Number.isFinite));
  return {
    model,
    family,
    constants,
    overheadMs,
    samples,
    tokenError: errorOf("token"),
    responseError: errorOf("response"),
  };
}

interface Played {
  readonly node: number;
  readonly real: RecordedAttempt;
  /** From sending, ms. */
  first: number;
  total: number;
}

function recorded({ real }: Played, of: "token" | "response"): number {
  if (of === "response") return real.durationMs;
  if (real.outputTokens < DECODE_TOKENS_MIN) return Number.NaN;
  return (real.durationMs - real.firstTokenMs) / (real.outputTokens - 1);
}

function simulated({ real, first, total }: Played, of: "token" | "response"): number {
  return of === "response" ? total : (total - first) / (real.outputTokens - 1);
}

function ratioOf(played: readonly Played[], of: "token" | "response"): number {
  const ratios = played.map((one) => recorded(one, of) / simulated(one, of));
  return medianOf(ratios.filter((ratio) => ratio > 0 && ratio < Number.POSITIVE_INFINITY));
}

/** Every attempt on its node when it was sent. */
function play(
  members: readonly NodeAttempts[],
  constants: Constants,
  overheadMs: number,
  slowness: ReadonlyMap<number, number> | null,
): Played[] {
  const all: Played[] = [];
  for (const { node, attempts, concurrencyLimit, kvCapacityTokens } of members) {
    const played = attempts.map((real): Played => ({ node, real, first: Number.NaN, total: Number.NaN }));
    const sentAt = (id: number) => (played[id] as Played).real.sentAtMs;
    const virtual = new VirtualNode({
      constants: { ...constants, kvCapacityTokens: kvCapacityTokens > 0 ? kvCapacityTokens : KV_UNKNOWN_TOKENS },
      maxSequences: concurrencyLimit > 0 ? concurrencyLimit : SEQUENCES_UNKNOWN,
      stepTokenBudget: STEP_TOKENS,
      onFirstToken: (id, atMs) => {
        (played[id] as Played).first = atMs - sentAt(id) + overheadMs;
      },
      onFinished: (id, atMs) => {
        (played[id] as Played).total = atMs - sentAt(id) + overheadMs;
      },
    });
    const factor = slowness?.get(node);
    if (factor !== undefined) virtual.setSlowness(factor, 0);
    played.forEach(({ real }, id) => {
      const { promptTokens, outputTokens, sentAtMs } = real;
      virtual.enqueue({ id, promptTokens, outputTokens: Math.max(1, outputTokens), blocks: null }, sentAtMs);
    });
    virtual.advance(Number.MAX_VALUE);
    all.push(...played);
  }
  return all;
}

/** First constants, of equations that are linear in them. */
function leastSquares(members: readonly NodeAttempts[]): { constants: Constants; overheadMs: number } {
  // overhead, per prompt token, base, per sequence, per cached token
  const fit = new NonNegativeFit(5);
  for (const { attempts } of members) {
    const company = companyOf(attempts);
    attempts.forEach((attempt, index) => {
      const { firstTokenMs, durationMs, promptTokens, outputTokens, sentAtMs } = attempt;
      const endMs = sentAtMs + durationMs;
      if (Number.isNaN(firstTokenMs)) {
        const { sequences, cached, prompts } = company(sentAtMs, endMs, index);
        const steps = outputTokens + 0.5;
        fit.add([1, promptTokens + prompts, steps, steps * sequences, steps * cached], durationMs);
        return;
      }
      const firstAtMs = sentAtMs + firstTokenMs;
      const early = company(sentAtMs, firstAtMs, index);
      fit.add([1, promptTokens, 1.5, 1.5 * early.sequences, 1.5 * early.cached], firstTokenMs);
      if (outputTokens < DECODE_TOKENS_MIN) return;
      const { sequences, cached, prompts } = company(firstAtMs, endMs, index);
      const steps = outputTokens - 1;
      fit.add([0, prompts, steps, steps * sequences, steps * cached], durationMs - firstTokenMs);
    });
  }
  const [overheadMs = 0, perPrompt = 0, base = 0, perSequence = 0, perCached = 0] = fit.solve();
  return {
    overheadMs,
    constants: {
      baseMs: Math.max(0.01, base),
      usPerSequence: perSequence * 1e3,
      nsPerCachedToken: perCached * 1e6,
      usPerPrefillToken: perPrompt * 1e3,
      nsPerSquaredPrefillToken: 0,
    },
  };
}

/** Attempts that a gateway learns from before a replay, at most. */
const LESSONS_MAX = 4_000;

/** What the attempts would have taught a gateway: the last ones of each node. */
export function lessonsOf(groups: readonly NodeAttempts[]): Lesson[] {
  const most = Math.max(20, Math.floor(LESSONS_MAX / Math.max(1, groups.length)));
  const lessons = groups.flatMap(({ node, model, attempts }) => {
    const company = companyOf(attempts);
    const from = Math.max(0, attempts.length - most);
    return attempts.slice(from).map((attempt, position) => {
      const { sentAtMs, firstTokenMs, durationMs, promptTokens, outputTokens } = attempt;
      const endMs = sentAtMs + durationMs;
      const began = Number.isNaN(firstTokenMs) ? sentAtMs : sentAtMs + firstTokenMs;
      const during = company(began, endMs, from + position);
      const atFirst = company(sentAtMs - 1e-3, sentAtMs, from + position);
      const lesson: Lesson = {
        row: node,
        model,
        ...{ promptTokens, outputTokens, firstTokenMs, durationMs },
        depth: Math.round(atFirst.sequences),
        aheadTokens: 0,
        meanDepth: Math.max(1, during.sequences),
        meanCachedTokens: Math.max(during.cached, promptTokens),
        prefilledTokens: during.prompts,
      };
      return { lesson, endMs };
    });
  });
  return lessons.sort((a, b) => a.endMs - b.endMs).map(({ lesson }) => lesson);
}

interface Company {
  /** Mean sequences, the attempt itself included. */
  readonly sequences: number;
  /** Mean cached tokens. */
  readonly cached: number;
  /** Prompt tokens of others that were computed meanwhile. */
  readonly prompts: number;
}

/** What else was on a node between two times. O(log n) each, after O(n log n). */
function companyOf(attempts: readonly RecordedAttempt[]): (fromMs: number, toMs: number, self: number) => Company {
  const changes = attempts.flatMap(({ sentAtMs, durationMs, promptTokens, outputTokens }) => {
    const tokens = promptTokens + outputTokens / 2;
    return [
      { atMs: sentAtMs, sequences: 1, tokens },
      { atMs: sentAtMs + durationMs, sequences: -1, tokens: -tokens },
    ];
  });
  changes.sort((a, b) => a.atMs - b.atMs);
  const at = new Float64Array(changes.length);
  const sequences = new Float64Array(changes.length + 1);
  const tokens = new Float64Array(changes.length + 1);
  const sequenceMs = new Float64Array(changes.length + 1);
  const tokenMs = new Float64Array(changes.length + 1);
  changes.forEach((change, index) => {
    at[index] = change.atMs;
    const sinceMs = index === 0 ? 0 : change.atMs - (at[index - 1] as number);
    sequenceMs[index + 1] = (sequenceMs[index] as number) + sinceMs * (sequences[index] as number);
    tokenMs[index + 1] = (tokenMs[index] as number) + sinceMs * (tokens[index] as number);
    sequences[index + 1] = (sequences[index] as number) + change.sequences;
    tokens[index + 1] = (tokens[index] as number) + change.tokens;
  });
  const integral = (areas: Float64Array, levels: Float64Array, ms: number) => {
    const index = firstAfter(at, ms);
    if (index === 0) return 0;
    return (areas[index] as number) + (ms - (at[index - 1] as number)) * (levels[index] as number);
  };
  const firsts = attempts.map(({ sentAtMs, firstTokenMs, promptTokens }, index) => ({
    atMs: sentAtMs + (Number.isNaN(firstTokenMs) ? 0 : firstTokenMs),
    promptTokens,
    index,
  }));
  firsts.sort((a, b) => a.atMs - b.atMs);
  const firstAt = Float64Array.from(firsts, ({ atMs }) => atMs);
  const prompts = new Float64Array(firsts.length + 1);
  firsts.forEach(({ promptTokens }, index) => {
    prompts[index + 1] = (prompts[index] as number) + promptTokens;
  });
  const ownFirst = new Float64Array(attempts.length);
  for (const { atMs, index } of firsts) ownFirst[index] = atMs;
  return (fromMs, toMs, self) => {
    const lengthMs = Math.max(1e-6, toMs - fromMs);
    const own = attempts[self] as RecordedAttempt;
    const between = (prompts[firstAfter(firstAt, toMs)] as number) - (prompts[firstAfter(firstAt, fromMs)] as number);
    const isOwn = (ownFirst[self] as number) > fromMs && (ownFirst[self] as number) <= toMs;
    return {
      sequences: (integral(sequenceMs, sequences, toMs) - integral(sequenceMs, sequences, fromMs)) / lengthMs,
      cached: (integral(tokenMs, tokens, toMs) - integral(tokenMs, tokens, fromMs)) / lengthMs,
      prompts: Math.max(0, between - (isOwn ? own.promptTokens : 0)),
    };
  };
}

/** Index of the first time that is later. */
function firstAfter(times: Float64Array, ms: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((times[middle] as number) <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Least squares of relative errors with coefficients of 0 or more, by descent along one coefficient after the other. */
class NonNegativeFit {
  readonly #size: number;
  readonly #products: Float64Array;
  readonly #targets: Float64Array;

  constructor(size: number) {
    this.#size = size;
    this.#products = new Float64Array(size * size);
    this.#targets = new Float64Array(size);
  }

  add(features: readonly number[], target: number): void {
    if (!(target > 0) || !features.every(Number.isFinite)) return;
    for (let row = 0; row < this.#size; row++) {
      const scaled = (features[row] as number) / target;
      this.#targets[row] = (this.#targets[row] as number) + scaled;
      for (let column = 0; column < this.#size; column++) {
        const cell = row * this.#size + column;
        this.#products[cell] = (this.#products[cell] as number) + (scaled * (features[column] as number)) / target;
      }
    }
  }

  solve(): number[] {
    const size = this.#size;
    const found = new Array<number>(size).fill(0);
    for (let sweep = 0; sweep < 5_000; sweep++) {
      let moved = 0;
      for (let row = 0; row < size; row++) {
        const curvature = this.#products[row * size + row] as number;
        if (!(curvature > 0)) continue;
        let gradient = this.#targets[row] as number;
        for (let column = 0; column < size; column++) {
          if (column !== row) gradient -= (this.#products[row * size + column] as number) * (found[column] as number);
        }
        const before = found[row] as number;
        const after = Math.max(0, gradient / curvature);
        found[row] = after;
        moved = Math.max(moved, Math.abs(after - before) / (after + before || 1));
      }
      if (moved < 1e-7) break;
    }
    return found;
  }
}

function medianOf(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN;
  const sorted = Float64Array.from(values).sort();
  return sorted[sorted.length >> 1] as number;
}
