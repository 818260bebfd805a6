/** `zml decisions`: what was decided last, a line each. */

import type { DecisionJson } from "@zml/protocol/admin";
import { askAdmin } from "./ask-admin.ts";
import type { ObjectsOptions } from "./get.ts";
import { ageText, counted, UNKNOWN } from "./nodes-words.ts";
import { type Column, tableLines } from "./table.ts";
import { hasColour, type Terminal, widthOfScreen } from "./terminal.ts";
import { showPage, type Watch } from "./watch-page.ts";

export interface DecisionsOptions extends ObjectsOptions {
  readonly limit: number;
  readonly family?: string;
  readonly model?: string;
  readonly node?: string;
  readonly policy?: string;
  readonly reason?: string;
  readonly slowerThanMs?: number;
  /** Only second and later attempts. */
  readonly redispatched: boolean;
  readonly wide: boolean;
  readonly json: boolean;
}

/** @returns the exit code. */
export async function decisions(terminal: Terminal, options: DecisionsOptions, watch: Watch | null): Promise<number> {
  const { limit } = options;
  const query = { limit, ...filterOf(options) };
  return showPage<readonly DecisionJson[]>(
    terminal,
    {
      ask: async (signal) => {
        const items: DecisionJson[] = [];
        let cursor: string | undefined;
        // a page may end before it is full: it looks at so many records, whether they pass or not
        for (let page = 0; page < PAGES_MAX && items.length < limit; page += 1) {
          const answer = await askAdmin(terminal, options, {
            path: "/admin/v1/decisions",
            query: { ...query, ...(cursor !== undefined && { cursor }) },
            members: ["items", "next_cursor"],
            ...(signal !== undefined && { signal }),
          });
          if ("problem" in answer) return answer;
          const found = answer.value as { readonly items: DecisionJson[]; readonly next_cursor: string | null };
          items.push(...found.items);
          if (found.next_cursor === null) break;
          cursor = found.next_cursor;
        }
        return { report: items.slice(0, limit) };
      },
      lines: (items) => decisionLines(terminal, items, options),
      json: options.json ? (items) => ({ items }) : null,
      less: "--limit chooses",
    },
    watch,
  );
}

/** The filters as the routes take them; what is undefined is left out. */
export function filterOf({
  account,
  model,
  node,
  family,
  policy,
  reason,
  slowerThanMs,
  redispatched,
}: DecisionsOptions) {
  const slower = { slower_than_ms: slowerThanMs };
  return { account, model, node, family, policy, reason, ...slower, redispatched: redispatched || undefined };
}

/** Enough for each record of a ring of the default size. */
const PAGES_MAX = 64;

function decisionLines(terminal: Terminal, items: readonly DecisionJson[], { wide }: DecisionsOptions): string[] {
  if (items.length === 0)
    return ["no decision like that is remembered: each worker keeps its last ones since the start"];
  const width = wide ? Number.POSITIVE_INFINITY : widthOfScreen(terminal);
  const { lines } = tableLines(COLUMNS, items, { width, isColoured: hasColour(terminal) });
  return [...lines, `${counted(items.length, "decision")}, newest first; zml explain ID tells the story of one`];
}

const COLUMNS: readonly Column<DecisionJson>[] = [
  { title: "DECISION", rank: 0, cell: ({ decision }) => decision },
  { title: "AT", rank: 4, cell: ({ decided_at: at }) => at },
  { title: "MODEL", rank: 3, least: 8, cell: ({ request }) => request.model ?? UNKNOWN },
  { title: "POLICY", rank: 5, least: 8, cell: ({ policy }) => policy.name ?? UNKNOWN },
  { title: "NODE", rank: 0, least: 8, cell: ({ choice }) => choice.node ?? UNKNOWN },
  { title: "FAMILY", rank: 6, cell: ({ choice }) => choice.family ?? UNKNOWN },
  { title: "REASON", rank: 1, cell: ({ choice }) => choice.reason },
  { title: "DEPTH", rank: 7, isRight: true, cell: ({ choice }) => String(choice.depth ?? UNKNOWN) },
  { title: "ATTEMPT", rank: 8, isRight: true, cell: ({ attempt }) => String(attempt) },
  {
    title: "OUTCOME",
    rank: 0,
    cell: ({ outcome }) => outcome.kind,
    colour: ({ outcome }) => (outcome.kind === "success" ? "green" : null),
  },
  { title: "STATUS", rank: 9, isRight: true, cell: ({ outcome }) => String(outcome.status ?? UNKNOWN) },
  { title: "TOOK", rank: 2, isRight: true, cell: ({ outcome }) => tookText(outcome.duration_ms) },
];

export function tookText(ms: number | null): string {
  return ms === null || ms >= 1000 ? ageText(ms) : `${Math.round(ms)}ms`;
}
