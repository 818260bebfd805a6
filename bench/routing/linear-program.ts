/** Linear programs over x ≥ 0, by HiGHS: variables and rows by name. */

import { createRequire } from "node:module";
import type highsLoader from "highs";

// its types are those of the CommonJS half, whose default export an import would not find
const loadHighs = createRequire(import.meta.url)("highs") as typeof highsLoader.default;

export interface RowBounds {
  readonly max?: number;
  readonly equal?: number;
}

export interface LinearProgram {
  /** What is made as large as it can be: worth of one unit of each variable. */
  readonly worth: ReadonlyMap<string, number>;
  readonly rows: ReadonlyMap<string, RowBounds>;
  /** What one unit of each variable adds to each row. */
  readonly variables: ReadonlyMap<string, ReadonlyMap<string, number>>;
}

/** Compiled once per process: 30 ms. */
const highs = await loadHighs();

/**
 * The largest worth, and the variables that are above 0. O(what the solver takes).
 *
 * @throws Error when the program has no largest worth: nothing satisfies the rows, or nothing bounds it.
 */
export function optimum(program: LinearProgram): { value: number; variables: ReadonlyMap<string, number> } {
  const names = [...program.variables.keys()];
  const solution = highs.solve(textOf(program, names), { output_flag: false });
  if (solution.Status !== "Optimal") {
    throw new Error(
      `a linear program of ${names.length} variables and ${program.rows.size} rows has no best point: ${solution.Status}`,
    );
  }
  const values = names.map((name, index) => [name, solution.Columns[`x${index}`]?.Primal ?? 0] as const);
  return { value: solution.ObjectiveValue, variables: new Map(values.filter(([, value]) => value > 0)) };
}

/** CPLEX's text format, which the solver reads. */
function textOf({ worth, rows, variables }: LinearProgram, names: readonly string[]): string {
  const sums = new Map<string, string[]>([...rows.keys()].map((row) => [row, []]));
  const objective: string[] = [];
  for (const [index, name] of names.entries()) {
    objective.push(termOf(worth.get(name) ?? 0, index));
    for (const [row, amount] of variables.get(name) ?? []) sums.get(row)?.push(termOf(amount, index));
  }
  const lines = [...rows].flatMap(([row, { max, equal }]) => {
    const terms = sums.get(row) ?? [];
    if (terms.length === 0) return [];
    return [` ${terms.join(" ")} ${equal === undefined ? `<= ${max}` : `= ${equal}`}`];
  });
  return ["Maximize", ` ${objective.join(" ")}`, "Subject To", ...lines, "End"].join("\n");
}

function termOf(amount: number, index: number): string {
  return `${amount < 0 ? "-" : "+"} ${Math.abs(amount)} x${index}`;
}
