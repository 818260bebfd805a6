/** `zml prices`: the price feeds and the provider cost table of a running gateway. */

import { nearestName } from "@zml/protocol";
import type { PricesReportJson } from "../cost/index.ts";
import { type AdminOptions, askAdmin, tellProblem } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import { ageText, counted, numberText, UNKNOWN, usdText } from "./nodes-words.ts";
import { type Column, tableLines } from "./table.ts";
import { type Colour, oneLine, painted } from "./table-text.ts";
import { hasColour, type Terminal, widthOfScreen } from "./terminal.ts";

type Feed = PricesReportJson["feeds"][number];
type Price = PricesReportJson["prices"][number];

export interface PricesOptions extends AdminOptions {
  readonly json: boolean;
  /** Also prices that no node names. */
  readonly all: boolean;
}

/** @returns the exit code. */
export async function prices(terminal: Terminal, { json, all, ...admin }: PricesOptions): Promise<number> {
  const answer = await askAdmin(terminal, admin, { path: "/admin/v1/prices", members: ["feeds", "prices"] });
  if ("problem" in answer) return tellProblem(terminal, answer);
  if (json) {
    terminal.out(answer.text);
    return EXIT.ok;
  }
  const width = widthOfScreen(terminal);
  const options = { width, isColoured: hasColour(terminal), all };
  // the other end is this product
  terminal.out(`${pricesLines(answer.value as PricesReportJson, options).join("\n")}\n`);
  return EXIT.ok;
}

/** Lines of both tables, with what is wrong below. */
export function pricesLines(
  { feeds, prices: table }: PricesReportJson,
  { width, isColoured, all }: { width: number; isColoured: boolean; all: boolean },
): string[] {
  if (feeds.length === 0)
    return ["no price feed is configured: nodes cost what they state (zml nodes); feeds are named under prices.feeds"];
  const kinds = new Map(feeds.flatMap(({ alarms }) => alarms.map(({ key, kind }) => [key, kind])));
  const rows = table
    .filter(({ nodes }) => all || nodes.length > 0)
    .map((row) => ({ ...row, why: kinds.get(row.key) ?? "not fetched" }));
  const size = { width, isColoured };
  const namesOf = (feed: string) =>
    table.filter((price) => price.feed === feed && price.usd_per_gpu_hour !== null).map(({ key }) => key);
  const wrong = feeds.flatMap(({ name, error, alarms, notes }) => [
    ...(error === null ? [] : [painted(oneLine(`${name}: ${error}`), isColoured, "red")]),
    // the alarm of the feed as a whole says what its error says
    ...alarms
      .filter(({ text }) => text !== error)
      .map((alarm, index) => alarmText(alarm, index < HINTS_MAX ? namesOf(name) : []))
      .map((line) => painted(oneLine(`${name}: ${line}`), isColoured, "yellow")),
    ...notes.map((note) => oneLine(`${name}: ${note}`)),
  ]);
  const unnamed = table.length - rows.length;
  return [
    ...tableLines(FEEDS, feeds, size).lines,
    ...wrong,
    "",
    ...(rows.length === 0 ? ["no node names a price"] : tableLines(PRICES, rows, size).lines),
    ...(unnamed > 0 ? [`${counted(unnamed, "price")} that no node names: --all shows them`] : []),
  ];
}

/** Alarms that get the nearest name: each costs a look at all names of the feed, of which there may be 10,000. */
const HINTS_MAX = 5;

/** An alarm with the price that it is about, and for a name that the feed lacks the nearest that it has. */
function alarmText({ kind, key, text }: Feed["alarms"][number], names: readonly string[]): string {
  if (key === null) return `${kind}: ${text}`;
  const near = kind === "missing" ? nearestName(key, names) : null;
  const hint = near === null ? "" : ` (did you mean ${near}?)`;
  return `${kind}: ${text.includes(key) ? "" : `${key}: `}${text}${hint}`;
}

const FEEDS: readonly Column<Feed>[] = [
  { title: "FEED", rank: 0, least: 8, cell: ({ name }) => name },
  { title: "PROVIDER", rank: 3, cell: ({ provider }) => provider },
  { title: "STATE", rank: 0, cell: ({ state }) => state, colour: feedColour },
  { title: "KEYS", rank: 2, isRight: true, cell: ({ keys }) => String(keys) },
  { title: "CONFIRMED", rank: 0, isRight: true, cell: ({ last_success_age_ms: age }) => ageText(age) },
  {
    title: "NEXT",
    rank: 4,
    isRight: true,
    cell: ({ next_fetch_in_ms: inMs }) => (inMs === null ? "now" : ageText(inMs)),
  },
  { title: "FAILURES", rank: 1, isRight: true, cell: ({ failures }) => String(failures) },
];

function feedColour({ state }: Feed): Colour {
  return state === "ok" ? "green" : state === "failing" ? "red" : "yellow";
}

/** `why`: the reason where there is no price. */
const PRICES: readonly Column<Price & { readonly why: string }>[] = [
  { title: "KEY", rank: 0, least: 16, cell: ({ key }) => key },
  { title: "USD/GPU-H", rank: 0, isRight: true, cell: ({ usd_per_gpu_hour: price }) => usdText(price) },
  { title: "GPUS", rank: 4, isRight: true, cell: ({ gpus }) => numberText(gpus) },
  { title: "AGE", rank: 0, isRight: true, cell: ({ age_ms: age }) => ageText(age) },
  { title: "", rank: 1, cell: priceNote, colour: ({ is_stale: isStale }) => (isStale ? "yellow" : null) },
  { title: "NODES", rank: 2, least: 8, cell: ({ nodes }) => (nodes.length === 0 ? UNKNOWN : nodes.join(", ")) },
];

function priceNote(row: Price & { readonly why: string }): string {
  const { usd_per_gpu_hour: price, is_stale: isStale, is_restored: isRestored, why } = row;
  if (price === null) return why;
  return [isStale ? "stale" : "", isRestored ? "from before the start" : ""].filter((word) => word !== "").join(", ");
}
