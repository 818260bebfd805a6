/** What a caller with limits is told about them: on every answer, and when it has reached one. */

import {
  type Allowance,
  type AllowanceRefusal,
  allowanceResetMs,
  type CallerRows,
  type LimitsTable,
  limitStanding,
} from "@zml/engine";
import { ERRORS, type ErrorCode, type ErrorShape } from "@zml/protocol/errors";
import type { ErrorOptions } from "../exchange.ts";
import { durationText, nextDayMs, nextMonthMs, secondText } from "./limit-times.ts";

/** Whose header fields a caller's client reads: those of the API that it speaks. */
type Style = ErrorShape;

/**
 * Header fields for a caller who got what it asked for, as lines (see `CallerResponse.setLines`); empty for one without
 * such limits. OpenAI's say until when all of it is there again as a duration, Anthropic's as a moment.
 */
export function limitLines(allowance: Allowance, style: Style, nowMs: number): string {
  const { requestLimit, requestsLeft, tokenLimit, tokensLeft } = allowance;
  if (requestLimit < 0 && tokenLimit < 0) return "";
  const { requests, tokens, resetText } = style === "openai" ? OPENAI : ANTHROPIC;
  const reset = resetText(allowanceResetMs(allowance, nowMs));
  const first = requestLimit < 0 ? "" : linesOf(requests, requestLimit, requestsLeft, reset);
  return tokenLimit < 0 ? first : first + linesOf(tokens, tokenLimit, tokensLeft, reset);
}

/** The same for a caller who has reached a limit. */
export function refusalLines(table: LimitsTable, rows: CallerRows, style: Style, nowMs: number): string {
  const texts = style === "openai" ? OPENAI : ANTHROPIC;
  return KINDS.map((kind) => {
    const standing = limitStanding(table, rows, kind, nowMs);
    if (standing === null) return "";
    return linesOf(texts[kind], standing.limit, standing.remaining, texts.resetText(standing.resetMs));
  }).join("");
}

const KINDS = ["requests", "tokens"] as const;

/** The fields of one kind of limit, of which what is the same for many requests is made once. */
interface LimitTexts {
  /** Names of the fields. */
  readonly limit: string;
  readonly remaining: string;
  readonly reset: string;
  /** By the limit: all that stands before what remains. */
  readonly heads: Map<number, string>;
  /** By the time of the reset: all that stands behind. */
  readonly tails: Map<string, string>;
}

interface StyleTexts {
  readonly requests: LimitTexts;
  readonly tokens: LimitTexts;
  /** @param ms until all of it is there again */
  readonly resetText: (ms: number) => string;
}

const OPENAI: StyleTexts = {
  requests: textsOf((what) => `x-ratelimit-${what}-requests`),
  tokens: textsOf((what) => `x-ratelimit-${what}-tokens`),
  resetText: durationText,
};
const ANTHROPIC: StyleTexts = {
  requests: textsOf((what) => `anthropic-ratelimit-requests-${what}`),
  tokens: textsOf((what) => `anthropic-ratelimit-tokens-${what}`),
  resetText: (ms) => secondText(Date.now() + ms),
};

function textsOf(name: (what: string) => string): LimitTexts {
  return {
    limit: name("limit"),
    remaining: name("remaining"),
    reset: name("reset"),
    heads: new Map(),
    tails: new Map(),
  };
}

/** Limits in use, and durations or seconds. */
const TEXTS_MAX = 2000;

function linesOf(texts: LimitTexts, limit: number, remaining: number, reset: string): string {
  const { heads, tails } = texts;
  const head = heads.get(limit) ?? keep(heads, limit, `${texts.limit}: ${limit}\r\n${texts.remaining}: `);
  const tail = tails.get(reset) ?? keep(tails, reset, `\r\n${texts.reset}: ${reset}\r\n`);
  return head + remaining + tail;
}

function keep<Key>(texts: Map<Key, string>, key: Key, text: string): string {
  if (texts.size >= TEXTS_MAX) texts.clear();
  // in one piece: what is put together of pieces is walked each time it is written
  const flat = Buffer.from(text, "latin1").toString("latin1");
  texts.set(key, flat);
  return flat;
}

/** Code, text and how the answer differs from other errors. @param unixMs now */
export function limitRefusal(
  refusal: AllowanceRefusal,
  names: { key: string | null; account: string },
  unixMs: number,
): { code: ErrorCode; message: string; options: ErrorOptions } {
  const { kind, limit, used, requested, isHeld } = refusal;
  const owner = refusal.owner === "key" ? `the key ${quoted(names.key ?? "")}` : `the account ${quoted(names.account)}`;
  switch (kind) {
    case "budget_day":
    case "budget_month": {
      const resetMs = kind === "budget_day" ? nextDayMs(unixMs) : nextMonthMs(unixMs);
      const period = kind === "budget_day" ? "day" : "month";
      const resetAt = new Date(resetMs).toISOString();
      const message = ERRORS.insufficient_quota.message({ owner, period, limit, used, isHeld, resetAt });
      const retryAfterMs = isHeld ? refusal.retryAfterMs : resetMs - unixMs;
      return { code: "insufficient_quota", message, options: { retryAfterMs, ...(isHeld ? {} : NO_RETRY) } };
    }
    default: {
      const { retryAfterMs } = refusal;
      const what = WORDS[kind];
      const retry = Number.isNaN(retryAfterMs) ? null : durationText(retryAfterMs);
      const message = ERRORS.rate_limit_exceeded.message({ owner, what, limit, used, requested, retry });
      return {
        code: "rate_limit_exceeded",
        message,
        options: { retryAfterMs, type: TYPES[kind], ...(retry === null ? NO_RETRY : {}) },
      };
    }
  }
}

const NO_RETRY = { shouldRetry: false } as const;

const WORDS = {
  concurrent: "concurrent requests",
  requests: "requests per minute",
  tokens: "tokens per minute",
} as const;

/** `error.type` as OpenAI has it: what ran out. */
const TYPES = { concurrent: "requests", requests: "requests", tokens: "tokens" } as const;

function quoted(name: string): string {
  return JSON.stringify(name);
}
