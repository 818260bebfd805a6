/**
 * Step 4: the place that a decision holds on a node until its attempt ends.
 *
 * Choosing and booking are one step: `Atomics.add` on the row's shared count returns the place that was taken, so two
 * workers that decide at once never both believe that they had the last one.
 */

import { assert } from "../assert.ts";
import { BOOKING_TOKENS_MAX } from "../bounds.ts";
import type { BookingCounts, FleetTable } from "../fleet-table.ts";
import { addToCount } from "../shared-count.ts";
import { type LoadMark, markLoad, meanDepth, meanKvTokens, noteChange, prefilledBetween } from "./load-integrals.ts";
import { CLASS_COLUMNS, notePromise, noteTightest, targetClassOf } from "./residents.ts";

/** The fixed vector that a booking adds to its row. */
export interface BookingVector {
  promptTokens: number;
  /** Those of them that are expected to be computed: the others stand in the prefix cache. */
  freshTokens: number;
  /** Prompt and expected output, tokens. */
  kvTokens: number;
  /** Time per token that the request must not exceed, ms. NaN: none. */
  tokenTargetMs: number;
  /** False: nobody will see when its first token comes. */
  isStream: boolean;
}

/** A booking that stands. Released exactly once; a second release is a bug and throws. */
export interface Booking {
  readonly row: number;
  readonly promptTokens: number;
  /** Those of them that are expected to be computed. */
  readonly freshTokens: number;
  readonly kvTokens: number;
  readonly targetClass: number;
  readonly isStream: boolean;
  phase: "prefill" | "decode" | "released";
  /** What stood on the node before it, and what was expected of it then. */
  readonly start: BookingStart;
  /** The node when the request's decoding began; of an answer that does not stream, when it was booked. */
  readonly mark: LoadMark;
  /** From there to its end, once it is released. */
  readonly company: Company;
}

/** In what company a request ran, itself included; our own requests only. NaN: not known. */
export interface Company {
  /** Mean requests. */
  depth: number;
  /** Mean prompt and expected output, tokens. */
  kvTokens: number;
  /** Prompt tokens of others that were computed meanwhile. */
  prefilledTokens: number;
}

/** The moment of a booking. Numbers of the node are without this request. */
export interface BookingStart {
  /** Requests, whoever sent them. */
  readonly depth: number;
  /** Our own among them. */
  readonly own: number;
  /** Prompt and expected output tokens of our own. */
  readonly kvTokens: number;
  /** Prompt tokens that wait to be computed. */
  readonly aheadTokens: number;
  /** Prompt tokens of answers that do not stream. */
  readonly plainTokens: number;
  /** Of its own prompt what was believed to stand in the prefix cache, tokens. */
  readonly warmTokens: number;
  /** Predicted first token, ms. NaN: nothing was predicted. */
  readonly firstMs: number;
  /** Predicted time per token, ms. NaN: nothing was predicted. */
  readonly tokenMs: number;
  /** Time per token that it was promised, ms. NaN: none. */
  readonly promisedMs: number;
  /** Output that was expected, tokens. */
  readonly outputTokens: number;
}

/**
 * Takes one place on a row.
 *
 * @returns the in-flight count before, which is the place that this booking got.
 */
export function takePlace(table: FleetTable, worker: number, row: number): number {
  return add(table, worker, "inFlight", row, 1);
}

/** Gives a place back before anything was sent. The caller announces the room. */
export function undoPlace(table: FleetTable, worker: number, row: number): void {
  add(table, worker, "inFlight", row, -1);
}

/**
 * Completes a place into a booking: the rest of the vector is counted.
 *
 * @param depth requests on the node before this one. @param prediction what the decision expected of it.
 */
export function completeBooking(
  table: FleetTable,
  worker: number,
  row: number,
  vector: BookingVector,
  {
    nowMs,
    depth,
    firstMs,
    tokenMs,
    outputTokens,
    warmTokens,
  }: { nowMs: number; depth: number } & Pick<BookingStart, "firstMs" | "tokenMs" | "outputTokens" | "warmTokens">,
): Booking {
  const { total } = table;
  const booking: Booking = {
    row,
    promptTokens: tokensOf(table, row, vector.promptTokens),
    freshTokens: tokensOf(table, row, vector.freshTokens),
    kvTokens: tokensOf(table, row, vector.kvTokens),
    targetClass: targetClassOf(vector.tokenTargetMs),
    isStream: vector.isStream,
    phase: "prefill",
    start: {
      depth,
      own: (total.inFlight[row] as number) - 1,
      kvTokens: total.kvTokens[row] as number,
      aheadTokens: total.promptTokens[row] as number,
      plainTokens: total.plainPromptTokens[row] as number,
      promisedMs: vector.tokenTargetMs,
      warmTokens,
      firstMs,
      tokenMs,
      outputTokens,
    },
    mark: { atMs: nowMs, depthTime: 0, kvTime: 0, prefilledTokens: 0 },
    company: { depth: Number.NaN, kvTokens: Number.NaN, prefilledTokens: Number.NaN },
  };
  if (booking.isStream) {
    add(table, worker, "prefilling", row, 1);
    add(table, worker, "promptTokens", row, booking.freshTokens);
  } else add(table, worker, "plainPromptTokens", row, booking.freshTokens);
  Atomics.add(table.cacheClock, row, booking.freshTokens);
  add(table, worker, "kvTokens", row, booking.kvTokens);
  add(table, worker, classColumn(booking.targetClass), row, 1);
  notePromise(table, row, booking.targetClass, vector.tokenTargetMs);
  noteChange(table, row, booking.kvTokens, nowMs, 1);
  markLoad(table, row, nowMs, booking.mark);
  return booking;
}

/** A piece of a node's answer was passed on. O(1), not atomic: the column tells that something moved, not how much. */
export function noteRelayed(table: FleetTable, row: number): void {
  table.relayed[row] = ((table.relayed[row] as number) + 1) | 0;
}

/** Prefill becomes decode: the prompt's work is done, its memory stays. Later calls change nothing. */
export function noteFirstToken(table: FleetTable, worker: number, booking: Booking, nowMs: number): void {
  if (booking.phase !== "prefill" || !booking.isStream) return;
  endPrefill(table, worker, booking);
  markLoad(table, booking.row, nowMs, booking.mark);
}

function endPrefill(table: FleetTable, worker: number, booking: Booking): void {
  if (booking.phase !== "prefill") return;
  booking.phase = "decode";
  const { row, freshTokens } = booking;
  Atomics.add(table.prefilledTokens, row, freshTokens);
  if (!booking.isStream) return;
  add(table, worker, "prefilling", row, -1);
  add(table, worker, "promptTokens", row, -freshTokens);
}

/**
 * Ends a booking: its whole vector leaves the row.
 *
 * @throws Error when it was released before.
 */
export function releaseBooking(table: FleetTable, worker: number, booking: Booking, nowMs: number): void {
  assert(booking.phase !== "released", "a booking is released once");
  noteCompany(table, booking, nowMs);
  endPrefill(table, worker, booking);
  booking.phase = "released";
  const { row, freshTokens, kvTokens, targetClass, isStream } = booking;
  if (!isStream) add(table, worker, "plainPromptTokens", row, -freshTokens);
  add(table, worker, "kvTokens", row, -kvTokens);
  add(table, worker, classColumn(targetClass), row, -1);
  noteTightest(table, row);
  noteChange(table, row, kvTokens, nowMs, -1);
  undoPlace(table, worker, row);
  Atomics.add(table.releases, row, 1);
}

/** What the load of its time says about an attempt: what it started into, and in what company it decoded. */
export interface AttemptTiming extends BookingStart {
  /** Mean of our own requests on the node while it decoded, itself included. NaN: not known. */
  readonly meanDepth: number;
  /** Mean of their prompt and expected output, tokens. NaN: not known. */
  readonly meanKvTokens: number;
  /** Prompt tokens of others that were computed meanwhile. NaN: not known. */
  readonly prefilledTokens: number;
  /** True when the prompt is all the work there was. */
  readonly isPromptOnly: boolean;
  /** Prompt, tokens, as it was booked. */
  readonly bookedPromptTokens: number;
  /** What of it was expected to be computed. */
  readonly freshTokens: number;
}

/** Timing of an attempt whose booking was released. */
export function timingOf({ start, company, promptTokens, freshTokens }: Booking, isPromptOnly: boolean): AttemptTiming {
  return {
    // one by one: a spread takes several times as long, and this is made for every attempt
    depth: start.depth,
    own: start.own,
    kvTokens: start.kvTokens,
    aheadTokens: start.aheadTokens,
    plainTokens: start.plainTokens,
    warmTokens: start.warmTokens,
    firstMs: start.firstMs,
    tokenMs: start.tokenMs,
    promisedMs: start.promisedMs,
    outputTokens: start.outputTokens,
    meanDepth: company.depth,
    meanKvTokens: company.kvTokens,
    prefilledTokens: company.prefilledTokens,
    isPromptOnly,
    bookedPromptTokens: promptTokens,
    freshTokens,
  };
}

const END: LoadMark = { atMs: 0, depthTime: 0, kvTime: 0, prefilledTokens: 0 };

/**
 * Fills the company of a booking. A look that met another worker between two of its cells is off by anything: what does
 * not fit to both ends is not known.
 */
function noteCompany(table: FleetTable, { row, mark, company }: Booking, nowMs: number): void {
  markLoad(table, row, nowMs, END);
  const most = table.maxInFlight[row] as number;
  const depth = meanDepth(mark, END);
  const kvTokens = meanKvTokens(mark, END);
  const prefilledTokens = prefilledBetween(mark, END);
  // each request passes through once, so a plausible sum of prompts is bounded by what a node takes in
  company.depth = depth <= most ? depth : Number.NaN;
  company.kvTokens = kvTokens <= most * BOOKING_TOKENS_MAX ? kvTokens : Number.NaN;
  company.prefilledTokens = prefilledTokens < 2 ** 30 ? prefilledTokens : Number.NaN;
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
  const name = CLASS_COLUMNS[targetClass];
  assert(name !== undefined, "target classes are 0..7");
  return name;
}

function ownOf(table: FleetTable, worker: number): BookingCounts {
  const own = table.own[worker];
  assert(own !== undefined, "the worker exists");
  return own;
}

/** @returns the count before. */
function add(table: FleetTable, worker: number, column: keyof BookingCounts, row: number, amount: number): number {
  return addToCount(table.total[column], row, ownOf(table, worker)[column], row, amount);
}
