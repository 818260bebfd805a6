/**
 * Error rate and last success of a node that gets no traffic of ours, out of the engine's own counters. What we see
 * ourselves counts for more, so that these fill in only where it is missing or old.
 */

import { foldMean } from "../availability/throughput.ts";
import type { FleetTable } from "../fleet-table.ts";
import { ERROR_WEIGHT } from "./attempt-samples.ts";

/** What our own attempts said holds for this long, ms. */
const OWN_COUNTS_MS = 60_000;

/** Requests that ended since the node's start, whoever sent them; NaN: not told. */
export interface EngineCounts {
  readonly successesTotal: number;
  readonly errorsTotal: number;
}

/** Two looks at the counters of one process, `after` at `nowMs`. */
export interface EngineLooks {
  readonly before: EngineCounts;
  readonly after: EngineCounts;
  /** Engine clock, ms. */
  readonly nowMs: number;
  /** When an attempt of ours last said something about the node, engine clock ms; NaN: never. */
  readonly ownTrafficMs: number;
}

/** Folds what others' requests did between two looks. Inside a `publish`. Control thread only. */
export function foldEngineErrors(
  table: FleetTable,
  row: number,
  { before, after, nowMs, ownTrafficMs }: EngineLooks,
): void {
  const successes = after.successesTotal - before.successesTotal;
  const hasSucceeded = successes > 0;
  if (hasSucceeded && !((table.lastSuccessAtMs[row] as number) >= nowMs)) table.lastSuccessAtMs[row] = nowMs;
  if (nowMs - ownTrafficMs < OWN_COUNTS_MS) return;
  // an engine that counts no errors says nothing about their share
  const errors = after.errorsTotal - before.errorsTotal;
  const requests = successes + errors;
  if (!(successes >= 0) || !(errors >= 0) || !(requests > 0)) return;
  const weight = 1 - (1 - ERROR_WEIGHT) ** requests;
  table.errorRate[row] = foldMean(table.errorRate[row] as number, errors / requests, weight);
}
