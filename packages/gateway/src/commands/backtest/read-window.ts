/** Kept records of a window as requests, as what became of them, and as attempts that timing is fitted on. */

import type { PolicyData } from "@zml/engine";
import type { ColumnReader } from "../../evidence/kept/decision-columns.ts";
import type { ChunkRow, DecisionDatabase, RunRow } from "../../evidence/kept/decision-database.ts";
import { type ChunkRecord, recordsOf } from "./chunk-records.ts";
import { emptyFleet, type RunIndexes, readFleet, runIndexes, type WindowFleet } from "./read-fleet.ts";
import { RecordedAttempts } from "./recorded-attempts.ts";
import { RecordedCharges } from "./recorded-charges.ts";
import { RecordedRequests } from "./recorded-requests.ts";
import { BacktestError, type Backtesting, type RecordedWindow, type Skipped, skippedText } from "./recorded-window.ts";

/** Attempts before the window teach too: so much of it, and at least so long, ms. */
const FIT_BEFORE_SHARE = 0.1;
const FIT_BEFORE_MS = 600_000;
/** Requests that came so long before the window or after it are its company, ms, and at most so many. */
const OUTSIDE_MS = 60_000;
const OUTSIDE_MAX = 5_000;
/** A request that waited for less did not park, ms. */
const PARKED_MS = 0.5;
/** Requests that waited were admitted before they were decided, ms. */
const WINDOW_MARGIN_MS = 1_000;

/**
 * Reads a window. O(records).
 *
 * @throws BacktestError when there is nothing to replay, or more than `recordsMax`.
 */
export async function readWindow(
  database: DecisionDatabase,
  sim: Backtesting,
  { fromMs, toMs, recordsMax = Infinity }: { fromMs: number; toMs: number; recordsMax?: number },
  onProgress: (share: number) => void,
): Promise<RecordedWindow> {
  const fitFromMs = fromMs - Math.max(FIT_BEFORE_MS, (toMs - fromMs) * FIT_BEFORE_SHARE);
  const chunks = database.chunksBetween(fitFromMs, toMs + OUTSIDE_MS);
  const most = chunks.reduce((sum, { records }) => sum + records, 0);
  if (most > recordsMax) {
    throw new BacktestError(
      "too_many_records",
      `the window and what comes before it have ${most} records, and ${recordsMax} are the most (evidence.backtests.tenant_records): choose a shorter window`,
    );
  }
  const lost = database.losses(fromMs, toMs).reduce((sum, { records }) => sum + records, 0);
  const isAnyThere = chunks.some(({ firstAtMs, lastAtMs }) => lastAtMs >= fromMs && firstAtMs < toMs);
  if (!isAnyThere) throw nothingThere(database, fromMs, toMs, lost);
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

class WindowReader {
  readonly #sim: Backtesting;
  readonly #window: { readonly fitFromMs: number; readonly fromMs: number; readonly toMs: number };
  readonly #fleet: WindowFleet;
  readonly #requests: RecordedRequests;
  readonly #attempts: RecordedAttempts;
  readonly #skipped: Skipped = { caller_error: 0, unfinished: 0, unknown_names: 0, unserved_model: 0 };
  readonly #charges: RecordedCharges;
  readonly #earlier: RecordedWindow["earlier"][number][] = [];
  readonly #later: RecordedWindow["later"][number][] = [];
  readonly #isServed = new Set<number>();
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
    this.#fleet = fleet;
    this.#requests = new RecordedRequests(sim, most);
    const lengthMs = Math.max(1, seen.toMs - seen.fromMs);
    this.#attempts = new RecordedAttempts({ fromMs: seen.fromMs - window.fromMs, lengthMs }, most);
    this.#charges = new RecordedCharges(seen.toMs - window.fromMs);
    for (const node of fleet.nodes) for (const model of node?.models.keys() ?? []) this.#isServed.add(model);
  }

  take({ worker, run: runId }: ChunkRow, columns: ColumnReader, run: RunRow, indexes: RunIndexes): void {
    const { fitFromMs, fromMs, toMs } = this.#window;
    const ring = `${runId}:${worker}`;
    for (const record of recordsOf(columns)) {
      const admittedMs = run.originMs + record.admittedAtMs;
      if (admittedMs < fitFromMs || admittedMs >= toMs + OUTSIDE_MS) continue;
      const isOutside = admittedMs < fromMs || admittedMs >= toMs;
      if (!isOutside) this.#records += 1;
      const found = this.#find(record, indexes);
      if (typeof found === "string") {
        if (record.previous < 0 && !isOutside) this.#skipped[found] += 1;
        continue;
      }
      const atMs = admittedMs - fromMs;
      if (found.node >= 0) {
        const attempt = { ...record, ...found, sentMs: atMs + waitOf(record) };
        this.#attempts.note(attempt);
        if (admittedMs < toMs) this.#charges.note(attempt);
      }
      // what came before the window teaches, and what came shortly before or after it is company
      if (isOutside) this.#noteOutside(record, found, atMs);
      else if (record.previous < 0) this.#noteRequest(record, found, { ring, atMs });
      else if (found.node >= 0) this.#noteAgain(record, found.node, { ring, atMs });
    }
  }

  /** What a record names, under the indexes of the window; or why that is not known. */
  #find(record: ChunkRecord, indexes: RunIndexes): Found | "unknown_names" | "unserved_model" {
    const model = indexes.models[record.model] ?? -1;
    const policy = indexes.policies[record.policy] ?? -1;
    const isChosen = record.identity >= 0;
    const node = isChosen ? (indexes.identities[record.identity] ?? -1) : -1;
    const data = this.#fleet.policyData[policy];
    if (model < 0 || data === undefined || record.endpoint < 0) return "unknown_names";
    if (isChosen && this.#fleet.nodes[node] === undefined) return "unknown_names";
    if (!this.#isServed.has(model)) return "unserved_model";
    return { model, policy, node, hint: indexes.families[record.hint] ?? -1, data };
  }

  #noteOutside(record: ChunkRecord, { model, policy, node }: Found, admittedMs: number): void {
    const { fromMs, toMs } = this.#window;
    const atMs = admittedMs + waitOf(record);
    if (node < 0 || record.outcome !== "success" || atMs < -OUTSIDE_MS) return;
    const isLater = admittedMs >= toMs - fromMs;
    if (!isLater && atMs >= 0) return;
    const { endpoint, isStream, promptTokens, estimatedTokens, outputTokens, maxTokens } = record;
    (isLater ? this.#later : this.#earlier).push({
      ...{ atMs, model, policy, endpoint, node, isStream, maxTokens },
      promptTokens: promptTokens > 0 ? promptTokens : estimatedTokens,
      outputTokens: outputTokens > 0 ? outputTokens : 1,
    });
  }

  #noteAgain(record: ChunkRecord, node: number, { ring, atMs }: RecordPlace): void {
    this.#requests.triedAgain({
      key: `${ring}:${record.sequence}`,
      previous: `${ring}:${record.previous}`,
      atMs: atMs + waitOf(record),
      isServed: record.outcome === "success",
      isCancelled: record.outcome === "cancelled",
      ...{ node, firstMs: record.firstMs, durationMs: record.durationMs },
      prompt: record.promptTokens,
      output: record.outputTokens,
      usd: orNothing(record.usd),
    });
  }

  #noteRequest(record: ChunkRecord, { model, policy, node, hint, data }: Found, { ring, atMs }: RecordPlace): void {
    const { outcome, firstMs, durationMs } = record;
    const requests = this.#requests;
    const request = `${ring}:${record.admittedAtMs}`;
    const isChosen = node >= 0;
    const waitMs = waitOf(record);
    const isSkipped = outcome === "running" || outcome === "caller_error" || outcome === "too_large";
    if (isChosen && (isSkipped || waitMs > PARKED_MS)) requests.gotNode(request);
    if (isChosen && isSkipped) {
      this.#skipped[outcome === "running" ? "unfinished" : "caller_error"] += 1;
      return;
    }
    const next = requests.count;
    const at = requests.rowOf(request, isChosen);
    const isOther = record.costPriority !== data.costPriority || !same(record.latencyTargetMs, data.latencyTargetMs);
    if (isOther && at === next) this.#underOtherSettings += 1;
    const { END, FLAG } = this.#sim;
    const { columns: to } = requests;
    to.atMs[at] = atMs;
    to.model[at] = model;
    to.policy[at] = policy;
    to.endpoint[at] = record.endpoint;
    to.flags[at] = (record.isStream ? FLAG.stream : 0) | (record.hasImages ? FLAG.images : 0);
    to.answers[at] = Math.max(1, record.answers);
    to.hint[at] = hint;
    to.estimated[at] = record.estimatedTokens;
    to.atLeast[at] = orNothing(record.atLeastTokens);
    to.prompt[at] = record.promptTokens;
    to.output[at] = record.outputTokens;
    to.max[at] = record.maxTokens;
    to.usd[at] = orNothing(record.usd);
    to.wait[at] = waitMs;
    to.node[at] = node;
    to.ttft[at] = Number.NaN;
    to.response[at] = Number.NaN;
    if (!isChosen) {
      to.end[at] = waitMs > PARKED_MS ? END.waited_in_vain : END.refused;
    } else if (outcome === "success") {
      to.end[at] = END.served;
      to.ttft[at] = waitMs + firstMs;
      to.response[at] = waitMs + durationMs;
    } else {
      to.end[at] = outcome === "cancelled" ? END.cancelled : END.failed;
      if (outcome !== "cancelled") requests.failed(`${ring}:${record.sequence}`, at);
    }
  }

  finish({ lost, isFromStart }: { lost: number; isFromStart: boolean }): RecordedWindow {
    const { fromMs, toMs } = this.#window;
    this.#attempts.antedateFailures(this.#fleet);
    const order = this.#requests.ordered();
    if (order.length === 0) {
      throw new BacktestError(
        "empty_window",
        `of ${this.#records} records of the window none can be replayed (${skippedText(this.#skipped)}): choose another window`,
      );
    }
    return {
      fromMs,
      toMs,
      ...this.#requests.replayable(order),
      fleet: this.#fleet,
      attempts: this.#attempts.byTime(),
      speeds: this.#attempts.speeds(),
      charges: this.#charges,
      earlier: this.#earlier.sort((a, b) => a.atMs - b.atMs).slice(-OUTSIDE_MAX),
      later: this.#later.sort((a, b) => a.atMs - b.atMs).slice(0, OUTSIDE_MAX),
      skipped: this.#skipped,
      records: this.#records,
      lost,
      underOtherSettings: this.#underOtherSettings,
      isFromStart,
    };
  }
}

/** What a record names, under the indexes of the window. */
interface Found {
  readonly model: number;
  readonly policy: number;
  /** -1: none was chosen. */
  readonly node: number;
  /** Family that the caller asked for; -1: none. */
  readonly hint: number;
  readonly data: PolicyData;
}

interface RecordPlace {
  /** Run and worker: sequences and times of admission are of one ring. */
  readonly ring: string;
  /** When it was admitted, since the window began, ms. */
  readonly atMs: number;
}

function waitOf({ admittedAtMs, decidedAtMs }: ChunkRecord): number {
  return decidedAtMs - admittedAtMs;
}

function orNothing(value: number): number {
  return Number.isNaN(value) ? 0 : value;
}

function same(a: number, b: number): boolean {
  return a === b || (Number.isNaN(a) && Number.isNaN(b));
}
