/** Words and numbers as people read them. */

const REASONS: Readonly<Record<string, string>> = {
  cheapest: "the cheapest family, and it meets the target",
  next_in_chain: "the cheapest family misses the target; this is the next in the chain that meets it",
  best_balance: "the best balance of cost and response time",
  first_acceptable: "the first in the chain with an acceptable depth",
  least_estimate: "no node has an acceptable depth; this one has the least estimate",
  target_missed: "no family meets the target; this node has the least estimate",
  least_loaded: "predictions have been wrong, so the least loaded node for its speed",
  exploring: "now and then a request goes to a family that nobody has measured",
  hinted: "the caller's hint",
  queue_saturated: "every healthy node is full",
  no_node_available: "no node is healthy",
  nodes_exhausted: "every node that is left has failed this request",
  attempts_exhausted: "failover.max_attempts was reached",
  window_exhausted: "failover.window_ms after the first failure has passed",
  retry_budget_exhausted: "the retry budget is used up",
  no_capable_node: "every node lacks something that the request needs",
  refused: "refused before routing",
};

/** A reason of a newer gateway stands as it is. */
export function reasonText(reason: string): string {
  return REASONS[reason] ?? plain(reason);
}

/** `cooling_down` → `cooling down`. */
export function plain(word: string): string {
  return word.replaceAll("_", " ");
}

const UNKNOWN = "–";

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (Math.abs(value) >= 1e4) return `${(value / 1e3).toFixed(0)} k`;
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(1);
}

export function usd(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (value === 0) return "$0";
  if (Math.abs(value) >= 100) return `$${value.toFixed(0)}`;
  if (Math.abs(value) >= 0.01) return `$${value.toFixed(2)}`;
  return `$${value.toPrecision(2)}`;
}

export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  return `${(value * 100).toFixed(value >= 0.995 && value < 1 ? 2 : 1)} %`;
}

export function ms(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (Math.abs(value) >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return Math.abs(value) >= 10 || value === 0 ? `${Math.round(value)} ms` : `${value.toPrecision(2)} ms`;
}

/** Local time of day of an RFC 3339 time. */
export function timeOfDay(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : date.toLocaleTimeString(undefined, { hour12: false });
}
