/**
 * What attempts cost, summed since the start by (policy, model, family): an account's are those of its models. Fed from
 * the samples that workers send anyway, on the control thread. A sum is a line of a flat table, so that a picture of all
 * sums is one copy (`money-windows.ts`).
 */

import { BOOKING_TOKENS_MAX, MODELS_MAX, OUTCOMES } from "@zml/engine";
import { FAMILIES_MAX } from "../control/name-registry.ts";
import { SAMPLE_FIELDS } from "../thread-messages.ts";

/** Columns of a line. USD and counts. */
export const MONEY_COLUMNS = [
  "deliveredUsd",
  "failedUsd",
  "cancelledUsd",
  "comparedUsd",
  "baselineUsd",
  "baselineAssumedUsd",
  "answers",
  "unpricedAnswers",
  "inputTokens",
  "outputTokens",
] as const;
export type MoneyColumn = (typeof MONEY_COLUMNS)[number];

export const MONEY_WIDTH = MONEY_COLUMNS.length;
export const MONEY_AT = Object.freeze(
  Object.fromEntries(MONEY_COLUMNS.map((name, index) => [name, index])),
) as Readonly<Record<MoneyColumn, number>>;

/** Whose a line is. Indexes into the registry of names. */
export interface MoneySubject {
  readonly policy: number;
  readonly model: number;
  readonly family: number;
}

/** The line of everything beyond the bound. */
export const MONEY_OTHER: MoneySubject = { policy: -1, model: -1, family: -1 };

/** What an attempt's tokens would have cost on the first family of its policy, USD per token; NaN: unknown. */
export interface BaselineRate {
  readonly usdPerToken: number;
  /** No node of the family has been measured: its speed is an assumption. */
  readonly isAssumed: boolean;
}

export interface MoneyLedgerOptions {
  readonly baseline: (policy: number, model: number) => BaselineRate;
  /** Lines that are kept apart; what comes beyond is one line. */
  readonly rowsMax: () => number;
}

const FIELDS = SAMPLE_FIELDS.length;
const AT = Object.fromEntries(SAMPLE_FIELDS.map((name, index) => [name, index])) as Readonly<
  Record<(typeof SAMPLE_FIELDS)[number], number>
>;
const SUCCESS = OUTCOMES.indexOf("success");
const CANCELLED = OUTCOMES.indexOf("cancelled");

export class MoneyLedger {
  readonly #options: MoneyLedgerOptions;
  readonly #subjects: MoneySubject[] = [];
  readonly #lines = new Map<number, number>();
  #values = new Float64Array(16 * MONEY_WIDTH);
  #otherLine = -1;
  /** Moves on with each change. */
  revision = 0;

  constructor(options: MoneyLedgerOptions) {
    this.#options = options;
  }

  /** Whose each line is, in order of their first attempt; a line is never given to another. */
  get subjects(): readonly MoneySubject[] {
    return this.#subjects;
  }

  /** The sums now: `MONEY_WIDTH` numbers per line. Live; copy what has to stay. */
  get values(): Float64Array {
    return this.#values.subarray(0, this.#subjects.length * MONEY_WIDTH);
  }

  /** @param flat `SAMPLE_FIELDS` per attempt. */
  take(flat: Float64Array): void {
    for (let start = 0; start + FIELDS <= flat.length; start += FIELDS) this.#takeAttempt(flat, start);
  }

  #takeAttempt(flat: Float64Array, start: number): void {
    const outcome = flat[start + AT.outcome] as number;
    const usd = flat[start + AT.usd] as number;
    const tokens = flat[start + AT.workedTokens] as number;
    const isAnswer = outcome === SUCCESS;
    // what failed before it worked costs nothing and tells nothing
    if (!isAnswer && !(usd > 0)) return;
    const policy = flat[start + AT.policy] as number;
    const model = flat[start + AT.model] as number;
    const at = this.#lineOf(policy, model, flat[start + AT.family] as number) * MONEY_WIDTH;
    const values = this.#values;
    this.revision += 1;
    if (isAnswer) add(values, at + MONEY_AT.answers, 1);
    if (!(usd >= 0 && usd < Number.POSITIVE_INFINITY)) {
      if (isAnswer) add(values, at + MONEY_AT.unpricedAnswers, 1);
      return;
    }
    if (isAnswer) {
      add(values, at + MONEY_AT.deliveredUsd, usd);
      const isPromptOnly = flat[start + AT["timing.isPromptOnly"]] === 1;
      const booked = flat[start + AT["timing.bookedPromptTokens"]] as number;
      const prompt = flat[start + AT.promptTokens] as number;
      add(values, at + MONEY_AT.inputTokens, isCount(prompt) ? prompt : isCount(booked) ? booked : 0);
      add(values, at + MONEY_AT.outputTokens, isPromptOnly ? 0 : tokens);
    } else add(values, at + (outcome === CANCELLED ? MONEY_AT.cancelledUsd : MONEY_AT.failedUsd), usd);
    this.#compare(at, { policy, model, usd, tokens: isAnswer || outcome === CANCELLED ? tokens : 0 });
  }

  /** @param attempt its `tokens`: those that the baseline would have made; an attempt that failed would not have been. */
  #compare(at: number, attempt: { policy: number; model: number; usd: number; tokens: number }): void {
    const { usdPerToken, isAssumed } = this.#options.baseline(attempt.policy, attempt.model);
    if (!(usdPerToken >= 0)) return;
    const baselineUsd = attempt.tokens * usdPerToken;
    add(this.#values, at + MONEY_AT.comparedUsd, attempt.usd);
    add(this.#values, at + MONEY_AT.baselineUsd, baselineUsd);
    if (isAssumed) add(this.#values, at + MONEY_AT.baselineAssumedUsd, baselineUsd);
  }

  #lineOf(policy: number, model: number, family: number): number {
    // one whole number, below 2^53 with every index at its bound
    const key = ((policy + 1) * (MODELS_MAX + 1) + model + 1) * (FAMILIES_MAX + 1) + family + 1;
    const known = this.#lines.get(key);
    if (known !== undefined) return known;
    if (this.#subjects.length >= this.#options.rowsMax()) {
      if (this.#otherLine < 0) this.#otherLine = this.#append(MONEY_OTHER);
      return this.#otherLine;
    }
    const line = this.#append({ policy, model, family });
    this.#lines.set(key, line);
    return line;
  }

  #append(subject: MoneySubject): number {
    const line = this.#subjects.push(subject) - 1;
    if (this.#subjects.length * MONEY_WIDTH > this.#values.length) {
      const grown = new Float64Array(this.#values.length * 2);
      grown.set(this.#values);
      this.#values = grown;
    }
    return line;
  }
}

function add(values: Float64Array, at: number, value: number): void {
  values[at] = (values[at] as number) + value;
}

/** The node tells it. */
function isCount(tokens: number): boolean {
  return tokens >= 0 && tokens <= BOOKING_TOKENS_MAX;
}
