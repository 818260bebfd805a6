/**
 * Prometheus text format, as serving engines write it. Lenient: what is not a sample is skipped, nothing throws, and
 * `# TYPE` is not needed. Only the wanted names are read: a line of another name costs the characters that it shares
 * with them, so that thousands of histogram buckets cost next to nothing.
 *
 * `metrics-text.oracle.test.ts` compares it with the parser of prometheus_client and names every difference.
 */

import { MetricNames } from "./metric-names.ts";

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
const QUOTE = 34;
const HASH = 35;
const COMMA = 44;
const EQUALS = 61;
const BACKSLASH = 92;
const BRACE_OPEN = 123;
const BRACE_CLOSE = 125;

/**
 * Values at or above this are "not available" marks (such as 9223372036854775794), never a count or a ratio.
 */
const SENTINEL_FLOOR = 9.2e18;

/**
 * Series of one name that are kept: 64 ranks with 16 models. A name with more is not read at all, since a sum over a
 * part of its series would be a wrong number.
 */
const SERIES_PER_NAME_MAX = 1024;

/** Labels of one series; the widest that engines write (their settings) have some thirty. */
const LABELS_MAX = 64;

/**
 * Labels of all series that are kept. 64 ranks with 5 labels and 8 wanted names have 2,560. Reading and folding so many
 * takes 15 ms; a text with more is not read at all.
 */
const LABELS_TOTAL_MAX = 16_384;

/** Lines of a text that is read: a body of 4 MiB with shorter lines than 64 bytes is none that an engine wrote. */
const LINES_MAX = 65_536;

/** Longer text values are copied out of the body, which they would keep alive otherwise. V8 copies shorter ones anyway. */
const SLICED_FROM = 13;

/** Labels that tell copies of one number apart: another process or another slice of the same engine. */
const COPY_LABELS: ReadonlySet<string> = new Set(["pid", "tp_rank", "pp_rank", "moe_ep_rank"]);

/** What one call of `parseMetrics` reads and fills. */
interface Reading {
  readonly text: string;
  readonly names: MetricNames;
  readonly metrics: Map<string, Sample[]>;
  /** Long label values by themselves: each is copied once. */
  readonly copies: Map<string, string>;
  /** Labels that may still be kept. */
  labelsLeft: number;
}

/**
 * Reads the samples of the wanted names. O(text): what vLLM writes at about 1 GB/s, any 4 MiB in at most 20 ms
 * (`metrics-text.bench.ts`).
 *
 * @param wanted must not change: what is made of it is kept.
 * @returns without the names that have too many series; nothing of a text with too many lines or labels.
 */
export function parseMetrics(text: string, wanted: ReadonlySet<string>): Metrics {
  const names = MetricNames.of(wanted);
  const reading: Reading = { text, names, metrics: new Map(), copies: new Map(), labelsLeft: LABELS_TOTAL_MAX };
  let start = 0;
  for (let lines = 0; start < text.length; lines++) {
    start = readLine(reading, start);
    if (lines === LINES_MAX || reading.labelsLeft < 0) return new Map();
  }
  for (const [name, samples] of reading.metrics) {
    if (samples.length > SERIES_PER_NAME_MAX) reading.metrics.delete(name);
  }
  return reading.metrics;
}

/** Reads one line. Returns where the next one starts. */
function readLine(reading: Reading, start: number): number {
  const { text, names } = reading;
  const nameStart = skipBlanks(text, start);
  const nameEnd = names.walk(text, nameStart);
  const name = names.walked;
  const end = lineEnd(text, nameEnd);
  if (name === undefined || nameEnd === end || !endsName(text.charCodeAt(nameEnd))) return end + 1;
  const samples = reading.metrics.get(name);
  // one too many is kept, to show that there were too many
  if (samples !== undefined && samples.length > SERIES_PER_NAME_MAX) return end + 1;
  const sample = readSample(reading, nameEnd, end);
  if (sample === null) return end + 1;
  reading.labelsLeft -= sample.labels.size;
  if (samples === undefined) reading.metrics.set(name, [sample]);
  else samples.push(sample);
  return end + 1;
}

/** Most lines that are skipped end soon, or there are few of them: a search by the engine costs a call. */
function lineEnd(text: string, start: number): number {
  const near = Math.min(text.length, start + 16);
  for (let at = start; at < near; at++) if (text.charCodeAt(at) === NEWLINE) return at;
  const end = text.indexOf("\n", near);
  return end === -1 ? text.length : end;
}

/** What stands behind a name that is not longer than the wanted one. */
function endsName(code: number): boolean {
  return code === BRACE_OPEN || isBlank(code);
}

/** Labels and value of a line, from behind its name; null: it is no sample. */
function readSample(reading: Reading, start: number, end: number): Sample | null {
  const { text } = reading;
  const labels = new Map<string, string>();
  let at = skipBlanks(text, start);
  if (text.charCodeAt(at) === BRACE_OPEN) {
    at = readLabels(reading, at + 1, end, labels);
    if (at === -1) return null;
    at = skipBlanks(text, at);
  }
  const valueEnd = skipToken(text, at, end);
  const value = parseValue(text, at, valueEnd);
  if (value === undefined) return null;
  return isTail(text, valueEnd, end) ? { labels, value } : null;
}

/** Behind a value stands nothing, a time, an exemplar, or both. */
function isTail(text: string, start: number, end: number): boolean {
  let at = skipBlanks(text, start);
  if (at >= end || text.charCodeAt(at) === HASH) return true;
  const timeEnd = skipToken(text, at, end);
  if (parseValue(text, at, timeEnd) === undefined) return false;
  at = skipBlanks(text, timeEnd);
  return at >= end || text.charCodeAt(at) === HASH;
}

/** Reads up to and with the closing brace. Returns the index behind it, -1 when the labels are malformed. */
function readLabels(reading: Reading, start: number, end: number, labels: Map<string, string>): number {
  const { text } = reading;
  let at = skipBlanks(text, start);
  if (text.charCodeAt(at) === COMMA) at++;
  for (;;) {
    at = skipBlanks(text, at);
    if (at >= end) return -1;
    if (text.charCodeAt(at) === BRACE_CLOSE) return at + 1;
    const keyStart = at;
    while (at < end && isNameCharacter(text.charCodeAt(at))) at++;
    const key = text.slice(keyStart, at);
    at = skipBlanks(text, at);
    if (key === "" || isDigit(key.charCodeAt(0)) || labels.has(key) || labels.size === LABELS_MAX) return -1;
    if (text.charCodeAt(at) !== EQUALS) return -1;
    at = skipBlanks(text, at + 1);
    if (at >= end || text.charCodeAt(at) !== QUOTE) return -1;
    const closing = closingQuote(text, at + 1, end);
    if (closing === -1) return -1;
    labels.set(key, labelValue(reading, at + 1, closing));
    at = skipBlanks(text, closing + 1);
    if (at < end && text.charCodeAt(at) === COMMA) at++;
    else if (at >= end || text.charCodeAt(at) !== BRACE_CLOSE) return -1;
  }
}

/** Index of the quote that ends a label value, -1: the line ends first. */
function closingQuote(text: string, start: number, end: number): number {
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at++;
    else if (code === QUOTE) return at;
  }
  return -1;
}

function labelValue({ text, copies }: Reading, start: number, end: number): string {
  const value = text.slice(start, end);
  if (value.length < SLICED_FROM) return unescapeValue(value);
  const known = copies.get(value);
  if (known !== undefined) return known;
  const copy = Buffer.from(unescapeValue(value)).toString();
  copies.set(value, copy);
  return copy;
}

function unescapeValue(value: string): string {
  if (!value.includes("\\")) return value;
  return value.replace(/\\(["\\n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
}

/** Longer numbers are none that a program prints. */
const NUMBER_CHARACTERS_MAX = 64;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const NOT_FINITE = /^([+-]?)(?:(nan)|inf|infinity)$/i;

/** A number as the format spells it (Go's `ParseFloat`); undefined when it is none. */
function parseValue(text: string, start: number, end: number): number | undefined {
  if (end - start > NUMBER_CHARACTERS_MAX) return undefined;
  const token = text.slice(start, end);
  if (NUMBER.test(token)) return Number(token);
  const [, sign, nan] = NOT_FINITE.exec(token) ?? [];
  if (sign === undefined) return undefined;
  if (nan !== undefined) return Number.NaN;
  return sign === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}

function isNameCharacter(code: number): boolean {
  // a–z, A–Z, _, :
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95 || code === 58 || isDigit(code);
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB || code === CARRIAGE_RETURN;
}

function skipBlanks(text: string, start: number): number {
  let at = start;
  while (at < text.length && isBlank(text.charCodeAt(at))) at++;
  return at;
}

/** End of a number, or of more characters than a number has. */
function skipToken(text: string, start: number, end: number): number {
  const limit = Math.min(end, start + NUMBER_CHARACTERS_MAX + 1);
  let at = start;
  while (at < limit && !isBlank(text.charCodeAt(at))) at++;
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
    const folded = foldSamples(metrics.get(name) ?? [], fold);
    if (!Number.isNaN(folded)) return folded;
  }
  return Number.NaN;
}

/** The same of samples that the caller chose, such as those with one value of a label. */
export function foldSamples(samples: readonly Sample[], fold: RankFold): number {
  const distinct = largestOfCopies(samples);
  if (distinct.size === 0) return Number.NaN;
  let sum = 0;
  let max = 0;
  for (const value of distinct.values()) {
    sum += value;
    max = Math.max(max, value);
  }
  if (fold === "max") return max;
  return fold === "mean" ? sum / distinct.size : sum;
}

function largestOfCopies(samples: readonly Sample[]): Map<string, number> {
  const distinct = new Map<string, number>();
  for (const { labels, value } of samples) {
    if (!(value >= 0 && value < SENTINEL_FLOOR)) continue;
    if (samples.length === 1) return distinct.set("", value);
    const own = [...labels].filter(([label]) => !COPY_LABELS.has(label)).sort(([a], [b]) => (a < b ? -1 : 1));
    const key = JSON.stringify(own);
    const seen = distinct.get(key);
    distinct.set(key, seen === undefined ? value : Math.max(seen, value));
  }
  return distinct;
}
