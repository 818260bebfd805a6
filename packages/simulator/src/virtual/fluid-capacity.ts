/**
 * Capacity of a fleet for a mix of classes: the largest rate at which some split of the classes over the families fits
 * into their time, were there no queues, no bursts and full batches. No router reaches it; it is what 100 % load means.
 */

import type { FleetPlan, PlannedNode } from "./fleet-plan.ts";
import { type RequestShape, shapeOf, workMs } from "./node-work.ts";
import type { RequestClass } from "./request-classes.ts";
import type { Workload } from "./workload.ts";

/** Requests per second. A class whose token target no family meets counts as one without a target: it has to be served. */
export function fluidCapacityRps(plan: FleetPlan, classes: readonly RequestClass[], workload: Workload): number {
  const groups = plan.families.map((_, family) => plan.nodes.filter((node) => node.family === family));
  const shapes = classes.map((_, klass) => shapeOf(workload, (request) => workload.classes[request] === klass));
  const counted = shapes.reduce((sum, { requests }) => sum + requests, 0);
  // columns: the rate, then class × family; rows: one per class, then one per family
  const columns = 1 + classes.length * groups.length;
  const rows: number[][] = [];
  for (const [klass, shape] of shapes.entries()) {
    const row = new Array<number>(columns + 1).fill(0);
    row[0] = shape.requests / counted;
    groups.forEach((_, family) => {
      row[1 + klass * groups.length + family] = -1;
    });
    rows.push(row);
  }
  const works = shapes.map((shape, klass) => worksOf(groups, shape, classes[klass]?.tokenMs ?? Number.NaN));
  for (const [family, nodes] of groups.entries()) {
    const row = new Array<number>(columns + 1).fill(0);
    for (const klass of shapes.keys()) {
      const ms = works[klass]?.[family] ?? Number.POSITIVE_INFINITY;
      // what cannot be served takes more time than there is
      row[1 + klass * groups.length + family] = Math.min(ms, 1e9) / 1000;
    }
    row[columns] = nodes.length;
    rows.push(row);
  }
  return maximize([1, ...new Array<number>(columns - 1).fill(0)], rows);
}

/** Work of a class on each family, ms. */
function worksOf(groups: readonly (readonly PlannedNode[])[], shape: RequestShape, tokenMs: number): number[] {
  const works = (targetMs: number) =>
    groups.map(([node]) => (node === undefined ? Number.POSITIVE_INFINITY : workMs(node.constants, shape, targetMs)));
  const within = works(tokenMs);
  return within.some(Number.isFinite) ? within : works(Number.NaN);
}

/**
 * Largest value of a linear objective over x ≥ 0 with rows a·x ≤ b, b ≥ 0: the simplex method with Bland's rule, for a
 * dozen columns. Each row ends with its b.
 */
export function maximize(objective: readonly number[], constraints: readonly (readonly number[])[]): number {
  const columns = objective.length;
  const slacks = constraints.length;
  const rows = constraints.map((row, index) => [
    ...row.slice(0, columns),
    ...Array.from({ length: slacks }, (_, slack) => (slack === index ? 1 : 0)),
    row[columns] as number,
  ]);
  const costs = [...objective.map((value) => -value), ...new Array<number>(slacks + 1).fill(0)];
  const basis = rows.map((_, index) => columns + index);
  const last = columns + slacks;
  for (;;) {
    const entering = costs.findIndex((cost, column) => column < last && cost < -1e-12);
    if (entering < 0) return costs[last] as number;
    let leaving = -1;
    let least = Number.POSITIVE_INFINITY;
    for (const [index, row] of rows.entries()) {
      const coefficient = row[entering] as number;
      if (coefficient <= 1e-12) continue;
      const bound = (row[last] as number) / coefficient;
      if (bound < least || (bound === least && (basis[index] as number) < (basis[leaving] as number))) {
        least = bound;
        leaving = index;
      }
    }
    if (leaving < 0) return Number.POSITIVE_INFINITY;
    const pivotRow = rows[leaving] as number[];
    const pivot = pivotRow[entering] as number;
    for (let column = 0; column <= last; column++) pivotRow[column] = (pivotRow[column] as number) / pivot;
    for (const row of [...rows, costs]) {
      const factor = row[entering] as number;
      if (row === pivotRow || factor === 0) continue;
      for (let column = 0; column <= last; column++) {
        row[column] = (row[column] as number) - factor * (pivotRow[column] as number);
      }
    }
    basis[leaving] = entering;
  }
}
