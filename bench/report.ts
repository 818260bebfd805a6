/**
 * How every bench reports: a table for people, or one JSON object on standard output. Goals stand in `goals.json`, by
 * the name of the figure; a figure without one is information.
 */

import { readFileSync } from "node:fs";
import { cpus } from "node:os";

/** One measured number. */
export interface Figure {
  /** With its labels: `decide_p99_us{rows=100}`. */
  name: string;
  value: number;
  unit: string;
}

/** A figure with what is asked of it. */
interface JudgedFigure extends Figure {
  goal?: string;
  met?: boolean;
}

const GOAL = /^(<=|>=|<|>) (-?[0-9.]+)$/;

/** Prints the figures of a bench, and sets the exit code to 1 when a goal is missed. */
export function report({ bench, figures, json }: { bench: string; figures: readonly Figure[]; json: boolean }): void {
  const judged = figures.map(judge);
  if (judged.some((figure) => figure.met === false)) process.exitCode = 1;
  const machine = machineOf();
  process.stdout.write(json ? `${JSON.stringify({ bench, machine, figures: judged })}\n` : tableOf(bench, judged));
}

/** True when the bench was asked for JSON. */
export function isJsonAsked(args: readonly string[]): boolean {
  return args.includes("--json");
}

/** Value at a share (0..1) of a sorted column. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Middle one of the values. */
export function median(values: readonly number[]): number {
  return quantile(Float64Array.from(values).sort(), 0.5);
}

let goals: Readonly<Record<string, string>> | null = null;

/** A figure with its goal. */
export function judge(figure: Figure): JudgedFigure {
  goals ??= JSON.parse(readFileSync(new URL("goals.json", import.meta.url), "utf8")) as Record<string, string>;
  const goal = goals[figure.name];
  const value = Number(figure.value.toPrecision(4));
  if (goal === undefined) return { ...figure, value };
  return { ...figure, value, goal, met: isMet(figure.value, goal) };
}

function isMet(value: number, goal: string): boolean {
  const [, relation, limit] = GOAL.exec(goal) ?? [];
  const bound = Number(limit);
  switch (relation) {
    case "<=":
      return value <= bound;
    case ">=":
      return value >= bound;
    case "<":
      return value < bound;
    case ">":
      return value > bound;
    default:
      throw new Error(`goals.json: a goal is a relation and a number, such as "<= 20", not ${JSON.stringify(goal)}`);
  }
}

/** What the bench ran on. */
export function machineOf(): { cpu: string; cores: number; node: string; platform: string } {
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    // not availableParallelism: a bench may have tied itself to a core
    cores: cpus().length,
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
  };
}

function tableOf(bench: string, figures: readonly JudgedFigure[]): string {
  const { cpu, cores, node } = machineOf();
  const rows = figures.map(({ name, value, unit, goal, met }) => {
    const verdict = goal === undefined ? "" : `goal ${goal}: ${met === true ? "met" : "MISSED"}`;
    return [name, value.toLocaleString("en-US", { maximumSignificantDigits: 4 }), unit, verdict];
  });
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map(([name = "", value = "", unit = "", verdict = ""]) => {
    return `${name.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)} ${unit.padEnd(widths[2] ?? 0)}  ${verdict}`.trimEnd();
  });
  return [`${bench} on ${cpu}, ${cores} cores, Node ${node}`, ...lines, ""].join("\n");
}

/** A figure as pages tell it: three digits; a dash: not measured. */
export function told(value: number | undefined): string {
  return value === undefined ? "–" : value.toLocaleString("en-US", { maximumSignificantDigits: 3 });
}
