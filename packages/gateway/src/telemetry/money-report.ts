/** Sums of the ledger, grouped and put into rates. Pure; O(lines). */

import type { MoneyFiguresJson, MoneyGroup, MoneyJson, MoneyWindow } from "@zml/protocol/admin";
import type { NameRegistry, QualifiedName } from "../control/name-registry.ts";
import { MONEY_AT, MONEY_OTHER, MONEY_WIDTH, type MoneyColumn, type MoneySubject } from "./money-ledger.ts";
import type { MoneyBefore } from "./money-windows.ts";

/** What is asked. */
export interface MoneyQuestion {
  readonly window: MoneyWindow;
  readonly by: MoneyGroup;
  /** Null: everybody's. */
  readonly account: string | null;
  readonly limit: number;
}

export interface MoneyReportSources {
  readonly subjects: readonly MoneySubject[];
  readonly values: Float64Array;
  readonly before: MoneyBefore;
  readonly names: NameRegistry;
  readonly nowMs: number;
  readonly unixMs: number;
  /** Null: not known, or not the reader's to know. */
  readonly fleetUsdPerHour: number | null;
}

interface Group {
  readonly account: string | null;
  readonly name: string;
  readonly sums: Float64Array;
}

export function moneyReport(question: MoneyQuestion, sources: MoneyReportSources): MoneyJson {
  const { window, by, account, limit } = question;
  const { subjects, values, before, names, nowMs } = sources;
  const groups = new Map<string, Group>();
  const total = new Float64Array(MONEY_WIDTH);
  const rest = new Float64Array(MONEY_WIDTH);
  subjects.forEach((subject, line) => {
    const owner = names.models.nameOf(subject.model)?.scope ?? null;
    if (account !== null && owner !== account) return;
    const at = line * MONEY_WIDTH;
    if (!hasChanged(values, before.values, at)) return;
    const group = subject === MONEY_OTHER ? null : groupOf(groups, by, subject, names);
    for (let column = 0; column < MONEY_WIDTH; column++) {
      const sum = (values[at + column] as number) - (before.values[at + column] ?? 0);
      total[column] = (total[column] as number) + sum;
      const into = group?.sums ?? rest;
      into[column] = (into[column] as number) + sum;
    }
  });
  const sorted = [...groups.values()].sort(dearestFirst);
  const further = sorted.slice(limit);
  for (const { sums } of further) {
    for (let column = 0; column < MONEY_WIDTH; column++) rest[column] = (rest[column] as number) + (sums[column] ?? 0);
  }
  const seconds = Math.max(0, nowMs - before.atMs) / 1000;
  const hasRest = rest.some((sum) => sum !== 0);
  return {
    window,
    by,
    account,
    since: new Date(sources.unixMs - seconds * 1000).toISOString(),
    seconds: Math.round(seconds * 1000) / 1000,
    fleet_usd_per_hour: sources.fleetUsdPerHour,
    total: figuresOf(total, seconds),
    rows: sorted
      .slice(0, limit)
      .map((group) => ({ account: group.account, name: group.name, ...figuresOf(group.sums, seconds) })),
    other: hasRest ? figuresOf(rest, seconds) : null,
    other_rows: further.length,
  };
}

function hasChanged(values: Float64Array, before: Float64Array, at: number): boolean {
  // dollars and counts only rise, and each attempt that is counted raises one of these
  for (const column of RISING) {
    if (values[at + column] !== (before[at + column] ?? 0)) return true;
  }
  return false;
}

const RISING = [MONEY_AT.deliveredUsd, MONEY_AT.failedUsd, MONEY_AT.cancelledUsd, MONEY_AT.answers];

function groupOf(groups: Map<string, Group>, by: MoneyGroup, subject: MoneySubject, names: NameRegistry): Group {
  const name = nameOf(by, subject, names);
  // no name holds a NUL
  const key = `${name.scope}\u0000${name.name}`;
  const known = groups.get(key);
  if (known !== undefined) return known;
  const account = by === "family" ? null : name.scope;
  const group: Group = { account, name: name.name, sums: new Float64Array(MONEY_WIDTH) };
  groups.set(key, group);
  return group;
}

function nameOf(by: MoneyGroup, { policy, model, family }: MoneySubject, names: NameRegistry): QualifiedName {
  switch (by) {
    case "account": {
      const account = names.models.nameOf(model)?.scope ?? "";
      return { scope: account, name: account };
    }
    case "model":
      return names.models.nameOf(model) ?? NAMELESS;
    case "policy":
      return names.policies.nameOf(policy) ?? NAMELESS;
    case "family":
      return names.families.nameOf(family) ?? NAMELESS;
  }
}

const NAMELESS: QualifiedName = { scope: "", name: "" };

function dearestFirst(a: Group, b: Group): number {
  const usd = spentUsd(b.sums) - spentUsd(a.sums);
  if (usd !== 0) return usd;
  const answers = (b.sums[MONEY_AT.answers] as number) - (a.sums[MONEY_AT.answers] as number);
  return answers !== 0 ? answers : a.name < b.name ? -1 : 1;
}

/** All that was spent in a line of sums, USD. */
function spentUsd(sums: Float64Array): number {
  const of = (column: MoneyColumn) => sums[MONEY_AT[column]] as number;
  return of("deliveredUsd") + of("failedUsd") + of("cancelledUsd");
}

function figuresOf(sums: Float64Array, seconds: number): MoneyFiguresJson {
  const of = (column: MoneyColumn) => sums[MONEY_AT[column]] as number;
  const perHour = (sum: number) => (seconds > 0 ? exact((sum / seconds) * 3600) : 0);
  const usd = spentUsd(sums);
  const perMillion = (tokens: number) => (tokens > 0 ? exact((usd / tokens) * 1e6) : null);
  const savings = of("baselineUsd") - of("comparedUsd");
  return {
    usd: exact(usd),
    usd_per_hour: perHour(usd),
    failed_usd: exact(of("failedUsd")),
    cancelled_usd: exact(of("cancelledUsd")),
    answers: of("answers"),
    unpriced_answers: of("unpricedAnswers"),
    input_tokens: Math.round(of("inputTokens")),
    output_tokens: Math.round(of("outputTokens")),
    usd_per_million_input_tokens: perMillion(of("inputTokens")),
    usd_per_million_output_tokens: perMillion(of("outputTokens")),
    usd_per_million_tokens: perMillion(of("inputTokens") + of("outputTokens")),
    compared_usd: exact(of("comparedUsd")),
    baseline_usd: exact(of("baselineUsd")),
    baseline_assumed_usd: exact(of("baselineAssumedUsd")),
    savings_usd: exact(savings),
    savings_usd_per_hour: perHour(savings),
    savings_share: of("baselineUsd") > 0 ? exact(savings / of("baselineUsd")) : null,
  };
}

/** Sums of many small numbers: what stands behind the ninth digit is noise, and so is what is left of a difference. */
function exact(value: number): number {
  return Math.abs(value) < 1e-12 ? 0 : Number(value.toPrecision(9));
}
