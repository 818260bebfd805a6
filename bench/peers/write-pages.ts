/** Puts the results of a run into the docs: tables and plot of overhead.md, and the column `measured` of benchmarks.md. */

import { readFileSync, writeFileSync } from "node:fs";
import { type Figure, judge, machineOf, told } from "../report.ts";
import { plotOf } from "./plot.ts";

const DOCS = new URL("../../docs/", import.meta.url);
const BEGIN = "<!-- results of bench:peers -->";
const END = "<!-- end of results -->";

/** Columns of the table of all gateways: title and figure, with the gateway left open. */
const COLUMNS: readonly (readonly [string, string])[] = [
  ["1 KB, µs", "cpu_us_per_answer{case=chat_1kb,proxy=*}"],
  ["fast stream, µs", "cpu_us_per_answer{case=stream_64_fast,proxy=*}"],
  ["paced stream, µs", "cpu_us_per_answer{case=stream_64_paced_20ms,proxy=*}"],
  ["per paced event, µs", "cpu_us_per_event{case=stream_64_paced_20ms,proxy=*}"],
  ["answers/s", "answers_per_second{case=chat_1kb,proxy=*}"],
  ["added P50, ms", "added_latency_p50_ms{rate=500,proxy=*}"],
  ["added P99, ms", "added_latency_p99_ms{rate=500,proxy=*}"],
  ["added first event, ms", "added_first_event_p50_ms{proxy=*}"],
  ["cold start, ms", "cold_start_to_first_200_ms{proxy=*}"],
  ["idle, MB", "idle_rss_mb{proxy=*}"],
];

const STREAMS: readonly (readonly [string, string])[] = [
  ["1,000, one event each 20 ms", "streams=1000,pace=paced"],
  ["10,000, one event a second", "streams=10000,pace=slow"],
];
const STREAM_FIGURES = [
  "open_streams_added_rss_mb",
  "lost_events",
  "cpu_us_per_event",
  "core_share",
  "first_event_p50_ms",
];

/** @param run `load` averages of the machine while it ran, one for each section */
export function writePages(figures: readonly Figure[], run: { rounds: number; load: readonly number[] }): void {
  const overhead = new URL("benchmarks/overhead.md", DOCS);
  const page = readFileSync(overhead, "utf8");
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin)
    throw new Error(`${overhead.pathname}: the marks around the results are gone: ${BEGIN} … ${END}`);
  writeFileSync(overhead, `${page.slice(0, begin + BEGIN.length)}\n${resultsOf(figures, run)}\n${page.slice(end)}`);
  writeFileSync(new URL("benchmarks/overhead.svg", DOCS), plotOf(figures));
  const goals = new URL("benchmarks.md", DOCS);
  writeFileSync(goals, withMeasured(readFileSync(goals, "utf8"), figures));
}

function resultsOf(figures: readonly Figure[], { rounds, load }: { rounds: number; load: readonly number[] }): string {
  const { cpu, cores, node } = machineOf();
  const values = new Map(figures.map(({ name, value }) => [name, value]));
  const gateways = [...new Set(figures.flatMap(({ name }) => /proxy=([^,}]+)/.exec(name)?.[1] ?? []))];
  const rows = gateways.map((gateway) => [
    gateway.replaceAll("_", " "),
    ...COLUMNS.map(([, name]) => told(values.get(name.replace("*", gateway)))),
  ]);
  const streams = STREAMS.flatMap(([title, labels]) =>
    gateways
      .filter((gateway) => values.has(`lost_events{${labels},proxy=${gateway}}`))
      .map((gateway) => [
        title,
        gateway,
        ...STREAM_FIGURES.map((name) => told(values.get(`${name}{${labels},proxy=${gateway}}`))),
      ]),
  );
  const when = new Date().toISOString().slice(0, 10);
  const loads = `${Math.min(...load).toFixed(1)} to ${Math.max(...load).toFixed(1)}`;
  return `
${cpu}, ${cores} cores, Node ${node.slice(1)}, ${when}, ${rounds} rounds, load average ${loads} (the bench itself makes 2).

${tableOf(["gateway", ...COLUMNS.map(([title]) => title)], rows)}

${tableOf(["streams", "gateway", "added memory, MB", "lost events", "CPU per event, µs", "cores in use", "first event P50, ms"], streams)}
`;
}

function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

/** Rows of goals whose figure was measured: \`name\`, goal, measured. */
function withMeasured(page: string, figures: readonly Figure[]): string {
  const judged = new Map(figures.map((figure) => [figure.name, judge(figure)]));
  return page.replace(/^\| `([^`]+)` \| ([^|]+) \| [^|]* \|$/gm, (row, name: string, goal: string) => {
    const figure = judged.get(name);
    return figure === undefined
      ? row
      : `| \`${name}\` | ${goal} | ${told(figure.value)}${figure.met === false ? ": missed" : ""} |`;
  });
}
