/** `zml simulate`: a fleet in virtual time under a scenario, one report per policy. */

import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { PreparedScenario, ReportJson } from "@zml/simulator/virtual";
import { formatProblems, problemAt, sortProblems } from "../config/config-problem.ts";
import { readYaml } from "../config/yaml-text.ts";
import { EXIT } from "./exit-codes.ts";
import { whyUnreadable } from "./input-file.ts";
import { UNKNOWN } from "./nodes-words.ts";
import { type Column, tableLines } from "./table.ts";
import { hasColour, type Terminal } from "./terminal.ts";

export interface SimulateOptions {
  readonly file: string;
  readonly json: boolean;
}

/** @returns the exit code. */
export async function simulate(terminal: Terminal, { file, json }: SimulateOptions): Promise<number> {
  const fail = (text: string): number => {
    terminal.error(`${text}\n`);
    return EXIT.failed;
  };
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    return fail(`zml: ${file}: ${whyUnreadable(error)}: name the scenario with -f FILE`);
  }
  const virtual = await import("@zml/simulator/virtual");
  const yaml = readYaml(text);
  const problems = yaml.problems.map((problem) => problemAt(file, problem, problem));
  if (yaml.value === undefined || problems.length > 0) return fail(formatProblems(problems));
  const parsed = virtual.parseScenario(yaml.value);
  if ("issues" in parsed) {
    const located = parsed.issues.map((issue) => problemAt(file, yaml.place(issue.path, issue.at), issue));
    return fail(formatProblems(sortProblems(located)));
  }
  let prepared: PreparedScenario;
  try {
    prepared = virtual.prepareScenario(parsed.scenario, dirname(resolve(file)));
  } catch (error) {
    if (!(error instanceof virtual.ScenarioError)) return fail(`zml: ${messageOf(error)}`);
    const issue = { path: error.path, at: "value", message: error.message, hint: null } as const;
    return fail(formatProblems([problemAt(file, yaml.place(issue.path, issue.at), issue)]));
  }
  const reports: [string, ReportJson][] = [];
  for (const name of parsed.scenario.policies) {
    reports.push([name, virtual.runPolicy(prepared, name, progressOf(terminal, name))]);
  }
  if (terminal.screen() !== null) terminal.error(CLEAR_LINE);
  terminal.out(json ? jsonOf(prepared, reports) : textOf(terminal, prepared, reports));
  return EXIT.ok;
}

const CLEAR_LINE = "\r\u001b[2K";

/** A line on a window that is written over; a file or a pipe gets none. */
function progressOf(terminal: Terminal, name: string): (share: number) => void {
  let shown = -1;
  return (share) => {
    const percent = Math.floor(share * 100);
    if (percent === shown || terminal.screen() === null) return;
    shown = percent;
    terminal.error(`${CLEAR_LINE}${name}: ${percent} %`);
  };
}

function jsonOf(
  { rps, capacityRps, scenario }: PreparedScenario,
  reports: readonly (readonly [string, ReportJson])[],
): string {
  const report = { scenario, capacity_rps: capacityRps, rps, policies: Object.fromEntries(reports) };
  return `${JSON.stringify(report)}\n`;
}

function textOf(
  terminal: Terminal,
  { plan, workload, rps, capacityRps }: PreparedScenario,
  reports: readonly (readonly [string, ReportJson])[],
): string {
  const width = terminal.screen()?.columns ?? Number.POSITIVE_INFINITY;
  const usdPerHour = plan.nodes.reduce((sum, node) => sum + node.usdPerHour, 0);
  const head = [
    `${plan.nodes.length} nodes (${plan.families.join(", ")}), ${usdPerHour.toFixed(2)} USD/h`,
    `${workload.count} requests, ${rps.toPrecision(3)}/s, ${((100 * rps) / capacityRps).toFixed(0)} % of ${capacityRps.toPrecision(3)}/s`,
    "",
  ];
  return `${[...head, ...tableLines(COLUMNS, reports, { width, isColoured: hasColour(terminal) }).lines].join("\n")}\n`;
}

type Row = readonly [string, ReportJson];
const numeric = (
  title: string,
  rank: number,
  of: (report: ReportJson) => number | null,
  digits: number,
): Column<Row> => ({
  title,
  rank,
  isRight: true,
  cell: ([, report]) => of(report)?.toFixed(digits) ?? UNKNOWN,
});
const percent = (value: number | null): number | null => (value === null ? null : value * 100);

const COLUMNS: readonly Column<Row>[] = [
  { title: "POLICY", rank: 0, cell: ([name]) => name },
  numeric("MET %", 0, ({ attainment }) => percent(attainment), 1),
  numeric("WORST CLASS %", 2, ({ worst_class_attainment: worst }) => percent(worst), 1),
  numeric("TTFT P99 MS", 3, ({ ttft_ms: times }) => times.p99, 0),
  numeric("TOKEN P99 MS", 4, ({ token_ms: times }) => times.p99, 1),
  numeric("BUSY USD/M", 1, ({ busy_usd_per_million_tokens: usd }) => usd, 3),
  numeric("POWERED USD/M", 3, ({ provisioned_usd_per_million_tokens: usd }) => usd, 3),
  numeric("GOOD M/USD", 1, ({ goodput_per_usd: goodput }) => (goodput === null ? null : goodput / 1e6), 2),
  numeric("HERD", 5, ({ herd_index: herd }) => herd, 2),
  numeric("REJECTED", 2, ({ rejected }) => rejected, 0),
  numeric("FAILED", 2, ({ failed }) => failed, 0),
];

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
