/**
 * Step 1: may this caller have one more request? What a request takes of its key's and its account's limits, from
 * admission to its end. Taking all of it or nothing is one call; `closeAllowance` gives back what a request holds while
 * it runs, once, however it ended.
 */

import { assert } from "../assert.ts";
import { type LimitsTable, pendingUsd, spentUsd } from "../limits-table.ts";
import {
  addToWindow,
  countInWindow,
  emptyWindowMs,
  giveBackToWindow,
  leavesAtMs,
  takeFromWindow,
  waitForWindowMs,
  windowTick,
} from "./sliding-window.ts";

/** Rows of a caller: of its key and of its account; -1: none. */
export interface CallerRows {
  readonly key: number;
  readonly account: number;
}

/** What a request holds. */
export interface Allowance extends CallerRows {
  /** Tick of admission. */
  readonly tick: number;
  /** Tokens that were reserved. */
  readonly tokens: number;
  /** Rows in whose token window they stand. */
  hasKeyTokens: boolean;
  hasAccountTokens: boolean;
  /** Of the tighter one of key and account, behind this request; limit -1: neither has one. */
  requestLimit: number;
  requestsLeft: number;
  tokenLimit: number;
  tokensLeft: number;
  /** What the present attempt is expected to cost, USD. */
  pendingUsd: number;
  isClosed: boolean;
}

/** Limits, in the order in which they are looked at. */
export const LIMIT_KINDS = ["budget_day", "budget_month", "concurrent", "requests", "tokens"] as const;
export type LimitKind = (typeof LIMIT_KINDS)[number];

/** Why a caller gets no request now. */
export interface AllowanceRefusal {
  readonly kind: LimitKind;
  readonly owner: "key" | "account";
  readonly limit: number;
  /** Of the limit, before this request. */
  readonly used: number;
  readonly requested: number;
  /** NaN: it never fits, or the calendar says when. */
  readonly retryAfterMs: number;
  /** Of a budget: what is left is held by requests that run. */
  readonly isHeld: boolean;
}

/** Asked again after this long where nobody knows when a request ends, ms. */
const RETRY_MS = 1_000;

/**
 * Takes one request of so many tokens.
 *
 * @param tokens prompt and expected output
 * @returns what it holds, or the limit that it hits; then nothing was taken. O(1).
 */
export function takeAllowance(
  table: LimitsTable,
  worker: number,
  rows: CallerRows,
  { tokens, nowMs }: { tokens: number; nowMs: number },
): Allowance | AllowanceRefusal {
  const amount = Math.min(TOKENS_MAX, Math.max(0, Math.ceil(tokens)));
  const allowance: Allowance = {
    key: rows.key,
    account: rows.account,
    tick: windowTick(nowMs),
    tokens: amount,
    hasKeyTokens: false,
    hasAccountTokens: false,
    requestLimit: -1,
    requestsLeft: 0,
    tokenLimit: -1,
    tokensLeft: 0,
    pendingUsd: 0,
    isClosed: false,
  };
  const ofKey = takeRow(table, worker, rows.key, allowance, nowMs);
  if (ofKey !== TAKEN && ofKey !== TAKEN_WITH_TOKENS) return { ...ofKey, owner: "key" };
  allowance.hasKeyTokens = ofKey === TAKEN_WITH_TOKENS;
  // the key's own account comes second, so that a key over its limit costs its account nothing
  const ofAccount = takeRow(table, worker, rows.account, allowance, nowMs);
  if (ofAccount !== TAKEN && ofAccount !== TAKEN_WITH_TOKENS) {
    undoRow(table, worker, rows.key, allowance);
    return { ...ofAccount, owner: "account" };
  }
  allowance.hasAccountTokens = ofAccount === TAKEN_WITH_TOKENS;
  return allowance;
}

/** True for a refusal. */
export function isRefusedAllowance(taken: Allowance | AllowanceRefusal): taken is AllowanceRefusal {
  return "kind" in taken;
}

/** An attempt begins, or ended: what it is expected to cost is held against budgets. USD; NaN counts as 0. */
export function holdCost(table: LimitsTable, worker: number, allowance: Allowance, usd: number): void {
  const held = usd > 0 ? usd : 0;
  const change = held - allowance.pendingUsd;
  if (change === 0) return;
  allowance.pendingUsd = held;
  addOwn(table.ownPendingUsd[worker], allowance.key, change);
  addOwn(table.ownPendingUsd[worker], allowance.account, change);
}

/** What an attempt used of a node is spent. USD; NaN counts as 0. */
export function chargeCost(table: LimitsTable, worker: number, allowance: Allowance, usd: number): void {
  if (!(usd > 0)) return;
  addOwn(table.ownSpentUsd[worker], allowance.key, usd);
  addOwn(table.ownSpentUsd[worker], allowance.account, usd);
}

/**
 * The request ended.
 *
 * @param usedTokens what it used after all; NaN: what was reserved stands
 * @throws Error when it was closed before.
 */
export function closeAllowance(
  table: LimitsTable,
  worker: number,
  allowance: Allowance,
  { usedTokens, nowMs }: { usedTokens: number; nowMs: number },
): void {
  assert(!allowance.isClosed, "an allowance is closed once");
  allowance.isClosed = true;
  holdCost(table, worker, allowance, 0);
  releaseRunning(table, worker, allowance.key);
  releaseRunning(table, worker, allowance.account);
  if (Number.isNaN(usedTokens)) return;
  const now = windowTick(nowMs);
  const used = Math.min(TOKENS_MAX, Math.ceil(usedTokens));
  if (allowance.hasKeyTokens) correctTokens(table, allowance.key, allowance, { used, now });
  if (allowance.hasAccountTokens) correctTokens(table, allowance.account, allowance, { used, now });
}

/** How a limit stands, for the caller. */
export interface LimitStanding {
  readonly limit: number;
  readonly remaining: number;
  /** Until the whole limit is there again, ms. */
  readonly resetMs: number;
}

/** Until the limits of a minute are whole again if nothing comes behind this request, ms. */
export function allowanceResetMs({ tick }: Allowance, nowMs: number): number {
  return leavesAtMs(tick) - nowMs;
}

/** The tighter one of key and account; null: neither has such a limit. For a caller who got nothing. */
export function limitStanding(
  table: LimitsTable,
  rows: CallerRows,
  kind: "requests" | "tokens",
  nowMs: number,
): LimitStanding | null {
  const window = table[kind];
  const tick = windowTick(nowMs);
  let tightest: { row: number; limit: number; remaining: number } | null = null;
  for (const row of [rows.key, rows.account]) {
    const limit = row < 0 || table.isLimited[row] !== 1 ? -1 : (window.limit[row] as number);
    if (limit < 0) continue;
    const remaining = Math.max(0, limit - countInWindow(window, row, tick));
    if (tightest === null || remaining < tightest.remaining) tightest = { row, limit, remaining };
  }
  if (tightest === null) return null;
  const { row, limit, remaining } = tightest;
  return { limit, remaining, resetMs: emptyWindowMs(window, row, nowMs) };
}

/** Above any limit, and far below what a slot holds. */
const TOKENS_MAX = 100_000_001;

const TAKEN = 1;
const TAKEN_WITH_TOKENS = 2;
type RowRefusal = Omit<AllowanceRefusal, "owner">;

function takeRow(
  table: LimitsTable,
  worker: number,
  row: number,
  allowance: Allowance,
  nowMs: number,
): typeof TAKEN | typeof TAKEN_WITH_TOKENS | RowRefusal {
  if (row < 0) return TAKEN;
  const isLimited = table.isLimited[row] === 1;
  if (isLimited) {
    const broke = overBudget(table, row);
    if (broke !== null) return broke;
  }
  const running = takeRunning(table, worker, row, isLimited ? (table.runningLimit[row] as number) : -1);
  if (running >= 0) {
    const limit = table.runningLimit[row] as number;
    return refusal("concurrent", { limit, used: running, requested: 1, retryAfterMs: RETRY_MS });
  }
  if (!isLimited) return TAKEN;
  const { requests, tokens } = table;
  const { tick, tokens: amount } = allowance;
  const requestLimit = requests.limit[row] as number;
  if (requestLimit >= 0) {
    const left = takeFromWindow(requests, row, 1, tick);
    if (left < 0) {
      releaseRunning(table, worker, row);
      const used = countInWindow(requests, row, tick);
      const retryAfterMs = waitForWindowMs(requests, row, 1, nowMs);
      return refusal("requests", { limit: requestLimit, used, requested: 1, retryAfterMs });
    }
    if (allowance.requestLimit < 0 || left < allowance.requestsLeft) {
      allowance.requestLimit = requestLimit;
      allowance.requestsLeft = left;
    }
  }
  const tokenLimit = tokens.limit[row] as number;
  if (tokenLimit < 0) return TAKEN;
  const left = takeFromWindow(tokens, row, amount, tick);
  if (left >= 0) {
    if (allowance.tokenLimit < 0 || left < allowance.tokensLeft) {
      allowance.tokenLimit = tokenLimit;
      allowance.tokensLeft = left;
    }
    return TAKEN_WITH_TOKENS;
  }
  releaseRunning(table, worker, row);
  if (requestLimit >= 0) giveBackToWindow(requests, row, 1, { takenAt: tick, now: tick });
  const used = countInWindow(tokens, row, tick);
  const retryAfterMs = waitForWindowMs(tokens, row, amount, nowMs);
  return refusal("tokens", { limit: tokenLimit, used, requested: amount, retryAfterMs });
}

/** Gives back what the key's row has given when the account's gives nothing. */
function undoRow(table: LimitsTable, worker: number, row: number, { tick, tokens, hasKeyTokens }: Allowance): void {
  if (row < 0) return;
  releaseRunning(table, worker, row);
  const at = { takenAt: tick, now: tick };
  if ((table.requests.limit[row] as number) >= 0) giveBackToWindow(table.requests, row, 1, at);
  if (hasKeyTokens) giveBackToWindow(table.tokens, row, tokens, at);
}

function overBudget(table: LimitsTable, row: number): RowRefusal | null {
  const day = table.dayBudgetUsd[row] as number;
  const month = table.monthBudgetUsd[row] as number;
  if (Number.isNaN(day) && Number.isNaN(month)) return null;
  const spent = spentUsd(table, row);
  const pending = pendingUsd(table, row);
  const dayUsed = spent - (table.dayBaseUsd[row] as number);
  const monthUsed = spent - (table.monthBaseUsd[row] as number);
  // NaN >= is false: no budget
  if (dayUsed + pending >= day) return broke("budget_day", day, dayUsed);
  if (monthUsed + pending >= month) return broke("budget_month", month, monthUsed);
  return null;
}

function broke(kind: "budget_day" | "budget_month", limit: number, used: number): RowRefusal {
  const isHeld = used < limit;
  return { kind, limit, used, requested: 0, retryAfterMs: isHeld ? RETRY_MS : Number.NaN, isHeld };
}

function refusal(
  kind: LimitKind,
  rest: Pick<AllowanceRefusal, "limit" | "used" | "requested" | "retryAfterMs">,
): RowRefusal {
  return { kind, ...rest, isHeld: false };
}

/** @returns -1: taken; else how many run, which is the limit or more. */
function takeRunning(table: LimitsTable, worker: number, row: number, limit: number): number {
  for (;;) {
    const running = Atomics.load(table.running, row);
    if (limit >= 0 && running >= limit) return running;
    if (Atomics.compareExchange(table.running, row, running, running + 1) !== running) continue;
    addOwn(table.ownRunning[worker], row, 1);
    return -1;
  }
}

function releaseRunning(table: LimitsTable, worker: number, row: number): void {
  if (row < 0) return;
  addOwn(table.ownRunning[worker], row, -1);
  Atomics.sub(table.running, row, 1);
}

function correctTokens(
  table: LimitsTable,
  row: number,
  { tokens, tick }: Allowance,
  { used, now }: { used: number; now: number },
): void {
  if (used > tokens) addToWindow(table.tokens, row, used - tokens, now);
  else if (used < tokens) giveBackToWindow(table.tokens, row, tokens - used, { takenAt: tick, now });
}

/** Adds to a cell that only this worker writes. */
function addOwn(cells: Int32Array | Float64Array | undefined, row: number, amount: number): void {
  assert(cells !== undefined, "the worker exists");
  if (row >= 0) cells[row] = (cells[row] as number) + amount;
}
