/**
 * Error rate and last success of a node that gets no traffic of ours, out of the engine's own counters. What we see
 * ourselves counts for more, so that these fill in only where it is missing or old.
 */

import { type FleetTable, foldMean } from "@zml/engine";
import type { NodeReading } from "./adapters/index.ts";
import type { PolledNode } from "./polled-node.ts";

/** What our own attempts said holds for this long, ms. */
const OWN_COUNTS_MS = 60_000;

/** Weight of one request of others, as that of one of our own attempts (`learning/attempt-samples.ts` of the engine). */
const ERROR_WEIGHT = 0.05;

/** Folds what others' requests did between two looks. Inside a `publish`. */
export function foldEngineErrors(
  table: FleetTable,
  node: PolledNode,
  { before, after, nowMs }: { before: NodeReading | null; after: NodeReading; nowMs: number },
): void {
  if (before === null) return;
  const { row } = node.spec;
  const successes = after.successesTotal - before.successesTotal;
  const hasSucceeded = successes > 0;
  if (hasSucceeded && !((table.lastSuccessAtMs[row] as number) >= nowMs)) table.lastSuccessAtMs[row] = nowMs;
  if (nowMs - node.heardAt.ownTrafficMs < OWN_COUNTS_MS) return;
  // an engine that counts no errors says nothing about their share
  const errors = after.errorsTotal - before.errorsTotal;
  const requests = successes + errors;
  if (!(successes >= 0) || !(errors >= 0) || !(requests > 0)) return;
  const weight = 1 - (1 - ERROR_WEIGHT) ** requests;
  table.errorRate[row] = foldMean(table.errorRate[row] as number, errors / requests, weight);
}
