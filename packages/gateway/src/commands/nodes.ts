/** `zml nodes`: the fleet as the router of a running gateway sees it. */

import { nearestName } from "@zml/protocol";
import type { FleetReportJson, NodeStateName } from "../control/fleet-report.ts";
import type { AdminProblem } from "./admin-problem.ts";
import { type AdminOptions, askFleet } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import { nodePage } from "./nodes-page.ts";
import { filterNodes, type NodesFilter, nodesTable } from "./nodes-table.ts";
import { hasColour, type Terminal, widthOfScreen } from "./terminal.ts";
import { showPage, type Watch } from "./watch-page.ts";

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

/** @returns the exit code. */
export function nodes(terminal: Terminal, options: NodesOptions, watch: Watch | null): Promise<number> {
  const isKnown = ({ nodes: all }: FleetReportJson) =>
    options.id === undefined || all.some(({ id }) => id === options.id);
  return showPage<FleetReportJson>(
    terminal,
    {
      ask: async (signal) => {
        const answer = await askFleet(terminal, options, signal);
        // a node that is watched may go and come back
        if ("problem" in answer || watch !== null || isKnown(answer.report)) return answer;
        return missing(unknownNode(options.id ?? "", answer.report));
      },
      lines: (report) => pageLines(terminal, report, options),
      json: options.json ? (report) => ({ ...report, nodes: filterNodes(report, options) }) : null,
      less: "--family, --model, --state choose",
    },
    watch,
  );
}

function missing(problem: string): AdminProblem {
  return { problem, lines: [], errors: [], exit: EXIT.notFound, isGone: false, code: null };
}

function pageLines(terminal: Terminal, report: FleetReportJson, options: NodesOptions): string[] {
  const isColoured = hasColour(terminal);
  const shown = filterNodes(report, options);
  const [first] = shown;
  if (options.id !== undefined) {
    return first === undefined ? [unknownNode(options.id, report)] : nodePage(first, { isColoured });
  }
  const width = options.wide ? Number.POSITIVE_INFINITY : widthOfScreen(terminal);
  const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
  return nodesTable(report, shown, { width, isColoured, limit });
}

/** That a fleet lacks a node, with the nearest one that it has. */
export function unknownNode(id: string, { nodes: all }: FleetReportJson): string {
  const near = nearestName(
    id,
    all.map((node) => node.id),
  );
  return `the gateway has no node ${JSON.stringify(id)}: ${near === null ? "zml nodes lists them" : `is it ${near}?`}`;
}
