/**
 * Text tables for the terminal. Our own, since what a library would save is these lines: columns that are left out by
 * importance on a narrow window are in none of the small ones.
 */

import { type Colour, oneLine, padded, painted, widthOf } from "./table-text.ts";

/** A column. */
export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => string;
  readonly isRight?: boolean;
  /** Left out first where the highest is; 0: never left out. */
  readonly rank: number;
  /** May be cut to this many characters. Default: it is never cut. */
  readonly least?: number;
  readonly colour?: (row: Row) => Colour | null;
}

/** Between two columns. */
const GAP = "  ";

/**
 * The lines of a table, head first, and the titles of the columns that did not fit.
 *
 * @param width characters that a line may have; Infinity: any.
 */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { width, isColoured }: { width: number; isColoured: boolean },
): { lines: string[]; left: string[] } {
  let fields = columns.map((column) => {
    const cells = rows.map((row) => oneLine(column.cell(row)));
    return { column, cells, size: cells.reduce((size, cell) => Math.max(size, widthOf(cell)), widthOf(column.title)) };
  });
  const total = () => fields.reduce((sum, { size }) => sum + size + GAP.length, -GAP.length);
  const left: string[] = [];
  while (total() > width) {
    // the least important column gives first: characters where it may, then itself
    const least = fields
      .filter(({ column, size }) => column.rank > 0 || size > leastOf(column))
      .reduce<(typeof fields)[0] | null>((a, b) => (a !== null && a.column.rank > b.column.rank ? a : b), null);
    if (least === null) break;
    if (least.size > leastOf(least.column)) {
      least.size = Math.max(leastOf(least.column), least.size - (total() - width));
      continue;
    }
    left.unshift(least.column.title.toLowerCase());
    fields = fields.filter((field) => field !== least);
  }
  const line = (text: (field: (typeof fields)[0]) => string, colour: (column: Column<Row>) => Colour | null) =>
    fields
      .map((field) => painted(padded(text(field), field.size, field.column.isRight), isColoured, colour(field.column)))
      .join(GAP)
      .trimEnd();
  const head = line(
    ({ column }) => column.title,
    () => "dim",
  );
  const body = rows.map((row, index) =>
    line(
      ({ cells }) => cells[index] ?? "",
      ({ colour }) => colour?.(row) ?? null,
    ),
  );
  return { lines: [head, ...body], left };
}

function leastOf<Row>({ least = Number.POSITIVE_INFINITY }: Column<Row>): number {
  return least;
}
