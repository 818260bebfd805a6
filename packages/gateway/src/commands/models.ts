/** `zml models`: what callers can ask for, registered or only reported by nodes. */

import type { FleetReportJson, ModelReportJson } from "../control/fleet-report.ts";
import { askFleet } from "./ask-admin.ts";
import { getObjects, type ObjectsOptions } from "./get.ts";
import { counted, numberText, UNKNOWN } from "./nodes-words.ts";
import { type Column, tableLines } from "./table.ts";
import { hasColour, type Terminal, widthOfScreen } from "./terminal.ts";
import { showPage, type Watch } from "./watch-page.ts";

export interface ModelsOptions extends ObjectsOptions {
  readonly json: boolean;
  readonly wide: boolean;
}

/** @returns the exit code. */
export async function models(terminal: Terminal, options: ModelsOptions, watch: Watch | null): Promise<number> {
  const { account, wide } = options;
  const chosen = ({ models: all }: FleetReportJson) =>
    all.filter((model) => account === undefined || model.account === account);
  const first = watch === null ? await askFleet(terminal, options) : null;
  if (first !== null && "problem" in first && first.code === "operator_only") {
    // the fleet is the operator's; an account sees what it registered
    return getObjects(terminal, { ...options, kind: "model", yaml: false }, watch);
  }
  return showPage<readonly ModelReportJson[]>(
    terminal,
    {
      ask: async (signal) => {
        const answer = first ?? (await askFleet(terminal, options, signal));
        return "problem" in answer ? answer : { report: chosen(answer.report) };
      },
      lines: (items) => {
        if (items.length === 0) return ["no node serves a model, and none is registered: zml nodes shows the nodes"];
        const width = wide ? Number.POSITIVE_INFINITY : widthOfScreen(terminal);
        const { lines } = tableLines(COLUMNS, items, { width, isColoured: hasColour(terminal) });
        return [...lines, counted(items.length, "model")];
      },
      json: options.json ? (items) => ({ items }) : null,
      less: "a higher one shows all",
    },
    watch,
  );
}

const COLUMNS: readonly Column<ModelReportJson>[] = [
  { title: "MODEL", rank: 0, cell: ({ name }) => name },
  { title: "ACCOUNT", rank: 4, cell: ({ account }) => account },
  {
    title: "NODES",
    rank: 0,
    isRight: true,
    cell: ({ nodes }) => String(nodes),
    colour: ({ nodes }) => (nodes === 0 ? "red" : null),
  },
  { title: "POLICY", rank: 1, cell: ({ policy }) => policy ?? "the account's" },
  { title: "REGISTERED", rank: 2, cell: ({ is_registered: isRegistered }) => (isRegistered ? "yes" : UNKNOWN) },
  { title: "MEAN OUTPUT", rank: 3, isRight: true, cell: ({ mean_output_tokens: tokens }) => numberText(tokens) },
];
