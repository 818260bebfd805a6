/** Times as limits tell them. */

/** As OpenAI writes it: `350ms`, `1s`, `6m0s`, `2h0m0s`. Up to a second in ms, above that in whole seconds, rounded up. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)}ms`;
  const seconds = Math.ceil(ms / 1000);
  return WINDOW_TEXTS[seconds] ?? textOfSeconds(seconds);
}

function textOfSeconds(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes === 0) return `${seconds}s`;
  return hours === 0 ? `${minutes}m${seconds % 60}s` : `${hours}h${minutes % 60}m${seconds % 60}s`;
}

/** Every time that a limit of a minute can tell, made once. */
const WINDOW_TEXTS = Array.from({ length: 62 }, (_, seconds) => textOfSeconds(seconds));

/** A moment as Anthropic writes it (RFC 3339), in whole seconds, rounded up: `2027-01-31T12:00:01Z`. */
export function secondText(unixMs: number): string {
  const second = Math.ceil(unixMs / 1000);
  // many requests tell the same second
  if (second !== lastSecond) {
    lastSecond = second;
    lastSecondText = new Date(second * 1000).toISOString().replace(".000", "");
  }
  return lastSecondText;
}

let lastSecond = Number.NaN;
let lastSecondText = "";

/** The next midnight UTC, Unix ms. */
export function nextDayMs(unixMs: number): number {
  return (Math.floor(unixMs / DAY_MS) + 1) * DAY_MS;
}

/** The first of the next month, midnight UTC, Unix ms. */
export function nextMonthMs(unixMs: number): number {
  const now = new Date(unixMs);
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
}

const DAY_MS = 86_400_000;
