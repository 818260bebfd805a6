/** The frame of the terminal view, and the line for where there is no terminal. Pure: same view, same text. */
import { styleText } from "node:util";

export type NodeLine = {
  readonly id: string;
  readonly family: string;
  readonly engine: string;
  readonly state: string;
  readonly depth: number;
  readonly tokensPerSecond: number;
  readonly healthScore: number;
  readonly usdPerHour: number;
  /** Of the latest answers. */
  readonly share: number;
};

export type PolicyLine = {
  readonly name: string;
  readonly costPriority: string;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly targetMs: number;
  readonly attainment: number;
  readonly usdPerMillionTokens: number;
  readonly redispatched: number;
  /** Answers by family. */
  readonly families: ReadonlyMap<string, number>;
};

export type DemoView = {
  readonly elapsedMs: number;
  readonly sent: number;
  readonly open: number;
  readonly failed: number;
  readonly redispatched: number;
  readonly nodes: readonly NodeLine[];
  readonly policies: readonly PolicyLine[];
  /** With the time they happened in front; the newest last. */
  readonly events: readonly string[];
  /** All that happened; `events` are the newest of them. */
  readonly eventCount: number;
};

export type FrameOptions = { readonly width: number; readonly isColoured: boolean; readonly height?: number };

type Style = Parameters<typeof styleText>[0];
type Cell = { readonly text: string; readonly style?: Style };
type Column<Row> = {
  readonly title: string;
  readonly isRight?: boolean;
  /** Where it is too narrow, columns with the least go first. */
  readonly worth: number;
  cell(row: Row): Cell;
};

const STATE_STYLES: Readonly<Record<string, Style>> = { healthy: "green", unhealthy: "red" };
const BAR_CELLS = 8;
/** Depth of a full bar when no node has more. */
const BAR_DEPTH_MIN = 8;
const EVENTS_SHOWN = 6;
const GAP = "  ";

/** Lines of the frame, none wider than `width` and at most `height` of them. */
export function renderFrame(view: DemoView, { width, isColoured, height = Infinity }: FrameOptions): string[] {
  const paint = (text: string, style: Style | undefined): string =>
    isColoured && style !== undefined ? styleText(style, text, { validateStream: false }) : text;
  const lines = [
    paint(cut(headline(view), width), "bold"),
    "",
    ...table(view.nodes, nodeColumns(view.nodes), width, paint),
    "",
    ...table(view.policies, POLICY_COLUMNS, width, paint),
    "",
  ];
  const room = Math.max(0, Math.min(EVENTS_SHOWN, height - lines.length));
  const events = room === 0 ? [] : view.events.slice(-room);
  return [...lines, ...events.map((event) => cut(event, width))].slice(0, height);
}

/** One line for output that is no terminal. */
export function renderLine(view: DemoView): string {
  const policies = view.policies.map(
    ({ name, p95Ms, targetMs, usdPerMillionTokens }) =>
      `${name} p95 ${secondsOf(p95Ms)}/${secondsOf(targetMs)} s $${fixed(usdPerMillionTokens, 2)}/M`,
  );
  const down = view.nodes.filter((node) => node.state !== "healthy").map((node) => `${node.id} ${node.state}`);
  return [headline(view), ...policies, ...down].join(" | ");
}

function headline({ elapsedMs, sent, open, failed, redispatched }: DemoView): string {
  const time = (elapsedMs / 1000).toFixed(1).padStart(6);
  return `${time} s  ${sent} calls, ${open} open, ${failed} failed, ${redispatched} re-dispatched`;
}

function nodeColumns(nodes: readonly NodeLine[]): readonly Column<NodeLine>[] {
  const depths = nodes.map(({ depth }) => depth).filter((depth) => !Number.isNaN(depth));
  const full = Math.max(BAR_DEPTH_MIN, ...depths);
  return [
    { title: "node", worth: 10, cell: ({ id }) => ({ text: id }) },
    { title: "family", worth: 8, cell: ({ family }) => ({ text: family }) },
    { title: "engine", worth: 1, cell: ({ engine }) => ({ text: engine }) },
    { title: "state", worth: 9, cell: ({ state }) => ({ text: state, style: STATE_STYLES[state] ?? "yellow" }) },
    { title: "", worth: 2, cell: ({ depth }) => ({ text: bar(depth / full), style: "cyan" }) },
    { title: "depth", worth: 7, isRight: true, cell: ({ depth }) => ({ text: fixed(depth, 0) }) },
    { title: "tokens/s", worth: 6, isRight: true, cell: (node) => ({ text: fixed(node.tokensPerSecond, 0) }) },
    { title: "health", worth: 4, isRight: true, cell: ({ healthScore }) => ({ text: fixed(healthScore, 0) }) },
    { title: "$/h", worth: 3, isRight: true, cell: ({ usdPerHour }) => ({ text: fixed(usdPerHour, 2) }) },
    { title: "share", worth: 5, isRight: true, cell: ({ share }) => ({ text: percent(share, 0) }) },
  ];
}

const POLICY_COLUMNS: readonly Column<PolicyLine>[] = [
  { title: "policy", worth: 10, cell: ({ name }) => ({ text: name }) },
  { title: "priority", worth: 2, cell: ({ costPriority }) => ({ text: costPriority }) },
  { title: "p50 s", worth: 4, isRight: true, cell: ({ p50Ms }) => ({ text: secondsOf(p50Ms) }) },
  { title: "p95 s", worth: 8, isRight: true, cell: ({ p95Ms }) => ({ text: secondsOf(p95Ms) }) },
  { title: "target s", worth: 7, isRight: true, cell: ({ targetMs }) => ({ text: secondsOf(targetMs) }) },
  {
    title: "attained",
    worth: 6,
    isRight: true,
    cell: ({ attainment }) => ({ text: percent(attainment, 1), style: attainment >= 0.95 ? "green" : "yellow" }),
  },
  { title: "$/M tokens", worth: 9, isRight: true, cell: (row) => ({ text: fixed(row.usdPerMillionTokens, 3) }) },
  { title: "re-disp.", worth: 5, isRight: true, cell: ({ redispatched }) => ({ text: String(redispatched) }) },
  { title: "families", worth: 1, cell: ({ families }) => ({ text: familyShares(families) }) },
];

function table<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  width: number,
  paint: (text: string, style: Style | undefined) => string,
): string[] {
  let kept = columns.map((column) => {
    const cells = rows.map((row) => column.cell(row));
    const size = Math.max(column.title.length, ...cells.map(({ text }) => text.length));
    return { column, cells, size };
  });
  const total = () => kept.reduce((sum, { size }) => sum + size + GAP.length, -GAP.length);
  while (kept.length > 1 && total() > width) {
    const least = Math.min(...kept.map(({ column }) => column.worth));
    kept = kept.filter(({ column }) => column.worth !== least);
  }
  const line = (cells: readonly Cell[]): string =>
    cells
      .map(({ text, style }, index) => {
        const { column, size } = kept[index] ?? { column: undefined, size: 0 };
        const padded = column?.isRight === true ? text.padStart(size) : text.padEnd(size);
        return paint(cut(index === cells.length - 1 ? padded.trimEnd() : padded, width), style);
      })
      .join(GAP)
      .trimEnd();
  return [
    line(kept.map(({ column }) => ({ text: column.title, style: "dim" }))),
    ...rows.map((_, row) => line(kept.map(({ cells }) => cells[row] ?? { text: "" }))),
  ];
}

function familyShares(families: ReadonlyMap<string, number>): string {
  const total = [...families.values()].reduce((sum, count) => sum + count, 0);
  return [...families]
    .sort((a, b) => b[1] - a[1])
    .map(([family, count]) => `${family} ${percent(count / total, 0)}`)
    .join(", ");
}

function bar(share: number): string {
  const filled = Number.isNaN(share) ? 0 : Math.min(BAR_CELLS, Math.ceil(share * BAR_CELLS));
  return "█".repeat(filled) + "·".repeat(BAR_CELLS - filled);
}

function fixed(value: number, digits: number): string {
  if (Number.isNaN(value)) return "-";
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function percent(share: number, digits: number): string {
  return Number.isNaN(share) ? "-" : `${fixed(share * 100, digits)} %`;
}

function secondsOf(ms: number): string {
  return fixed(ms / 1000, 2);
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}
