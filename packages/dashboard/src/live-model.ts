/** What is known of the fleet now: answers of the live feed, each of which tells what changed, put together. */

import type { LiveJson } from "@zml/protocol/admin";
import { LIVE_COLUMNS, type LiveColumn } from "@zml/protocol/live-columns";

/** One number per node or sample; null: unknown. */
export type Column = readonly (number | null)[];
export type NodeNames = NonNullable<LiveJson["nodes"]>;

/** Columns as pages read them: ages and times left instead of points on the gateway's clock. */
export type LiveColumns = Readonly<
  Record<Exclude<LiveColumn, "polled_at_ms" | "cooldown_until_ms"> | "data_age_ms" | "cooldown_ms", Column>
>;

/** The fleet at one moment. */
export interface Live {
  /** Of the list of nodes: rows of two lists can't be compared. */
  readonly layout: string;
  readonly mark: string;
  readonly clockMs: number;
  readonly everyMs: number;
  readonly version: number;
  readonly names: NodeNames;
  readonly states: readonly string[];
  readonly columns: LiveColumns;
  readonly totals: LiveJson["totals"];
  readonly flows: readonly LiveJson["flows"][number][];
  /** Requests with a target, by policy. */
  readonly attainment: readonly LiveJson["attainment"][number][];
  /** Columns as they were fed, for the next answer. */
  readonly fed: Readonly<Record<LiveColumn, Column>>;
}

/** An answer that these pages do not understand: the gateway is of another version. */
export class ForeignAnswer extends Error {}

/**
 * Puts an answer on top of what was known.
 *
 * @param before what was known at the answer's `since`.
 * @throws ForeignAnswer
 */
export function merged(before: Live | null, answer: LiveJson): Live {
  const { mark, nodes, columns, totals, flows, states } = answer;
  if (typeof mark !== "string" || !Array.isArray(flows) || !Array.isArray(states) || totals?.endings === undefined) {
    throw new ForeignAnswer();
  }
  if (nodes === null && before === null) throw new ForeignAnswer();
  const names = nodes ?? (before as Live).names;
  const base = nodes === null ? before : null;
  const fed = Object.fromEntries(
    LIVE_COLUMNS.map((name) => [name, column(columns[name], base?.fed[name] ?? null, names.id.length)]),
  ) as Record<LiveColumn, Column>;
  const { polled_at_ms, cooldown_until_ms, ...plain } = fed;
  return {
    layout: mark.slice(0, mark.lastIndexOf("-")),
    mark,
    clockMs: answer.clock_ms,
    everyMs: answer.every_ms,
    version: answer.version,
    names,
    states,
    columns: {
      ...plain,
      data_age_ms: polled_at_ms.map((at) => (at === null ? null : Math.max(0, answer.clock_ms - at))),
      cooldown_ms: cooldown_until_ms.map((at) => (at === null ? null : Math.max(0, at - answer.clock_ms))),
    },
    totals,
    flows: base === null ? flows : changed(base.flows, flows, flowKey),
    // a gateway that does not tell it has none
    attainment:
      base === null ? (answer.attainment ?? []) : changed(base.attainment, answer.attainment ?? [], policyKey),
    fed,
  };
}

/** A column that this gateway does not tell is one that nobody knows. */
function column(told: LiveJson["columns"]["depth"] | undefined, before: Column | null, rows: number): Column {
  if (told === undefined || !Array.isArray(told.values)) return before ?? new Array<null>(rows).fill(null);
  if (told.rows === null) return told.values;
  if (told.rows.length === 0 && before !== null) return before;
  const next = before === null ? new Array<number | null>(rows).fill(null) : [...before];
  told.rows.forEach((row, at) => {
    next[row] = told.values[at] ?? null;
  });
  return next;
}

function changed<T>(before: readonly T[], told: readonly T[], keyOf: (item: T) => string): T[] {
  const all = new Map(before.map((item) => [keyOf(item), item]));
  for (const item of told) all.set(keyOf(item), item);
  return [...all.values()];
}

/** Names a policy. */
export function policyKey({ account, policy }: { readonly account: string; readonly policy: string }): string {
  return `${account}\n${policy}`;
}

/** Names a flow. */
export function flowKey({ account, policy, family }: Live["flows"][number]): string {
  return `${account}\n${policy}\n${family}`;
}
