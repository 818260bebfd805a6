/** The report of a back-test for people: tables for a terminal. */

import type { BacktestReportJson } from "@zml/protocol/admin";
import { UNKNOWN } from "../nodes-words.ts";
import { type Column, tableLines } from "../table.ts";
import { type Colour, painted } from "../table-text.ts";

type FigureName = BacktestReportJson["comparison"][number]["figure"];

/** What a figure is called, and how its numbers are written. */
export const FIGURE_WORDS: Readonly<
  Record<FigureName, { readonly title: string; readonly kind: "usd" | "share" | "ms" }>
> = {
  usd: { title: "dollars", kind: "usd" },
  usd_per_million_output_tokens: { title: "dollars per million output tokens", kind: "usd" },
  attainment: { title: "targets met", kind: "share" },
  ttft_p50_ms: { title: "first token P50", kind: "ms" },
  ttft_p95_ms: { title: "first token P95", kind: "ms" },
  ttft_p99_ms: { title: "first token P99", kind: "ms" },
  token_p50_ms: { title: "token time P50", kind: "ms" },
  token_p95_ms: { title: "token time P95", kind: "ms" },
  token_p99_ms: { title: "token time P99", kind: "ms" },
  response_p50_ms: { title: "response P50", kind: "ms" },
  response_p95_ms: { title: "response P95", kind: "ms" },
  response_p99_ms: { title: "response P99", kind: "ms" },
  refused_share: { title: "refused", kind: "share" },
  queued_share: { title: "queued", kind: "share" },
  failed_share: { title: "failed", kind: "share" },
};

/** A figure with its unit. */
export function figureText(figure: FigureName, value: number | null): string {
  if (value === null) return UNKNOWN;
  switch (FIGURE_WORDS[figure].kind) {
    case "usd":
      return `$${value.toFixed(value < 1 ? 5 : 2)}`;
    case "share":
      return `${(value * 100).toFixed(2)} %`;
    case "ms":
      return value >= 10_000 ? `${(value / 1000).toFixed(1)} s` : `${value.toFixed(value < 100 ? 1 : 0)} ms`;
  }
}

/** What the draft changes: of shares in points, else in percent. */
export function changeText(row: BacktestReportJson["comparison"][number]): string {
  const { figure, current, difference, difference_interval: interval } = row;
  if (current === null || difference === null) return UNKNOWN;
  const isShare = FIGURE_WORDS[figure].kind === "share";
  const scale = isShare ? 100 : current === 0 ? Number.NaN : 100 / current;
  const signed = (value: number) => `${value > 0 ? "+" : ""}${(value * scale).toFixed(1)}`;
  if (Number.isNaN(scale)) return difference === 0 ? "0" : UNKNOWN;
  const unit = isShare ? " points" : " %";
  const [low, high] = interval ?? [];
  return low === undefined || high === undefined
    ? `${signed(difference)}${unit}`
    : `${signed(difference)}${unit} (${signed(low)} … ${signed(high)})`;
}

/** True when the interval of the difference leaves no doubt about its sign. */
export function isClear({ difference_interval: interval }: BacktestReportJson["comparison"][number]): boolean {
  const [low = 0, high = 0] = interval ?? [];
  return low > 0 || high < 0;
}

/** How far the replay is off what happened. */
export function offText({ figure, off }: BacktestReportJson["verdict"]["deviations"][number]): string {
  if (off === null) return UNKNOWN;
  const text = `${off > 0 ? "+" : ""}${(off * 100).toFixed(1)}`;
  return `${text} ${FIGURE_WORDS[figure].kind === "share" ? "points" : "%"}`;
}

const GRADE_COLOURS: Readonly<Record<BacktestReportJson["verdict"]["grade"], Colour>> = {
  close: "green",
  rough: "yellow",
  far: "red",
};

interface Row {
  readonly title: string;
  readonly happened: string;
  readonly current: string;
  readonly off: string;
  readonly draft: string;
  readonly change: string;
  readonly isClear: boolean;
}

/** @param width of the window, characters. */
export function backtestLines(report: BacktestReportJson, width: number, isColoured: boolean): string[] {
  const { window, drafts, verdict, warnings } = report;
  const named = drafts.map(({ policy, replaces, requests }) =>
    policy === replaces ? `${policy} (${requests} requests)` : `${policy} for ${replaces} (${requests} requests)`,
  );
  const rows = report.comparison.map((row, index): Row => {
    const deviation = verdict.deviations[index];
    return {
      title: FIGURE_WORDS[row.figure].title,
      happened: figureText(row.figure, deviation?.happened ?? null),
      current: figureText(row.figure, row.current),
      off: deviation === undefined ? UNKNOWN : offText(deviation),
      draft: figureText(row.figure, row.draft),
      change: changeText(row),
      isClear: isClear(row),
    };
  });
  const families = Object.keys(report.figures.current.families)
    .filter((family) =>
      [report.figures.happened, report.figures.current, report.figures.draft].some(
        (run) => (run.families[family] ?? 0) > 0,
      ),
    )
    .map((family): Row => {
      const share = (run: { readonly families: Readonly<Record<string, number>> }) => run.families[family] ?? 0;
      const { happened, current, draft } = report.figures;
      const text = (value: number) => `${(value * 100).toFixed(1)} %`;
      const signed = (value: number) => `${value > 0 ? "+" : ""}${(value * 100).toFixed(1)} points`;
      return {
        title: `on ${family}`,
        happened: text(share(happened)),
        current: text(share(current)),
        off: signed(share(current) - share(happened)),
        draft: text(share(draft)),
        change: signed(share(draft) - share(current)),
        isClear: false,
      };
    });
  const { lines } = tableLines(COLUMNS, [...rows, ...families], { width, isColoured });
  const newTargets = report.attainment_of_draft_targets;
  const byDraft =
    newTargets.current === report.figures.current.attainment && newTargets.draft === report.figures.draft.attainment
      ? []
      : [
          `by the draft's own targets: ${figureText("attainment", newTargets.current)} now, ${figureText("attainment", newTargets.draft)} with the draft`,
        ];
  return [
    `${window.requests} requests from ${window.from} to ${window.to}; draft: ${named.join(", ")}`,
    painted(verdict.text, isColoured, GRADE_COLOURS[verdict.grade]),
    ...warnings.map((warning) => painted(`warning: ${warning}`, isColoured, "yellow")),
    "",
    ...lines,
    "",
    ...byDraft,
    "happened: as recorded; current, draft: replayed; intervals hold 95 %",
  ];
}

const COLUMNS: readonly Column<Row>[] = [
  { title: "FIGURE", rank: 0, cell: ({ title }) => title },
  { title: "HAPPENED", rank: 1, isRight: true, cell: ({ happened }) => happened },
  { title: "CURRENT", rank: 0, isRight: true, cell: ({ current }) => current },
  { title: "OFF BY", rank: 2, isRight: true, cell: ({ off }) => off },
  { title: "DRAFT", rank: 0, isRight: true, cell: ({ draft }) => draft },
  {
    title: "DRAFT AGAINST CURRENT",
    rank: 0,
    isRight: true,
    cell: ({ change }) => change,
    colour: (row) => (row.isClear ? "green" : null),
  },
];
