/** The sources of nodes as JSON, for the admin API. Unknown numbers are null; no text holds a secret. */

import type { DiscoveryReportJson, SourceReportJson } from "@zml/protocol/admin";
import type { Discovery, SourceState } from "./discovery.ts";

export type { DiscoveryReportJson } from "@zml/protocol/admin";

/** Dropped targets that a report names. */
const DROPPED_MAX = 20;

/** Reads all sources. `nowMs`: of the clock that discovery runs by. */
export function discoveryReport(discovery: Discovery, nowMs: number): DiscoveryReportJson {
  return { sources: [...discovery.states].map((state) => sourceReport(state, nowMs)) };
}

function sourceReport({ config, found, clashes }: SourceState, nowMs: number): SourceReportJson {
  const dropped = [...found.dropped, ...clashes];
  const emptyInMs = Math.max(0, found.emptyAtMs - nowMs);
  return {
    name: config.name,
    kind: config.kind,
    state: stateOf(found, dropped.length),
    last_success_age_ms: known(nowMs - found.lastSuccessMs),
    last_look_age_ms: known(nowMs - found.lastLookMs),
    error: found.error,
    note: found.note,
    targets: found.targetCount,
    nodes: found.nodes.length - clashes.length,
    empty_in_ms: known(emptyInMs),
    dropped: dropped.slice(0, DROPPED_MAX).map(({ target, reason }) => ({ target, reason })),
    dropped_total: dropped.length,
  };
}

function stateOf({ error, lastLookMs, emptyAtMs }: SourceState["found"], dropped: number): SourceReportJson["state"] {
  if (error !== null) return "failing";
  if (Number.isNaN(lastLookMs)) return "waiting";
  return dropped > 0 || !Number.isNaN(emptyAtMs) ? "degraded" : "ok";
}

function known(value: number): number | null {
  return Number.isFinite(value) ? Math.round(value) : null;
}
