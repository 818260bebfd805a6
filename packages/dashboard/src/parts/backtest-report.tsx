/** What a replay found: how far it can be believed, and the draft beside what is in force. */

import type { BacktestReportJson } from "@zml/protocol/admin";
import { count, dateAndTime, ms, percent, plain, usd } from "../words.ts";
import { Bar } from "./bar.tsx";
import { Card } from "./card.tsx";
import { Chart } from "./chart.tsx";
import { Head } from "./head.tsx";

export function BacktestReport({ report }: { report: BacktestReportJson }) {
  const { window, verdict, warnings, series } = report;
  const from = Date.parse(window.from);
  const atMs = series.usd.current.map((_, at) => from + at * series.every_ms);
  return (
    <>
      <Card title="How far it can be believed">
        <p>
          <span class={`state ${GRADES[verdict.grade] ?? ""}`}>{verdict.grade}</span> {verdictText(verdict)}
        </p>
        <p class="quiet">
          {count(window.requests)} requests from {dateAndTime(from)} to {dateAndTime(Date.parse(window.to))}
          {window.lost > 0 && `; ${count(window.lost)} records were lost (${percent(window.lost_share)})`}
        </p>
        {warnings.map((warning) => (
          <p key={warning} class="alarm warn">
            {warning}
          </p>
        ))}
      </Card>
      <Comparison report={report} />
      <div class="columns">
        <Chart
          title="Dollars"
          atMs={atMs}
          lines={[
            { label: "in force", values: series.usd.current, colour: 0 },
            { label: "draft", values: series.usd.draft, colour: 3 },
          ]}
          format={usd}
        />
        <Chart
          title="Response time, 95th percentile"
          atMs={atMs}
          lines={[
            { label: "in force", values: series.response_p95_ms.current, colour: 0 },
            { label: "draft", values: series.response_p95_ms.draft, colour: 3 },
          ]}
          format={ms}
        />
      </div>
      <Families report={report} />
    </>
  );
}

const GRADES: Readonly<Record<string, string>> = { close: "ok", rough: "waiting", far: "failing" };

function Comparison({ report }: { report: BacktestReportJson }) {
  return (
    <Card title="Draft beside what is in force">
      <div class="wide">
        <table class="figures">
          <thead>
            <tr>
              <Head title="Figure" />
              <Head title="Happened" isNumber isMinor />
              <Head title="In force" isNumber />
              <Head title="Draft" isNumber />
              <Head title="Difference" isNumber />
              <Head title="95 % of it" isNumber isMinor />
            </tr>
          </thead>
          <tbody>
            {report.comparison.map(({ figure, current, draft, difference, difference_interval }) => {
              const format = formatOf(figure);
              const happened = report.verdict.deviations.find((deviation) => deviation.figure === figure)?.happened;
              return (
                <tr key={figure}>
                  <th scope="row">{titleOf(figure)}</th>
                  <td class="number minor">{format(happened)}</td>
                  <td class="number">{format(current)}</td>
                  <td class="number">{format(draft)}</td>
                  <td class="number">{format(difference)}</td>
                  <td class="number minor quiet">
                    {difference_interval === null
                      ? "–"
                      : `${format(difference_interval[0])} to ${format(difference_interval[1])}`}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function Families({ report: { figures } }: { report: BacktestReportJson }) {
  const names = new Set([...Object.keys(figures.current.families), ...Object.keys(figures.draft.families)]);
  return (
    <Card title="Families">
      <table>
        <thead>
          <tr>
            <Head title="Family" />
            <Head title="In force" isNumber />
            <Head title="Draft" isNumber />
          </tr>
        </thead>
        <tbody>
          {[...names].sort().map((name) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {[figures.current, figures.draft].map(({ families }, at) => (
                <td key={at} class="number">
                  <Bar share={families[name] ?? 0} />
                  <span class="figure">{percent(families[name] ?? 0)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function formatOf(figure: string): (value: number | null | undefined) => string {
  if (figure.startsWith("usd")) return usd;
  return figure.endsWith("_ms") ? ms : percent;
}

const TITLES: Readonly<Record<string, string>> = {
  usd: "dollars",
  usd_per_million_output_tokens: "dollars per million output tokens",
  attainment: "targets met",
};

const TIMES: Readonly<Record<string, string>> = { ttft: "first token", token: "token time" };

/** `ttft_p95_ms` → `first token P95`, as `zml backtest` calls it. */
function titleOf(figure: string): string {
  const [, time = "", percentile] = /^([a-z]+)_p(\d+)_ms$/.exec(figure) ?? [];
  if (percentile !== undefined) return `${TIMES[time] ?? time} P${percentile}`;
  return TITLES[figure] ?? plain(figure.replace(/_share$/, ""));
}

/** The verdict with figures as they are called here. */
function verdictText({ text, deviations }: BacktestReportJson["verdict"]): string {
  return deviations.reduce((told, { figure }) => told.replace(`(${figure} is off`, `(${titleOf(figure)} is off`), text);
}
