/** Kept records of a window as requests, as what became of them, and as attempts that timing is fitted on. */

import { ENDPOINTS } from "@zml/engine";
import type { EarlierCall, RecordedAttempt, Results, Traffic } from "@zml/simulator/backtest";
import type { ColumnReader } from "../../evidence/kept/decision-columns.ts";
import type { ChunkRow, DecisionDatabase, RunRow } from "../../evidence/kept/decision-database.ts";
import { emptyFleet, type RunIndexes, readFleet, runIndexes, type WindowFleet } from "./read-fleet.ts";

/** The parts of the simulator that are used here; it is loaded on use. */
export type Backtesting = typeof import("@zml/simulator/backtest");

/** What can't be back-tested, in words for whoever asked. */
export class BacktestError extends Error {
  override readonly name = "BacktestError";
  readonly code: "empty_window" | "unknown_fleet" | "draft" | "store";
  /** What is wrong with the draft, one for each place. */
  readonly errors: readonly { readonly path: string; readonly message: string }[];

  constructor(code: BacktestError["code"], message: string, errors: BacktestError["errors"] = []) {
    super(message);
    this.code = code;
    this.errors = errors;
  }
}

/** Why a request is not replayed. */
export interface Skipped {
  /** The node answered that the request itself is wrong. */
  caller_error: number;
  /** Its record has no outcome: its attempt outlived the ring, or still ran as the gateway stopped. */
  unfinished: number;
  /** Names of its model, policy or node are not known any more. */
  unknown_names: number;
  /** No node of the window serves its model. */
  unserved_model: number;
}

/** A capacity that decisions were made on. */
export interface RecordedSpeed {
  /** Since the window began, ms; the first may be before. */
  readonly atMs: number;
  readonly tokensPerSecond: number;
}

export interface RecordedWindow {
  readonly fromMs: number;
  readonly toMs: number;
  readonly traffic: Traffic;
  readonly happened: Results;
  readonly fleet: WindowFleet;
  /** By node and model: attempts that succeeded, of a sample of the window. */
  readonly attempts: ReadonlyMap<string, { node: number; model: number; attempts: RecordedAttempt[] }>;
  /** What ran shortly before the window, by time. */
  readonly earlier: readonly (Omit<EarlierCall, "family"> & { readonly node: number })[];
  /** By node and model: capacities that decisions were made on, from when on, at least one. */
  readonly speeds: ReadonlyMap<string, readonly RecordedSpeed[]>;
  readonly skipped: Skipped;
  readonly records: number;
  readonly lost: number;
  /** Requests that were decided under other settings of their policy than those that are in force. */
  readonly underOtherSettings: number;
  /** By model: prompt tokens as nodes counted them over those estimated. */
  readonly promptRatios: ReadonlyMap<number, number>;
  /** True: a gateway began within it, and knew nothing. */
  readonly isFromStart: boolean;
}

/** Attempts that timing is fitted on, at most about. */
const FIT_ATTEMPTS_MAX = 60_000;
/** Attempts before the window teach too: so much of it, and at least so long, ms. */
const FIT_BEFORE_SHARE = 0.1;
const FIT_BEFORE_MS = 600_000;
/** Stretches of the window that they are from, if it has more. */
const FIT_STRETCHES = 6;
/** Requests that came so long before the window fill its nodes, ms, and at most so many. */
const EARLIER_MS = 60_000;
const EARLIER_MAX = 5_000;
/** A request that waited for less did not park, ms. */
const PARKED_MS = 0.5;
/** Requests that waited were admitted before they were decided, ms. */
const WINDOW_MARGIN_MS = 1_000;
/** A node whose attempts fail this long before its polls do was down already, ms. */
const DOWN_BEFORE_MS = 20_000;

interface Growing {
  readonly columns: Record<(typeof REQUEST_COLUMNS)[number], Float64Array>;
  count: number;
}

const REQUEST_COLUMNS = [
  "atMs",
  "model",
  "policy",
  "endpoint",
  "flags",
  "answers",
  "hint",
  "estimated",
  "atLeast",
  "prompt",
  "output",
  "max",
  "end",
  "node",
  "wait",
  "ttft",
  "response",
  "usd",
] as const;

type Means = Map<number, { readonly output: number; readonly ratio: number }>;

/** A second or later attempt of a request. */
interface Again {
  readonly key: string;
  readonly previous: string;
  readonly atMs: number;
  readonly isServed: boolean;
  readonly isCancelled: boolean;
  readonly node: number;
  readonly firstMs: number;
  readonly durationMs: number;
  readonly prompt: number;
  readonly output: number;
  readonly usd: number;
}

/**
 * Reads a window. O(records).
 *
 * @throws BacktestError when there is nothing to replay.
 */
export async function readWindow(
  database: DecisionDatabase,
  sim: Backtesting,
  { fromMs, toMs }: { fromMs: number; toMs: number },
  onProgress: (share: number) => void,
): Promise<RecordedWindow> {
  const fitFromMs = fromMs - Math.max(FIT_BEFORE_MS, (toMs - fromMs) * FIT_BEFORE_SHARE);
  const chunks = database.chunksBetween(fitFromMs, toMs);
  const most = chunks.reduce((sum, { records }) => sum + records, 0);
  const lost = database.losses(fromMs, toMs).reduce((sum, { records }) => sum + records, 0);
  if (!chunks.some(({ lastAtMs }) => lastAtMs >= fromMs)) throw nothingThere(database, fromMs, toMs, lost);
  const fleet = emptyFleet();
  const runs = new Map<number, { run: RunRow; indexes: RunIndexes }>();
  let isFromStart = false;
  for (const id of [...new Set(chunks.map(({ run }) => run))].sort((a, b) => a - b)) {
    const run = database.run(id);
    if (run === null) continue;
    const indexes = runIndexes(database, run, fleet);
    if (!readFleet(database, run, { fromMs, toMs }, indexes, fleet)) continue;
    runs.set(id, { run, indexes });
    isFromStart ||= run.originMs >= fromMs;
  }
  if (runs.size === 0) {
    throw new BacktestError(
      "unknown_fleet",
      "records are there, but not of which nodes there were: choose a later window",
    );
  }
  const seen = {
    fromMs: Math.max(fitFromMs, Math.min(...chunks.map(({ firstAtMs }) => firstAtMs)) - WINDOW_MARGIN_MS),
    toMs: Math.min(toMs, Math.max(...chunks.map(({ lastAtMs }) => lastAtMs)) + WINDOW_MARGIN_MS),
  };
  const reader = new WindowReader(sim, { fitFromMs, fromMs, toMs }, seen, most, fleet);
  let read = 0;
  for (const chunk of chunks) {
    const known = runs.get(chunk.run);
    const columns = known === undefined ? null : database.read(chunk.id);
    if (known !== undefined && columns !== null) reader.take(chunk, columns, known.run, known.indexes);
    read += chunk.records;
    onProgress(read / most);
    // so that a cancelled job ends
    await new Promise((resolve) => setImmediate(resolve));
  }
  return reader.finish({ lost, isFromStart });
}

function nothingThere(database: DecisionDatabase, fromMs: number, toMs: number, lost: number): BacktestError {
  const at = (ms: number) => new Date(ms).toISOString();
  const { oldestAtMs, newestAtMs } = database.span();
  const dropped = lost > 0 ? ` (${lost} records of it were dropped)` : "";
  const what = `no decision is kept from ${at(fromMs)} to ${at(toMs)}${dropped}`;
  return new BacktestError(
    "empty_window",
    oldestAtMs === null || newestAtMs === null
      ? `${what}, nor of any other time: set evidence.keep and let traffic come`
      : `${what}: the store has ${at(oldestAtMs)} to ${at(newestAtMs)}`,
  );
}

/** Parts of the window that have a capacity each, a node and model. */
const SPEED_PARTS = 60;
/** A capacity that differs by less is the one before. */
const SPEED_CHANGE_MIN = 0.01;

/**
 * Capacities over time. What a request costs goes with the inverse of the capacity, so that of each part the harmonic mean
 * is taken: it gives the dollars that were recorded.
 */
class SpeedsRead {
  readonly #parts = new Map<string, { atMs: number; inverse: number; count: number }[]>();

  add(key: string, atMs: number, share: number, tokensPerSecond: number): void {
    let parts = this.#parts.get(key);
    if (parts === undefined) {
      parts = Array.from({ length: SPEED_PARTS }, () => ({ atMs: Number.POSITIVE_INFINITY, inverse: 0, count: 0 }));
      this.#parts.set(key, parts);
    }
    const part = parts[Math.max(0, Math.min(SPEED_PARTS - 1, Math.floor(share * SPEED_PARTS)))];
    if (part === undefined) return;
    part.atMs = Math.min(part.atMs, atMs);
    part.inverse += 1 / tokensPerSecond;
    part.count += 1;
  }

  all(): Map<string, RecordedSpeed[]> {
    return new Map(
      Array.from(this.#parts, ([key, parts]) => {
        const speeds: RecordedSpeed[] = [];
        for (const { atMs, inverse, count } of parts) {
          if (count === 0) continue;
          const tokensPerSecond = count / inverse;
          const before = speeds.at(-1)?.tokensPerSecond ?? 0;
          if (Math.abs(tokensPerSecond - before) >= before * SPEED_CHANGE_MIN) speeds.push({ atMs, tokensPerSecond });
        }
        return [key, speeds];
      }),
    );
  }
}

class WindowReader {
  readonly #sim: Backtesting;
  readonly #window: { readonly fitFromMs: number; readonly fromMs: number; readonly toMs: number };
  readonly #fleet: WindowFleet;
  readonly #requests: Growing;
  readonly #skipped: Skipped = { caller_error: 0, unfinished: 0, unknown_names: 0, unserved_model: 0 };
  readonly #attempts = new Map<string, { node: number; model: number; attempts: RecordedAttempt[] }>();
  readonly #speeds = new SpeedsRead();
  readonly #earlier: RecordedWindow["earlier"][number][] = [];
  readonly #isServed = new Set<number>();
  /** Requests that waited and got a node, by worker and time of admission. */
  readonly #parked = new Set<string>();
  /** Requests that got no node, maybe only at first. */
  readonly #nodeless = new Map<string, number>();
  readonly #failed = new Map<string, number>();
  readonly #again: Again[] = [];
  readonly #failures: { node: number; atMs: number }[] = [];
  readonly #fitShare: number;
  /** Where in the window its records are, ms. */
  readonly #seen: { readonly fromMs: number; readonly lengthMs: number };
  #records = 0;
  #underOtherSettings = 0;

  constructor(
    sim: Backtesting,
    window: { fitFromMs: number; fromMs: number; toMs: number },
    seen: { fromMs: number; toMs: number },
    most: number,
    fleet: WindowFleet,
  ) {
    this.#sim = sim;
    this.#window = window;
    this.#seen = { fromMs: seen.fromMs - window.fromMs, lengthMs: Math.max(1, seen.toMs - seen.fromMs) };
    this.#fleet = fleet;
    const columns = Object.fromEntries(REQUEST_COLUMNS.map((name) => [name, new Float64Array(most)]));
    this.#requests = { columns: columns as Growing["columns"], count: 0 };
    this.#fitShare = Math.min(1, FIT_ATTEMPTS_MAX / most);
    for (const node of fleet.nodes) for (const model of node?.models.keys() ?? []) this.#isServed.add(model);
  }

  take({ worker, run: runId }: ChunkRow, columns: ColumnReader, run: RunRow, indexes: RunIndexes): void {
    const { head, sequences } = columns.columns;
    const number = (name: string) => columns.number(name) ?? new Float64Array(head.count).fill(Number.NaN);
    const integer = (name: string, otherwise = -1) =>
      columns.integer(name) ?? new Int32Array(head.count).fill(otherwise);
    const decidedAt = number("decidedAtMs");
    const admittedAt = number("admittedAtMs");
    const [estimated, atLeast, max] = [number("promptTokens"), number("promptTokensAtLeast"), number("maxTokens")];
    const [speed, first, duration] = [number("tokensPerSecond"), number("firstTokenMs"), number("durationMs")];
    const [prompt, output, spent] = [
      number("reportedPromptTokens"),
      number("reportedOutputTokens"),
      number("spentUsd"),
    ];
    // what stood in a node's prefix cache was no work, and is taken to be none elsewhere either
    const cached = number("reportedCachedTokens");
    for (let index = 0; index < head.count; index++) {
      if ((cached[index] as number) > 0)
        prompt[index] = Math.max(1, (prompt[index] as number) - (cached[index] as number));
    }
    const [predictedFirst, predictedToken] = [number("estimateFirstMs"), number("estimateTokenMs")];
    const target = number("latencyTargetMs");
    const [models, policies, identities] = [integer("model"), integer("policy"), integer("identity")];
    const [endpoints, streams, images] = [integer("endpoint"), integer("isStream"), integer("hasImages")];
    const [hints, answers, previous] = [integer("hintFamily"), integer("answers", 1), integer("previous")];
    const [outcomes, statuses, priorities] = [integer("outcome"), integer("status"), integer("costPriority")];
    const endpointOf = head.lists.endpoint.map((name) => (ENDPOINTS as readonly string[]).indexOf(name));
    const { fitFromMs, fromMs, toMs } = this.#window;
    const { columns: to } = this.#requests;
    for (let index = 0; index < head.count; index++) {
      const admittedMs = run.originMs + (admittedAt[index] as number);
      if (admittedMs < fitFromMs || admittedMs >= toMs) continue;
      const isBefore = admittedMs < fromMs;
      if (!isBefore) this.#records += 1;
      const model = indexes.models[models[index] as number] ?? -1;
      const policy = indexes.policies[policies[index] as number] ?? -1;
      const chosen = (identities[index] as number) >= 0;
      const node = chosen ? (indexes.identities[identities[index] as number] ?? -1) : -1;
      const endpoint = endpointOf[endpoints[index] as number] ?? -1;
      const data = this.#fleet.policyData[policy];
      const isFirst = (previous[index] as number) < 0;
      if (model < 0 || data === undefined || endpoint < 0 || (chosen && this.#fleet.nodes[node] === undefined)) {
        if (isFirst && !isBefore) this.#skipped.unknown_names += 1;
        continue;
      }
      if (!this.#isServed.has(model)) {
        if (isFirst && !isBefore) this.#skipped.unserved_model += 1;
        continue;
      }
      const waitMs = (decidedAt[index] as number) - (admittedAt[index] as number);
      const outcome = head.lists.outcome[outcomes[index] as number] ?? "running";
      const firstMs = first[index] as number;
      const durationMs = duration[index] as number;
      const usd = spent[index] as number;
      const key = `${runId}:${worker}:${sequences[index]}`;
      const atMs = admittedMs - fromMs;
      if (chosen)
        this.#noteAttempt(
          {
            node,
            model,
            endpoint,
            outcome,
            index,
            sentMs: atMs + waitMs,
            firstMs,
            durationMs,
            predictedFirstMs: predictedFirst[index] as number,
            predictedTokenMs: predictedToken[index] as number,
          },
          prompt,
          estimated,
          output,
          speed,
          statuses,
        );
      // what came before the window teaches, and what came shortly before fills the nodes
      if (isBefore) {
        const sentMs = atMs + waitMs;
        if (chosen && outcome === "success" && sentMs < 0 && sentMs >= -EARLIER_MS) {
          const [told, tokens] = [prompt[index] as number, output[index] as number];
          this.#earlier.push({
            atMs: sentMs,
            ...{ model, policy, endpoint, node },
            isStream: (streams[index] as number) === 1,
            promptTokens: told > 0 ? told : (estimated[index] as number),
            outputTokens: tokens > 0 ? tokens : 1,
          });
        }
        continue;
      }
      if (chosen && !isFirst) {
        this.#again.push({
          key,
          previous: `${runId}:${worker}:${previous[index]}`,
          atMs: atMs + waitMs,
          isServed: outcome === "success",
          isCancelled: outcome === "cancelled",
          ...{ node, firstMs, durationMs },
          prompt: prompt[index] as number,
          output: output[index] as number,
          usd: Number.isNaN(usd) ? 0 : usd,
        });
        continue;
      }
      if (!isFirst) continue;
      const request = `${runId}:${worker}:${admittedAt[index]}`;
      if (chosen && outcome === "running") {
        this.#skipped.unfinished += 1;
        this.#parked.add(request);
        continue;
      }
      const isCallers = outcome === "caller_error" || outcome === "too_large";
      if (chosen && isCallers) {
        this.#skipped.caller_error += 1;
        this.#parked.add(request);
        continue;
      }
      if (chosen && waitMs > PARKED_MS) this.#parked.add(request);
      // a request that waits writes a record when it begins to wait, and one when it has waited in vain
      const known = chosen ? undefined : this.#nodeless.get(request);
      const at = known ?? this.#requests.count++;
      if (!chosen) this.#nodeless.set(request, at);
      const priority = head.lists.costPriority[priorities[index] as number];
      const isOther = priority !== data.costPriority || !same(target[index] as number, data.latencyTargetMs);
      if (isOther && known === undefined) this.#underOtherSettings += 1;
      to.atMs[at] = atMs;
      to.model[at] = model;
      to.policy[at] = policy;
      to.endpoint[at] = endpoint;
      to.flags[at] =
        ((streams[index] as number) === 1 ? this.#sim.FLAG.stream : 0) |
        ((images[index] as number) === 1 ? this.#sim.FLAG.images : 0);
      to.answers[at] = Math.max(1, answers[index] as number);
      to.hint[at] = indexes.families[hints[index] as number] ?? -1;
      to.estimated[at] = estimated[index] as number;
      to.atLeast[at] = Number.isNaN(atLeast[index] as number) ? 0 : (atLeast[index] as number);
      to.prompt[at] = prompt[index] as number;
      to.output[at] = output[index] as number;
      to.max[at] = max[index] as number;
      to.usd[at] = Number.isNaN(usd) ? 0 : usd;
      to.wait[at] = waitMs;
      to.node[at] = node;
      to.ttft[at] = Number.NaN;
      to.response[at] = Number.NaN;
      const { END } = this.#sim;
      if (!chosen) {
        to.end[at] = waitMs > PARKED_MS ? END.waited_in_vain : END.refused;
      } else if (outcome === "success") {
        to.end[at] = END.served;
        to.ttft[at] = waitMs + firstMs;
        to.response[at] = waitMs + durationMs;
      } else {
        to.end[at] = outcome === "cancelled" ? END.cancelled : END.failed;
        if (outcome !== "cancelled") this.#failed.set(key, at);
      }
    }
  }

  #noteAttempt(
    seen: {
      node: number;
      model: number;
      endpoint: number;
      outcome: string;
      index: number;
      sentMs: number;
      firstMs: number;
      durationMs: number;
      predictedFirstMs: number;
      predictedTokenMs: number;
    },
    prompt: Float64Array,
    estimated: Float64Array,
    output: Float64Array,
    speed: Float64Array,
    statuses: Int32Array,
  ): void {
    const { node, model, endpoint, outcome, index, sentMs, firstMs, durationMs } = seen;
    const key = `${node} ${model}`;
    const tokensPerSecond = speed[index] as number;
    const share = (sentMs - this.#seen.fromMs) / this.#seen.lengthMs;
    if (tokensPerSecond > 0) this.#speeds.add(key, sentMs, share, tokensPerSecond);
    if (outcome === "failure" && (statuses[index] as number) < 0) {
      this.#failures.push({ node, atMs: sentMs + (Number.isNaN(durationMs) ? 0 : durationMs) });
      return;
    }
    const isGenerated = endpoint < ENDPOINTS.indexOf("embeddings");
    if (outcome !== "success" || !isGenerated || !((output[index] as number) >= 1) || !this.#isFitted(sentMs)) return;
    const told = prompt[index] as number;
    let group = this.#attempts.get(key);
    if (group === undefined) {
      group = { node, model, attempts: [] };
      this.#attempts.set(key, group);
    }
    group.attempts.push({
      sentAtMs: sentMs,
      firstTokenMs: firstMs,
      durationMs,
      promptTokens: Math.max(1, Number.isNaN(told) ? (estimated[index] as number) : told),
      outputTokens: output[index] as number,
      predictedFirstMs: seen.predictedFirstMs,
      predictedTokenMs: seen.predictedTokenMs,
    });
  }

  /** Whole stretches, so that the company of an attempt is there as well. */
  #isFitted(atMs: number): boolean {
    if (this.#fitShare === 1) return true;
    const stretch = ((atMs - this.#seen.fromMs) / this.#seen.lengthMs) * FIT_STRETCHES;
    return stretch - Math.floor(stretch) < this.#fitShare;
  }

  finish({ lost, isFromStart }: { lost: number; isFromStart: boolean }): RecordedWindow {
    this.#joinAttempts();
    this.#antedateFailures();
    for (const { attempts } of this.#attempts.values()) attempts.sort((a, b) => a.sentAtMs - b.sentAtMs);
    const { columns, count } = this.#requests;
    const isGone = new Uint8Array(count);
    for (const [request, at] of this.#nodeless) if (this.#parked.has(request)) isGone[at] = 1;
    const order = Array.from({ length: count }, (_, index) => index).filter((index) => isGone[index] === 0);
    order.sort((a, b) => (columns.atMs[a] as number) - (columns.atMs[b] as number));
    if (order.length === 0) {
      throw new BacktestError(
        "empty_window",
        `of ${this.#records} records of the window none can be replayed (${skippedText(this.#skipped)}): choose another window`,
      );
    }
    const means = this.#means(order);
    const { traffic, happened } = this.#fill(order, means);
    const { fromMs, toMs } = this.#window;
    return {
      fromMs,
      toMs,
      traffic,
      happened,
      fleet: this.#fleet,
      attempts: this.#attempts,
      speeds: this.#speeds.all(),
      earlier: this.#earlier.sort((a, b) => a.atMs - b.atMs).slice(-EARLIER_MAX),
      skipped: this.#skipped,
      records: this.#records,
      lost,
      underOtherSettings: this.#underOtherSettings,
      promptRatios: new Map(Array.from(means, ([model, { ratio }]) => [model, ratio])),
      isFromStart,
    };
  }

  /** What became of requests whose first attempt was not the last. */
  #joinAttempts(): void {
    const { columns: to } = this.#requests;
    const { END } = this.#sim;
    this.#again.sort((a, b) => a.atMs - b.atMs);
    for (const again of this.#again) {
      const at = this.#failed.get(again.previous);
      if (at === undefined) continue;
      to.usd[at] = (to.usd[at] as number) + again.usd;
      if (!again.isServed) {
        if (again.isCancelled) to.end[at] = END.cancelled;
        else this.#failed.set(again.key, at);
        continue;
      }
      to.end[at] = END.served;
      to.node[at] = again.node;
      const sinceMs = again.atMs - (to.atMs[at] as number);
      to.ttft[at] = sinceMs + again.firstMs;
      to.response[at] = sinceMs + again.durationMs;
      to.prompt[at] = again.prompt;
      to.output[at] = again.output;
    }
  }

  /** Polls find a node down seconds after its requests do. */
  #antedateFailures(): void {
    const { events } = this.#fleet;
    events.forEach((event, index) => {
      if (event.kind !== "state" || event.state !== "down") return;
      const about = this.#failures.filter(
        ({ node, atMs }) => node === event.node && Math.abs(atMs - event.atMs) < DOWN_BEFORE_MS,
      );
      const before = about.filter(({ atMs }) => atMs <= event.atMs);
      const earliest = before.reduce((least, { atMs }) => Math.min(least, atMs), event.atMs);
      // a node whose requests did not fail had only its polls failing
      const state = about.length === 0 ? "silent" : "down";
      events[index] = { ...event, state, atMs: Math.max(0, earliest) };
    });
    events.sort((a, b) => a.atMs - b.atMs);
  }

  #fill(order: readonly number[], means: Means): { traffic: Traffic; happened: Results } {
    const { columns: from } = this.#requests;
    const traffic = this.#sim.trafficOf(order.length);
    const happened = this.#sim.resultsOf(order.length);
    order.forEach((at, index) => {
      const mean = means.get(from.model[at] as number);
      traffic.atMs[index] = from.atMs[at] as number;
      traffic.model[index] = from.model[at] as number;
      traffic.policy[index] = from.policy[at] as number;
      traffic.endpoint[index] = from.endpoint[at] as number;
      traffic.flags[index] = from.flags[at] as number;
      traffic.answers[index] = from.answers[at] as number;
      traffic.hint[index] = from.hint[at] as number;
      traffic.estimatedTokens[index] = from.estimated[at] as number;
      traffic.atLeastTokens[index] = from.atLeast[at] as number;
      traffic.maxTokens[index] = from.max[at] as number;
      const told = from.prompt[at] as number;
      traffic.promptTokens[index] = told > 0 ? told : Math.max(1, (from.estimated[at] as number) * (mean?.ratio ?? 1));
      const output = from.output[at] as number;
      const most = from.max[at] as number;
      traffic.outputTokens[index] =
        output > 0 ? output : Math.max(1, Math.min(mean?.output ?? 128, most > 0 ? most : Infinity));
      happened.end[index] = from.end[at] as number;
      happened.node[index] = from.node[at] as number;
      happened.waitMs[index] = from.wait[at] as number;
      happened.ttftMs[index] = from.ttft[at] as number;
      happened.responseMs[index] = from.response[at] as number;
      happened.usd[index] = from.usd[at] as number;
    });
    return { traffic, happened };
  }

  /** By model: mean output, and prompt tokens as counted by nodes over those estimated. */
  #means(order: readonly number[]): Means {
    const { columns: from } = this.#requests;
    const sums = new Map<number, { output: number; outputs: number; told: number; estimated: number }>();
    for (const at of order) {
      const model = from.model[at] as number;
      let sum = sums.get(model);
      if (sum === undefined) {
        sum = { output: 0, outputs: 0, told: 0, estimated: 0 };
        sums.set(model, sum);
      }
      const [output, told] = [from.output[at] as number, from.prompt[at] as number];
      if (output > 0) {
        sum.output += output;
        sum.outputs += 1;
      }
      if (told > 0) {
        sum.told += told;
        sum.estimated += from.estimated[at] as number;
      }
    }
    return new Map(
      Array.from(sums, ([model, { output, outputs, told, estimated }]) => [
        model,
        { output: outputs > 0 ? output / outputs : 128, ratio: estimated > 0 ? told / estimated : 1 },
      ]),
    );
  }
}

function skippedText(skipped: Skipped): string {
  const words: Record<keyof Skipped, string> = {
    caller_error: "refused by the node for what was asked",
    unfinished: "without an outcome",
    unknown_names: "of models, policies or nodes whose names are lost",
    unserved_model: "of models that no node of the window serves",
  };
  const parts = (Object.keys(words) as (keyof Skipped)[]).flatMap((name) =>
    skipped[name] > 0 ? [`${skipped[name]} ${words[name]}`] : [],
  );
  return parts.length === 0 ? "none" : parts.join(", ");
}

function same(a: number, b: number): boolean {
  return a === b || (Number.isNaN(a) && Number.isNaN(b));
}
