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
  /** What the gateway had predicted, ms; NaN or absent: nothing. */
  readonly predictedFirstMs?: number;
  readonly predictedTokenMs?: number;
}

/** Attempts of one model on one node, by time of sending. */
export interface NodeAttempts {
  readonly node: number;
  readonly model: number;
  /** Models of one kin are one model to their nodes, under the names of several accounts: they share its steps. */
  readonly kin: number;
  readonly family: number;
  readonly concurrencyLimit: number;
  readonly kvCapacityTokens: number;
  readonly attempts: readonly RecordedAttempt[];
}

type Constants = Omit<NodeConstants, "kvCapacityTokens">;

/** Fewer say nothing about five numbers. */
const SAMPLES_MIN = 8;
/** Times that the constants are scaled, at most by 2 each: a step that the fit took for nothing has to come to tens of ms. */
const ROUNDS = 14;
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
  /** Factor of each node against its family, by `slownessKey`. */
  readonly slowness: ReadonlyMap<string, number>;
}

export function slownessKey(node: number, kin: number): string {
  return `${node} ${kin}`;
}

/**
 * Fits each (model, family) that has nodes. Those without records are taken to be as the same model elsewhere.
 *
 * @param groups every (node, model) there is, with its attempts.
 */
export function fitTimings(groups: readonly NodeAttempts[]): Fit {
  const families = new Map<string, { readonly members: NodeAttempts[]; readonly models: Set<number> }>();
  for (const { group, models } of byKin(groups)) {
    const key = `${group.kin} ${group.family}`;
    const known = families.get(key) ?? { members: [], models: new Set() };
    families.set(key, known);
    known.members.push(group);
    for (const model of models) known.models.add(model);
  }
  const slowness = new Map<string, number>();
  const measured: { readonly kin: number; readonly timing: Timing }[] = [];
  const fitted = Array.from(families.values(), ({ members, models }) => {
    const { kin } = members[0] as NodeAttempts;
    const samples = members.reduce((sum, { attempts }) => sum + attempts.length, 0);
    const timing = samples < SAMPLES_MIN ? null : fitFamily(members, samples, slowness);
    if (timing !== null) measured.push({ kin, timing });
    return { members, models, kin, timing };
  });
  const timings = fitted.flatMap(({ members, models, kin, timing }) => {
    const { family } = members[0] as NodeAttempts;
    const like = measured.filter((one) => one.kin === kin);
    const known = timing ?? middleOf((like.length > 0 ? like : measured).map((one) => one.timing));
    return Array.from(models, (model): FittedTiming => ({ ...known, model, family }));
  });
  return { timings, slowness };
}

type Timing = Omit<FittedTiming, "model" | "family">;

/** Of a step with some company: what timings are compared by. */
const TYPICAL = { sequences: 8, cachedTokens: 4_000 };

/** One of them as a whole: each constant's own median would be a node that there is not, such as one whose steps take no time. */
function middleOf(timings: readonly Timing[]): Timing {
  const stepMs = ({ constants: { baseMs, usPerSequence, nsPerCachedToken } }: Timing) =>
    baseMs + (usPerSequence * TYPICAL.sequences) / 1e3 + (nsPerCachedToken * TYPICAL.cachedTokens) / 1e6;
  const sorted = [...timings].sort((a, b) => stepMs(a) - stepMs(b));
  const { constants = UNKNOWN, overheadMs = 2 } = sorted[sorted.length >> 1] ?? {};
  return { constants, overheadMs, samples: 0, tokenError: Number.NaN, responseError: Number.NaN };
}

interface KinGroup {
  readonly group: NodeAttempts;
  readonly models: readonly number[];
  /** The model of each attempt. */
  readonly modelOf: readonly number[];
}

/** Groups of one node and kin as one, by time of sending. */
function byKin(groups: readonly NodeAttempts[]): KinGroup[] {
  const together = new Map<string, NodeAttempts[]>();
  for (const group of groups) {
    const key = slownessKey(group.node, group.kin);
    const known = together.get(key);
    if (known === undefined) together.set(key, [group]);
    else known.push(group);
  }
  return Array.from(together.values(), (members) => {
    const all = members.flatMap(({ model, attempts }) => attempts.map((attempt) => ({ model, attempt })));
    all.sort((a, b) => a.attempt.sentAtMs - b.attempt.sentAtMs);
    const group = { ...(members[0] as NodeAttempts), attempts: all.map(({ attempt }) => attempt) };
    return { group, models: members.map(({ model }) => model), modelOf: all.map(({ model }) => model) };
  });
}

function fitFamily(members: readonly NodeAttempts[], samples: number, slowness: Map<string, number>): Timing {
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
  const factors = new Map<string, number>();
  for (const { node, kin, attempts } of members) {
    if (attempts.length < SAMPLES_MIN) continue;
    const own = played.filter((one) => one.node === node);
    const factor = ratioOf(own, Number.isNaN(ratioOf(own, "token")) ? "response" : "token");
    if (factor > 0 && Math.abs(factor - 1) >= SLOWNESS_MIN) factors.set(slownessKey(node, kin), factor);
  }
  if (factors.size > 0) {
    const slowed = play(members, constants, overheadMs, factors);
    // where the steps explain little, as under load from elsewhere, a factor can pile a node up
    if (!(errorOf(slowed, "response") > errorOf(played, "response"))) {
      played = slowed;
      for (const [key, factor] of factors) slowness.set(key, factor);
    }
  }
  return {
    constants,
    overheadMs,
    samples,
    tokenError: errorOf(played, "token"),
    responseError: errorOf(played, "response"),
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

function errorOf(played: readonly Played[], of: "token" | "response"): number {
  return medianOf(played.map((one) => Math.abs(simulated(one, of) / recorded(one, of) - 1)).filter(Number.isFinite));
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
  slowness: ReadonlyMap<string, number> | null,
): Played[] {
  const all: Played[] = [];
  for (const { node, kin, attempts, concurrencyLimit, kvCapacityTokens } of members) {
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
    const factor = slowness?.get(slownessKey(node, kin));
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

/**
 * What the attempts taught a gateway by the time that a window begins: the last ones of each node. What came later is no
 * lesson, since a gateway that knows how the window ends decides otherwise than the one that ran; only where nothing is
 * kept of the time before it is.
 *
 * @param beginMs of the window, on the clock of the attempts.
 */
export function lessonsOf(groups: readonly NodeAttempts[], beginMs: number): Lesson[] {
  const together = byKin(groups);
  const most = Math.max(20, Math.floor(LESSONS_MAX / Math.max(1, together.length)));
  const isBefore = ({ sentAtMs, durationMs }: RecordedAttempt) => sentAtMs + durationMs <= beginMs;
  const isAnyBefore = groups.some(({ attempts }) => attempts.some(isBefore));
  const lessons = together.flatMap(({ group: { node, attempts }, modelOf }) => {
    const company = companyOf(attempts);
    const indexes = [...attempts.keys()].filter(
      (index) => !isAnyBefore || isBefore(attempts[index] as RecordedAttempt),
    );
    return indexes.slice(-most).map((index) => {
      const { sentAtMs, firstTokenMs, durationMs, promptTokens, outputTokens } = attempts[index] as RecordedAttempt;
      const endMs = sentAtMs + durationMs;
      const began = Number.isNaN(firstTokenMs) ? sentAtMs : sentAtMs + firstTokenMs;
      const during = company(began, endMs, index);
      const atFirst = company(sentAtMs - 1e-3, sentAtMs, index);
      const { predictedFirstMs = Number.NaN, predictedTokenMs = Number.NaN } = attempts[index] as RecordedAttempt;
      const lesson: Lesson = {
        ...{ atMs: endMs, predictedFirstMs, predictedTokenMs },
        row: node,
        model: modelOf[index] as number,
        ...{ promptTokens, outputTokens, firstTokenMs, durationMs },
        depth: Math.round(atFirst.sequences),
        aheadTokens: atFirst.ahead,
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
  /** Prompt tokens of others that were there before the time began and had no first token. */
  readonly ahead: number;
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
  // attempts come in the order in which they were sent
  const sentAt = Float64Array.from(attempts, ({ sentAtMs }) => sentAtMs);
  const sent = new Float64Array(attempts.length + 1);
  attempts.forEach(({ promptTokens }, index) => {
    sent[index + 1] = (sent[index] as number) + promptTokens;
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
      ahead: Math.max(
        0,
        (sent[Math.min(self, firstAfter(sentAt, fromMs))] as number) - (prompts[firstAfter(firstAt, fromMs)] as number),
      ),
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
