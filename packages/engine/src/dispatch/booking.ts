/**
 * Step 4: the place that a decision holds on a node until its attempt ends.
 *
 * Choosing and booking are one step: `Atomics.add` on the row's shared count returns the place that was taken, so two
 * workers that decide at once never both believe that they had the last one.
 */

import { assert } from "../assert.ts";
import { BOOKING_TOKENS_MAX } from "../bounds.ts";
import { BOOKING_COUNT_NAMES, type BookingCounts, type FleetTable } from "../fleet-table.ts";

/** Upper bounds of the target classes 1..3, ms of `latency_target_ms`; class 0 has no target. */
const CLASS_BOUNDS_MS = [5_000, 30_000, Number.POSITIVE_INFINITY];

/** Class of a latency target: 0 none, 1 up to 5 s, 2 up to 30 s, 3 longer. */
export function targetClassOf(latencyTargetMs: number): number {
  return Number.isNaN(latencyTargetMs) ? 0 : 1 + CLASS_BOUNDS_MS.findIndex((bound) => latencyTargetMs <= bound);
}

/** The fixed vector that a booking adds to its row. */
export interface BookingVector {
  promptTokens: number;
  /** Prompt and expected output, tokens. */
  kvTokens: number;
  targetClass: number;
}

/** A booking that stands. Released exactly once; a second release is a bug and throws. */
export interface Booking extends BookingVector {
  readonly row: number;
  phase: "prefill" | "decode" | "released";
}

/**
 * Takes one place on a row.
 *
 * @returns the in-flight count before, which is the place that this booking got.
 */
export function takePlace(table: FleetTable, worker: number, row: number): number {
  const own = ownOf(table, worker).inFlight;
  own[row] = (own[row] as number) + 1;
  return Atomics.add(table.total.inFlight, row, 1);
}

/** Gives a place back before anything was sent. The caller announces the room. */
export function undoPlace(table: FleetTable, worker: number, row: number): void {
  const own = ownOf(table, worker).inFlight;
  own[row] = (own[row] as number) - 1;
  Atomics.sub(table.total.inFlight, row, 1);
}

/** Completes a place into a booking: the rest of the vector is counted. */
export function completeBooking(table: FleetTable, worker: number, row: number, vector: BookingVector): Booking {
  const booking: Booking = {
    row,
    promptTokens: tokensOf(table, row, vector.promptTokens),
    kvTokens: tokensOf(table, row, vector.kvTokens),
    targetClass: vector.targetClass,
    phase: "prefill",
  };
  add(table, worker, "prefilling", row, 1);
  add(table, worker, "promptTokens", row, booking.promptTokens);
  add(table, worker, "kvTokens", row, booking.kvTokens);
  add(table, worker, classColumn(booking.targetClass), row, 1);
  return booking;
}

/** A piece of a node's answer was passed on. O(1), not atomic: the column tells that something moved, not how much. */
export function noteRelayed(table: FleetTable, row: number): void {
  table.relayed[row] = ((table.relayed[row] as number) + 1) | 0;
}

/** Prefill becomes decode: the prompt's work is done, its memory stays. Later calls change nothing. */
export function noteFirstToken(table: FleetTable, worker: number, booking: Booking): void {
  if (booking.phase !== "prefill") return;
  booking.phase = "decode";
  add(table, worker, "prefilling", booking.row, -1);
  add(table, worker, "promptTokens", booking.row, -booking.promptTokens);
}

/**
 * Ends a booking: its whole vector leaves the row.
 *
 * @throws Error when it was released before.
 */
export function releaseBooking(table: FleetTable, worker: number, booking: Booking): void {
  assert(booking.phase !== "released", "a booking is released once");
  noteFirstToken(table, worker, booking);
  booking.phase = "released";
  add(table, worker, "kvTokens", booking.row, -booking.kvTokens);
  add(table, worker, classColumn(booking.targetClass), booking.row, -1);
  undoPlace(table, worker, booking.row);
  Atomics.add(table.releases, booking.row, 1);
}

/**
 * Tokens as one booking counts them. What a caller states (`n`, a token limit) is a wish of any size, and the counts are
 * Int32 cells: a booking is bounded so that as many as the node takes at once cannot overflow them, and in any case to
 * what no context reaches.
 */
function tokensOf(table: FleetTable, row: number, tokens: number): number {
  const most = Math.min(BOOKING_TOKENS_MAX, Math.floor(INT32_MAX / Math.max(1, table.maxInFlight[row] as number)));
  return tokens > 0 ? Math.min(most, Math.round(tokens)) : 0;
}

const INT32_MAX = 2 ** 31 - 1;

function classColumn(targetClass: number): keyof BookingCounts {
  const name = BOOKING_COUNT_NAMES[BOOKING_COUNT_NAMES.indexOf("class0") + targetClass];
  assert(name !== undefined, "target classes are 0..3");
  return name;
}

function ownOf(table: FleetTable, worker: number): BookingCounts {
  const own = table.own[worker];
  assert(own !== undefined, "the worker exists");
  return own;
}

function add(table: FleetTable, worker: number, column: keyof BookingCounts, row: number, amount: number): void {
  const own = ownOf(table, worker)[column];
  own[row] = (own[row] as number) + amount;
  Atomics.add(table.total[column], row, amount);
}
