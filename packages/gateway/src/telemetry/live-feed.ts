/**
 * What pages that are looked at follow: one column per number of the nodes, totals and flows. The fleet is read once per
 * step, whoever asks and however many; each reader is told what changed since the answer that it has, as text that
 * readers with the same answer share. Nobody asks: nothing is read.
 */

import { isDeepStrictEqual } from "node:util";
import { depthOf, type FleetTable, msOfTick, scoreOfParts } from "@zml/engine";
import { NODE_STATES } from "@zml/protocol";
import type { LiveJson } from "@zml/protocol/admin";
import { LIVE_COLUMNS, type LiveColumn } from "@zml/protocol/live-columns";
import type { FleetNode } from "../control/fleet.ts";
import { stateOf } from "../control/fleet-report.ts";
import { partsOf } from "../control/node-truth.ts";
import type { MoneyTotals } from "./money.ts";
import type { RequestFlow, RequestTotals, TargetCount } from "./request-metrics.ts";

/** Flows in one answer: the largest. More than that nobody tells apart in a picture. */
const FLOWS_MAX = 200;
/** Between two looks at the fleet, ms. */
const STEP_MS = 1_000;
/** Of larger fleets: 16,384 nodes, the most that a table has by default, are told of each four seconds. */
const STEP_MS_PER_NODE = 0.25;
/** A tab's second and ours are not the same second. */
const SLACK_MS = 50;
/** Texts of one step; readers with other answers are written to one by one. */
const TEXTS_MAX = 32;

export type LiveNode = Pick<FleetNode, "row" | "engine" | "placements"> & {
  readonly config: Pick<FleetNode["config"], "id" | "family" | "account">;
};

/** Everything that an answer is made of. */
export interface LiveSources {
  /** Nodes that have a row, in any order. */
  readonly nodes: () => Iterable<LiveNode>;
  readonly table: FleetTable;
  readonly version: () => number;
  readonly totals: () => RequestTotals;
  readonly money: () => MoneyTotals;
  readonly parked: () => number;
  /** Monotonic, ms. */
  readonly nowMs: () => number;
  readonly unixMs: () => number;
}

/** The values of a column by row, NaN: unknown, and the step in which each changed last. */
interface Column {
  readonly values: Float64Array;
  readonly changedAt: Uint32Array;
}

interface SeenTarget {
  readonly target: TargetCount;
  readonly changedAt: number;
}

interface SeenFlow {
  flow: RequestFlow;
  changedAt: number;
}

/** One look at the fleet. */
interface Step {
  readonly number: number;
  readonly clockMs: number;
  readonly unixMs: number;
  readonly version: number;
  readonly totals: LiveJson["totals"];
  /** By the mark that the reader has. */
  readonly texts: Map<string, string>;
}

export class LiveFeed {
  readonly #sources: LiveSources;
  /** Of this process: marks of the one before mean nothing here. */
  readonly #start: string;
  /** By id. */
  #nodes: readonly LiveNode[] = [];
  /** As they were when they were looked at last, in the order of the sources. */
  #seen: readonly Pick<LiveNode, "row" | "config" | "engine">[] = [];
  #names: NonNullable<LiveJson["nodes"]> = { id: [], family: [], account: [], engine: [] };
  /** Which list of nodes it is. */
  #layout = 0;
  #columns = emptyColumns(0);
  #flows = new Map<string, SeenFlow>();
  #targets = new Map<string, SeenTarget>();
  #step: Step | null = null;

  /** @param start tells this process from the one before, lower-case letters and digits. */
  constructor(sources: LiveSources, start = Math.floor(Math.random() * 2 ** 40).toString(36)) {
    this.#sources = sources;
    this.#start = start;
  }

  /**
   * What changed since an answer, as JSON (`LiveJson`). O(nodes) once per step, O(changes) else.
   *
   * @param since mark of that answer; null, or of another process: everything.
   */
  answer(since: string | null): string {
    const step = this.#currentStep();
    const known = step.texts.get(since ?? "");
    if (known !== undefined) return known;
    const text = `${JSON.stringify(this.#json(step, this.#stepOf(since)))}\n`;
    if (step.texts.size < TEXTS_MAX) step.texts.set(since ?? "", text);
    return text;
  }

  /** The step that a mark is of; -1: everything has to be told. */
  #stepOf(since: string | null): number {
    const [start, layout, number = "", ...more] = (since ?? "").split("-");
    if (start !== this.#start || layout !== this.#layout.toString(36) || more.length > 0) return -1;
    const step = Number.parseInt(number, 36);
    return step <= (this.#step?.number ?? -1) ? step : -1;
  }

  #currentStep(): Step {
    const clockMs = this.#sources.nowMs();
    if (this.#step !== null && clockMs - this.#step.clockMs < this.#everyMs - SLACK_MS) return this.#step;
    const number = (this.#step?.number ?? 0) + 1;
    this.#readNames();
    const totals = this.#sources.totals();
    this.#readColumns(number, clockMs, totals);
    this.#readFlows(number, totals);
    this.#readTargets(number, totals);
    this.#step = {
      number,
      clockMs,
      unixMs: this.#sources.unixMs(),
      version: this.#sources.version(),
      totals: this.#totalsJson(totals),
      texts: new Map(),
    };
    return this.#step;
  }

  get #everyMs(): number {
    return Math.max(STEP_MS, Math.round(this.#nodes.length * STEP_MS_PER_NODE));
  }

  #readNames(): void {
    const nodes = [...this.#sources.nodes()];
    const isSameList = nodes.every(({ row, config, engine }, at) => {
      const before = this.#seen[at];
      return before?.row === row && before.config === config && before.engine === engine;
    });
    if (isSameList && nodes.length === this.#seen.length) return;
    // what is compared next time must not change under the list
    this.#seen = nodes.map(({ row, config, engine }) => ({ row, config, engine }));
    const sorted = nodes.sort(byIdAndAccount);
    const names = {
      id: sorted.map(({ config }) => config.id),
      family: sorted.map(({ config }) => config.family),
      account: sorted.map(({ config }) => config.account),
      engine: sorted.map(({ engine }) => engine),
    };
    const isSame = isDeepStrictEqual(names, this.#names) && sorted.every(({ row }, at) => this.#nodes[at]?.row === row);
    this.#nodes = sorted;
    if (isSame) return;
    this.#layout += 1;
    this.#columns = emptyColumns(sorted.length);
    this.#names = names;
  }

  #readColumns(number: number, clockMs: number, totals: RequestTotals): void {
    const { table } = this.#sources;
    const columns = this.#columns;
    const put = (name: LiveColumn, at: number, exact: number | undefined): void => {
      const { values, changedAt } = columns[name];
      const value = rounded(exact ?? Number.NaN);
      if (Object.is(values[at], value)) return;
      values[at] = value;
      changedAt[at] = number;
    };
    for (let at = 0; at < this.#nodes.length; at++) {
      const node = this.#nodes[at] as LiveNode;
      const { row } = node;
      const state = stateOf(table, row, clockMs);
      const parts = partsOf(table, row);
      const attempts = totals.attempts.get(node.config.id);
      put("state", at, NODE_STATES.indexOf(state));
      put("depth", at, depthOf(table, row));
      put("in_flight", at, table.total.inFlight[row] ?? 0);
      put("waiting", at, table.waiting[row]);
      put("max_in_flight", at, table.maxInFlight[row] ?? 0);
      put("tokens_per_second", at, fastest(node, table.tokensPerSecond));
      put("health_score", at, parts === null ? Number.NaN : scoreOfParts(parts));
      put("price_usd_per_hour", at, table.priceUsdPerHour[row]);
      put("polled_at_ms", at, table.polledAtMs[row]);
      put("cooldown_until_ms", at, state === "cooling_down" ? msOfTick(table.cooldownUntil[row] ?? 0) : Number.NaN);
      put("attempts", at, attempts?.attempts ?? 0);
      put("failed", at, attempts?.failed ?? 0);
    }
  }

  #readFlows(number: number, { flows }: RequestTotals): void {
    const largest = flows.length <= FLOWS_MAX ? flows : largestOf(flows);
    const seen = new Map<string, SeenFlow>();
    for (const flow of largest) {
      const key = `${flow.account}\n${flow.policy}\n${flow.family}`;
      const before = this.#flows.get(key);
      const isSame = before?.flow.requests === flow.requests && before.flow.delivered === flow.delivered;
      seen.set(key, { flow, changedAt: isSame ? before.changedAt : number });
    }
    this.#flows = seen;
  }

  #readTargets(number: number, { targets }: RequestTotals): void {
    const largest =
      targets.length <= FLOWS_MAX ? targets : targets.toSorted((a, b) => b.judged - a.judged).slice(0, FLOWS_MAX);
    const seen = new Map<string, SeenTarget>();
    for (const target of largest) {
      const key = `${target.account}\n${target.policy}`;
      const before = this.#targets.get(key);
      const isSame = before?.target.judged === target.judged;
      seen.set(key, { target, changedAt: isSame ? before.changedAt : number });
    }
    this.#targets = seen;
  }

  #totalsJson(totals: RequestTotals): LiveJson["totals"] {
    const { depth, in_flight, price_usd_per_hour } = this.#columns;
    const { costUsd, failedUsd, comparedUsd, baselineUsd } = this.#sources.money();
    return {
      requests: totals.requests,
      endings: totals.endings,
      redispatches: totals.redispatches,
      judged: totals.judged,
      within_target: totals.withinTarget,
      input_tokens: totals.inputTokens,
      output_tokens: totals.outputTokens,
      cost_usd: costUsd,
      failed_cost_usd: failedUsd,
      compared_cost_usd: comparedUsd,
      baseline_cost_usd: baselineUsd,
      parked: this.#sources.parked(),
      in_flight: sumOf(in_flight.values) ?? 0,
      depth: sumOf(depth.values) ?? 0,
      price_usd_per_hour: sumOf(price_usd_per_hour.values),
    };
  }

  /** @param known step that the reader has; -1: none. */
  #json(step: Step, known: number): LiveJson {
    return {
      at: new Date(step.unixMs).toISOString(),
      clock_ms: Math.round(step.clockMs),
      version: step.version,
      mark: `${this.#start}-${this.#layout.toString(36)}-${step.number.toString(36)}`,
      every_ms: this.#everyMs,
      nodes: known < 0 ? this.#names : null,
      states: NODE_STATES,
      columns: Object.fromEntries(
        LIVE_COLUMNS.map((name) => [name, columnJson(this.#columns[name], known)]),
      ) as unknown as LiveJson["columns"],
      totals: step.totals,
      attainment: [...this.#targets.values()]
        .filter(({ changedAt }) => changedAt > known)
        .map(({ target: { account, policy, judged, within } }) => ({ account, policy, judged, within_target: within })),
      flows: [...this.#flows.values()].filter(({ changedAt }) => changedAt > known).map(({ flow }) => flow),
    };
  }
}

function emptyColumns(rows: number): Readonly<Record<LiveColumn, Column>> {
  return Object.fromEntries(
    LIVE_COLUMNS.map((name) => [
      name,
      { values: new Float64Array(rows).fill(Number.NaN), changedAt: new Uint32Array(rows) },
    ]),
  ) as Record<LiveColumn, Column>;
}

function columnJson({ values, changedAt }: Column, known: number): LiveJson["columns"]["depth"] {
  const rows: number[] = [];
  if (known >= 0) {
    for (let at = 0; at < values.length; at++) if ((changedAt[at] as number) > known) rows.push(at);
    // a row number and a value are more than a value
    if (rows.length <= values.length / 2) return { rows, values: rows.map((at) => jsonOf(values[at] as number)) };
  }
  return { rows: null, values: Array.from(values, jsonOf) };
}

function jsonOf(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}

function fastest({ placements }: LiveNode, column: Float64Array): number {
  let best = Number.NaN;
  for (const placement of placements.values()) {
    const value = column[placement] ?? Number.NaN;
    if (!(value <= best)) best = Number.isNaN(value) ? best : value;
  }
  return best;
}

/** Null: nothing of it is known. */
function sumOf(values: Float64Array): number | null {
  let sum: number | null = null;
  for (const value of values) if (!Number.isNaN(value)) sum = (sum ?? 0) + value;
  return sum;
}

function largestOf(flows: readonly RequestFlow[]): RequestFlow[] {
  return flows.toSorted((a, b) => b.requests - a.requests).slice(0, FLOWS_MAX);
}

/** By code unit: the same order on every machine. */
function byIdAndAccount({ config: a }: LiveNode, { config: b }: LiveNode): number {
  if (a.id !== b.id) return a.id < b.id ? -1 : 1;
  return a.account < b.account ? -1 : Number(a.account > b.account);
}

/** Digits that nobody sees are bytes that everybody waits for. */
function rounded(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 100) / 100;
}
