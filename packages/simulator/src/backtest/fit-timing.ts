/**
 * How long a model takes on a family, from attempts that were recorded: the constants of the node model (step-model.ts), and
 * a constant for what lies beside the node's steps. First a least-squares fit of
 *
 *   first  = overhead + perPromptToken × prompt + 1.5 × step
 *   decode = (tokens − 1) × step + perPromptToken × prompts of others computed meanwhile
 *   step   = base + perSequence × B + perCachedToken × K
 *
 * with B and K the company that the attempt really had. Then the same attempts are played on a virtual node, each where and
 * when it really was sent, and the constants are scaled until the medians agree, of long prompts and of short ones: what the
 * fit takes for linear (chunks of prompts, waiting for a step) is the node model's own business there. How first tokens
 * spread about what was played is kept. Where next to none was seen, prompts are taken to be as on the other families.
 */

import type { NodeConstants } from "../step-model.ts";
import { VirtualNode } from "../virtual/virtual-node.ts";
import { byKin, type NodeAttempts, type RecordedAttempt } from "./attempts.ts";
import { companyOf } from "./company.ts";
import { NonNegativeFit } from "./non-negative-fit.ts";
import { type FittedTiming, KV_UNKNOWN_TOKENS, SEQUENCES_UNKNOWN, STEP_TOKENS } from "./replay-plan.ts";

type Constants = Omit<NodeConstants, "kvCapacityTokens">;

/** Fewer say nothing about five numbers. */
const SAMPLES_MIN = 8;
/** First tokens that tell what a prompt takes, at least: answers that come whole tell it badly. */
const FIRSTS_MIN = 24;
/** Times that the constants are scaled, at most by 2 each: a step that the fit took for nothing has to come to tens of ms. */
const ROUNDS = 14;
/** Quantiles that stand for how first tokens spread. */
const QUANTILES = 50;
/** Part of what is missing per token of a prompt that one round takes in: what lies beside it changes with it. */
const PROMPT_DAMPING = 0.7;
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

/** A window on the clock of the attempts, ms. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

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
 * @param groups every (node, model) there is, with its attempts. @param span of the window, on the clock of the attempts.
 */
export function fitTimings(groups: readonly NodeAttempts[], span: Span): Fit {
  const families = new Map<string, { readonly members: NodeAttempts[]; readonly models: Set<number> }>();
  for (const { group, models } of byKin(groups)) {
    const key = `${group.kin} ${group.family}`;
    const known = families.get(key) ?? { members: [], models: new Set() };
    families.set(key, known);
    known.members.push(group);
    for (const model of models) known.models.add(model);
  }
  const slowness = new Map<string, number>();
  const measured: { readonly kin: number; readonly timing: Timing & { readonly hasFirsts: boolean } }[] = [];
  const samplesOf = (members: readonly NodeAttempts[], isCounted: (attempt: RecordedAttempt) => boolean) =>
    members.reduce((sum, { attempts }) => sum + attempts.filter(isCounted).length, 0);
  const known = Array.from(families.values(), ({ members, models }) => {
    const { kin } = members[0] as NodeAttempts;
    const firsts = samplesOf(members, ({ firstTokenMs }) => !Number.isNaN(firstTokenMs));
    return { members, models, kin, samples: samplesOf(members, () => true), hasFirsts: firsts >= FIRSTS_MIN };
  });
  // those that tell what a prompt takes come first: the others are taken to be like them in that
  known.sort((a, b) => Number(b.hasFirsts) - Number(a.hasFirsts));
  const likeOf = (kin: number) => {
    const like = measured.filter((one) => one.kin === kin);
    return (like.length > 0 ? like : measured).map((one) => one.timing);
  };
  const fitted = known.map(({ members, models, kin, samples, hasFirsts }) => {
    const told = hasFirsts ? null : promptsOf(likeOf(kin).filter(({ hasFirsts: tells }) => tells));
    const timing =
      samples < SAMPLES_MIN ? null : { ...fitFamily(members, { samples, prior: told, span }, slowness), hasFirsts };
    if (timing !== null) measured.push({ kin, timing });
    return { members, models, kin, timing };
  });
  const timings = fitted.flatMap(({ members, models, kin, timing }) => {
    const { family } = members[0] as NodeAttempts;
    const { hasFirsts: _, ...rest } = timing ?? { hasFirsts: false, ...middleOf(likeOf(kin)) };
    return Array.from(models, (model): FittedTiming => ({ ...rest, model, family }));
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
  return { constants, overheadMs, firstLateMs: [], samples: 0, tokenError: Number.NaN, responseError: Number.NaN };
}

/** What is taken of prompts where no first tokens tell it. */
interface PromptPrior {
  /** Time of a token of a prompt, in parts of a step with nobody else. */
  readonly perBase: number;
  readonly overheadMs: number;
}

/** The middle of those that tell it; of prompts the geometric mean, since hardware differs by factors. */
function promptsOf(timings: readonly Timing[]): PromptPrior {
  const told = timings.length > 0 ? timings.map(({ constants }) => constants) : [UNKNOWN];
  const logs = told.map(({ usPerPrefillToken, baseMs }) => Math.log(Math.max(0.01, usPerPrefillToken) / baseMs / 1e3));
  return {
    perBase: Math.exp(logs.reduce((sum, log) => sum + log, 0) / logs.length),
    overheadMs: medianOf(timings.map(({ overheadMs }) => overheadMs)),
  };
}

function fitFamily(
  members: readonly NodeAttempts[],
  { samples, prior, span }: { samples: number; prior: PromptPrior | null; span: Span },
  slowness: Map<string, number>,
): Timing {
  let next = leastSquares(members, prior);
  let best: { readonly guess: Guess; readonly played: Played[]; readonly error: number } | null = null;
  for (let round = 0; round < ROUNDS; round++) {
    const tried = play(members, next, null);
    const error = orNothing(errorOf(tried, "token")) + orNothing(errorOf(tried, "response"));
    if (best === null || error <= best.error) best = { guess: next, played: tried, error };
    const better = betterGuess(next, tried, prior);
    if (better === null) break;
    next = better;
  }
  const { guess } = best as NonNullable<typeof best>;
  let { played } = best as NonNullable<typeof best>;
  const factors = new Map<string, number>();
  for (const { node, kin, attempts } of members) {
    if (attempts.length < SAMPLES_MIN) continue;
    const own = played.filter((one) => one.node === node);
    const factor = ratioOf(own, Number.isNaN(ratioOf(own, "token")) ? "response" : "token");
    if (factor > 0 && Math.abs(factor - 1) >= SLOWNESS_MIN) factors.set(slownessKey(node, kin), factor);
  }
  if (factors.size > 0) {
    const slowed = play(members, guess, factors);
    // where the steps explain little, as under load from elsewhere, a factor can pile a node up
    if (!(errorOf(slowed, "response") > errorOf(played, "response"))) {
      played = slowed;
      for (const [key, factor] of factors) slowness.set(key, factor);
    }
  }
  return {
    ...guess,
    firstLateMs: latenessOf(firstsOf(played, span), guess.constants.baseMs),
    samples,
    tokenError: errorOf(played, "token"),
    responseError: errorOf(played, "response"),
  };
}

/** Constants and what lies beside the steps. */
interface Guess {
  readonly constants: Constants;
  readonly overheadMs: number;
}

/** The same, scaled by what was off as it was played; null: next to nothing was. */
function betterGuess(
  { constants, overheadMs }: Guess,
  played: readonly Played[],
  prior: PromptPrior | null,
): Guess | null {
  const token = ratioOf(played, "token");
  const response = ratioOf(played, "response");
  // of answers that do not stream the whole response tells what a token takes
  const decode = Number.isNaN(token) ? response : token;
  const factor = Number.isNaN(decode) ? 1 : Math.max(0.5, Math.min(2, decode));
  const scaled = {
    baseMs: constants.baseMs * factor,
    usPerSequence: constants.usPerSequence * factor,
    nsPerCachedToken: constants.nsPerCachedToken * factor,
    nsPerSquaredPrefillToken: 0,
  };
  const isClose = Math.abs(factor - 1) < 0.005;
  if (prior !== null) {
    if (isClose) return null;
    return { constants: { ...scaled, usPerPrefillToken: constants.usPerPrefillToken * factor }, overheadMs };
  }
  const firsts = firstsOf(played, null);
  const { middleMs, perTokenMs } = missingOf(firsts);
  if (isClose && Math.abs(middleMs) <= 0.01 * (overheadMs + constants.baseMs)) return null;
  const besideMs = overheadMs + middleMs;
  // what would lie beside the steps for less than no time is prompts that the node computes faster than was taken
  const lessMs = Math.min(0, besideMs) / Math.max(1, medianOf(firsts.map(({ real }) => real.promptTokens)));
  const perPrefill = constants.usPerPrefillToken + PROMPT_DAMPING * 1e3 * (perTokenMs + lessMs);
  return {
    constants: { ...scaled, usPerPrefillToken: Math.max(0, perPrefill) },
    overheadMs: Math.max(0, besideMs),
  };
}

function orNothing(value: number): number {
  return Number.isNaN(value) ? 0 : value;
}

/** First tokens that were played, of the window alone where it tells enough: what a machine does beside its steps is of its hour. */
function firstsOf(played: readonly Played[], span: Span | null): readonly Played[] {
  const seen = played.filter(({ real, first }) => !Number.isNaN(real.firstTokenMs - first));
  if (span === null) return seen;
  const within = seen.filter(({ real: { sentAtMs } }) => sentAtMs >= span.fromMs && sentAtMs < span.toMs);
  return within.length < FIRSTS_MIN ? seen : within;
}

/**
 * Quantiles of what first tokens were late by, the middle of each of `QUANTILES` equal parts. What is less than a step is
 * where in a step a request came, which is chance that a replay has by itself.
 */
function latenessOf(firsts: readonly Played[], stepMs: number): number[] {
  if (firsts.length < FIRSTS_MIN) return [];
  const off = firsts.map(({ real, first }) => real.firstTokenMs - first);
  const late = Float64Array.from(off, (ms) => (Math.abs(ms) <= stepMs ? 0 : ms)).sort();
  return Array.from(
    { length: QUANTILES },
    (_, part) => late[Math.floor(((part + 0.5) / QUANTILES) * late.length)] as number,
  );
}

/**
 * What is missing in first tokens that were played, ms: in the middle, and for each token of the prompt, which is the
 * difference between the middle of long prompts and that of short ones. 0 where too few tell it.
 */
function missingOf(firsts: readonly Played[]): { middleMs: number; perTokenMs: number } {
  const offMs = (of: readonly Played[]) => medianOf(of.map(({ real, first }) => real.firstTokenMs - first));
  const tokens = (of: readonly Played[]) => medianOf(of.map(({ real }) => real.promptTokens));
  const third = Math.floor(firsts.length / 3);
  if (third < SAMPLES_MIN) return { middleMs: offMs(firsts), perTokenMs: 0 };
  const sorted = [...firsts].sort((a, b) => a.real.promptTokens - b.real.promptTokens);
  const [short, long] = [sorted.slice(0, third), sorted.slice(-third)];
  const more = tokens(long) - tokens(short);
  return { middleMs: offMs(firsts), perTokenMs: more > 0 ? (offMs(long) - offMs(short)) / more : 0 };
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
  { constants, overheadMs }: Guess,
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
function leastSquares(members: readonly NodeAttempts[], prior: PromptPrior | null): Guess {
  // overhead, per prompt token, base, per sequence, per cached token
  const fit = new NonNegativeFit(5);
  const knownMs = prior !== null && prior.overheadMs >= 0 ? prior.overheadMs : 0;
  const add = ([sent, prompts, steps, ...company]: [number, number, number, number, number], ms: number) => {
    if (prior === null) fit.add([sent, prompts, steps, ...company], ms);
    else fit.add([0, 0, steps + prior.perBase * prompts, ...company], ms - sent * knownMs);
  };
  for (const { attempts } of members) {
    const company = companyOf(attempts);
    attempts.forEach((attempt, index) => {
      const { firstTokenMs, durationMs, promptTokens, outputTokens, sentAtMs } = attempt;
      const endMs = sentAtMs + durationMs;
      if (Number.isNaN(firstTokenMs)) {
        const { sequences, cached, prompts } = company(sentAtMs, endMs, index);
        const steps = outputTokens + 0.5;
        add([1, promptTokens + prompts, steps, steps * sequences, steps * cached], durationMs);
        return;
      }
      const firstAtMs = sentAtMs + firstTokenMs;
      const early = company(sentAtMs, firstAtMs, index);
      add([1, promptTokens, 1.5, 1.5 * early.sequences, 1.5 * early.cached], firstTokenMs);
      if (outputTokens < DECODE_TOKENS_MIN) return;
      const { sequences, cached, prompts } = company(firstAtMs, endMs, index);
      const steps = outputTokens - 1;
      add([0, prompts, steps, steps * sequences, steps * cached], durationMs - firstTokenMs);
    });
  }
  const [overheadMs = 0, perPrompt = 0, base = 0, perSequence = 0, perCached = 0] = fit.solve();
  return {
    overheadMs: prior === null ? overheadMs : knownMs,
    constants: {
      baseMs: Math.max(0.01, base),
      usPerSequence: perSequence * 1e3,
      nsPerCachedToken: perCached * 1e6,
      usPerPrefillToken: (prior === null ? perPrompt : prior.perBase * base) * 1e3,
      nsPerSquaredPrefillToken: 0,
    },
  };
}

function medianOf(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN;
  const sorted = Float64Array.from(values).sort();
  return sorted[sorted.length >> 1] as number;
}
