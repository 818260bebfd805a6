import { readFileSync } from "node:fs";

/** One call of a trace. */
export type TraceRow = {
  /** Since the first row. */
  readonly atMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
};

const HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens";

/** The excerpt that the repository carries; `data/README.md` names its source and licence. */
export function readTraceExcerpt(): readonly TraceRow[] {
  return parseTrace(readFileSync(new URL("../../data/azure2023-conv-excerpt.csv", import.meta.url), "utf8"));
}

/**
 * Parses a trace in the format of Azure/AzurePublicDataset: wall clock with seven decimals, prompt and output tokens.
 * @throws Error that names the line when one is no such row, or time runs backwards.
 */
export function parseTrace(text: string): readonly TraceRow[] {
  const lines = text.trimEnd().split(/\r?\n/);
  if (lines[0] !== HEADER) throw new Error(`line 1 of the trace: expected ${HEADER}, got ${lines[0]}`);
  let firstMs = Number.NaN;
  let lastMs = Number.NEGATIVE_INFINITY;
  return lines.slice(1).map((line, index) => {
    const match = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?,(\d+),(\d+)$/.exec(line);
    const wallMs = Date.parse(`${match?.[1]}T${match?.[2]}Z`) + Number(match?.[3] ?? 0) * 1000;
    if (match === null || Number.isNaN(wallMs)) throw new Error(`line ${index + 2} of the trace: no row: ${line}`);
    if (wallMs < lastMs) throw new Error(`line ${index + 2} of the trace: earlier than the line before it: ${line}`);
    if (index === 0) firstMs = wallMs;
    lastMs = wallMs;
    return { atMs: wallMs - firstMs, promptTokens: Number(match[4]), outputTokens: Number(match[5]) };
  });
}
