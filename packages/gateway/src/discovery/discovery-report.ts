/** The sources of nodes as JSON, for the admin API. Unknown numbers are null; no text holds a secret. */

import type { Discovery, SourceState } from "./discovery.ts";

export interface SourceReportJson {
  readonly name: string;
  readonly kind: string;
  /** `waiting`: not looked to the end yet. `degraded`: it answers, and targets are left out or an empty list waits. */
  readonly state: "waiting" | "ok" | "degraded" | "failing";
  /** Since the last look without any error. */
  readonly last_success_age_ms: number | null;
  readonly last_look_age_ms: number | null;
  /** Why the last look failed, or a part of it; null: it did not. */
  readonly error: string | null;
  readonly note: string | null;
  /** Targets of the list that counts. */
  readonly targets: number;
  /** Those of them that are nodes. */
  readonly nodes: number;
  /** Until an empty list counts; null: none waits. */
  readonly empty_in_ms: number | null;
  /** Targets that are no nodes; the first of them. */
  readonly dropped: readonly { readonly target: string; readonly reason: string }[];
  readonly dropped_total: number;
}

export interface DiscoveryReportJson {
  /** In the file's order. */
  readonly sources: readonly SourceReportJson[];
}

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
