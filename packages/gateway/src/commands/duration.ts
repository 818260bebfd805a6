/** Durations as people type them. */

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90d`, `12h`, `1h30m`, `500ms` in ms; NaN: it is none. */
export function durationMs(text: string): number {
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(text)) return Number.NaN;
  let totalMs = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    totalMs += Number(count) * (UNIT_MS[unit ?? ""] ?? Number.NaN);
  }
  return Math.round(totalMs);
}

/**
 * A moment: RFC 3339 (`2027-01-31T00:00:00Z`), a day (its start, UTC), or a duration from now.
 *
 * @returns Unix ms; NaN: it is none.
 */
export function momentMs(text: string, nowMs: number): number {
  const fromNow = durationMs(text);
  if (!Number.isNaN(fromNow)) return nowMs + fromNow;
  const isDay = /^\d{4}-\d\d-\d\d$/.test(text);
  const isMoment = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)$/.test(text);
  return isDay || isMoment ? Date.parse(text) : Number.NaN;
}
