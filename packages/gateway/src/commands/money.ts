/** `zml money`: what requests cost, by account, model, family or policy. */

import type { MoneyFiguresJson, MoneyGroup, MoneyJson, MoneyRowJson, MoneyWindow } from "@zml/protocol/admin";
import { askAdmin } from "./ask-admin.ts";
import type { ObjectsOptions } from "./get.ts";
import { ageText, counted, shareText, UNKNOWN, usdText } from "./nodes-words.ts";
import { type Column, tableLines } from "./table.ts";
import { hasColour, type Terminal, widthOfScreen } from "./terminal.ts";
import { showPage, type Watch } from "./watch-page.ts";

export interface MoneyOptions extends ObjectsOptions {
  readonly by: MoneyGroup;
  readonly window: MoneyWindow;
  readonly limit: number;
  readonly wide: boolean;
  readonly json: boolean;
}

/** @returns the exit code. */
export function money(terminal: Terminal, options: MoneyOptions, watch: Watch | null): Promise<number> {
  const { by, window, limit, account } = options;
  return showPage<MoneyJson>(
    terminal,
    {
      ask: async (signal) => {
        const answer = await askAdmin(terminal, options, {
          path: "/admin/v1/money",
          query: { by, window, limit, account },
          members: ["rows", "total"],
          ...(signal !== undefined && { signal }),
        });
        // the other end is this product
        return "problem" in answer ? answer : { report: answer.value as MoneyJson };
      },
      lines: (told) => moneyLines(terminal, told, options.wide),
      json: options.json ? (told) => told : null,
      less: "--limit chooses",
    },
    watch,
  );
}

type Row = MoneyFiguresJson & Pick<MoneyRowJson, "account" | "name">;

function moneyLines(terminal: Terminal, told: MoneyJson, wide: boolean): string[] {
  const { total, rows, other, by } = told;
  const over = `${told.window === "start" ? "since the start" : `over the last ${told.window}`} (${ageText(told.seconds * 1000)})`;
  if (total.answers === 0 && total.usd === 0) return [`no request cost anything ${over}`];
  const all: Row[] = [...rows];
  if (other !== null) {
    const more = told.other_rows > 0 ? `${told.other_rows} more` : "further ones";
    all.push({ account: null, name: `(${more})`, ...other });
  }
  if (all.length > 1) all.push({ account: null, name: "(all)", ...total });
  const columns = by === "account" || by === "family" ? [named(by), ...COLUMNS] : [named(by), ACCOUNT, ...COLUMNS];
  const width = wide ? Number.POSITIVE_INFINITY : widthOfScreen(terminal);
  const { lines } = tableLines(columns, all, { width, isColoured: hasColour(terminal) });
  return [...lines, ...notes(told, over)];
}

function notes({ total, fleet_usd_per_hour: fleet }: MoneyJson, over: string): string[] {
  const lines = [`USD of node time ${over}; what failed attempts took is part of it`];
  if (fleet !== null) lines.push(`the fleet costs ${usdText(fleet)} an hour now, used or idle`);
  if (total.unpriced_answers > 0) {
    const answers = counted(total.unpriced_answers, "answer");
    lines.push(`in no dollars: ${answers} of nodes without a known price (zml nodes shows prices)`);
  }
  if (total.compared_usd < total.usd) {
    lines.push(`savings compare ${usdText(total.compared_usd)} of ${usdText(total.usd)}: the rest has no baseline`);
  }
  if (total.baseline_assumed_usd > 0) {
    const share = shareText(total.baseline_assumed_usd / total.baseline_usd);
    lines.push(`${share} of the baseline stands on an assumed speed: no node of that family has been measured`);
  }
  return lines;
}

const named = (by: MoneyGroup): Column<Row> => ({
  title: by.toUpperCase(),
  rank: 0,
  least: 8,
  cell: ({ name }) => name,
});
const ACCOUNT: Column<Row> = { title: "ACCOUNT", rank: 5, least: 8, cell: ({ account }) => account ?? "" };

const COLUMNS: readonly Column<Row>[] = [
  { title: "USD", rank: 0, isRight: true, cell: ({ usd }) => usdText(usd) },
  { title: "USD/H", rank: 1, isRight: true, cell: ({ usd_per_hour: rate }) => usdText(rate) },
  { title: "FAILED", rank: 6, isRight: true, cell: ({ failed_usd: failed }) => usdText(failed) },
  { title: "ANSWERS", rank: 7, isRight: true, cell: ({ answers }) => String(answers) },
  { title: "USD/M IN", rank: 9, isRight: true, cell: (row) => usdText(row.usd_per_million_input_tokens) },
  { title: "USD/M OUT", rank: 3, isRight: true, cell: (row) => usdText(row.usd_per_million_output_tokens) },
  { title: "USD/M ALL", rank: 8, isRight: true, cell: (row) => usdText(row.usd_per_million_tokens) },
  {
    title: "SAVED",
    rank: 2,
    isRight: true,
    cell: (row) => (row.baseline_usd === 0 ? UNKNOWN : signed(row.savings_usd)),
    colour: (row) => (row.savings_usd > 0 ? "green" : row.savings_usd < 0 ? "yellow" : null),
  },
  { title: "SHARE", rank: 4, isRight: true, cell: ({ savings_share: share }) => shareText(share) },
];

function signed(usd: number): string {
  return usd < 0 ? `-${usdText(-usd)}` : usdText(usd);
}
