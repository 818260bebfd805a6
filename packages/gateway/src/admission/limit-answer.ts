/** What a caller with limits is told about them: on every answer, and when it has reached one. */

import { type AllowanceRefusal, type CallerRows, type LimitsTable, limitStanding } from "@zml/engine";
import { ERRORS, type ErrorCode } from "@zml/protocol/errors";
import type { ErrorOptions } from "../exchange.ts";
import { durationText, nextDayMs, nextMonthMs } from "./limit-times.ts";

/** OpenAI's header fields, name and value in turn; empty for a caller without such limits. */
export function limitFields(table: LimitsTable, rows: CallerRows, nowMs: number): string[] {
  const fields: string[] = [];
  for (const kind of ["requests", "tokens"] as const) {
    const standing = limitStanding(table, rows, kind, nowMs);
    if (standing === null) continue;
    fields.push(
      `x-ratelimit-limit-${kind}`,
      String(standing.limit),
      `x-ratelimit-remaining-${kind}`,
      String(standing.remaining),
      `x-ratelimit-reset-${kind}`,
      durationText(standing.resetMs),
    );
  }
  return fields;
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
