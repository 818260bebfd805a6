/**
 * Follows the rings of all workers: what ended since the answer before. Nothing is kept between two questions; the mark
 * says where each ring goes on, and which attempts still ran. A reader that is too slow, or asks for more than the mark
 * has room for, is told how many it missed.
 */

import { type EvidenceRecord, nextSequence, readRecord } from "@zml/engine";
import type { DecisionTailJson } from "@zml/protocol/admin";
import { type DecisionIds, encodeDecisionId } from "../decision-id.ts";
import { type EvidenceSources, namesOf, renderFound } from "./find-decision.ts";
import { type DecisionChoice, passes } from "./recent-decisions.ts";

export interface DecisionTailQuestion extends DecisionChoice {
  readonly limit: number;
  /** Of the answer before; null: begin now. */
  readonly mark: string | null;
}

/** Records that one answer looks at: some 15 ms of the control thread, which also polls. */
const LOOKS_MAX = 5_000;
/** Attempts that a mark remembers as running; in base 36, 2,000 of them are some 6 KB of a URL. */
const RUNNING_MAX = 2_000;
/** Of the mark as text: URL and headers of a question share 16 KB. */
const MARK_MAX = 8_192;

const SEQUENCE_MASK = 0x7fffffff;

/** Where a ring goes on, and what still ran before that, oldest first. */
interface Place {
  next: number;
  running: number[];
}

interface Ended {
  readonly record: EvidenceRecord;
  readonly worker: number;
}

type TailSources = Pick<EvidenceSources, "rings" | "names"> & { readonly ids: DecisionIds };

/** Costs up to 5,000 records, whatever the filter. */
export function tailDecisions(question: DecisionTailQuestion, sources: TailSources): DecisionTailJson {
  const { rings, ids } = sources;
  const names = namesOf(sources.names);
  const known = question.mark === null ? null : readMark(question.mark, ids.tail, rings.length);
  const places = known ?? rings.map((ring) => ({ next: nextSequence(ring), running: [] }));
  const { slowerThanMs: _, ...choice } = question;
  const found: Ended[] = [];
  let missed = 0;
  let looks = 0;
  const isFull = () => looks >= LOOKS_MAX || found.length >= question.limit;
  rings.forEach((ring, worker) => {
    const place = places[worker] as Place;
    const running: number[] = [];
    const look = (sequence: number): void => {
      looks += 1;
      const record = readRecord(ring, sequence);
      if (record === null) missed += 1;
      else if (!passes(record, { ...choice, slowerThanMs: null }, names)) return;
      else if (record.outcome === "running" && record.identity >= 0) running.push(sequence);
      else if (passes(record, question, names)) found.push({ record, worker });
    };
    while (place.running.length > 0 && !isFull()) look(place.running.shift() as number);
    const behind = (nextSequence(ring) - place.next) & SEQUENCE_MASK;
    if (behind > ring.records) {
      missed += behind - ring.records;
      place.next = (place.next + behind - ring.records) & SEQUENCE_MASK;
    }
    while (place.next !== nextSequence(ring) && !isFull()) {
      look(place.next);
      place.next = (place.next + 1) & SEQUENCE_MASK;
    }
    place.running = [...running, ...place.running];
  });
  found.sort((a, b) => endOf(a.record) - endOf(b.record));
  const isMore = isFull() && rings.some((ring, worker) => places[worker]?.next !== nextSequence(ring));
  missed += forgetOldest(places, ids.tail);
  return {
    items: found.map(({ record, worker }) => {
      const place = { worker, sequence: record.sequence, unixMs: ids.unixOriginMs + record.decidedAtMs };
      const ring = rings[worker] as (typeof rings)[number];
      const context = { ring, names, id: encodeDecisionId(place, ids.tail), worker, unixOriginMs: ids.unixOriginMs };
      return renderFound(record, context);
    }),
    mark: writeMark(places, ids.tail),
    is_more: isMore,
    missed,
    is_restarted: question.mark !== null && known === null,
  };
}

function endOf({ decidedAtMs, durationMs }: EvidenceRecord): number {
  return decidedAtMs + (durationMs >= 0 ? durationMs : 0);
}

/** Keeps the mark within its bounds. @returns how many that cost. */
function forgetOldest(places: readonly Place[], tail: number): number {
  let forgotten = 0;
  const count = () => places.reduce((sum, { running }) => sum + running.length, 0);
  while (count() > RUNNING_MAX || (count() > 0 && writeMark(places, tail).length > MARK_MAX)) {
    const longest = places.reduce((a, b) => (b.running.length > a.running.length ? b : a));
    const cut = Math.max(1, Math.ceil((count() - RUNNING_MAX) / 2), Math.ceil(longest.running.length / 10));
    forgotten += longest.running.splice(0, cut).length;
  }
  return forgotten;
}

/** The process, then per worker where it goes on and how far before that the running ones are; all in base 36. */
function writeMark(places: readonly Place[], tail: number): string {
  const texts = places.map(({ next, running }) =>
    [next, ...running.map((sequence) => (next - sequence) & SEQUENCE_MASK)]
      .map((value) => value.toString(36))
      .join("."),
  );
  return [tail.toString(36), ...texts].join("_");
}

/** Null: it is another process's, or none of ours. */
function readMark(mark: string, tail: number, workers: number): Place[] | null {
  const [process, ...texts] = mark.split("_");
  if (process !== tail.toString(36) || texts.length !== workers) return null;
  const places: Place[] = [];
  for (const text of texts) {
    const [next, ...back] = text.split(".").map((digits) => Number.parseInt(digits, 36));
    const isSequence = (value: number) => Number.isInteger(value) && value >= 0 && value <= SEQUENCE_MASK;
    if (next === undefined || ![next, ...back].every(isSequence)) return null;
    places.push({ next, running: back.map((distance) => (next - distance) & SEQUENCE_MASK) });
  }
  return places;
}
