/** `zml nodes`: the fleet as the router of a running gateway sees it. */

import { nearestName } from "@zml/protocol";
import type { FleetReportJson, NodeStateName } from "../control/fleet-report.ts";
import { type AdminOptions, askFleet } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import { nodePage } from "./nodes-page.ts";
import { filterNodes, type NodesFilter, nodesTable } from "./nodes-table.ts";
import { ageText } from "./nodes-words.ts";
import { painted } from "./table-text.ts";
import { hasColour, type Terminal } from "./terminal.ts";

export interface NodesOptions extends AdminOptions, NodesFilter {
  readonly json: boolean;
  /** Show all columns, whatever the window has room for. */
  readonly wide: boolean;
  /** Rows; 0: all. */
  readonly limit: number;
}

/** What `--state` may say. */
export const NODE_STATES = [
  "draining",
  "unhealthy",
  "not_polled",
  "cooling_down",
  "trial",
  "healthy",
] as const satisfies readonly NodeStateName[];

/** How `--watch` runs. */
export interface Watch {
  /** Aborts when it has to end. */
  readonly stop: AbortSignal;
  /** Waits; ends early on `stop`. */
  readonly wait: (ms: number) => Promise<void>;
  /** Wall clock, Unix ms. */
  readonly nowMs: () => number;
}

/** @returns the exit code. */
export async function nodes(terminal: Terminal, options: NodesOptions, watch: Watch | null): Promise<number> {
  if (watch !== null) return watchNodes(terminal, options, watch);
  const answer = await askFleet(terminal, options);
  if ("problem" in answer) {
    terminal.error(`zml: ${answer.problem}\n`);
    return EXIT.failed;
  }
  const { report } = answer;
  const shown = filterNodes(report, options);
  if (options.id !== undefined && shown.length === 0) {
    terminal.error(`zml: ${unknownNode(options.id, report)}\n`);
    return EXIT.failed;
  }
  if (options.json) terminal.out(`${JSON.stringify({ ...report, nodes: shown })}\n`);
  else terminal.out(`${pageLines(terminal, report, options).join("\n")}\n`);
  return EXIT.ok;
}

const REDRAW_MS = 1000;
/** Of the time between two looks at most this share is spent asking: a large report costs the gateway as well. */
const BUSY_SHARE = 0.2;

const HOME_AND_CLEAR = "\u001b[H\u001b[J";

/** Redraws until it is stopped. What was seen last stays while nobody answers. */
async function watchNodes(terminal: Terminal, options: NodesOptions, { stop, wait, nowMs }: Watch): Promise<number> {
  let last: FleetReportJson | null = null;
  let goneSinceMs = Number.NaN;
  while (!stop.aborted) {
    const askedAtMs = nowMs();
    const answer = await askFleet(terminal, options, stop);
    if (stop.aborted) break;
    const tookMs = nowMs() - askedAtMs;
    let note = "";
    if ("report" in answer) {
      last = answer.report;
      goneSinceMs = Number.NaN;
    } else if (!answer.isGone || last === null) {
      // waiting for a gateway that was never there would hide a wrong address
      terminal.error(`zml: ${answer.problem}\n`);
      return EXIT.failed;
    } else {
      if (Number.isNaN(goneSinceMs)) goneSinceMs = askedAtMs;
      const since = new Date(goneSinceMs).toISOString().slice(11, 19);
      note = `gateway gone since ${since} UTC (${ageText(nowMs() - goneSinceMs)}): what stands here is what it said last`;
    }
    draw(terminal, last, options, note);
    await wait(Math.max(REDRAW_MS, tookMs / BUSY_SHARE - tookMs));
  }
  return EXIT.ok;
}

function draw(terminal: Terminal, report: FleetReportJson, options: NodesOptions, note: string): void {
  if (options.json) {
    const text = JSON.stringify({ ...report, nodes: filterNodes(report, options) });
    if (note === "") terminal.out(`${text}\n`);
    else terminal.error(`${note}\n`);
    return;
  }
  const screen = terminal.screen();
  const head = note === "" ? [] : [painted(note, hasColour(terminal), "red")];
  const lines = [...head, ...pageLines(terminal, report, options)];
  if (screen === null) {
    terminal.out(`${lines.join("\n")}\n\n`);
    return;
  }
  // one line less than there is: the last line feed would move everything up
  const room = Math.max(2, screen.rows - 1);
  const isCut = lines.length > room;
  const kept = isCut
    ? [...lines.slice(0, room - 1), "… the window is too low: --family, --model, --state choose"]
    : lines;
  terminal.out(`${HOME_AND_CLEAR}${kept.join("\n")}\n`);
}

function pageLines(terminal: Terminal, report: FleetReportJson, options: NodesOptions): string[] {
  const isColoured = hasColour(terminal);
  const shown = filterNodes(report, options);
  const [first] = shown;
  if (options.id !== undefined) {
    return first === undefined ? [unknownNode(options.id, report)] : nodePage(first, { isColoured });
  }
  const screen = terminal.screen();
  const width = options.wide || screen === null ? Number.POSITIVE_INFINITY : screen.columns;
  const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
  return nodesTable(report, shown, { width, isColoured, limit });
}

function unknownNode(id: string, { nodes: all }: FleetReportJson): string {
  const near = nearestName(
    id,
    all.map((node) => node.id),
  );
  return `the gateway has no node ${JSON.stringify(id)}: ${near === null ? "zml nodes lists them" : `is it ${near}?`}`;
}
