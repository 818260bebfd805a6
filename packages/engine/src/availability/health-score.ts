/**
 * Health score of a node, 0..100:
 *
 *   score = 100 × (1 − errorRate) × 1 / (1 + waiting / concurrency)
 *
 * where waiting = max(0, depth − concurrency) and concurrency is what the node runs at once (its stated limit, else
 * `max_in_flight`). An idle node without errors scores 100; a queue as long as its batch halves the score; errors scale
 * it down. It informs people and never gates traffic.
 *
 * @param input `errorRate` 0..1 (NaN: no traffic, counts as 0), `depth` and `concurrency` in requests.
 */
export function healthScore(input: { errorRate: number; depth: number; concurrency: number }): number {
  const errors = Number.isNaN(input.errorRate) ? 0 : Math.min(1, Math.max(0, input.errorRate));
  const concurrency = Math.max(1, input.concurrency);
  const waiting = Math.max(0, input.depth - concurrency);
  return 100 * (1 - errors) * (1 / (1 + waiting / concurrency));
}
