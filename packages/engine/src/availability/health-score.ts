/**
 * Health score of a node, 0..100:
 *
 *   score = 100 × (1 − errorRate) × 1 / (1 + waiting / concurrency)
 *
 * where waiting = max(0, depth − concurrency) and concurrency is what the node runs at once (its stated limit, else
 * `max_in_flight`). An idle node without errors scores 100; a queue as long as its batch halves the score; errors scale
 * it down. It informs people and never gates traffic.
 */

import type { FleetTable } from "../fleet-table.ts";
import { depthOf } from "../load.ts";

/** What the score is made of: `errorRate` 0..1 (NaN: no traffic, counts as 0), `depth` and `concurrency` in requests. */
export interface HealthInput {
  readonly errorRate: number;
  readonly depth: number;
  readonly concurrency: number;
}

/** The factors of the score, 0..1 each; 1 is well. */
export interface HealthParts {
  readonly errors: number;
  readonly depth: number;
}

/** What stands in a row of the fleet table. */
export function healthInputOf(table: FleetTable, row: number): HealthInput {
  const limit = table.concurrencyLimit[row] as number;
  return {
    errorRate: table.errorRate[row] as number,
    depth: depthOf(table, row),
    concurrency: Number.isNaN(limit) ? (table.maxInFlight[row] as number) : limit,
  };
}

/** The factors of the score. */
export function healthParts(input: HealthInput): HealthParts {
  const errors = Number.isNaN(input.errorRate) ? 0 : Math.min(1, Math.max(0, input.errorRate));
  const concurrency = Math.max(1, input.concurrency);
  const waiting = Math.max(0, input.depth - concurrency);
  return { errors: 1 - errors, depth: 1 / (1 + waiting / concurrency) };
}

/** The score, 0..100. */
export function healthScore(input: HealthInput): number {
  return scoreOfParts(healthParts(input));
}

/** The score out of its factors, 0..100. */
export function scoreOfParts({ errors, depth }: HealthParts): number {
  return 100 * errors * depth;
}
