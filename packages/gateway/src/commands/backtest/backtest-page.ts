/**
 * The report of a back-test as one page: tables and plots, light and dark, without a script and without a request to
 * anybody. Every name on it is somebody's input and is escaped.
 */

import type { BacktestReportJson } from "@zml/protocol/admin";
import { changeText, FIGURE_WORDS, figureText, isClear, offText } from "./backtest-text.ts";

const RUNS = ["happened", "current", "draft"] as const;
type Run = (typeof RUNS)[number];
type Runs<T> = Readonly<Record<Run, T>>;

/** The whole page. */
export function backtestPage(report: BacktestReportJson): string {
  const { window, verdict, warnings, drafts, figures } = report;
  const families = Object.keys(figures.current.families).filter((name) =>
    RUNS.some((run) => (figures[run].families[name] ?? 0) > 0),
  );
  const names = drafts.map(({ policy }) => policy).join(", ");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>Back-test of ${escaped(names)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Back-test of ${escaped(names)}</h1>
<p>${window.requests} requests from <time>${window.from}</time> to <time>${window.to}</time>.
${drafts.map(({ policy, replaces, requests }) => `<strong>${escaped(policy)}</strong> stands for ${escaped(replaces)} (${requests} requests).`).join(" ")}</p>
<p class="verdict ${verdict.grade}" role="status">${escaped(verdict.text)}.</p>
${warnings.length === 0 ? "" : `<ul class="warnings">${warnings.map((warning) => `<li>${escaped(warning)}</li>`).join("")}</ul>`}
<h2>What the draft changes</h2>
${comparisonTable(report)}
<p class="note">Happened: as recorded. Current and draft: replayed. Intervals hold 95 %.</p>
<h2>Times</h2>
<div class="plots">
${curvePlot("Response", report.curves.shares, report.curves.response_ms)}
${curvePlot("First token of streams", report.curves.shares, report.curves.ttft_ms)}
</div>
<h2>Families</h2>
${familyBars(families, report)}
<h2>Over the window</h2>
<div class="plots">
${seriesPlot("Dollars", report.series.every_ms, report.series.usd, (value) => `$${value.toPrecision(3)}`)}
${seriesPlot("Response P95", report.series.every_ms, report.series.response_p95_ms, msText)}
</div>
<h2>Policies</h2>
${policyTable(report)}
<h2>How nodes were modelled</h2>
${timingTable(report)}
<p class="note">Fitted on the recorded attempts; single attempts that stay where they were are off by the median error.</p>
</main>
</body>
</html>
`;
}

const STYLE = `
:root{--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--back:#fff;--happened:#6e7781;--current:#0969da;--draft:#bc4c00;--good:#1a7f37;--warn:#9a6700;--bad:#cf222e}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b1;--line:#30363d;--back:#0d1117;--happened:#8b949e;--current:#58a6ff;--draft:#ffa657;--good:#3fb950;--warn:#d29922;--bad:#ff7b72}}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:24px 16px}
h1{font-size:24px}h2{font-size:18px;margin-top:32px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
th,td{text-align:right;padding:4px 8px;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left}
th{color:var(--soft);font-weight:600}
.clear{font-weight:600;color:var(--draft)}
.note{color:var(--soft);font-size:13px}
.verdict{border-left:4px solid;padding:8px 12px}
.close{border-color:var(--good)}.rough{border-color:var(--warn)}.far{border-color:var(--bad)}
.warnings{color:var(--warn)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:16px}
figure{margin:0}figcaption{color:var(--soft);font-size:13px}
svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font-size:11px}
.grid{stroke:var(--line);stroke-width:1}
.happened{stroke:var(--happened)}.current{stroke:var(--current)}.draft{stroke:var(--draft)}
.curve{fill:none;stroke-width:2}.curve.happened{stroke-dasharray:4 3}
.bar.happened,.key.happened{fill:var(--happened);stroke:none;background:var(--happened)}
.bar.current,.key.current{fill:var(--current);stroke:none;background:var(--current)}
.bar.draft,.key.draft{fill:var(--draft);stroke:none;background:var(--draft)}
.key{display:inline-block;width:10px;height:10px;margin:0 4px 0 12px}
`;

function comparisonTable({ comparison, verdict }: BacktestReportJson): string {
  const rows = comparison.map((row, index) => {
    const deviation = verdict.deviations[index];
    const off = deviation === undefined ? "" : offText(deviation);
    return [
      FIGURE_WORDS[row.figure].title,
      figureText(row.figure, deviation?.happened ?? null),
      figureText(row.figure, row.current),
      off,
      figureText(row.figure, row.draft),
      isClear(row) ? { text: changeText(row), mark: "clear" } : changeText(row),
    ];
  });
  return table(["", "happened", "current", "off by", "draft", "draft against current"], rows);
}

function policyTable({ policies }: BacktestReportJson): string {
  const rows = policies.map(({ account, policy, is_draft: isDraft, figures }) => {
    const pair = (of: (run: Run) => string) => `${of("current")} → ${of("draft")}`;
    return [
      `${account === "default" ? "" : `${account}/`}${policy}${isDraft ? " (draft)" : ""}`,
      String(figures.current.requests),
      pair((run) => figureText("usd", figures[run].usd)),
      pair((run) => figureText("attainment", figures[run].attainment)),
      pair((run) => figureText("response_p50_ms", figures[run].response_ms.p50)),
      pair((run) => figureText("response_p95_ms", figures[run].response_ms.p95)),
      pair((run) => String(figures[run].refused)),
    ];
  });
  return table(["policy", "requests", "dollars", "targets met", "response P50", "response P95", "refused"], rows);
}

function timingTable({ timings }: BacktestReportJson): string {
  const part = (value: number | null) => (value === null ? "–" : `${(value * 100).toFixed(1)} %`);
  const rows = timings.map((timing) => [
    `${timing.model} on ${timing.family}`,
    timing.attempts === 0 ? "none" : String(timing.attempts),
    `${timing.step_ms.toFixed(2)} ms`,
    `${timing.per_sequence_us.toFixed(1)} µs`,
    `${timing.per_cached_token_ns.toFixed(1)} ns`,
    `${timing.per_prompt_token_us.toFixed(1)} µs`,
    `${timing.overhead_ms.toFixed(1)} ms`,
    part(timing.token_error),
    part(timing.response_error),
  ]);
  const head = ["", "attempts", "step", "+ per sequence", "+ per cached token", "per prompt token", "overhead"];
  return table([...head, "token error", "response error"], rows);
}

type Cell = string | { readonly text: string; readonly mark: string };

function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cell = (value: Cell) =>
    typeof value === "string" ? `<td>${escaped(value)}</td>` : `<td class="${value.mark}">${escaped(value.text)}</td>`;
  return `<div class="scroll" tabindex="0"><table><thead><tr>${head.map((text) => `<th scope="col">${escaped(text)}</th>`).join("")}</tr></thead><tbody>${rows
    .map((row) => `<tr>${row.map(cell).join("")}</tr>`)
    .join("")}</tbody></table></div>`;
}

const WIDTH = 480;
const HEIGHT = 260;
const LEFT = 56;
const BOTTOM = 28;
const TOP = 10;

/** Cumulative shares over time, on a logarithmic axis. */
function curvePlot(title: string, shares: readonly number[], runs: Runs<readonly (number | null)[]>): string {
  const all = RUNS.flatMap((run) => runs[run]).filter((value): value is number => value !== null && value > 0);
  if (all.length === 0) return figure(`${title}: nothing to show`, "");
  const [least, most] = [Math.log(Math.min(...all)), Math.log(Math.max(...all) * 1.01)];
  const x = (ms: number) => LEFT + ((Math.log(ms) - least) / Math.max(1e-9, most - least)) * (WIDTH - LEFT - 10);
  const y = (share: number) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const curves = RUNS.map((run) => {
    const points = shares.flatMap((share, index) => {
      const ms = runs[run][index];
      return ms == null ? [] : [`${x(ms).toFixed(1)},${y(share).toFixed(1)}`];
    });
    return `<polyline class="curve ${run}" points="${points.join(" ")}"/>`;
  });
  const ticks = [0, 1, 2, 3, 4].map((tick) => {
    const ms = Math.exp(least + (tick / 4) * (most - least));
    return `<text x="${x(ms).toFixed(1)}" y="${HEIGHT - 8}" text-anchor="middle">${msText(ms)}</text>`;
  });
  const levels = [0, 0.5, 0.95, 1].map(
    (share) =>
      `<line class="grid" x1="${LEFT}" x2="${WIDTH - 10}" y1="${y(share)}" y2="${y(share)}"/><text x="${LEFT - 6}" y="${y(share) + 4}" text-anchor="end">${share * 100} %</text>`,
  );
  return figure(`${title}: share of the requests that were over by then`, [...levels, ...ticks, ...curves].join(""));
}

/** A number for each part of the window. */
function seriesPlot(
  title: string,
  everyMs: number,
  runs: Runs<readonly (number | null)[]>,
  textOf: (value: number) => string,
): string {
  const all = RUNS.flatMap((run) => runs[run]).filter((value): value is number => value !== null);
  const most = Math.max(1e-12, ...all) * 1.05;
  const count = Math.max(2, runs.current.length);
  const x = (index: number) => LEFT + (index / (count - 1)) * (WIDTH - LEFT - 10);
  const y = (value: number) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const curves = RUNS.map((run) => {
    const points = runs[run].flatMap((value, index) =>
      value === null ? [] : [`${x(index).toFixed(1)},${y(value).toFixed(1)}`],
    );
    return `<polyline class="curve ${run}" points="${points.join(" ")}"/>`;
  });
  const levels = [0, 0.5, 1].map((share) => {
    const value = most * share;
    return `<line class="grid" x1="${LEFT}" x2="${WIDTH - 10}" y1="${y(value)}" y2="${y(value)}"/><text x="${LEFT - 6}" y="${y(value) + 4}" text-anchor="end">${textOf(value)}</text>`;
  });
  const ends = `<text x="${LEFT}" y="${HEIGHT - 8}">0</text><text x="${WIDTH - 10}" y="${HEIGHT - 8}" text-anchor="end">${msText(everyMs * count)}</text>`;
  return figure(title, [...levels, ends, ...curves].join(""));
}

function familyBars(families: readonly string[], { figures }: BacktestReportJson): string {
  const rowHeight = 46;
  const height = families.length * rowHeight + 10;
  const bars = families.flatMap((name, index) => {
    const top = index * rowHeight + 4;
    return [
      `<text x="100" y="${top + 24}" text-anchor="end">${escaped(name)}</text>`,
      ...RUNS.map((run, position) => {
        const share = figures[run].families[name] ?? 0;
        const at = top + position * 12;
        return `<rect class="bar ${run}" x="108" y="${at}" width="${(share * 300).toFixed(1)}" height="10"/><text x="${(114 + share * 300).toFixed(1)}" y="${at + 9}">${(share * 100).toFixed(1)} %</text>`;
      }),
    ];
  });
  return figure("Share of the served requests", bars.join(""), height);
}

function figure(caption: string, content: string, height = HEIGHT): string {
  const keys = RUNS.map((run) => `<span class="key ${run}"></span>${run}`).join("");
  return `<figure><svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(caption)}">${content}</svg><figcaption>${escaped(caption)}.${keys}</figcaption></figure>`;
}

function msText(ms: number): string {
  if (ms >= 3_600_000) return `${(ms / 3_600_000).toFixed(1)} h`;
  if (ms >= 120_000) return `${(ms / 60_000).toFixed(0)} min`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms.toPrecision(2)} ms`;
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}
