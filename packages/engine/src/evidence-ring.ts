/**
 * The evidence ring: one fixed-size record per decision, in shared memory, one ring per worker. The worker writes a
 * record when it decides and adds the outcome when the attempt ends; any thread reads. A record is rendered only when
 * somebody asks. Old records are overwritten.
 *
 * Torn reads: every slot has a lock word that is odd while it is written; a reader copies, then checks that the word is
 * even and has not moved. Where plain accesses lie between two touches of that word, the one that has to stay on the far
 * side of them is a read-modify-write: an atomic store does not keep what follows behind it, nor an atomic load what
 * precedes before it, on processors that reorder (ARM).
 */

import { assert } from "./assert.ts";
import { EVIDENCE_FAMILIES_MAX } from "./bounds.ts";
import type { Decision } from "./decision.ts";
import type { FleetTable } from "./fleet-table.ts";
import {
  COST_PRIORITIES,
  type CostPriority,
  ENDPOINTS,
  type Endpoint,
  EXCLUSIONS,
  type Exclusion,
  HINT_USES,
  type HintUse,
  OUTCOMES,
  type Outcome,
  POLICY_SOURCES,
  type PolicySource,
  REASONS,
  type Reason,
  TRANSPORT_FAULTS,
  type TransportFault,
} from "./reasons.ts";
import type { RouteRequest } from "./route-request.ts";

const NUMBERS = [
  "decidedAtMs",
  "admittedAtMs",
  "depth",
  "estimateMs",
  "estimateFirstMs",
  "estimateTokenMs",
  "chance",
  "costUsd",
  "latencyTargetMs",
  "dataAgeMs",
  "retryAfterMs",
  "promptTokens",
  "promptTokensAtLeast",
  "estimatePromptTokens",
  "warmTokens",
  "cachedTokens",
  "maxTokens",
  "expectedTokens",
  "priceUsdPerHour",
  "tokensPerSecond",
  "firstByteMs",
  "firstTokenMs",
  "durationMs",
  "reportedPromptTokens",
  "reportedOutputTokens",
  "spentUsd",
  "reportedCachedTokens",
] as const;

const INTEGERS = [
  "directoryVersion",
  "model",
  "policy",
  "policySource",
  "costPriority",
  "hintFamily",
  "hint",
  "endpoint",
  "isStream",
  "hasImages",
  "reason",
  "answers",
  "key",
  "identity",
  "family",
  "bookingRaces",
  "attempt",
  "previous",
  "families",
  "outsideChain",
  "arePricesUnknown",
  "isTrial",
  "outcome",
  "status",
  "fault",
] as const;

const FAMILY_NUMBERS = 3;
const FAMILY_INTEGERS = 4;
const FLOATS_PER_RECORD = NUMBERS.length + EVIDENCE_FAMILIES_MAX * FAMILY_NUMBERS;
/** Lock word and sequence number, then the integers. */
const INTS_PER_RECORD = 2 + INTEGERS.length + EVIDENCE_FAMILIES_MAX * FAMILY_INTEGERS;
const SHORTS_PER_RECORD = EVIDENCE_FAMILIES_MAX * EXCLUSIONS.length;
const SHORT_MAX = 0xffff;

const N = Object.freeze(Object.fromEntries(NUMBERS.map((name, index) => [name, index]))) as Readonly<
  Record<(typeof NUMBERS)[number], number>
>;
const I = Object.freeze(Object.fromEntries(INTEGERS.map((name, index) => [name, index + 2]))) as Readonly<
  Record<(typeof INTEGERS)[number], number>
>;

/** A ring of one worker. */
export interface EvidenceRing {
  readonly buffer: SharedArrayBuffer;
  /** Records it holds, a power of two. */
  readonly records: number;
  readonly floats: Float64Array;
  readonly ints: Int32Array;
  readonly shorts: Uint16Array;
}

/** Bytes of a ring of so many records. */
function bytesOf(records: number): number {
  return records * (FLOATS_PER_RECORD * 8 + INTS_PER_RECORD * 4 + SHORTS_PER_RECORD * 2) + 8;
}

function viewRing(buffer: SharedArrayBuffer, records: number): EvidenceRing {
  const intsAt = records * FLOATS_PER_RECORD * 8;
  const shortsAt = intsAt + (records * INTS_PER_RECORD + 2) * 4;
  return {
    buffer,
    records,
    floats: new Float64Array(buffer, 0, records * FLOATS_PER_RECORD),
    ints: new Int32Array(buffer, intsAt, records * INTS_PER_RECORD + 2),
    shorts: new Uint16Array(buffer, shortsAt, records * SHORTS_PER_RECORD),
  };
}

/**
 * Makes an empty ring.
 *
 * @throws Error when `records` is not a power of two.
 */
export function createEvidenceRing(records: number): EvidenceRing {
  assert(records > 0 && (records & (records - 1)) === 0, "a ring holds a power of two of records");
  return viewRing(new SharedArrayBuffer(bytesOf(records)), records);
}

/** Attaches to a ring that another thread made. */
export function attachEvidenceRing(buffer: SharedArrayBuffer, records: number): EvidenceRing {
  assert(buffer.byteLength === bytesOf(records), "the buffer has the size of the ring");
  return viewRing(buffer, records);
}

/** Cell that holds the next sequence number. */
function nextCell(ring: EvidenceRing): number {
  return ring.records * INTS_PER_RECORD;
}

/** Sequence number that the next record gets; starts at 0. */
export function nextSequence(ring: EvidenceRing): number {
  return Atomics.load(ring.ints, nextCell(ring));
}

/** When the decision of a record was made, engine clock ms. Owning worker only, for a record that it has just written. */
export function decidedAtMs(ring: EvidenceRing, sequence: number): number {
  return ring.floats[(sequence & (ring.records - 1)) * FLOATS_PER_RECORD + N.decidedAtMs] as number;
}

/**
 * Writes the record of a decision. Owning worker only.
 *
 * @param previous sequence of the same request's decision before this one, -1: none.
 * @returns the record's sequence number.
 */
export function writeDecision(
  ring: EvidenceRing,
  table: FleetTable,
  request: RouteRequest,
  decision: Decision,
  context: { nowMs: number; previous: number },
): number {
  const { floats, ints, shorts } = ring;
  const sequence = nextSequence(ring);
  const slot = sequence & (ring.records - 1);
  const f = slot * FLOATS_PER_RECORD;
  const i = slot * INTS_PER_RECORD;
  const lock = beginWrite(ints, i);
  ints[i + 1] = sequence;
  floats[f + N.decidedAtMs] = context.nowMs;
  floats[f + N.admittedAtMs] = request.admittedAtMs;
  floats[f + N.depth] = decision.depth;
  floats[f + N.estimateMs] = decision.estimateMs;
  floats[f + N.estimateFirstMs] = decision.firstMs;
  floats[f + N.estimateTokenMs] = decision.tokenMs;
  floats[f + N.chance] = decision.chance;
  floats[f + N.costUsd] = decision.costUsd;
  floats[f + N.latencyTargetMs] = request.policy.latencyTargetMs;
  floats[f + N.dataAgeMs] = decision.dataAgeMs;
  floats[f + N.retryAfterMs] = decision.retryAfterMs;
  floats[f + N.promptTokens] = request.promptTokens;
  floats[f + N.promptTokensAtLeast] = request.promptTokensAtLeast;
  floats[f + N.estimatePromptTokens] = decision.promptTokens;
  floats[f + N.warmTokens] = decision.warmTokens;
  floats[f + N.cachedTokens] = decision.cachedTokens;
  floats[f + N.maxTokens] = request.maxTokens;
  floats[f + N.expectedTokens] = request.expectedTokens;
  const { row, placement } = decision;
  floats[f + N.priceUsdPerHour] = row < 0 ? Number.NaN : (table.priceUsdPerHour[row] as number);
  floats[f + N.tokensPerSecond] = placement < 0 ? Number.NaN : (table.tokensPerSecond[placement] as number);
  floats[f + N.firstByteMs] = Number.NaN;
  floats[f + N.firstTokenMs] = Number.NaN;
  floats[f + N.durationMs] = Number.NaN;
  floats[f + N.reportedPromptTokens] = Number.NaN;
  floats[f + N.reportedOutputTokens] = Number.NaN;
  floats[f + N.spentUsd] = Number.NaN;
  floats[f + N.reportedCachedTokens] = Number.NaN;
  ints[i + I.directoryVersion] = decision.directoryVersion;
  ints[i + I.model] = request.model.index;
  ints[i + I.policy] = request.policy.index;
  ints[i + I.policySource] = POLICY_SOURCES.indexOf(request.policySource);
  ints[i + I.costPriority] = COST_PRIORITIES.indexOf(request.policy.costPriority);
  ints[i + I.hintFamily] = request.hintFamily;
  ints[i + I.hint] = decision.hint;
  ints[i + I.endpoint] = request.endpoint;
  ints[i + I.isStream] = request.isStream ? 1 : 0;
  ints[i + I.hasImages] = request.hasImages ? 1 : 0;
  ints[i + I.reason] = decision.reason;
  ints[i + I.answers] = request.answers;
  ints[i + I.key] = request.key;
  ints[i + I.identity] = row < 0 ? -1 : (table.identity[row] as number);
  ints[i + I.family] = decision.family;
  ints[i + I.bookingRaces] = decision.bookingRaces;
  ints[i + I.attempt] = request.dispatches;
  ints[i + I.previous] = context.previous;
  ints[i + I.outsideChain] = decision.outsideChain;
  ints[i + I.arePricesUnknown] = decision.arePricesUnknown ? 1 : 0;
  ints[i + I.isTrial] = isTrialOf(decision.trial) ? 1 : 0;
  ints[i + I.outcome] = 0;
  ints[i + I.status] = -1;
  ints[i + I.fault] = -1;
  const families = Math.min(decision.families, EVIDENCE_FAMILIES_MAX);
  ints[i + I.families] = families;
  const { evidence } = decision;
  const { rows } = request.model;
  let number = f + NUMBERS.length;
  let integer = i + 2 + INTEGERS.length;
  let short = slot * SHORTS_PER_RECORD;
  for (let position = 0; position < families; position++) {
    const best = evidence.best[position] as number;
    floats[number] = evidence.depth[position] as number;
    floats[number + 1] = evidence.estimateMs[position] as number;
    floats[number + 2] = evidence.costUsd[position] as number;
    number += FAMILY_NUMBERS;
    ints[integer] = evidence.family[position] as number;
    ints[integer + 1] = evidence.tier[position] as number;
    ints[integer + 2] = evidence.nodes[position] as number;
    ints[integer + 3] = best < 0 ? -1 : (table.identity[rows[best] as number] as number);
    integer += FAMILY_INTEGERS;
    const from = position * EXCLUSIONS.length;
    for (let exclusion = 0; exclusion < EXCLUSIONS.length; exclusion++) {
      const count = evidence.excluded[from + exclusion] as number;
      shorts[short + exclusion] = count < SHORT_MAX ? count : SHORT_MAX;
    }
    short += EXCLUSIONS.length;
  }
  Atomics.store(ints, i, lock + 1);
  Atomics.store(ints, nextCell(ring), (sequence + 1) & 0x7fffffff);
  return sequence;
}

/** A trial of anything: of the node, of the model on it, of the endpoint on it. */
function isTrialOf({ node, placement, endpoint }: Decision["trial"]): boolean {
  return node !== 0 || placement !== 0 || endpoint !== 0;
}

/** Makes a slot's lock word odd and new, also where a thread died while it wrote and left it odd. */
function beginWrite(ints: Int32Array, lockCell: number): number {
  const lock = ((ints[lockCell] as number) + 1) | 1;
  Atomics.exchange(ints, lockCell, lock);
  return lock;
}

/** Outcome of an attempt, joined to its decision. Times in ms from dispatch; NaN: did not happen. */
export interface EvidenceOutcome {
  outcome: Outcome;
  /** HTTP status of the node, -1: none. */
  status: number;
  fault: TransportFault | null;
  firstByteMs: number;
  firstTokenMs: number;
  durationMs: number;
  /** As the node reported, tokens. NaN: it did not. */
  promptTokens: number;
  outputTokens: number;
  /** What it took of its node, USD. NaN: the price is unknown. */
  costUsd: number;
  /** Of the prompt, found in the node's prefix cache. */
  cachedTokens: number;
}

/** Adds the outcome to a record, unless it has been overwritten since. Owning worker only. */
export function writeOutcome(ring: EvidenceRing, sequence: number, outcome: EvidenceOutcome): void {
  const { floats, ints } = ring;
  const slot = sequence & (ring.records - 1);
  const f = slot * FLOATS_PER_RECORD;
  const i = slot * INTS_PER_RECORD;
  if (ints[i + 1] !== sequence) return;
  const lock = beginWrite(ints, i);
  ints[i + I.outcome] = OUTCOMES.indexOf(outcome.outcome);
  ints[i + I.status] = outcome.status;
  ints[i + I.fault] = outcome.fault === null ? -1 : TRANSPORT_FAULTS.indexOf(outcome.fault);
  floats[f + N.firstByteMs] = outcome.firstByteMs;
  floats[f + N.firstTokenMs] = outcome.firstTokenMs;
  floats[f + N.durationMs] = outcome.durationMs;
  floats[f + N.reportedPromptTokens] = outcome.promptTokens;
  floats[f + N.reportedOutputTokens] = outcome.outputTokens;
  floats[f + N.spentUsd] = outcome.costUsd;
  floats[f + N.reportedCachedTokens] = outcome.cachedTokens;
  Atomics.store(ints, i, lock + 1);
}

/** Evidence of one family of the chain. */
export interface EvidenceFamily {
  family: number;
  tier: number;
  nodes: number;
  /** Identity of the best node with room, -1: none. */
  bestIdentity: number;
  depth: number;
  estimateMs: number;
  costUsd: number;
  /** Nodes left out, by reason; reasons that left out none are absent. */
  excluded: Partial<Record<Exclusion, number>>;
}

/** Names of the columns of a record, in the order in which `copyCells` gives their cells. */
export const EVIDENCE_SHAPE = Object.freeze({
  numbers: NUMBERS,
  integers: INTEGERS,
  familyNumbers: ["depth", "estimateMs", "costUsd"] as const,
  familyIntegers: ["family", "tier", "nodes", "bestIdentity"] as const,
});

/** Cells of one record, outside the ring. */
export interface EvidenceCells {
  readonly numbers: Float64Array;
  readonly integers: Int32Array;
  /** Of the families in use, one after the other. */
  readonly familyNumbers: Float64Array;
  readonly familyIntegers: Int32Array;
  /** Nodes left out: family × exclusions + index. */
  readonly excluded: Uint16Array;
  /** Families in use. */
  families: number;
}

/** Cells to copy records into. */
export function createEvidenceCells(): EvidenceCells {
  return {
    numbers: new Float64Array(NUMBERS.length),
    integers: new Int32Array(INTEGERS.length),
    familyNumbers: new Float64Array(EVIDENCE_FAMILIES_MAX * FAMILY_NUMBERS),
    familyIntegers: new Int32Array(EVIDENCE_FAMILIES_MAX * FAMILY_INTEGERS),
    excluded: new Uint16Array(EVIDENCE_FAMILIES_MAX * EXCLUSIONS.length),
    families: 0,
  };
}

/**
 * Copies a record as it is, without an object per number: for whoever reads all of them. False as `readRecord` is null.
 */
export function copyCells(ring: EvidenceRing, sequence: number, cells: EvidenceCells): boolean {
  const slot = sequence & (ring.records - 1);
  const i = slot * INTS_PER_RECORD;
  for (let tries = 0; tries < READ_TRIES; tries++) {
    const lock = Atomics.load(ring.ints, i);
    if (lock === 0) return false;
    if (lock % 2 !== 0) continue;
    if (ring.ints[i + 1] !== sequence) return false;
    copySlot(ring, slot, cells);
    if (Atomics.add(ring.ints, i, 0) === lock) return true;
  }
  return false;
}

function copySlot({ floats, ints, shorts }: EvidenceRing, slot: number, cells: EvidenceCells): void {
  const f = slot * FLOATS_PER_RECORD;
  const i = slot * INTS_PER_RECORD + 2;
  for (let index = 0; index < NUMBERS.length; index++) cells.numbers[index] = floats[f + index] as number;
  for (let index = 0; index < INTEGERS.length; index++) cells.integers[index] = ints[i + index] as number;
  const families = Math.max(0, Math.min(EVIDENCE_FAMILIES_MAX, ints[i - 2 + I.families] as number));
  cells.families = families;
  const number = f + NUMBERS.length;
  for (let index = 0; index < families * FAMILY_NUMBERS; index++) {
    cells.familyNumbers[index] = floats[number + index] as number;
  }
  const integer = i + INTEGERS.length;
  for (let index = 0; index < families * FAMILY_INTEGERS; index++) {
    cells.familyIntegers[index] = ints[integer + index] as number;
  }
  const short = slot * SHORTS_PER_RECORD;
  for (let index = 0; index < families * EXCLUSIONS.length; index++) {
    cells.excluded[index] = shorts[short + index] as number;
  }
}

/** Whether a record is there, and its attempt has ended or never was one: nothing more is written to it. */
export type RecordState = "final" | "running" | "gone";

/** Looks at two cells of a record. */
export function stateOfRecord(ring: EvidenceRing, sequence: number): RecordState {
  const i = (sequence & (ring.records - 1)) * INTS_PER_RECORD;
  if (Atomics.load(ring.ints, i) === 0 || ring.ints[i + 1] !== sequence) return "gone";
  const isOver = ring.ints[i + I.outcome] !== 0 || ring.ints[i + I.identity] === -1;
  return isOver ? "final" : "running";
}

/** A record as read; indexes are names of the control thread's registries. */
export interface EvidenceRecord extends Record<(typeof NUMBERS)[number], number> {
  sequence: number;
  directoryVersion: number;
  model: number;
  policy: number;
  policySource: PolicySource;
  costPriority: CostPriority;
  hintFamily: number;
  hint: HintUse;
  endpoint: Endpoint;
  isStream: boolean;
  hasImages: boolean;
  /** Answers asked for (`n`). */
  answers: number;
  /** Index of the caller's key, -1: none was asked. */
  key: number;
  reason: Reason;
  identity: number;
  family: number;
  bookingRaces: number;
  attempt: number;
  previous: number;
  outsideChain: number;
  arePricesUnknown: boolean;
  isTrial: boolean;
  outcome: Outcome;
  status: number;
  fault: TransportFault | null;
  families: EvidenceFamily[];
}

const READ_TRIES = 64;

/** Reads a record by its sequence number; null when it was never written, is overwritten, or changes all the time. */
export function readRecord(ring: EvidenceRing, sequence: number): EvidenceRecord | null {
  const slot = sequence & (ring.records - 1);
  const i = slot * INTS_PER_RECORD;
  for (let tries = 0; tries < READ_TRIES; tries++) {
    const lock = Atomics.load(ring.ints, i);
    if (lock === 0) return null;
    if (lock % 2 !== 0) continue;
    if (ring.ints[i + 1] !== sequence) return null;
    const record = copyRecord(ring, slot, sequence);
    if (Atomics.add(ring.ints, i, 0) === lock) return record;
  }
  return null;
}

function copyRecord(ring: EvidenceRing, slot: number, sequence: number): EvidenceRecord {
  const f = slot * FLOATS_PER_RECORD;
  const i = slot * INTS_PER_RECORD;
  const int = (name: (typeof INTEGERS)[number]): number => ring.ints[i + I[name]] as number;
  const numbers = Object.fromEntries(NUMBERS.map((name) => [name, ring.floats[f + N[name]] as number])) as Record<
    (typeof NUMBERS)[number],
    number
  >;
  return {
    ...numbers,
    sequence,
    directoryVersion: int("directoryVersion"),
    model: int("model"),
    policy: int("policy"),
    policySource: nameOf(POLICY_SOURCES, int("policySource")),
    costPriority: nameOf(COST_PRIORITIES, int("costPriority")),
    hintFamily: int("hintFamily"),
    hint: nameOf(HINT_USES, int("hint")),
    endpoint: nameOf(ENDPOINTS, int("endpoint")),
    isStream: int("isStream") === 1,
    hasImages: int("hasImages") === 1,
    answers: int("answers"),
    key: int("key"),
    reason: nameOf(REASONS, int("reason")),
    identity: int("identity"),
    family: int("family"),
    bookingRaces: int("bookingRaces"),
    attempt: int("attempt"),
    previous: int("previous"),
    outsideChain: int("outsideChain"),
    arePricesUnknown: int("arePricesUnknown") === 1,
    isTrial: int("isTrial") === 1,
    outcome: nameOf(OUTCOMES, int("outcome")),
    status: int("status"),
    fault: int("fault") < 0 ? null : nameOf(TRANSPORT_FAULTS, int("fault")),
    families: Array.from({ length: int("families") }, (_, position) => copyFamily(ring, slot, position)),
  };
}

function copyFamily(ring: EvidenceRing, slot: number, position: number): EvidenceFamily {
  const number = slot * FLOATS_PER_RECORD + NUMBERS.length + position * FAMILY_NUMBERS;
  const integer = slot * INTS_PER_RECORD + 2 + INTEGERS.length + position * FAMILY_INTEGERS;
  const short = slot * SHORTS_PER_RECORD + position * EXCLUSIONS.length;
  const excluded: Partial<Record<Exclusion, number>> = {};
  EXCLUSIONS.forEach((exclusion, index) => {
    const count = ring.shorts[short + index] as number;
    if (count > 0) excluded[exclusion] = count;
  });
  return {
    depth: ring.floats[number] as number,
    estimateMs: ring.floats[number + 1] as number,
    costUsd: ring.floats[number + 2] as number,
    family: ring.ints[integer] as number,
    tier: ring.ints[integer + 1] as number,
    nodes: ring.ints[integer + 2] as number,
    bestIdentity: ring.ints[integer + 3] as number,
    excluded,
  };
}

function nameOf<T extends string>(names: readonly T[], index: number): T {
  const name = names[index];
  assert(name !== undefined, "a record holds indexes of its closed lists");
  return name;
}
