/** Reads trace files of the formats that the field publishes. The format is known by the head of the file. */

import { readFileSync } from "node:fs";
import { BLOCK_TOKENS } from "../prefix-cache.ts";
import { type CsvRow, csvRows, shorten } from "./csv-columns.ts";
import { type Trace, TraceError, type TraceFormat, type TraceRow } from "./trace.ts";

/** Longer than any context there is: a number above it is no length. */
const PROMPT_TOKENS_MAX = 10_000_000;
const OUTPUT_TOKENS_MAX = 1_000_000;
/** Longer than anybody records in one file, days: a time beyond it is a slip. */
const SPAN_DAYS_MAX = 366;

/**
 * Reads a trace by path.
 *
 * @throws TraceError with file and line: no such format, a column that is missing, lengths that are negative or absurd,
 *   times that go backwards or lie more than a year apart, no row.
 */
export function readTrace(path: string): Trace {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new TraceError(path, 1, `the trace can't be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  return parseTrace(path, text);
}

/** The same of a text; `file` is what errors call it. */
export function parseTrace(file: string, text: string): Trace {
  const head = (/^\uFEFF?([^\r\n]*)/.exec(text)?.[1] ?? "").trim();
  if (text.trim() === "") throw new TraceError(file, 1, "the trace is empty");
  const format = formatOf(head);
  if (format === null) {
    throw new TraceError(
      file,
      1,
      `this is the head of no trace that is known: ${shorten(head)}; known are the columns ${Object.values(COLUMNS)
        .map((columns) => columns.join(","))
        .join(" or ")}, or one JSON object per line with timestamp, input_length, output_length, hash_ids`,
    );
  }
  const rows = READERS[format](file, text);
  const kept = rows.filter(({ promptTokens, outputTokens }) => promptTokens > 0 && outputTokens > 0);
  if (kept.length === 0) throw new TraceError(file, 1, "no row has a prompt and an output");
  const lastMs = kept.at(-1)?.atMs ?? Number.NaN;
  return {
    format,
    rows: kept,
    emptyRows: rows.length - kept.length,
    rps: lastMs > 0 ? (kept.length / lastMs) * 1000 : Number.NaN,
  };
}

const COLUMNS = {
  azure: ["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
  agent_sessions: ["session", "turn", "start_s", "input_tokens", "output_tokens", "duration_s"],
  vidur: ["num_prefill_tokens", "num_decode_tokens"],
} as const;

/** The format by the column that only it has, so that one that lacks another column is told which. */
function formatOf(head: string): TraceFormat | null {
  if (head.startsWith("{")) return "mooncake";
  const columns = new Set(head.split(",").map((name) => name.trim()));
  const has = (names: readonly string[]) => names.some((name) => columns.has(name));
  if (has(["ContextTokens", "GeneratedTokens"])) return "azure";
  if (has(["session", "turn"])) return "agent_sessions";
  if (has(["num_prefill_tokens", "num_decode_tokens"])) return "vidur";
  return null;
}

const READERS: Readonly<Record<TraceFormat, (file: string, text: string) => TraceRow[]>> = {
  azure: readAzure,
  mooncake: readMooncake,
  agent_sessions: readAgentSessions,
  vidur: readVidur,
};

/** Wall clock with up to seven decimals; prompt and output tokens. */
function readAzure(file: string, text: string): TraceRow[] {
  const rows: TraceRow[] = [];
  let firstMs = Number.NaN;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (const row of csvRows(file, text, COLUMNS.azure)) {
    const stamp = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?/.exec(row.text("TIMESTAMP"));
    const wallMs = Date.parse(`${stamp?.[1]}T${stamp?.[2]}Z`) + Number(stamp?.[3] ?? 0) * 1000;
    if (!Number.isFinite(wallMs)) {
      throw new TraceError(file, row.line, `TIMESTAMP is no time: ${shorten(row.text("TIMESTAMP"))}`);
    }
    if (wallMs < lastMs) throw backwards(file, row.line, "TIMESTAMP");
    if (rows.length === 0) firstMs = wallMs;
    checkSpan(file, row.line, "TIMESTAMP", wallMs - firstMs);
    lastMs = wallMs;
    rows.push(plainRow(wallMs - firstMs, lengths(file, row, "ContextTokens", "GeneratedTokens")));
  }
  return rows;
}

/** Lengths only. */
function readVidur(file: string, text: string): TraceRow[] {
  const rows: TraceRow[] = [];
  for (const row of csvRows(file, text, COLUMNS.vidur)) {
    rows.push(plainRow(Number.NaN, lengths(file, row, "num_prefill_tokens", "num_decode_tokens")));
  }
  return rows;
}

/** One object per line, with the ids of the prompt's blocks. */
function readMooncake(file: string, text: string): TraceRow[] {
  const rows: TraceRow[] = [];
  let firstMs = Number.NaN;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (const [index, source] of text.split(/\r?\n/).entries()) {
    if (source.trim() === "") continue;
    const line = index + 1;
    const fields = objectOf(file, line, source);
    const number = (name: string): number => {
      const value = fields[name];
      if (typeof value !== "number" || !Number.isFinite(value))
        throw new TraceError(file, line, `${name} is no number`);
      if (value < 0) throw new TraceError(file, line, `${name} is ${value}: it must be 0 or more`);
      return value;
    };
    const atMs = number("timestamp");
    if (atMs < lastMs) throw backwards(file, line, "timestamp");
    if (rows.length === 0) firstMs = atMs;
    checkSpan(file, line, "timestamp", atMs - firstMs);
    lastMs = atMs;
    const promptTokens = checked(file, line, "input_length", number("input_length"), PROMPT_TOKENS_MAX);
    const outputTokens = checked(file, line, "output_length", number("output_length"), OUTPUT_TOKENS_MAX);
    const ids = fields["hash_ids"];
    if (!Array.isArray(ids) || ids.some((id) => !Number.isInteger(id) || id < 0)) {
      throw new TraceError(file, line, "hash_ids is no list of whole numbers");
    }
    const blocks = Int32Array.from(ids as number[]).subarray(0, Math.floor(promptTokens / BLOCK_TOKENS));
    rows.push({ ...plainRow(atMs - firstMs, { promptTokens, outputTokens }), blocks });
  }
  return rows;
}

function objectOf(file: string, line: number, source: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch {
    throw new TraceError(file, line, `this is no JSON: ${shorten(source)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TraceError(file, line, `this is no JSON object: ${shorten(source)}`);
  }
  return value as Record<string, unknown>;
}

/**
 * Sessions: a turn follows the end of the one before it after a pause, and its prompt extends that one's. A prompt that
 * is shorter than the one before it (the session was cut or began anew) shares nothing with it.
 */
function readAgentSessions(file: string, text: string): TraceRow[] {
  const rows: TraceRow[] = [];
  const sessions = new Map<string, Turn>();
  let stretches = 0;
  for (const row of csvRows(file, text, COLUMNS.agent_sessions)) {
    const turn = row.number("turn");
    const startS = row.number("start_s");
    const { promptTokens, outputTokens } = lengths(file, row, "input_tokens", "output_tokens");
    const name = row.text("session");
    const before = sessions.get(name);
    if (before !== undefined && turn <= before.turn) {
      throw new TraceError(file, row.line, `turn ${turn} of session ${name} comes after its turn ${before.turn}`);
    }
    if (before !== undefined && startS < before.startS) throw backwards(file, row.line, "start_s");
    if (before !== undefined) checkSpan(file, row.line, "start_s", (startS - before.startS) * 1000);
    const stretch = before === undefined || promptTokens < before.promptTokens ? stretches++ : before.stretch;
    const index = before?.index ?? sessions.size;
    const pauseMs = before === undefined ? Number.NaN : Math.max(0, startS - before.endS) * 1000;
    const blocks = new Int32Array(Math.floor(promptTokens / BLOCK_TOKENS));
    for (let block = 0; block < blocks.length; block++) blocks[block] = stretch * STRETCH_BLOCKS + block;
    rows.push({ atMs: Number.NaN, promptTokens, outputTokens, session: index, pauseMs, blocks });
    const endS = startS + row.number("duration_s");
    sessions.set(name, { index, turn, startS, endS, promptTokens, stretch });
  }
  return rows;
}

interface Turn {
  readonly index: number;
  readonly turn: number;
  readonly startS: number;
  readonly endS: number;
  readonly promptTokens: number;
  /** Which growing prompt it belongs to. */
  readonly stretch: number;
}

/** Ids set aside for one growing prompt: 16,384 blocks are 8 M tokens. */
const STRETCH_BLOCKS = 16_384;

function plainRow(atMs: number, length: { promptTokens: number; outputTokens: number }): TraceRow {
  return { atMs, ...length, session: -1, pauseMs: Number.NaN, blocks: null };
}

function lengths(file: string, row: CsvRow, prompt: string, output: string) {
  return {
    promptTokens: checked(file, row.line, prompt, row.number(prompt), PROMPT_TOKENS_MAX),
    outputTokens: checked(file, row.line, output, row.number(output), OUTPUT_TOKENS_MAX),
  };
}

function checked(file: string, line: number, name: string, value: number, most: number): number {
  if (!Number.isInteger(value)) throw new TraceError(file, line, `${name} is ${value}: it must be a whole number`);
  if (value > most) throw new TraceError(file, line, `${name} is ${value}: at most ${most} is a length`);
  return value;
}

function checkSpan(file: string, line: number, name: string, spanMs: number): void {
  const days = spanMs / 86_400_000;
  if (days <= SPAN_DAYS_MAX) return;
  const told = days < 1e9 ? Math.round(days) : days.toPrecision(3);
  throw new TraceError(file, line, `${name} is ${told} days after the first row: at most ${SPAN_DAYS_MAX} is a trace`);
}

function backwards(file: string, line: number, name: string): TraceError {
  return new TraceError(file, line, `${name} is earlier than in the row before: sort the trace by time`);
}
