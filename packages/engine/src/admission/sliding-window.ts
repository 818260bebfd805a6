/**
 * Counts over the last minute, without a lock and without an edge at which a burst could come twice:
 *
 *   admitted in (now − 60 s − tick, now]  ≤  limit        tick = 500 ms
 *
 * Time is cut into ticks. A slot counts what was admitted in one tick, `sum` what all slots hold; a slot is taken out of
 * `sum` once its whole tick is older than 60 s. So no 60 s ever hold more than the limit, and a caller who asks without
 * end gets at least 60 ÷ 60.5 of it.
 *
 * A slot is one Int32: the lap of its tick above, the count below. Who finds another lap there, or adds, or takes out,
 * does it by compare-and-exchange of the whole word, so that each count leaves `sum` once and nothing is lost however
 * threads interleave. Laps come again after 32 × 64 s = 34 minutes: `sweepWindows` clears idle rows long before.
 */

import { COUNT_BITS, COUNT_MASK, type LimitsTable, WINDOW_SLOTS, type WindowColumns } from "../limits-table.ts";

/** Width of a slot, ms. */
const WINDOW_TICK_MS = 500;
/** A slot is in the window for so many ticks, its own included: 60 s behind the end of its tick. */
const TICKS_IN_WINDOW = 121;
const LAP_MASK = 31;
const SLOT_MASK = WINDOW_SLOTS - 1;
const SLOT_BITS = 7;

/** Tick of a time of the engine's clock, from 1: 0 is what a fresh row has taken out. */
export function windowTick(nowMs: number): number {
  return Math.floor(nowMs / WINDOW_TICK_MS) + 1;
}

/**
 * Takes `amount` of what the limit leaves.
 *
 * @returns what is left after it; -1: it doesn't fit, and nothing was taken. O(1) but for ticks that ended since the last
 *   call, at most `WINDOW_SLOTS`.
 */
export function takeFromWindow(window: WindowColumns, row: number, amount: number, tick: number): number {
  expireSlots(window, row, tick);
  const limit = window.limit[row] as number;
  for (;;) {
    const sum = Atomics.load(window.sum, row);
    if (sum + amount > limit) return -1;
    if (Atomics.compareExchange(window.sum, row, sum, sum + amount) !== sum) continue;
    addToSlot(window, row, amount, tick);
    return limit - sum - amount;
  }
}

/** Adds what nobody was asked for: tokens beyond what a request had reserved. */
export function addToWindow(window: WindowColumns, row: number, amount: number, tick: number): void {
  expireSlots(window, row, tick);
  // the sum first, as everywhere: so what a thread is in the middle of is never missing in it
  Atomics.add(window.sum, row, amount);
  const added = addToSlot(window, row, amount, tick);
  if (added < amount) Atomics.sub(window.sum, row, amount - added);
}

/** Gives back what was taken in a tick, as far as that is still counted. */
export function giveBackToWindow(
  window: WindowColumns,
  row: number,
  amount: number,
  { takenAt, now }: { takenAt: number; now: number },
): void {
  // by then its lap may have come again
  if (now - takenAt >= WINDOW_SLOTS) return;
  const tick = takenAt;
  const slot = slotOf(row, tick);
  for (;;) {
    const word = Atomics.load(window.slots, slot);
    const count = word & COUNT_MASK;
    if (word >>> COUNT_BITS !== lapOf(tick) || count === 0) return;
    const given = Math.min(amount, count);
    if (Atomics.compareExchange(window.slots, slot, word, word - given) !== word) continue;
    Atomics.sub(window.sum, row, given);
    return;
  }
}

/** What is counted now. */
export function countInWindow(window: WindowColumns, row: number, tick: number): number {
  expireSlots(window, row, tick);
  return Atomics.load(window.sum, row);
}

/** Ms until `amount` fits, if nothing else is admitted; NaN: it is more than the limit. O(`WINDOW_SLOTS`). */
export function waitForWindowMs(window: WindowColumns, row: number, amount: number, nowMs: number): number {
  const tick = windowTick(nowMs);
  const limit = window.limit[row] as number;
  if (amount > limit) return Number.NaN;
  let excess = countInWindow(window, row, tick) + amount - limit;
  if (excess <= 0) return 0;
  for (let past = tick - TICKS_IN_WINDOW + 1; past <= tick; past++) {
    excess -= countOf(window, row, past);
    if (excess <= 0) return leavesAtMs(past) - nowMs;
  }
  return TICKS_IN_WINDOW * WINDOW_TICK_MS;
}

/** Ms until the whole limit is there again, if nothing else is admitted. O(`WINDOW_SLOTS`). */
export function emptyWindowMs(window: WindowColumns, row: number, nowMs: number): number {
  const tick = windowTick(nowMs);
  for (let past = tick; past > tick - TICKS_IN_WINDOW; past--) {
    if (countOf(window, row, past) > 0) return leavesAtMs(past) - nowMs;
  }
  return 0;
}

/** Takes what ended out of every row, so that no lap comes again. Control thread, each few minutes at the latest. */
export function sweepWindows(table: LimitsTable, rows: number, nowMs: number): void {
  const tick = windowTick(nowMs);
  for (let row = 0; row < rows; row++) {
    expireSlots(table.requests, row, tick);
    expireSlots(table.tokens, row, tick);
  }
}

/** Takes the slots that left the window out of the sum. Whoever comes first does it, tick by tick; twice does no harm. */
function expireSlots(window: WindowColumns, row: number, tick: number): void {
  const last = tick - TICKS_IN_WINDOW;
  const expired = Atomics.load(window.expired, row);
  if (expired >= last) return;
  for (let past = Math.max(expired + 1, last - SLOT_MASK); past <= last; past++) expireSlot(window, row, past);
  // a thread that comes late may set it back: those ticks are looked at once more
  Atomics.store(window.expired, row, last);
}

/** Takes out what a slot holds of a tick that left the window, or of one that a row which nobody asked for slept through. */
function expireSlot(window: WindowColumns, row: number, tick: number): void {
  const slot = slotOf(row, tick);
  const next = lapOf(tick + WINDOW_SLOTS);
  for (;;) {
    const word = Atomics.load(window.slots, slot);
    const count = word & COUNT_MASK;
    // the next lap is in the window, and one that is ahead of it is there for a thread that comes late
    const lapsBehind = (next - (word >>> COUNT_BITS)) & LAP_MASK;
    if (count === 0 || lapsBehind === 0 || lapsBehind > LAP_MASK >> 1) return;
    if (Atomics.compareExchange(window.slots, slot, word, word - count) !== word) continue;
    Atomics.sub(window.sum, row, count);
    return;
  }
}

/** @returns what was added: a slot holds 134 million, more than any limit. */
function addToSlot(window: WindowColumns, row: number, amount: number, tick: number): number {
  const slot = slotOf(row, tick);
  const lap = lapOf(tick);
  for (;;) {
    const word = Atomics.load(window.slots, slot);
    const count = word & COUNT_MASK;
    const isCurrent = word >>> COUNT_BITS === lap;
    const added = Math.min(amount, COUNT_MASK - (isCurrent ? count : 0));
    const next = isCurrent ? word + added : (lap << COUNT_BITS) | added;
    if (Atomics.compareExchange(window.slots, slot, word, next) !== word) continue;
    // what the slot still held of an older lap had left the window, and the sum not yet
    if (!isCurrent && count > 0) Atomics.sub(window.sum, row, count);
    return added;
  }
}

function countOf(window: WindowColumns, row: number, tick: number): number {
  const word = Atomics.load(window.slots, slotOf(row, tick));
  return word >>> COUNT_BITS === lapOf(tick) ? word & COUNT_MASK : 0;
}

/** When a tick has left the window, engine clock ms. */
export function leavesAtMs(tick: number): number {
  return (tick - 1 + TICKS_IN_WINDOW) * WINDOW_TICK_MS;
}

function slotOf(row: number, tick: number): number {
  return row * WINDOW_SLOTS + (tick & SLOT_MASK);
}

function lapOf(tick: number): number {
  return (tick >> SLOT_BITS) & LAP_MASK;
}
