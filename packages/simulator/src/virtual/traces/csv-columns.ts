/** Rows of a comma-separated trace as numbers, by column name. Values of traces hold no quotes and no commas. */

import { TraceError } from "./trace.ts";

export interface CsvRow {
  readonly line: number;
  /** The cell as text. */
  text(column: string): string;
  /** The cell as a finite number, 0 or more. @throws TraceError */
  number(column: string): number;
}

/**
 * Goes over the rows. Other columns may stand beside the ones that are asked for, in any order.
 *
 * @throws TraceError when a column is missing or there twice, a row has another number of cells, or there is no row.
 */
export function* csvRows(file: string, text: string, columns: readonly string[]): Generator<CsvRow> {
  const lines = text.split(/\r?\n/);
  const header = (lines[0] ?? "").replace(/^\uFEFF/, "").split(",");
  const index = new Map(header.map((name, position) => [name.trim(), position]));
  const missing = columns.filter((name) => !index.has(name));
  if (missing.length > 0) {
    throw new TraceError(file, 1, `no column ${missing.join(", no column ")}: the columns are ${header.join(", ")}`);
  }
  const twice = columns.find((name) => header.filter((cell) => cell.trim() === name).length > 1);
  if (twice !== undefined) throw new TraceError(file, 1, `column ${twice} is there twice: keep one of them`);
  let rows = 0;
  for (let number = 1; number < lines.length; number++) {
    const source = lines[number] as string;
    if (source === "") continue;
    const line = number + 1;
    const cells = source.split(",");
    if (cells.length !== header.length) {
      throw new TraceError(file, line, `${cells.length} cells, the head has ${header.length}: ${shorten(source)}`);
    }
    rows += 1;
    const text = (column: string) => (cells[index.get(column) as number] as string).trim();
    yield {
      line,
      text,
      number: (column) => {
        const value = text(column) === "" ? Number.NaN : Number(text(column));
        if (!Number.isFinite(value))
          throw new TraceError(file, line, `${column} is no number: ${shorten(text(column))}`);
        if (value < 0) throw new TraceError(file, line, `${column} is ${value}: it must be 0 or more`);
        return value;
      },
    };
  }
  if (rows === 0) throw new TraceError(file, 1, "the trace has no row");
}

/** What is quoted of a line. */
export function shorten(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
