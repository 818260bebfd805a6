/**
 * The fleet table: the live state of every node as columns of numbers over one `SharedArrayBuffer`.
 *
 * Rows are nodes. What belongs to a model on a node stands in a second set of rows, the placements. Who may write a
 * cell is part of its column:
 *
 * - *main* columns have one writer, the control thread, and are published under `sequence`;
 * - *counts* change by `Atomics.add` only, by any worker; each worker keeps its own share in an *own* column, so that
 *   a dead worker's share can be taken out;
 * - *deadlines* are Int32 ticks (see `deadline.ts`) that any worker moves by compare-and-exchange;
 * - *notes* say what the last failure or overload was; any worker stores them, the last one stands.
 *
 * Unknown is `NaN` in Float64 columns and -1 in indexes; 0 always means zero. An all-zero row is a free row: `isLive`
 * is 0 there, and nothing else of it is read.
 */

import { assert } from "./assert.ts";
import {
  DEFAULT_STREAM_TOKENS_PER_SECOND,
  DEFAULT_TIMING,
  DEFAULT_TOKENS_PER_SECOND,
  MODELS_MAX,
  PLACEMENTS_PER_NODE,
  QUEUES_MAX,
} from "./bounds.ts";
import { CACHE_LOST_TOKENS } from "./prefix-table.ts";
import { ENDPOINTS } from "./reasons.ts";
import { addToCount, settleCount } from "./shared-count.ts";

/** Float64 columns of a node, written by the control thread. */
const NODE_NUMBERS = [
  /** USD per hour for the whole node (price per GPU-hour × GPUs). NaN: unknown. */
  "priceUsdPerHour",
  /** Requests running, as the node reported. NaN: it reports none. */
  "running",
  /** Requests waiting inside the node, as it reported. NaN: it reports none. */
  "waiting",
  /** Load that others put on the node, requests: max(0, running + waiting − ours at the scrape). NaN: unknown, read as 0. */
  "foreign",
  /** Tightest promise that requests of others are taken to have, µs per token (`learning/promise-mix.ts`). NaN: none. */
  "othersTightestUs",
  /** Share of them that is taken to have it. NaN: nothing was seen. */
  "othersTightShare",
  /** Requests that the node runs at once before it queues, as its engine states. NaN: unknown. */
  "concurrencyLimit",
  /** Free accelerator memory, GiB. NaN: unknown. */
  "freeMemoryGib",
  /** KV cache in use, 0..1. NaN: unknown. */
  "kvUse",
  /** Tokens that the KV cache holds, as the node tells. NaN: it does not. */
  "cacheTokens",
  /** Time of the last good poll, engine clock ms. NaN: never. */
  "polledAtMs",
  /** Time of the last inference that succeeded, engine clock ms. NaN: never seen. */
  "lastSuccessAtMs",
  /** Health score 0..100 (see `availability/health-score.ts`). It informs and never gates. NaN: unknown. */
  "healthScore",
  /** Decayed share of attempts that failed, 0..1. NaN: no traffic seen. */
  "errorRate",
  /** Requests that end per second, decayed. NaN: unknown. */
  "drainPerSecond",
] as const;

/** Int32 columns of a node, written by the control thread. */
const NODE_INTEGERS = [
  /** 1 while the row holds a configured node. */
  "isLive",
  /** 1 while the operator drains the node. */
  "isDraining",
  /** 1 from the second failed poll in a row (without passing traffic) until a good one. */
  "isUnhealthy",
  /** Polls that succeeded since the row was taken; also tells whether one came after a failure. */
  "goodPolls",
  /** Depth at which the node takes no more. */
  "maxInFlight",
  /** Cooldown of this node after one failure, ms. */
  "cooldownMs",
  /** What its cooldown grows to while failures follow each other, ms; at least `cooldownMs`. */
  "cooldownMaxMs",
  /** Length of its slow start, ms; 0: none. */
  "slowStartMs",
  /** Index of the family. */
  "family",
  /** Stable index of the node's identity, for records that outlive the row. */
  "identity",
  /** In flight of other gateways, requests. Always 0 until replicas share counts. */
  "elsewhere",
] as const;

/** Counts of a node's bookings: shared (Atomics.add) and once more for each worker. */
const BOOKING_COUNTS = [
  /** Requests in flight. */
  "inFlight",
  /** Requests whose first token has not come yet. */
  "prefilling",
  /** Prompt tokens of the requests that are still in prefill. */
  "promptTokens",
  /** Prompt and expected output tokens of all requests in flight. */
  "kvTokens",
  /** Prompt tokens of requests whose first token nobody sees, since their answer does not stream. */
  "plainPromptTokens",
  /** Requests in flight by target class (see `dispatch/residents.ts`); class 0 has no target. */
  "class0",
  "class1",
  "class2",
  "class3",
  "class4",
  "class5",
  "class6",
  "class7",
] as const;

/** Shared counts that only grow; no worker share is kept. */
const NODE_TALLIES = [
  /** Bookings released since the row was taken; the control thread derives `drainPerSecond` from it. */
  "releases",
  /** Pieces of answers that nodes sent. Plain increments by any worker: it tells that something came, not how much. */
  "relayed",
  /** Prompt tokens whose prefill is over, modulo 2^32. */
  "prefilledTokens",
  /** Prompt tokens that were sent to be computed, modulo 2^32: the age of what stands in the prefix cache. */
  "cacheClock",
  /** Integrals over time less what stands now (see `dispatch/load-integrals.ts`), modulo 2^32: requests, and KV tokens. */
  "depthTime",
  "kvTime",
] as const;

/** Deadlines of a node, in ticks; 0: none. Moved by compare-and-exchange by any thread. */
const NODE_DEADLINES = [
  /** End of the cooldown. Past but not 0: the node needs a trial. */
  "cooldownUntil",
  /** Start of the cooldown that `cooldownUntil` ends. */
  "cooldownFrom",
  /** End of the lease of the running trial. */
  "trialUntil",
  /** End of a back-off that the node asked for (`Retry-After`). */
  "backoffUntil",
  /** End of its slow start (see `availability/slow-start.ts`). */
  "warmUntil",
] as const;

/** What stands beside the deadlines of a node. Plain stores by any thread: the last failure is the one that counts. */
const NODE_NOTES = [
  /**
   * `goodPolls` at the failure + 1, so that 0 is none. A later good poll is evidence that the node is back; the largest
   * number where the node's own words say that a good poll is none.
   */
  "failedAtPoll",
  /** Cooldowns in a row without an answer that passed between them. */
  "failuresInRow",
  /** 1: the failure looked like the request's fault, so a good poll is enough for a trial. */
  "isSuspectFailure",
  /** `goodPolls` + 1 at an overload without a stated time: ranked last until the count moves on. */
  "overloadedAtPoll",
  /** Tightest time per token that a request in flight was promised, µs; 0: none was. */
  "tightestUs",
] as const;

/** Float64 columns of a placement, written by the control thread. */
const PLACEMENT_NUMBERS = [
  /** Measured capacity, tokens/s over all streams. NaN: unknown. */
  "measuredTokensPerSecond",
  /** Capacity that decisions use: measured, else the family's median, else the default. Never NaN on a live placement. */
  "tokensPerSecond",
  /** Measured speed of one stream, tokens/s. NaN: unknown. */
  "measuredStreamTokensPerSecond",
  /** Stream speed that decisions use. Never NaN on a live placement. */
  "streamTokensPerSecond",
  /** Context length, tokens. NaN: unknown. Written with `lacks`, by `writeCapabilities` only. */
  "contextTokens",
  /** Decayed share of attempts of this model that failed here. NaN: no traffic seen. */
  "placementErrorRate",
  /** Attempts of this model that ended here and said something about the node. NaN: none. */
  "ownSamples",
  /** When the last of them ended, engine clock ms. NaN: never. */
  "ownSampledAtMs",
  /** KV cache, tokens. NaN: unknown. */
  "kvCapacityTokens",
  // what the predictor multiplies (see `cost/predict.ts`); the node's own slowness is in all of them; never NaN
  /** Decode step of an empty batch, ms. */
  "stepBaseMs",
  /** What each sequence of the batch adds to a step, ms. */
  "stepPerRequestMs",
  /** What each cached token adds to a step, ms. */
  "stepPerKvTokenMs",
  /** What each prompt token that is computed beside it adds to a decode, ms. */
  "stepPerPromptTokenMs",
  /** What a first token takes beside steps and prompts, ms. */
  "firstBaseMs",
  /** Prefill, ms per prompt token. */
  "firstPerTokenMs",
  /** The same per prompt token of others that waits when it comes; a part of them is done already. */
  "firstPerAheadMs",
  /** Prefill, ms per square of the prompt's tokens. */
  "firstPerSquareMs",
  /** Factor on a predicted first token that `PROMISE` of the outcomes stay below. */
  "firstSpread",
  /** The same for the time per token. */
  "tokenSpread",
  /** How much slower the node is than its family, as a factor. NaN: nothing was seen. */
  "slowness",
  /** Decayed mean of |ln(outcome ÷ prediction)|. NaN: nothing was predicted. */
  "predictionError",
  /** Attempts of the model on the family that the predictor learned from. */
  "predictorSamples",
  /** Share of the prompt tokens believed to stand in the prefix cache that did. NaN: nothing was seen. */
  "cacheHits",
] as const;

/** Int32 columns of a placement, written by the control thread. */
const PLACEMENT_INTEGERS = [
  /** Bits of what the model on this node is known to lack (see `capabilities.ts`); 0: nothing is known to be missing. */
  "lacks",
] as const;

/** Deadlines of a placement. */
const PLACEMENT_DEADLINES = [
  /** End of the time without traffic after the node refused the model. Past but not 0: one trial, which moves it on. */
  "misconfiguredUntil",
] as const;

const MODEL_NUMBERS = [
  /** Decayed mean output of a request, tokens. NaN: none seen. */
  "meanOutputTokens",
  /** Decayed mean prompt of a request, tokens. NaN: none seen. */
  "meanPromptTokens",
  /** Decayed share of prompt tokens that no prefix cache was expected to hold. NaN: none seen. */
  "freshShare",
  /** Decayed ratio of a prompt's tokens, as nodes count them, to the estimate from its bytes. NaN: none seen. */
  "promptRatio",
] as const;

/** Single shared cells. */
const CELLS = [
  "nodes",
  "workers",
  /** Even: stable. Odd: the control thread is writing main columns. */
  "sequence",
  /** Next ticket of the saturation queue. */
  "ticket",
  /** Requests parked in all workers. */
  "parked",
  /** Bytes of parked requests in all workers, KiB (so that 2 TiB fit). */
  "parkedKib",
  /** Grows whenever room may have appeared while somebody is parked: a name for the present room. */
  "wake",
  /** Body bytes held for all requests in flight, KiB. */
  "bodyKib",
  /** Grows with `wake`, and when a head gives up its claim: what parked requests wait on. */
  "turn",
] as const;

type Numbers<K extends readonly string[]> = { readonly [P in K[number]]: Float64Array };
type Integers<K extends readonly string[]> = { readonly [P in K[number]]: Int32Array };
/** Columns of counts, as shared totals or as one worker's share. */
export type BookingCounts = Integers<typeof BOOKING_COUNTS>;

/** Views of one fleet table. All threads that attach the same buffer see the same cells. */
export interface FleetTable
  extends Numbers<typeof NODE_NUMBERS>,
    Integers<typeof NODE_INTEGERS>,
    Integers<typeof NODE_TALLIES>,
    Integers<typeof NODE_DEADLINES>,
    Integers<typeof NODE_NOTES>,
    Numbers<typeof PLACEMENT_NUMBERS>,
    Integers<typeof PLACEMENT_INTEGERS>,
    Integers<typeof PLACEMENT_DEADLINES>,
    Numbers<typeof MODEL_NUMBERS> {
  readonly buffer: SharedArrayBuffer;
  readonly nodeRows: number;
  readonly placementRows: number;
  readonly workers: number;
  /** Shared totals of the bookings. */
  readonly total: BookingCounts;
  /** Each worker's own share of `total`. */
  readonly own: readonly BookingCounts[];
  /** The same for an endpoint that the node lacks: row × endpoints + endpoint. */
  readonly endpointUntil: Int32Array;
  /** Tightest promise of each target class, µs per token: row × `TARGET_CLASSES` + class. Valid while its count is not 0. */
  readonly classTargetUs: Int32Array;
  /** Shares of the target classes among requests of others, and the promise of each, µs: row × `TARGET_CLASSES` + class. */
  readonly othersMix: Float64Array;
  readonly othersUs: Float64Array;
  /** Single shared cells, by `CELL`. */
  readonly cells: Int32Array;
  /** Key of each saturation queue (packed model and policy index + 1), 0 while free. */
  readonly queueKey: Int32Array;
  /** Requests parked in each queue, all workers. */
  readonly queueLength: Int32Array;
  /** Each worker's own share of `queueLength`: worker × queues + queue. */
  readonly queueOwnLength: Int32Array;
  /** Each worker's own share of the counting cells: worker × `CELL_SLOTS` + cell. */
  readonly ownCells: Int32Array;
  /** Ticket of each worker's head of each queue: worker × queues + queue; 0: none. Own column. */
  readonly queueHead: Int32Array;
  /** `wake` at which that head last found nothing. Own column. */
  readonly queueHeadTried: Int32Array;
}

/** Index of each single cell in `FleetTable.cells`. */
export const CELL = Object.freeze(
  Object.fromEntries(CELLS.map((name, index) => [name, index])) as { [K in (typeof CELLS)[number]]: number },
);

/** Names of the booking counts, for code that treats all of them alike. */
export const BOOKING_COUNT_NAMES = BOOKING_COUNTS;

/** Sizes of a fleet table. */
export interface FleetTableSize {
  /** Node rows. */
  nodes: number;
  /** Data-plane threads. */
  workers: number;
}

const CELL_SLOTS = 16;

/** Classes of promised token times, with the one that has no promise. */
export const TARGET_CLASSES = 8;

function layOut(buffer: SharedArrayBuffer, nodes: number, workers: number): { table: FleetTable; bytes: number } {
  let offset = 0;
  const isDry = buffer.byteLength === 0;
  const int32 = (length: number): Int32Array => {
    const start = offset;
    offset += Math.ceil((length * 4) / 8) * 8;
    return isDry ? new Int32Array(0) : new Int32Array(buffer, start, length);
  };
  const float64 = (length: number): Float64Array => {
    const start = offset;
    offset += length * 8;
    return isDry ? new Float64Array(0) : new Float64Array(buffer, start, length);
  };
  const columns = <K extends string, V>(names: readonly K[], make: () => V): { [P in K]: V } =>
    Object.fromEntries(names.map((name) => [name, make()])) as { [P in K]: V };
  const placements = nodes * PLACEMENTS_PER_NODE;
  const cells = int32(CELL_SLOTS);
  const table: FleetTable = {
    buffer,
    nodeRows: nodes,
    placementRows: placements,
    workers,
    cells,
    ...columns(NODE_NUMBERS, () => float64(nodes)),
    ...columns(PLACEMENT_NUMBERS, () => float64(placements)),
    ...columns(MODEL_NUMBERS, () => float64(MODELS_MAX)),
    ...columns(NODE_INTEGERS, () => int32(nodes)),
    ...columns(NODE_TALLIES, () => int32(nodes)),
    ...columns(NODE_DEADLINES, () => int32(nodes)),
    ...columns(NODE_NOTES, () => int32(nodes)),
    ...columns(PLACEMENT_INTEGERS, () => int32(placements)),
    ...columns(PLACEMENT_DEADLINES, () => int32(placements)),
    total: columns(BOOKING_COUNTS, () => int32(nodes)),
    own: Array.from({ length: workers }, () => columns(BOOKING_COUNTS, () => int32(nodes))),
    endpointUntil: int32(nodes * ENDPOINTS.length),
    classTargetUs: int32(nodes * TARGET_CLASSES),
    othersMix: float64(nodes * TARGET_CLASSES),
    othersUs: float64(nodes * TARGET_CLASSES),
    queueKey: int32(QUEUES_MAX),
    queueLength: int32(QUEUES_MAX),
    queueOwnLength: int32(QUEUES_MAX * workers),
    ownCells: int32(CELL_SLOTS * workers),
    queueHead: int32(QUEUES_MAX * workers),
    queueHeadTried: int32(QUEUES_MAX * workers),
  };
  return { table, bytes: offset };
}

/**
 * Makes an empty table. The buffer is all zeros, so memory is touched only for rows that are taken.
 *
 * @throws Error when a size is not a positive integer.
 */
export function createFleetTable(size: FleetTableSize): FleetTable {
  assert(Number.isInteger(size.nodes) && size.nodes > 0, "a fleet table has at least one node row");
  assert(Number.isInteger(size.workers) && size.workers > 0, "a fleet table has at least one worker");
  const { bytes } = layOut(new SharedArrayBuffer(0), size.nodes, size.workers);
  const { table } = layOut(new SharedArrayBuffer(bytes), size.nodes, size.workers);
  table.cells[CELL.nodes] = size.nodes;
  table.cells[CELL.workers] = size.workers;
  return table;
}

/** Attaches to a table that another thread made. */
export function attachFleetTable(buffer: SharedArrayBuffer): FleetTable {
  const cells = new Int32Array(buffer, 0, CELL_SLOTS);
  const { table, bytes } = layOut(buffer, cells[CELL.nodes] ?? 0, cells[CELL.workers] ?? 0);
  assert(bytes === buffer.byteLength, "the buffer has the size of the table that it states");
  return table;
}

/**
 * Runs a write of main columns and publishes it: readers that see an odd or a changed `sequence` know that what they
 * read may mix two versions. Control thread only; writes do not nest.
 */
export function publish(table: FleetTable, write: () => void): void {
  Atomics.add(table.cells, CELL.sequence, 1);
  try {
    write();
  } finally {
    Atomics.add(table.cells, CELL.sequence, 1);
  }
}

/** What a row starts with when a node takes it. */
export interface NodeRowStart {
  family: number;
  identity: number;
  maxInFlight: number;
  cooldownMs: number;
  /** Default: `cooldownMs`, which grows no more then. */
  cooldownMaxMs?: number;
  /** Default: 0, no slow start. */
  slowStartMs?: number;
  priceUsdPerHour: number;
}

/** Takes a free node row: unknowns become unknown, deadlines and tallies are cleared, counts stay (they must be 0). */
export function takeNodeRow(table: FleetTable, row: number, start: NodeRowStart): void {
  assert(table.isLive[row] === 0, "only a free row can be taken");
  assert(isRowIdle(table, row), "a free row has no bookings");
  for (const name of NODE_NUMBERS) table[name][row] = Number.NaN;
  for (const name of NODE_INTEGERS) table[name][row] = 0;
  for (const name of NODE_TALLIES) if (name !== "cacheClock") table[name][row] = 0;
  forgetCache(table, row);
  for (const name of NODE_DEADLINES) table[name][row] = 0;
  for (const name of NODE_NOTES) table[name][row] = 0;
  for (const column of [table.othersMix, table.othersUs]) {
    column.fill(0, row * TARGET_CLASSES, (row + 1) * TARGET_CLASSES);
  }
  table.endpointUntil.fill(0, row * ENDPOINTS.length, (row + 1) * ENDPOINTS.length);
  table.family[row] = start.family;
  table.identity[row] = start.identity;
  table.maxInFlight[row] = start.maxInFlight;
  table.cooldownMs[row] = start.cooldownMs;
  table.cooldownMaxMs[row] = Math.max(start.cooldownMs, start.cooldownMaxMs ?? 0);
  table.slowStartMs[row] = start.slowStartMs ?? 0;
  table.priceUsdPerHour[row] = start.priceUsdPerHour;
  table.isLive[row] = 1;
}

/** The node's prefix cache is empty, or another node's: nothing that it was sent stands in it. Any thread. */
export function forgetCache(table: FleetTable, row: number): void {
  Atomics.add(table.cacheClock, row, CACHE_LOST_TOKENS);
}

/** True when no booking of any worker stands on the row. */
export function isRowIdle(table: FleetTable, row: number): boolean {
  return BOOKING_COUNTS.every((name) => Atomics.load(table.total[name], row) === 0);
}

/** Takes a free placement row for a model on a node. Speeds start at the documented defaults. */
export function takePlacementRow(table: FleetTable, placement: number): void {
  for (const name of PLACEMENT_NUMBERS) table[name][placement] = Number.NaN;
  for (const name of PLACEMENT_INTEGERS) table[name][placement] = 0;
  for (const name of PLACEMENT_DEADLINES) table[name][placement] = 0;
  forgetSpeeds(table, placement);
}

/** Forgets what a model on a node has shown of its speed: other hardware, or another engine, gives it from now on. */
export function forgetSpeeds(table: FleetTable, placement: number): void {
  table.measuredTokensPerSecond[placement] = Number.NaN;
  table.measuredStreamTokensPerSecond[placement] = Number.NaN;
  table.ownSamples[placement] = Number.NaN;
  table.ownSampledAtMs[placement] = Number.NaN;
  table.tokensPerSecond[placement] = DEFAULT_TOKENS_PER_SECOND;
  table.streamTokensPerSecond[placement] = DEFAULT_STREAM_TOKENS_PER_SECOND;
  for (const [name, value] of Object.entries(DEFAULT_TIMING))
    table[name as keyof typeof DEFAULT_TIMING][placement] = value;
  table.kvCapacityTokens[placement] = Number.NaN;
  table.cacheHits[placement] = Number.NaN;
  table.slowness[placement] = Number.NaN;
  table.predictionError[placement] = Number.NaN;
}

/** Takes a model row: nothing is known of its output yet. */
export function takeModelRow(table: FleetTable, model: number): void {
  for (const name of MODEL_NUMBERS) table[name][model] = Number.NaN;
}

/**
 * Adds to one of the counting cells (`parked`, `parkedKib`, `bodyKib`) and to the worker's own share of it.
 *
 * @returns the shared count before the addition.
 */
export function addToCell(table: FleetTable, worker: number, cell: number, amount: number): number {
  return addToCount(table.cells, cell, table.ownCells, worker * CELL_SLOTS + cell, amount);
}

/**
 * Takes the bookings and queue heads of a worker that died out of the shared cells. Its slot can then be used again.
 * The thread may have died between its own share and the shared count, so what its share says is taken out and the counts
 * are then held to the shares of the living: else one request could stay on a node for ever. The caller announces the
 * room. Blocks for 128 ms for a count that the death left wrong: one at most.
 */
export function removeWorkerShare(table: FleetTable, worker: number): void {
  const own = table.own[worker];
  assert(own !== undefined, "the worker exists");
  for (const name of BOOKING_COUNTS) {
    const shares = table.own.map((counts) => counts[name]);
    for (let row = 0; row < table.nodeRows; row++) {
      Atomics.sub(table.total[name], row, own[name][row] as number);
      own[name][row] = 0;
      rebuild(table.total[name], row, shares, row, 0);
    }
  }
  const ownCells = Array<Int32Array>(table.workers).fill(table.ownCells);
  for (const cell of [CELL.parked, CELL.parkedKib, CELL.bodyKib]) {
    Atomics.sub(table.cells, cell, table.ownCells[worker * CELL_SLOTS + cell] as number);
    table.ownCells[worker * CELL_SLOTS + cell] = 0;
    rebuild(table.cells, cell, ownCells, cell, CELL_SLOTS);
  }
  const ownLengths = Array<Int32Array>(table.workers).fill(table.queueOwnLength);
  for (let queue = 0; queue < QUEUES_MAX; queue++) {
    const index = worker * QUEUES_MAX + queue;
    Atomics.sub(table.queueLength, queue, table.queueOwnLength[index] as number);
    table.queueOwnLength[index] = 0;
    rebuild(table.queueLength, queue, ownLengths, queue, QUEUES_MAX);
    Atomics.store(table.queueHead, index, 0);
  }
}

/** Sets a shared count to the sum of the shares, which stand `stride` apart: worker w has `index + w × stride`. */
function rebuild(totals: Int32Array, cell: number, shares: readonly Int32Array[], index: number, stride: number): void {
  settleCount(totals, cell, () => {
    let sum = 0;
    for (let worker = 0; worker < shares.length; worker++) {
      sum += Atomics.load(shares[worker] as Int32Array, index + worker * stride);
    }
    return sum;
  });
}
