/** The fleet as a table, and below it why cells are unknown. Pure. */

import type { FleetReportJson, NodeReportJson } from "../control/fleet-report.ts";
import { ageText, counted, numberText, shareText, UNKNOWN, usdText } from "./nodes-words.ts";
import { type Column, tableLines } from "./table.ts";
import { type Colour, oneLine, wrapped } from "./table-text.ts";
import { WHY_WORDS } from "./unknown-words.ts";

/** What of a fleet is shown. */
export interface NodesFilter {
  readonly family?: string;
  readonly model?: string;
  readonly state?: string;
  readonly id?: string;
}

export interface TableOptions {
  /** Characters of a line; Infinity: any. */
  readonly width: number;
  readonly isColoured: boolean;
  /** Rows; Infinity: all. */
  readonly limit: number;
}

/** The nodes of a report that the filter lets through, in the report's order. */
export function filterNodes({ nodes }: FleetReportJson, filter: NodesFilter): NodeReportJson[] {
  const { family, model, state, id } = filter;
  return nodes.filter(
    (node) =>
      (id === undefined || node.id === id) &&
      (family === undefined || node.family === family) &&
      (model === undefined || node.models.includes(model)) &&
      (state === undefined || node.state === state),
  );
}

/** Lines of the table, of the totals, and of the reasons. */
export function nodesTable(
  report: FleetReportJson,
  shown: readonly NodeReportJson[],
  { width, isColoured, limit }: TableOptions,
): string[] {
  const rows = shown.slice(0, limit);
  const { lines, left } = tableLines(COLUMNS, rows, { width, isColoured });
  const notes: string[] = [];
  if (shown.length > rows.length) {
    notes.push(
      `… and ${counted(shown.length - rows.length, "node")} more: --family, --model, --state choose, --limit 0 shows all`,
    );
  }
  if (left.length > 0) notes.push(`left out at ${width} columns: ${left.join(", ")} (--wide shows all)`);
  return [
    ...(rows.length > 0 ? lines : wrapped(nobody(report), width)),
    ...[...notes, totalsLine(report, shown), ...whyLines(rows, left)].flatMap((line) => wrapped(line, width)),
  ];
}

/** What there is to choose from, for somebody who chose what is not there. */
function nobody({ nodes }: FleetReportJson): string {
  if (nodes.length === 0) return "there is no node: write some under nodes or discovery";
  const named = (names: Iterable<string>) => {
    const all = [...new Set(names)].sort();
    return `${all.slice(0, CHOICES_MAX).join(", ")}${all.length > CHOICES_MAX ? ", …" : ""}`;
  };
  const families = named(nodes.map(({ family }) => family));
  const models = named(nodes.flatMap((node) => node.models));
  return oneLine(`no node fits: the families are ${families}; the models are ${models === "" ? UNKNOWN : models}`);
}

/** Names that are listed in one line. */
const CHOICES_MAX = 20;

const COLUMNS: readonly Column<NodeReportJson>[] = [
  { title: "NODE", rank: 0, least: 12, cell: ({ id }) => id },
  { title: "FAMILY", rank: 1, least: 8, cell: ({ family }) => family },
  { title: "ENGINE", rank: 5, least: 10, cell: engineText },
  { title: "STATE", rank: 0, least: 12, cell: stateText, colour: stateColour },
  { title: "DEPTH", rank: 0, isRight: true, cell: (node) => `${numberText(node.depth)}/${node.max_in_flight}` },
  { title: "WAIT", rank: 3, isRight: true, cell: ({ waiting }) => numberText(waiting) },
  { title: "TOK/S", rank: 2, isRight: true, cell: speedText },
  { title: "STREAM", rank: 7, isRight: true, cell: streamText },
  {
    title: "HEALTH",
    rank: 4,
    isRight: true,
    cell: ({ health_score: score }) => numberText(score === null ? null : Math.round(score)),
  },
  { title: "KV", rank: 6, isRight: true, cell: ({ kv_use: use }) => shareText(use) },
  { title: "USD/H", rank: 8, isRight: true, cell: ({ price_usd_per_hour: price }) => usdText(price) },
  { title: "PRICE AGE", rank: 10, isRight: true, cell: ({ price_age_ms: age }) => ageText(age) },
  { title: "AGE", rank: 2, isRight: true, cell: ({ data_age_ms: age }) => ageText(age) },
  { title: "MODELS", rank: 9, least: 10, cell: ({ models }) => (models.length === 0 ? UNKNOWN : models.join(", ")) },
];

/** Cells of the table that the report gives a reason for, by the title of their column. */
const REASONED = {
  engine: ["engine", "version"],
  wait: ["waiting"],
  "tok/s": ["measured_tokens_per_second"],
  stream: ["measured_stream_tokens_per_second"],
  health: ["health_score"],
  kv: ["kv_use"],
  "usd/h": ["price_usd_per_hour"],
  age: ["data_age_ms"],
} as const;

function engineText({ engine, version }: NodeReportJson): string {
  return engine === null ? UNKNOWN : `${engine} ${version ?? UNKNOWN}`;
}

/** The state, and why. */
export function stateText(node: NodeReportJson): string {
  const { state, state_detail: detail, cooldown_remaining_ms: remainingMs } = node;
  if (state === "cooling_down") return `${state} ${ageText(remainingMs)}`;
  return detail === null ? state : `${state} (${detail})`;
}

/** Green takes traffic, yellow takes some or may soon, red takes none. */
export function stateColour({ state, state_detail: detail }: NodeReportJson): Colour {
  if (state === "healthy") return detail === null ? "green" : "yellow";
  return state === "unhealthy" ? "red" : "yellow";
}

/** What decisions use; `~`: nobody has measured it, it is assumed. */
function speedText({ tokens_per_second: speed, measured_tokens_per_second: measured }: NodeReportJson): string {
  return (measured === null && speed !== null ? "~" : "") + numberText(speed);
}

function streamText(node: NodeReportJson): string {
  const { stream_tokens_per_second: speed, measured_stream_tokens_per_second: measured } = node;
  return (measured === null && speed !== null ? "~" : "") + numberText(speed);
}

function totalsLine({ totals, nodes }: FleetReportJson, shown: readonly NodeReportJson[]): string {
  const healthy = shown.filter(({ state }) => state === "healthy").length;
  const sum = (of: (node: NodeReportJson) => number | null) =>
    shown.reduce((total, node) => total + (of(node) ?? 0), 0);
  const priced = shown.filter(({ price_usd_per_hour: price }) => price !== null);
  const price = priced.length === 0 ? UNKNOWN : usdText(sum((node) => node.price_usd_per_hour));
  const unpriced = shown.length - priced.length;
  const isAssumed = shown.some((node) => node.tokens_per_second !== null && node.measured_tokens_per_second === null);
  const parts = [
    shown.length === nodes.length
      ? counted(shown.length, "node")
      : `${shown.length} of ${counted(nodes.length, "node")}`,
    `${healthy} healthy`,
    `depth ${sum((node) => node.depth)}`,
    `${isAssumed ? "~" : ""}${numberText(sum((node) => node.tokens_per_second))} tokens/s`,
    `USD ${price}/h${unpriced > 0 && priced.length > 0 ? ` and ${unpriced} without a price` : ""}`,
    `${totals.parked} parked`,
    `${totals.listening_workers} of ${counted(totals.workers, "worker")}`,
  ];
  return parts.join(", ");
}

/** Nodes that a reason names. */
const NAMED_MAX = 3;

/** A line for each reason and set of nodes: what is unknown, why, of which nodes. */
function whyLines(rows: readonly NodeReportJson[], left: readonly string[]): string[] {
  const reasons = new Map<string, { title: string; words: string; ids: string[] }>();
  for (const { id, unknown } of rows) {
    for (const [title, cells] of Object.entries(REASONED)) {
      if (left.includes(title)) continue;
      for (const cell of cells) {
        const why = unknown[cell];
        if (why === undefined) continue;
        const mark = title === "tok/s" || title === "stream" ? "~" : UNKNOWN;
        const reason = reasons.get(`${why} ${title}`) ?? { title, words: `${mark} ${WHY_WORDS[why]}`, ids: [] };
        if (reason.ids.at(-1) !== id) reason.ids.push(id);
        reasons.set(`${why} ${title}`, reason);
      }
    }
  }
  // columns that the same nodes lack for the same reason share a line; others don't, or it would name too many
  const lines = new Map<string, { titles: string[]; words: string; ids: readonly string[] }>();
  for (const { title, words, ids } of reasons.values()) {
    const key = [words, ...ids].join("\n");
    const line = lines.get(key);
    if (line === undefined) lines.set(key, { titles: [title], words, ids });
    else line.titles.push(title);
  }
  return [...lines.values()].map(({ titles, words, ids }) => {
    const more = ids.length > NAMED_MAX ? ` and ${ids.length - NAMED_MAX} more` : "";
    return oneLine(`${words}: ${titles.join(", ")} of ${ids.slice(0, NAMED_MAX).join(", ")}${more}`);
  });
}
