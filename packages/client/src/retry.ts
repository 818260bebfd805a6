/** Whether and when a call is sent again: numbers in, a wait out. */

/** Statuses after which the same request may succeed. */
const RETRIED = new Set([408, 409, 429, 500, 502, 503, 504, 529]);
const FIRST_BACKOFF_MS = 500;
const LAST_BACKOFF_MS = 8000;
/** The share of a back-off that chance may take off, so that callers who failed together don't come back together. */
const JITTER = 0.25;

/** Whether an answer with this status is sent again; `shouldRetry` is the header `x-should-retry`. */
export function isRetried(status: number, shouldRetry: boolean | undefined): boolean {
  if (shouldRetry !== undefined) return shouldRetry && status >= 400;
  return RETRIED.has(status);
}

/** The wait before retry `index` (0-based) where the server named none, ms. */
export function backoffMs(index: number, random: number): number {
  return Math.min(LAST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** index) * (1 - JITTER * random);
}

/**
 * What the server asked to wait, ms: `retry-after-ms`, else `retry-after` in seconds or as a date. A date that has passed
 * is 0.
 * @returns `undefined` when it asked for nothing that can be read
 */
export function askedWaitMs(headers: Headers, dateMs: number): number | undefined {
  const milliseconds = count(headers.get("retry-after-ms"));
  if (milliseconds !== undefined) return milliseconds;
  const text = headers.get("retry-after");
  const seconds = count(text);
  if (seconds !== undefined) return seconds * 1000;
  // every HTTP date has letters; Date.parse would read a year into "-1"
  if (text === null || !/[a-z]/i.test(text)) return undefined;
  const untilMs = Date.parse(text);
  return Number.isNaN(untilMs) ? undefined : Math.max(0, untilMs - dateMs);
}

function count(text: string | null): number | undefined {
  return text !== null && /^\s*\d+(\.\d*)?\s*$/.test(text) ? Number(text) : undefined;
}
