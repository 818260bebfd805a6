/** The latest decisions of all workers, newest first, as far as their rings remember them. */

import { type EvidenceRecord, type EvidenceRing, nextSequence, type Reason, readRecord } from "@zml/engine";
import type { DecisionJson } from "@zml/protocol/admin";
import { type DecisionIds, encodeDecisionId } from "../decision-id.ts";
import { type EvidenceSources, namesOf, renderFound } from "./find-decision.ts";
import type { KeptPlace } from "./kept/kept-messages.ts";
import type { EvidenceNames } from "./render-decision.ts";

/** In the rings the sequence to look at next, by worker, -1: that ring is through; else a place in what is kept. */
export type DecisionPlace = readonly number[] | KeptPlace;

/** Which decisions. Null: all. */
export interface DecisionChoice {
  readonly account: string | null;
  readonly policy: string | null;
  readonly model: string | null;
  /** Id of the node that was chosen. */
  readonly node: string | null;
  /** Of the node that was chosen. */
  readonly family: string | null;
  readonly reason: Reason | null;
  /** Attempts that have ended and took longer. */
  readonly slowerThanMs: number | null;
  readonly isRedispatched: boolean | null;
}

export interface DecisionFilter extends DecisionChoice {
  /** Decisions of the page. */
  readonly limit: number;
  /** Where the page before ended; null: it is the first. */
  readonly from: DecisionPlace | null;
}

/** Decisions of a page. */
export interface DecisionPage {
  readonly items: readonly DecisionJson[];
  /** Where the next page goes on; null: everything has been looked at. */
  readonly next: DecisionPlace | null;
  readonly lookedAt: number;
}

/** Records that one page looks at: some 15 ms of the control thread, which also polls. */
const LOOKS_MAX = 5_000;

const SEQUENCE_MASK = 0x7fffffff;

/** Reads a page. Costs up to 5,000 records, whatever the filter. */
export function recentDecisions(
  filter: Omit<DecisionFilter, "from"> & { readonly from: readonly number[] | null },
  sources: Pick<EvidenceSources, "rings" | "names"> & { readonly ids: DecisionIds },
): DecisionPage & { readonly next: readonly number[] | null } {
  const { rings } = sources;
  const { unixOriginMs, tail } = sources.ids;
  const names = namesOf(sources.names);
  const readers = rings.map((ring, worker) => new RingReader(ring, filter.from?.[worker]));
  const items: DecisionJson[] = [];
  let lookedAt = 0;
  while (items.length < filter.limit && lookedAt < LOOKS_MAX) {
    let newest = -1;
    for (let worker = 0; worker < readers.length; worker++) {
      const at = readers[worker]?.record?.decidedAtMs ?? Number.NEGATIVE_INFINITY;
      if (at > (readers[newest]?.record?.decidedAtMs ?? Number.NEGATIVE_INFINITY)) newest = worker;
    }
    const reader = readers[newest];
    const record = reader?.record ?? null;
    if (reader === undefined || record === null) return { items, next: null, lookedAt };
    lookedAt += 1;
    if (passes(record, filter, names)) {
      const place = { worker: newest, sequence: record.sequence, unixMs: unixOriginMs + record.decidedAtMs };
      const id = encodeDecisionId(place, tail);
      items.push(renderFound(record, { ring: reader.ring, names, id, worker: newest, unixOriginMs }));
    }
    reader.moveOn();
  }
  const next = readers.map(({ sequence }) => sequence);
  return { items, next: next.some((sequence) => sequence >= 0) ? next : null, lookedAt };
}

/** One ring, from its newest record to its oldest. */
class RingReader {
  readonly ring: EvidenceRing;
  /** Of `record`; -1: there is no more. */
  sequence: number;
  record: EvidenceRecord | null = null;
  readonly #newest: number;

  constructor(ring: EvidenceRing, from: number | undefined) {
    this.ring = ring;
    this.#newest = (nextSequence(ring) - 1) & SEQUENCE_MASK;
    this.sequence = from ?? this.#newest;
    if (this.sequence >= 0) this.#look();
  }

  moveOn(): void {
    this.sequence = (this.sequence - 1) & SEQUENCE_MASK;
    this.#look();
  }

  /** Finds the next record that is there: one that is written just now is passed over. */
  #look(): void {
    while (((this.#newest - this.sequence) & SEQUENCE_MASK) < this.ring.records) {
      this.record = readRecord(this.ring, this.sequence);
      if (this.record !== null) return;
      // before the first record of all
      if (this.sequence === SEQUENCE_MASK) break;
      this.sequence = (this.sequence - 1) & SEQUENCE_MASK;
    }
    this.sequence = -1;
    this.record = null;
  }
}

/** Whether a record is one that was asked for. */
export function passes(record: EvidenceRecord, filter: DecisionChoice, names: EvidenceNames): boolean {
  const { account, policy, model, node, family, reason, slowerThanMs, isRedispatched } = filter;
  if (reason !== null && record.reason !== reason) return false;
  if (isRedispatched !== null && record.attempt > 1 !== isRedispatched) return false;
  // NaN, of an attempt that runs, is not more than anything
  if (slowerThanMs !== null && !(record.durationMs > slowerThanMs)) return false;
  if (node !== null && names.node(record.identity)?.id !== node) return false;
  if (family !== null && (record.identity < 0 || names.family(record.family) !== family)) return false;
  if (policy !== null && names.policy(record.policy) !== policy) return false;
  if (account === null && model === null) return true;
  const asked = names.model(record.model);
  return (account === null || asked?.account === account) && (model === null || asked?.name === model);
}
