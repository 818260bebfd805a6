/**
 * Learns the coefficients of `cost/predict.ts` from attempts that ended, per (model, family), with a factor per node: nodes
 * of a family are the same hardware, so what a busy one shows holds for its idle neighbour, and a node that is ill or
 * throttled differs by how slow it is in everything. Control thread only (a simulation: anywhere, once per table).
 *
 * Two residuals are kept apart. The fit compares an outcome with the load that really was there meanwhile, which tells
 * coefficients and the node's factor; the promise compares it with what was predicted when the request was sent, load to
 * come unknown, which tells how much room a prediction needs so that `PROMISE` of the outcomes stay below.
 */

import { foldMean, medianOfKnown } from "../availability/throughput.ts";
import { DEFAULT_TIMING } from "../bounds.ts";
import type { AttemptTiming } from "../dispatch/booking.ts";
import { type FleetTable, publish } from "../fleet-table.ts";
import type { AttemptSample } from "./attempt-samples.ts";
import {
  createFamily,
  DECODE,
  type FamilyTiming,
  FIRST,
  type Mean,
  restoreFamily,
  SAMPLE_NOISE,
  SPREAD_MAX,
  SPREAD_MIN,
  type Spread,
  stateOf,
  type TimingState,
} from "./family-timing.ts";
import type { PlacedModel } from "./refresh-speeds.ts";

/** Share of the outcomes that a prediction with its spread covers. */
export const PROMISE = 0.95;

/** Weight of the newest sample in a node's factor: seven samples halve what is off, thirty end it. */
const SLOWNESS_WEIGHT = 0.1;
/**
 * Share of a node's factor that each sample takes back. Where all nodes of a family drift one way it is the family that is
 * off: this hands it over to the coefficients, and leaves a node that really is three times slower at 2.9.
 */
const SLOWNESS_LEAK = 0.005;
/** A family that has shown less has no measure for its nodes: what is off is a prior, and the coefficients' to learn. */
const SLOWNESS_FROM_SAMPLES = 100;
/** What one sample may say about a node at most, as a factor: an answer out of a cache, or a paused process, is one. */
const SLOWNESS_STEP_MAX = 4;
/** A node that gets no traffic is believed to be as its family again after some of these: else it never got any more. */
const SLOWNESS_HALF_LIFE_MS = 60_000;

/** Weight of the newest answer in the share of warm prompts that really stood in the cache: ten tell an engine without. */
const HITS_WEIGHT = 0.2;
/** A warm prompt that is shorter tells nothing: what the engine's blocks leave over is no miss. */
const HITS_TOKENS_MIN = 256;
/** Share of a first token that the cache has to save before its time tells whether it did. */
const HITS_SAVING_MIN = 0.2;

/** Shorter answers say more about the first token than about the speed. */
const DECODE_TOKENS_MIN = 4;
/** Answers of so many tokens count half: what chance adds to one step is spread over all of them. */
const DECODE_TOKENS_HALF = 16;

/** Weight of the newest sample in the prediction error. */
const ERROR_WEIGHT = 0.02;
/** Step of a spread against the usual size of a residual: 5 % misses move it as much as 95 % hits. */
const SPREAD_STEP = 0.05;
/**
 * Time in which a correction takes in what is off. Answers tell it when they end: those under way, hundreds on a busy
 * family, were predicted with an older correction, so that one that moved with each of them would swing from bound to bound.
 */
const BIAS_TIME_MS = 60_000;
/** Bound of a correction, ln: a factor of 2; what is off by more is not corrected but not believed. */
const BIAS_MAX = Math.log(2);
/** Residual, ln, up to which a fit is near its outcome. */
const NEAR = 0.7;
/** Weight of the newest sample in the mean residual of a fit: slower than a node's factor, which must see it first. */
const FIT_WEIGHT = 0.005;
interface NodeTiming {
  logSlowness: number;
  atMs: number;
}

/** See the head of this file. */
export class TimingLearner {
  readonly #table: FleetTable;
  readonly #families = new Map<string, FamilyTiming>();
  readonly #nodes = new Map<number, NodeTiming>();
  readonly #decodeRow = new Float64Array(DECODE.length);
  readonly #firstRow = new Float64Array(FIRST.length);

  constructor(table: FleetTable) {
    this.#table = table;
  }

  /** Takes an attempt that succeeded, and writes what it says about its node. Inside a `publish`. O(1). */
  learn(told: AttemptSample): void {
    const { timing, placement, row, model } = told;
    if (timing === undefined || placement < 0 || model < 0 || told.outcome !== "success") return;
    const sample = told.promptTokens > 0 ? told : { ...told, promptTokens: timing.bookedPromptTokens };
    const family = this.#familyOf(model, this.#table.family[row] as number);
    const node = this.#nodeAt(placement, sample.atMs);
    const slowness = Math.exp(node.logSlowness);
    const observed = observe(sample, timing, this.#expectedFirstMs(sample, timing, family) * slowness);
    const off: number[] = [];
    if (observed.tokenMs > 0) {
      off.push(centred(family.decodeFit, this.#learnDecode(sample, timing, family, slowness, observed.tokenMs)));
    }
    // where nobody tells what was cached the time does, and cannot tell the coefficients too
    const isFreshKnown = sample.cachedTokens !== undefined && sample.cachedTokens >= 0;
    if (timing.warmTokens >= HITS_TOKENS_MIN) {
      this.#learnHits(sample, timing, family, isFreshKnown ? Number.NaN : observed.firstMs / slowness);
    }
    if (observed.firstMs > 0 && (timing.warmTokens === 0 || isFreshKnown)) {
      off.push(centred(family.firstFit, this.#learnFirst(sample, timing, family, slowness, observed.firstMs)));
    }
    const mostLog = Math.log(SLOWNESS_STEP_MAX);
    node.logSlowness *= 1 - SLOWNESS_LEAK;
    for (const residual of off) {
      if (Number.isFinite(residual) && family.samples >= SLOWNESS_FROM_SAMPLES) {
        node.logSlowness += (SLOWNESS_WEIGHT / off.length) * Math.max(-mostLog, Math.min(mostLog, residual));
      }
    }
    node.atMs = sample.atMs;
    const pace = Math.min(ERROR_WEIGHT, Math.max(0, sample.atMs - family.learnedAtMs) / BIAS_TIME_MS);
    family.firstSpread.bias += pace * leftOver(observed.isFirstSeen ? observed.firstMs : Number.NaN, timing.firstMs);
    family.firstSpread.bias = Math.max(-BIAS_MAX, Math.min(BIAS_MAX, family.firstSpread.bias));
    this.#takeSpread(family, family.firstSpread, observed.isFirstSeen ? observed.firstMs : Number.NaN, timing.firstMs);
    this.#takeSpread(
      family,
      family.tokenSpread,
      sample.outputTokens >= DECODE_TOKENS_HALF ? observed.tokenMs : Number.NaN,
      timing.tokenMs,
    );
    family.samples += 1;
    family.learnedAtMs = Math.max(family.learnedAtMs, sample.atMs);
    family.isDirty = true;
    this.#write(placement, family, node, sample.atMs);
  }

  /** Solves what is new and writes the coefficients of all placements. O(placements). */
  refresh(placed: readonly PlacedModel[], nowMs: number): void {
    for (const family of this.#families.values()) {
      if (family.isDirty) solve(family);
    }
    publish(this.#table, () => {
      for (const { row, model, placement } of placed) {
        const family = this.#families.get(keyOf(model, this.#table.family[row] as number)) ?? this.#strangerOf(model);
        if (family !== null) this.#write(placement, family, this.#nodeAt(placement, nowMs), nowMs);
      }
    });
  }

  /** What is known of each model on each family that answered, and when it was learned, engine clock ms. Solves what is new. */
  states(): { model: number; family: number; state: TimingState; learnedAtMs: number }[] {
    return Array.from(this.#families, ([key, timing]) => {
      const [model = -1, family = -1] = key.split(" ").map(Number);
      if (timing.isDirty) solve(timing);
      return { model, family, state: stateOf(timing), learnedAtMs: timing.learnedAtMs };
    });
  }

  /**
   * Takes what another process knew of a model on a family. What was learned here stands against it: it is not taken then.
   *
   * @param ageMs since it was learned: the older, the less it weighs. @returns whether it was taken.
   */
  restore(
    model: number,
    family: number,
    state: TimingState,
    { ageMs, nowMs }: { ageMs: number; nowMs: number },
  ): boolean {
    const key = keyOf(model, family);
    if (this.#families.has(key)) return false;
    this.#families.set(key, restoreFamily(state, { ageMs, nowMs }));
    return true;
  }

  #learnDecode(
    sample: AttemptSample,
    timing: AttemptTiming,
    family: FamilyTiming,
    slowness: number,
    tokenMs: number,
  ): number {
    const { decode } = family;
    const steps = sample.outputTokens - 1;
    const foreign = timing.depth - timing.own;
    const own = timing.meanDepth > 0 ? timing.meanDepth : timing.own + 1;
    const kv = timing.meanKvTokens > 0 ? timing.meanKvTokens : timing.kvTokens + sample.promptTokens;
    const prompts = Math.max(0, kv - own * timing.outputTokens) + foreign * this.#meanPrompt(sample.model);
    const depth = own + foreign;
    const features = this.#decodeRow;
    features[0] = 1;
    features[1] = depth;
    features[2] = prompts + (depth * timing.outputTokens) / 2;
    features[3] = timing.prefilledTokens >= 0 ? timing.prefilledTokens / steps : 0;
    const fit = dot(decode.coefficients, features) * slowness;
    const residual = Math.log(tokenMs / fit);
    const weight = (steps / (steps + DECODE_TOKENS_HALF)) * trust(residual);
    // times per token are means of many steps, which spread little: plain relative errors, which err on the short side
    for (let index = 0; index < features.length; index++) {
      features[index] = ((features[index] as number) * slowness) / tokenMs;
    }
    decode.add(features, 1, weight);
    return residual;
  }

  #learnFirst(
    sample: AttemptSample,
    timing: AttemptTiming,
    family: FamilyTiming,
    slowness: number,
    firstMs: number,
  ): number {
    const { first } = family;
    const step = this.#stepMs(sample, timing, family);
    const waitMs = timing.depth > 0 ? step / 2 : 0;
    const cached = cachedIn(sample, timing);
    const fresh = sample.promptTokens - cached;
    const isComputed = computeMsOf(first.coefficients, fresh, timing.aheadTokens) > step;
    const features = this.#firstRow;
    features[0] = 1;
    features[1] = isComputed ? fresh : 0;
    features[2] = isComputed ? timing.aheadTokens : 0;
    features[3] = fresh * (sample.promptTokens + cached);
    const knownMs = waitMs + (isComputed ? 0 : step);
    const fit = (knownMs + dot(first.coefficients, features)) * slowness;
    const residual = Math.log(firstMs / fit);
    const { scaleMs, target } = relativeTo(fit, firstMs, residual);
    for (let index = 0; index < features.length; index++) {
      features[index] = ((features[index] as number) * slowness) / scaleMs;
    }
    first.add(features, target - (knownMs * slowness) / scaleMs, trust(residual));
    return residual;
  }

  #expectedFirstMs(
    sample: AttemptSample,
    timing: AttemptTiming,
    family: FamilyTiming,
    cached = cachedIn(sample, timing),
  ): number {
    const step = this.#stepMs(sample, timing, family);
    const { coefficients } = family.first;
    const fresh = sample.promptTokens - cached;
    const computeMs = computeMsOf(coefficients, fresh, timing.aheadTokens);
    return (
      (coefficients[0] as number) +
      (timing.depth > 0 ? step / 2 : 0) +
      Math.max(step, computeMs) +
      (coefficients[3] as number) * fresh * (sample.promptTokens + cached)
    );
  }

  /**
   * How much of what was believed to stand in the node's prefix cache did: as the node tells it, else by where the first
   * token came between the times that all of it and none of it would have taken.
   *
   * @param firstMs first token as on a node like its family; NaN: the node has told.
   */
  #learnHits(sample: AttemptSample, timing: AttemptTiming, family: FamilyTiming, firstMs: number): void {
    const { placement, cachedTokens = Number.NaN } = sample;
    const before = this.#table.cacheHits[placement] as number;
    const known = Number.isNaN(before) ? HITS_PRIOR : before;
    // the tokens were estimated from bytes: in the node's own count they are as many more or fewer as the prompt has
    const warm = Math.min(
      sample.promptTokens - 1,
      (timing.warmTokens * sample.promptTokens) / Math.max(1, timing.bookedPromptTokens),
    );
    if (!(warm >= HITS_TOKENS_MIN / 2)) return;
    if (cachedTokens >= 0) {
      this.#table.cacheHits[placement] = foldMean(known, Math.min(1, cachedTokens / warm), HITS_WEIGHT);
      return;
    }
    const coldMs = this.#expectedFirstMs(sample, timing, family, 0);
    const savedMs = coldMs - this.#expectedFirstMs(sample, timing, family, warm);
    if (!(savedMs > HITS_SAVING_MIN * coldMs) || !(firstMs > 0)) return;
    const hits = Math.max(0, Math.min(1, (coldMs - firstMs) / savedMs));
    this.#table.cacheHits[placement] = foldMean(known, hits, (HITS_WEIGHT * savedMs) / coldMs);
  }

  /** Decode step on the node when the request came, without the node's factor, ms. */
  #stepMs(sample: AttemptSample, timing: AttemptTiming, family: FamilyTiming): number {
    const { coefficients } = family.decode;
    const foreign = timing.depth - timing.own;
    const prompts =
      Math.max(0, timing.kvTokens - timing.own * timing.outputTokens) + foreign * this.#meanPrompt(sample.model);
    return (
      (coefficients[0] as number) +
      (coefficients[1] as number) * (timing.depth + 1) +
      (coefficients[2] as number) * (prompts + (timing.depth * timing.outputTokens) / 2 + sample.promptTokens)
    );
  }

  #takeSpread(family: FamilyTiming, spread: Spread, outcomeMs: number, predictedMs: number): void {
    const residual = Math.log(outcomeMs / predictedMs);
    if (!Number.isFinite(residual)) return;
    const size = Math.min(Math.abs(residual), SPREAD_MAX);
    family.error = foldMean(family.error, size, ERROR_WEIGHT);
    spread.size = foldMean(spread.size, size, ERROR_WEIGHT);
    const step = SPREAD_STEP * spread.size;
    spread.log += residual > spread.log ? step * PROMISE : -step * (1 - PROMISE);
    spread.log = Math.max(SPREAD_MIN, Math.min(SPREAD_MAX, spread.log));
  }

  #write(placement: number, family: FamilyTiming, node: NodeTiming, nowMs: number): void {
    const table = this.#table;
    const logSlowness = faded(node, nowMs);
    const decodeFactor = Math.exp(logSlowness);
    const firstFactor = Math.exp(logSlowness + family.firstSpread.bias);
    for (let index = 0; index < DECODE.length; index++) {
      table[DECODE[index] as (typeof DECODE)[number]][placement] =
        (family.decode.coefficients[index] as number) * decodeFactor;
    }
    for (let index = 0; index < FIRST.length; index++) {
      table[FIRST[index] as (typeof FIRST)[number]][placement] =
        (family.first.coefficients[index] as number) * firstFactor;
    }
    table.firstSpread[placement] = Math.exp(family.firstSpread.log);
    table.tokenSpread[placement] = Math.exp(family.tokenSpread.log);
    table.slowness[placement] = Math.exp(logSlowness);
    table.predictionError[placement] = family.error;
    table.predictorSamples[placement] = family.samples;
  }

  #nodeAt(placement: number, nowMs: number): NodeTiming {
    let node = this.#nodes.get(placement);
    // a placement that was taken anew since, or whose hardware changed, has forgotten its column
    const isForgotten = Number.isNaN(this.#table.slowness[placement] as number);
    if (node === undefined || isForgotten) {
      node = { logSlowness: 0, atMs: nowMs };
      this.#nodes.set(placement, node);
    }
    node.logSlowness = faded(node, nowMs);
    node.atMs = Math.max(node.atMs, nowMs);
    return node;
  }

  #familyOf(model: number, family: number): FamilyTiming {
    const key = keyOf(model, family);
    let timing = this.#families.get(key);
    if (timing === undefined) {
      timing =
        this.#strangerOf(model) ??
        createFamily(
          DECODE.map((name) => DEFAULT_TIMING[name]),
          FIRST.map((name) => DEFAULT_TIMING[name]),
        );
      this.#families.set(key, timing);
    }
    return timing;
  }

  /** A family that has shown nothing is believed to be as the model's others are, each coefficient their median. */
  #strangerOf(model: number): FamilyTiming | null {
    const others = Array.from(this.#families).filter(([key]) => key.startsWith(`${model} `));
    if (others.length === 0) return null;
    const median = (of: (timing: FamilyTiming) => number) => medianOfKnown(others.map(([, timing]) => of(timing)));
    return createFamily(
      DECODE.map((_, index) => median(({ decode }) => decode.coefficients[index] as number)),
      FIRST.map((_, index) => median(({ first }) => first.coefficients[index] as number)),
    );
  }

  #meanPrompt(model: number): number {
    const mean = this.#table.meanPromptTokens[model] as number;
    return mean > 0 ? mean : 0;
  }
}

function solve(family: FamilyTiming): void {
  family.decode.solve();
  family.first.solve();
  family.isDirty = false;
}

/** What of a warm prompt counts as cached before any answer has told. */
const HITS_PRIOR = 0.5;

/** Prompt tokens that the node found in its cache: as it tells, else as it was expected. */
function cachedIn({ promptTokens, cachedTokens }: AttemptSample, timing: AttemptTiming): number {
  if (cachedTokens !== undefined && cachedTokens >= 0) return Math.min(promptTokens, cachedTokens);
  const share = 1 - timing.freshTokens / timing.bookedPromptTokens;
  return share > 0 && share <= 1 ? promptTokens * share : 0;
}

function computeMsOf(first: Float64Array, promptTokens: number, aheadTokens: number): number {
  return (first[1] as number) * promptTokens + (first[2] as number) * aheadTokens;
}

/** What an attempt showed; NaN where it shows nothing. */
function observe(
  { outputTokens, durationMs, firstTokenMs }: AttemptSample,
  { isPromptOnly }: AttemptTiming,
  expectedFirstMs: number,
): { tokenMs: number; firstMs: number; isFirstSeen: boolean } {
  if (isPromptOnly) return { tokenMs: Number.NaN, firstMs: durationMs, isFirstSeen: true };
  const isFirstSeen = firstTokenMs > 0;
  const decodeMs = durationMs - (isFirstSeen ? firstTokenMs : expectedFirstMs);
  const tokenMs = outputTokens >= DECODE_TOKENS_MIN && decodeMs > 0 ? decodeMs / (outputTokens - 1) : Number.NaN;
  return { tokenMs, firstMs: isFirstSeen ? firstTokenMs : Number.NaN, isFirstSeen };
}

/** What a prediction, with its correction, is off by, ln, bounded: it moves the correction on. Unknown is 0. */
function leftOver(outcomeMs: number, predictedMs: number): number {
  const residual = Math.log(outcomeMs / predictedMs);
  return Number.isFinite(residual) ? Math.max(-1, Math.min(1, residual)) : 0;
}

/** Weight of a sample that is off by more than chance explains: it pulls no more than one at the edge does. */
function trust(residual: number): number {
  const off = Math.abs(residual) / (2 * SAMPLE_NOISE);
  return off > 1 ? 1 / off : 1;
}

/**
 * What a sample asks of its fit: `target` × `scaleMs`. Near the fit a step of Gauss and Newton for the least squares of
 * logarithms, ln(outcome ÷ fit)²: times spread by factors, and least squares of outcome ÷ fit would lie low where they
 * spread widely (prompts that wait) and high where they do not, which no common correction can repair. Far from it that
 * step would lead astray, and the outcome itself is asked for, relative to the larger of both: what came far too soon would
 * outweigh everything if it were relative to itself.
 */
function relativeTo(fitMs: number, outcomeMs: number, residual: number): { scaleMs: number; target: number } {
  if (Math.abs(residual) <= NEAR) return { scaleMs: fitMs, target: 1 + residual };
  const scaleMs = outcomeMs > fitMs ? outcomeMs : fitMs;
  return { scaleMs, target: outcomeMs / scaleMs };
}

/** A residual against the family's mean, which it moves. */
function centred(mean: Mean, residual: number): number {
  if (!Number.isFinite(residual)) return Number.NaN;
  const off = residual - mean.value;
  mean.value += FIT_WEIGHT * Math.max(-1, Math.min(1, off));
  return off;
}

function faded({ logSlowness, atMs }: NodeTiming, nowMs: number): number {
  return nowMs > atMs ? logSlowness * 2 ** (-(nowMs - atMs) / SLOWNESS_HALF_LIFE_MS) : logSlowness;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index++) sum += (a[index] as number) * (b[index] as number);
  return sum;
}

function keyOf(model: number, family: number): string {
  return `${model} ${family}`;
}
