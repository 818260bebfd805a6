/** `zml status`: whether the gateway is well, on one page. */

import type { MoneyJson } from "@zml/protocol/admin";
import type { FleetReportJson } from "../control/fleet-report.ts";
import { type AdminOptions, askAdmin, askFleet } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import { ageText, counted, usdText } from "./nodes-words.ts";
import { type Colour, oneLine, painted } from "./table-text.ts";
import { hasColour, type Terminal } from "./terminal.ts";
import { showPage, type Watch } from "./watch-page.ts";

export interface StatusOptions extends AdminOptions {
  readonly json: boolean;
}

interface StatusJson {
  readonly product_version: string;
  readonly uptime_seconds: number;
  readonly version: number;
  readonly acknowledged_version: number;
  readonly is_ready: boolean;
  readonly data_address: string;
  readonly admin_address: string;
  readonly workers: { readonly configured: number; readonly listening: number; readonly crashes: number };
  readonly store: { readonly state: string; readonly reason: string | null };
  readonly decisions: {
    readonly state: string;
    readonly reason: string | null;
    readonly dropped: { readonly overwritten: number; readonly store: number };
    readonly stored: { readonly records: number; readonly oldest_at: string | null };
  };
  readonly objects: readonly {
    readonly kind: string;
    readonly total: number;
    readonly owners: Readonly<Record<string, number>>;
  }[];
  readonly reloads: {
    readonly applied: number;
    readonly refused: number;
    readonly last: { readonly at: string; readonly kind: string; readonly problems: readonly string[] } | null;
  };
}

interface Page {
  readonly status: StatusJson;
  readonly totals: FleetReportJson["totals"];
  /** Null: a gateway that has no such route yet. */
  readonly money: MoneyJson | null;
}

/** @returns the exit code. */
export function status(terminal: Terminal, options: StatusOptions, watch: Watch | null): Promise<number> {
  return showPage<Page>(
    terminal,
    {
      ask: async (signal) => {
        const question = { path: "/admin/v1/status", members: ["version", "workers", "store"] };
        const answer = await askAdmin(terminal, options, signal === undefined ? question : { ...question, signal });
        if ("problem" in answer) return answer;
        const fleet = await askFleet(terminal, options, signal);
        if ("problem" in fleet) return fleet;
        const paid = { path: "/admin/v1/money", query: { limit: 1 }, members: ["total", "rows"] };
        const money = await askAdmin(terminal, options, signal === undefined ? paid : { ...paid, signal });
        if ("problem" in money && money.exit !== EXIT.notFound) return money;
        // the other end is this product
        const told = answer.value as StatusJson;
        const spent = "problem" in money ? null : (money.value as MoneyJson);
        return { report: { status: told, totals: fleet.report.totals, money: spent } };
      },
      lines: (page) => statusLines(page, hasColour(terminal)),
      json: options.json
        ? ({ status: told, totals, money }) => ({ ...told, totals, money: money === null ? null : moneyOf(money) })
        : null,
      less: "a higher one shows all",
    },
    watch,
  );
}

/** The last hour. */
function moneyOf({ seconds, fleet_usd_per_hour, total }: MoneyJson) {
  return { seconds, fleet_usd_per_hour, ...total };
}

function statusLines({ status: told, totals, money }: Page, isColoured: boolean): string[] {
  const { workers, store, reloads } = told;
  const isBehind = told.acknowledged_version < told.version;
  const rows: [string, string, Colour | null][] = [
    [
      "gateway",
      `zml ${told.product_version}, ${told.is_ready ? "ready" : "not ready"}, up ${ageText(told.uptime_seconds * 1000)}`,
      told.is_ready ? "green" : "red",
    ],
    ["ports", `data ${told.data_address}, admin ${told.admin_address}`, null],
    [
      "version",
      isBehind
        ? `${told.version}; every serving thread has ${told.acknowledged_version}`
        : `${told.version}, in force everywhere`,
      isBehind ? "yellow" : null,
    ],
    [
      "threads",
      `${workers.listening} of ${workers.configured} serve, ${counted(workers.crashes, "crash").replace("crashs", "crashes")}`,
      workers.listening < workers.configured ? "red" : null,
    ],
    [
      "store",
      store.reason === null ? storeText(store.state) : `${store.state}: ${store.reason}`,
      storeColour(store.state),
    ],
    [
      "nodes",
      `${totals.healthy_nodes} of ${totals.nodes} healthy, ${totals.in_flight} requests running, ${totals.parked} parked`,
      totals.nodes > 0 && totals.healthy_nodes === 0 ? "red" : null,
    ],
    ["decided", decisionsText(told.decisions), told.decisions.state === "degraded" ? "red" : null],
    ["money", money === null ? "not told: the gateway is older than this zml" : moneyText(money), null],
    ["objects", objectsText(told.objects), null],
    ["reloads", reloadsText(reloads), reloads.last?.kind === "refused" ? "red" : null],
  ];
  const problems = reloads.last?.kind === "refused" ? reloads.last.problems : [];
  return [
    ...rows.map(([name, text, colour]) => `${name.padEnd(9)}${painted(oneLine(text), isColoured, colour)}`),
    ...problems.map((problem) => `         ${painted(oneLine(problem), isColoured, "red")}`),
  ];
}

function moneyText({ total, fleet_usd_per_hour: fleet, seconds }: MoneyJson): string {
  const bill = fleet === null ? "" : `; the fleet costs ${usdText(fleet)} an hour, used or idle`;
  if (total.usd === 0) return `requests of the last ${ageText(seconds * 1000)} cost nothing that is known${bill}`;
  const { savings_usd: savings, savings_usd_per_hour: rate } = total;
  const saved =
    savings === 0 ? "" : `, ${usdText(Math.abs(rate))} ${savings > 0 ? "less" : "more"} than on preferred families`;
  return `requests of the last ${ageText(seconds * 1000)} cost ${usdText(total.usd_per_hour)} USD an hour${saved}${bill}`;
}

function objectsText(objects: StatusJson["objects"]): string {
  const some = objects.filter(({ total }) => total > 0);
  if (some.length === 0) return "none";
  return some
    .map(({ kind, total, owners }) => {
      const parts = Object.entries(owners).filter(([, count]) => count > 0);
      return `${counted(total, kind.replaceAll("_", " "))} (${parts.map(([owner, count]) => `${count} ${owner}`).join(", ")})`;
    })
    .join(", ");
}

function reloadsText({ applied, refused, last }: StatusJson["reloads"]): string {
  const counts = `${applied} applied, ${refused} refused`;
  return last === null
    ? counts
    : `${counts}; the last, at ${last.at}, ${last.kind === "unchanged" ? "changed nothing" : `was ${last.kind}`}`;
}

function decisionsText({ state, reason, stored, dropped }: StatusJson["decisions"]): string {
  if (state === "off") return "not kept: set evidence.keep";
  const lost = dropped.overwritten + dropped.store;
  const what = `${counted(stored.records, "decision")} kept since ${stored.oldest_at ?? "the start"}, ${lost} dropped`;
  return reason === null ? what : `${what}; ${reason}`;
}

function storeText(state: string): string {
  return state === "none" ? "none: nothing outlives the process" : state;
}

function storeColour(state: string): Colour | null {
  return state === "ok" || state === "none" ? null : "red";
}
