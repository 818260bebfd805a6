/**
 * What is known of the timing of a model on a family: its fits, spreads and calibration, and the same as plain numbers that
 * outlive the process.
 */

import { DEFAULT_TIMING } from "../bounds.ts";
import { type Evidence, FadingLeastSquares } from "./least-squares.ts";

/**
 * Samples after which one counts for a third. Coefficients belong to hardware and engine, which change with a deployment;
 * what changes faster is the node's factor. Many, so that a quiet hour does not forget what load looks like.
 */
const MEMORY_SAMPLES = 4_000;

/** Relative error that is expected of one sample: the weight of the prior against it. */
export const SAMPLE_NOISE = 0.3;

/** Bounds of a spread, ln: a prediction is never better than 2 %, and one that is off by 20 says nothing. */
export const SPREAD_MIN = Math.log(1.02);
export const SPREAD_MAX = Math.log(20);

/**
 * Age at which what another process learned weighs half. Hardware stays; engines, their settings and the load change with
 * deployments, of which there are a few a week.
 */
const HALF_LIFE_MS = 86_400_000;

/** Columns of the decode fit, in the order of its coefficients, and how large each is where it matters at all. */
export const DECODE = ["stepBaseMs", "stepPerRequestMs", "stepPerKvTokenMs", "stepPerPromptTokenMs"] as const;
const DECODE_SCALE = [10, 0.1, 1e-4, 0.03];
/** The same for the first token. */
export const FIRST = ["firstBaseMs", "firstPerTokenMs", "firstPerAheadMs", "firstPerSquareMs"] as const;
const FIRST_SCALE = [10, 0.03, 0.03, 1e-6];

export interface FamilyTiming {
  readonly decode: FadingLeastSquares;
  readonly first: FadingLeastSquares;
  /** Mean residual of the fits, ln: least squares of relative errors come out low by their variance. */
  readonly decodeFit: Mean;
  readonly firstFit: Mean;
  readonly firstSpread: Spread;
  readonly tokenSpread: Spread;
  samples: number;
  error: number;
  /** Time of the newest sample, engine clock ms. */
  learnedAtMs: number;
  isDirty: boolean;
}

/** Follows a quantile of ln(outcome ÷ prediction): up on a miss, down on a hit, in the ratio that balances at `PROMISE`. */
export interface Spread {
  log: number;
  size: number;
  /**
   * What the next predictions are off by, ln, as a running correction. Only that of first tokens is used: token times
   * feed back through the load that they let in, and a correction that chases them swings.
   */
  bias: number;
}

export interface Mean {
  value: number;
}

/** One fit as plain numbers. */
export interface FitState extends Evidence {
  readonly coefficients: readonly number[];
  /** Mean residual, ln. */
  readonly meanResidual: number;
  readonly spread: Readonly<Spread>;
}

/** A family as plain numbers. What is not known (a size, an error) is NaN. */
export interface TimingState {
  readonly decode: FitState;
  readonly first: FitState;
  readonly samples: number;
  readonly error: number;
}

/** Coefficients of one fit. */
export const FIT_SIZE = DECODE.length;

export function createFamily(decode: readonly number[], first: readonly number[]): FamilyTiming {
  const precisionOf = (prior: readonly number[], scale: readonly number[]) =>
    prior.map((value, index) => (SAMPLE_NOISE / Math.max(value, scale[index] as number)) ** 2);
  return {
    decode: new FadingLeastSquares(decode, precisionOf(decode, DECODE_SCALE), MEMORY_SAMPLES),
    first: new FadingLeastSquares(first, precisionOf(first, FIRST_SCALE), MEMORY_SAMPLES),
    decodeFit: { value: 0 },
    firstFit: { value: 0 },
    firstSpread: { log: Math.log(DEFAULT_TIMING.firstSpread), size: Number.NaN, bias: 0 },
    tokenSpread: { log: Math.log(DEFAULT_TIMING.tokenSpread), size: Number.NaN, bias: 0 },
    samples: 0,
    error: Number.NaN,
    learnedAtMs: Number.NEGATIVE_INFINITY,
    isDirty: false,
  };
}

export function stateOf({ decode, first, ...rest }: FamilyTiming): TimingState {
  const fitOf = (of: FadingLeastSquares, mean: Mean, spread: Spread): FitState => ({
    ...of.evidence(),
    coefficients: Array.from(of.coefficients),
    meanResidual: mean.value,
    spread: { ...spread },
  });
  return {
    decode: fitOf(decode, rest.decodeFit, rest.tokenSpread),
    first: fitOf(first, rest.firstFit, rest.firstSpread),
    samples: rest.samples,
    error: rest.error,
  };
}

/**
 * A family that another process knew. Its coefficients are the prior, so that nothing begins at defaults again; what they
 * stand on weighs half for each `HALF_LIFE_MS`, so that old knowledge is soon overruled; and spreads widen towards those of a
 * guess, so that a promise which rests on it is careful.
 */
export function restoreFamily(state: TimingState, { ageMs, nowMs }: { ageMs: number; nowMs: number }): FamilyTiming {
  const share = 2 ** (-Math.max(0, ageMs) / HALF_LIFE_MS);
  const family = createFamily(state.decode.coefficients, state.first.coefficients);
  const widened = ({ log, size, bias }: Spread, unknown: number): Spread => {
    const bounded = Math.min(SPREAD_MAX, Math.max(SPREAD_MIN, log));
    const wide = Math.max(bounded, Math.log(unknown));
    return { log: bounded + (1 - share) * (wide - bounded), size, bias: share * bias };
  };
  family.decode.takeEvidence(state.decode, share);
  family.first.takeEvidence(state.first, share);
  family.decodeFit.value = share * state.decode.meanResidual;
  family.firstFit.value = share * state.first.meanResidual;
  Object.assign(family.tokenSpread, widened(state.decode.spread, DEFAULT_TIMING.tokenSpread));
  Object.assign(family.firstSpread, widened(state.first.spread, DEFAULT_TIMING.firstSpread));
  family.samples = Math.floor(share * state.samples);
  family.error = state.error;
  family.learnedAtMs = nowMs - Math.max(0, ageMs);
  return family;
}
