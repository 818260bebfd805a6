/**
 * Prometheus text format, as serving engines write it. Lenient: what is not a sample is skipped, nothing throws, and
 * `# TYPE` is not needed. Only the wanted names are read, so that thousands of histogram buckets cost one name scan.
 */

/** One sample line. */
export interface Sample {
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** Samples by metric name, in the order of the text. */
export type Metrics = ReadonlyMap<string, readonly Sample[]>;

const NEWLINE = 10;
const TAB = 9;
const SPACE = 32;
const CARRIAGE_RETURN = 13;
const HASH = 35;
const BRACE_OPEN = 123;

/**
 * Values at or above this are "not available" marks (such as 9223372036854775794), never a count or a ratio.
 */
const SENTINEL_FLOOR = 9.2e18;

/** Labels that tell copies of one number apart: another process or another slice of the same engine. */
const COPY_LABELS: ReadonlySet<string> = new Set(["pid", "tp_rank", "pp_rank", "moe_ep_rank"]);

/** Reads samples of the wanted names; of all names when `wanted` is left out. O(text). */
export function parseMetrics(text: string, wanted?: ReadonlySet<string>): Metrics {
  const metrics = new Map<string, Sample[]>();
  const longest = wanted === undefined ? Number.POSITIVE_INFINITY : longestOf(wanted);
  let start = 0;
  while (start < text.length) {
    let end = text.indexOf("\n", start);
    if (end === -1) end = text.length;
    readLine(text, start, end, { wanted, longest, metrics });
    start = end + 1;
  }
  return metrics;
}

function longestOf(names: ReadonlySet<string>): number {
  let longest = 0;
  for (const name of names) longest = Math.max(longest, name.length);
  return longest;
}

interface Reading {
  readonly wanted: ReadonlySet<string> | undefined;
  /** Length of the longest wanted name: a longer one needs no look-up, and most lines are such buckets. */
  readonly longest: number;
  readonly metrics: Map<string, Sample[]>;
}

function readLine(text: string, start: number, end: number, { wanted, longest, metrics }: Reading): void {
  let at = skipBlanks(text, start, end);
  if (at === end || text.charCodeAt(at) === HASH) return;
  const nameStart = at;
  const nameLimit = Math.min(end, nameStart + longest + 1);
  while (at < nameLimit && !isBlank(text.charCodeAt(at)) && text.charCodeAt(at) !== BRACE_OPEN) at++;
  if (at - nameStart > longest) return;
  const name = text.slice(nameStart, at);
  if (name === "" || (wanted !== undefined && !wanted.has(name))) return;
  at = skipBlanks(text, at, end);
  const labels = new Map<string, string>();
  if (text.charCodeAt(at) === BRACE_OPEN && at < end) {
    at = readLabels(text, at + 1, end, labels);
    if (at === -1) return;
    at = skipBlanks(text, at, end);
  }
  const valueStart = at;
  while (at < end && !isBlank(text.charCodeAt(at))) at++;
  const value = parseValue(text.slice(valueStart, at));
  if (value === undefined) return;
  const samples = metrics.get(name);
  if (samples === undefined) metrics.set(name, [{ labels, value }]);
  else samples.push({ labels, value });
}

/** Reads up to and with the closing brace. Returns the index behind it, -1 when the labels are malformed. */
function readLabels(text: string, start: number, end: number, labels: Map<string, string>): number {
  let at = start;
  for (;;) {
    at = skipBlanks(text, at, end);
    if (at >= end) return -1;
    if (text[at] === "}") return at + 1;
    const keyStart = at;
    while (at < end && text[at] !== "=" && text[at] !== "}" && text[at] !== ",") at++;
    if (text[at] !== "=" || at >= end) return -1;
    const key = text.slice(keyStart, at).trim();
    at = skipBlanks(text, at + 1, end);
    if (key === "" || key.includes('"') || at >= end || text[at] !== '"') return -1;
    const closing = closingQuote(text, at + 1, end);
    if (closing === -1) return -1;
    labels.set(key, unescapeValue(text.slice(at + 1, closing)));
    at = skipBlanks(text, closing + 1, end);
    if (at < end && text[at] === ",") at++;
    else if (at >= end || text[at] !== "}") return -1;
  }
}

function closingQuote(text: string, start: number, end: number): number {
  for (let at = start; at < end; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at;
  }
  return -1;
}

function unescapeValue(value: string): string {
  if (!value.includes("\\")) return value;
  return value.replace(/\\(["\\n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
}

/** A number as the format spells it; undefined when it is none. */
function parseValue(token: string): number | undefined {
  switch (token) {
    case "":
      return undefined;
    case "NaN":
      return Number.NaN;
    case "+Inf":
    case "Inf":
      return Number.POSITIVE_INFINITY;
    case "-Inf":
      return Number.NEGATIVE_INFINITY;
  }
  const value = Number(token);
  return Number.isNaN(value) ? undefined : value;
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB || code === CARRIAGE_RETURN;
}

function skipBlanks(text: string, start: number, end: number): number {
  let at = start;
  while (at < end && isBlank(text.charCodeAt(at)) && text.charCodeAt(at) !== NEWLINE) at++;
  return at;
}

/** How the ranks of one node make one number. */
export type RankFold = "sum" | "mean" | "max";

/**
 * One number of a node out of all series of a metric: copies of one series (another process, another tensor or pipeline
 * rank) count once, by their largest value; what is left (data-parallel ranks, models) is folded.
 *
 * @param names the metric's names, newest first; the first one that has a usable value is read.
 * @returns NaN when no name has a finite value ≥ 0: a missing series is unknown, not 0.
 */
export function foldMetric(metrics: Metrics, names: readonly string[], fold: RankFold): number {
  for (const name of names) {
    const samples = metrics.get(name);
    if (samples === undefined) continue;
    const distinct = largestOfCopies(samples);
    if (distinct.size === 0) continue;
    let sum = 0;
    let max = 0;
    for (const value of distinct.values()) {
      sum += value;
      max = Math.max(max, value);
    }
    if (fold === "max") return max;
    return fold === "mean" ? sum / distinct.size : sum;
  }
  return Number.NaN;
}

function largestOfCopies(samples: readonly Sample[]): Map<string, number> {
  const distinct = new Map<string, number>();
  for (const { labels, value } of samples) {
    if (!(value >= 0 && value < SENTINEL_FLOOR)) continue;
    const own = [...labels].filter(([label]) => !COPY_LABELS.has(label)).sort(([a], [b]) => (a < b ? -1 : 1));
    const key = JSON.stringify(own);
    const seen = distinct.get(key);
    distinct.set(key, seen === undefined ? value : Math.max(seen, value));
  }
  return distinct;
}
