/** From a decision id to its story: the id says in which ring the record is, the record says if it is the one. */

import { type EvidenceRecord, type EvidenceRing, readRecord } from "@zml/engine";
import type { DecisionJson } from "@zml/protocol/admin";
import type { NameRegistry } from "../control/name-registry.ts";
import { decodeDecisionId } from "../decision-id.ts";
import { type EvidenceNames, renderDecision } from "./render-decision.ts";

export type { DecisionJson } from "@zml/protocol/admin";

/**
 * How far the wall clock of an id and the engine clock of its record may be apart, ms. An id of an earlier run, whose
 * worker and sequence number exist again, is farther off; a wall clock that was set is too, and then nothing is found.
 */
export const CLOCK_TOLERANCE_MS = 5_000;

/** Decisions before one that are followed: `failover.max_attempts` is at most 100, refused connects come on top. */
export const EARLIER_MAX = 200;

/** Where evidence is. */
export interface EvidenceSources {
  readonly rings: readonly EvidenceRing[];
  readonly names: NameRegistry;
  /** Unix ms of engine time 0, as it was at the start. */
  readonly unixOriginMs: number;
}

/** Finds and renders a decision; null: no id, never made here, or overwritten. */
export function findDecision(id: string, { rings, names, unixOriginMs }: EvidenceSources): DecisionJson | null {
  const place = decodeDecisionId(id);
  const ring = place === null ? undefined : rings[place.worker];
  if (place === null || ring === undefined) return null;
  const record = readRecord(ring, place.sequence);
  if (record === null) return null;
  if (Math.abs(unixOriginMs + record.decidedAtMs - place.unixMs) > CLOCK_TOLERANCE_MS) return null;
  return renderFound(record, { ring, names: namesOf(names), id, worker: place.worker, unixOriginMs });
}

/** Renders a record with the decisions of its request before it. */
export function renderFound(
  record: EvidenceRecord,
  from: { ring: EvidenceRing; names: EvidenceNames; id: string; worker: number; unixOriginMs: number },
): DecisionJson {
  const { ring, names, id, worker, unixOriginMs } = from;
  return renderDecision(record, names, { id, worker, unixOriginMs, earlier: earlierRecords(ring, record) });
}

/** Names out of the registries of the control thread. */
export function namesOf(registry: NameRegistry): EvidenceNames {
  return {
    model: (index) => {
      const found = registry.models.nameOf(index);
      return found === null ? null : { account: found.scope, name: found.name };
    },
    policy: (index) => registry.policies.nameOf(index)?.name ?? null,
    family: (index) => registry.families.nameOf(index)?.name ?? null,
    node: (identity) => {
      const found = registry.identities.nameOf(identity);
      return found === null ? null : { id: found.name, url: found.scope };
    },
    key: (index) => registry.keys.nameOf(index)?.name ?? null,
  };
}

function earlierRecords(ring: EvidenceRing, record: EvidenceRecord): EvidenceRecord[] {
  const earlier: EvidenceRecord[] = [];
  for (let { previous } = record; previous >= 0 && earlier.length < EARLIER_MAX; ) {
    const before = readRecord(ring, previous);
    if (before === null) break;
    earlier.unshift(before);
    previous = before.previous;
  }
  return earlier;
}
