/** Kept decisions for people: one by its id, or a page of them. On the thread of kept decisions. */

import type { EvidenceRecord } from "@zml/engine";
import type { DecisionJson } from "@zml/protocol/admin";
import { encodeDecisionId } from "../../decision-id.ts";
import { CLOCK_TOLERANCE_MS, EARLIER_MAX } from "../find-decision.ts";
import { passes } from "../recent-decisions.ts";
import { type EvidenceNames, renderDecision } from "../render-decision.ts";
import type { DecisionDatabase, RunRow } from "./decision-database.ts";
import type { KeptCalls, KeptPage } from "./kept-messages.ts";
import { keptNames } from "./kept-names.ts";

/** Records that one page looks at, as of the rings. */
const LOOKS_MAX = 5_000;

/** Finds and renders; null: it is not there. */
export function findKept(database: DecisionDatabase, { id, ...place }: KeptCalls["find"]["args"]): DecisionJson | null {
  const found = database.find(place, CLOCK_TOLERANCE_MS);
  const record = found?.reader.record(found.index) ?? null;
  if (found === null || record === null) return null;
  const { run, worker } = found;
  const names = keptNames(database, run.id);
  return rendered(database, { record, run, worker, names, id });
}

/** A page, newest first: chunk after chunk, each in the order of its decisions. */
export function pageOfKept(
  database: DecisionDatabase,
  { filter, from, inRing }: KeptCalls["page"]["args"],
  present: number | null,
): KeptPage {
  const items: DecisionJson[] = [];
  const namesOf = new Map<number, EvidenceNames>();
  let lookedAt = 0;
  let chunk = database.chunkAtOrBefore(from?.chunk ?? Number.MAX_SAFE_INTEGER);
  let skip = chunk !== null && chunk.id === from?.chunk ? from.skip : 0;
  while (chunk !== null) {
    const run = database.run(chunk.run);
    const reader = run === null ? null : database.read(chunk.id);
    const atMs = reader?.number("decidedAtMs");
    if (run !== null && reader !== null && atMs != null) {
      let names = namesOf.get(run.id);
      if (names === undefined) {
        names = keptNames(database, run.id);
        namesOf.set(run.id, names);
      }
      const order = Array.from(atMs.keys()).sort((a, b) => (atMs[b] as number) - (atMs[a] as number));
      // what the ring still has was told before
      const ringFrom =
        run.id === present ? (inRing[chunk.worker] ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY;
      for (; skip < order.length; skip++) {
        if (items.length >= filter.limit || lookedAt >= LOOKS_MAX) {
          return { items, next: { chunk: chunk.id, skip }, lookedAt };
        }
        lookedAt += 1;
        const record = reader.record(order[skip] as number);
        if (record === null || record.sequence >= ringFrom || !passes(record, filter, names)) continue;
        const { worker } = chunk;
        const unixMs = run.originMs + record.decidedAtMs;
        const id = encodeDecisionId({ worker, sequence: record.sequence, unixMs }, run.tail);
        items.push(rendered(database, { record, run, worker, names, id }));
      }
    }
    skip = 0;
    chunk = database.chunkAtOrBefore(chunk.id - 1);
    if (chunk !== null && (items.length >= filter.limit || lookedAt >= LOOKS_MAX)) {
      return { items, next: { chunk: chunk.id, skip: 0 }, lookedAt };
    }
  }
  return { items, next: null, lookedAt };
}

function rendered(
  database: DecisionDatabase,
  found: { record: EvidenceRecord; run: RunRow; worker: number; names: EvidenceNames; id: string },
): DecisionJson {
  const { record, run, worker, names, id } = found;
  const earlier: EvidenceRecord[] = [];
  for (let { previous } = record; previous >= 0 && earlier.length < EARLIER_MAX; ) {
    const before = database.findInRun(run, worker, previous);
    const one = before?.reader.record(before.index) ?? null;
    if (one === null) break;
    earlier.unshift(one);
    previous = one.previous;
  }
  return renderDecision(record, names, { id, worker, unixOriginMs: run.originMs, earlier });
}
