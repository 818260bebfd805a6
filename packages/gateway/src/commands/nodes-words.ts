/** How numbers of the fleet are written for people. Unknown is `–`, never 0. */

export const UNKNOWN = "–";

/** `0.4s`, `12s`, `3m`, `5h`, `2d`. */
export function ageText(ms: number | null): string {
  if (ms === null) return UNKNOWN;
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`;
  if (seconds < 120) return `${Math.round(seconds)}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)}h` : `${Math.round(seconds / 86_400)}d`;
}

/** A count or a speed: whole from 10 on. */
export function numberText(value: number | null): string {
  if (value === null) return UNKNOWN;
  return Math.abs(value) >= 10 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

/** 0..1 as per cent. */
export function shareText(value: number | null): string {
  return value === null ? UNKNOWN : `${(value * 100).toFixed(value > 0 && value < 0.0095 ? 1 : 0)}%`;
}

/** USD: cents, and more digits below one. */
export function usdText(value: number | null): string {
  if (value === null) return UNKNOWN;
  return value >= 1 || value === 0 ? value.toFixed(2) : value.toPrecision(3);
}

/** `1 node`, `3 nodes`, `2 policies`, `2 days`. */
export function counted(count: number, what: string): string {
  if (count === 1) return `1 ${what}`;
  return `${count} ${/[^aeiou]y$/.test(what) ? `${what.slice(0, -1)}ies` : `${what}s`}`;
}
