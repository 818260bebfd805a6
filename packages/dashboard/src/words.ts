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

/** Reasons that these pages know. */
export const KNOWN_REASONS: readonly string[] = Object.keys(REASONS);

/** A reason of a newer gateway stands as it is. */
export function reasonText(reason: string): string {
  return REASONS[reason] ?? plain(reason);
}

/** `cooling_down` → `cooling down`. */
export function plain(word: string): string {
  return word.replaceAll("_", " ");
}

const UNKNOWN = "–";

type Maybe = number | null | undefined;

function isUnknown(value: Maybe): value is null | undefined {
  return value === null || value === undefined || Number.isNaN(value);
}

/** Three digits that count, with k and M. */
export function count(value: Maybe): string {
  if (isUnknown(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)} G`;
  if (size >= 1e6) return `${digits(value / 1e6)} M`;
  if (size >= 1e4) return `${digits(value / 1e3)} k`;
  if (size >= 1e3) return Math.round(value).toLocaleString("en-US");
  return digits(value);
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 100) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}

export function usd(value: Maybe): string {
  if (isUnknown(value)) return UNKNOWN;
  if (value === 0) return "$0";
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size >= 1e6) return `${sign}$${digits(size / 1e6)} M`;
  if (size >= 1000) return `${sign}$${Math.round(size).toLocaleString("en-US")}`;
  if (size >= 0.1) return `${sign}$${size.toFixed(2)}`;
  return `${sign}$${Number(size.toPrecision(2))}`;
}

export function percent(value: Maybe): string {
  if (isUnknown(value)) return UNKNOWN;
  if (value < 0) return `−${percent(-value)}`;
  const rounded = Math.round(value * 1e4) / 100;
  if (Number.isInteger(rounded) && rounded === value * 100) return `${rounded} %`;
  return `${(value * 100).toFixed(value >= 0.995 && value < 1 ? 2 : 1)} %`;
}

/** A time span. */
export function ms(value: Maybe): string {
  if (isUnknown(value)) return UNKNOWN;
  if (value < 0) return `−${ms(-value)}`;
  if (value >= 86_400_000) return `${digits(value / 86_400_000)} d`;
  if (value >= 3_600_000) return `${digits(value / 3_600_000)} h`;
  if (value >= 600_000) return `${digits(value / 60_000)} min`;
  if (value >= 1_000) return `${digits(value / 1000)} s`;
  return value >= 10 || value === 0 ? `${Math.round(value)} ms` : `${value.toPrecision(2)} ms`;
}

/** Local time of day of an RFC 3339 time. */
export function timeOfDay(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : date.toLocaleTimeString(undefined, { hour12: false });
}

/** Local date and time. @param atMs Unix ms. */
export function dateAndTime(atMs: number): string {
  return new Date(atMs).toLocaleString(undefined, {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    hour12: false,
  });
}
