/** A back-test from the file of kept decisions to its report. Runs anywhere but on a thread that serves. */

import { existsSync } from "node:fs";
import { Worker } from "node:worker_threads";
import type { PolicyData } from "@zml/engine";
import type { PolicyConfig } from "@zml/protocol";
import type { BacktestJobJson, BacktestReportJson } from "@zml/protocol/admin";
import type { ReplayPlan, Results } from "@zml/simulator/backtest";
import { DecisionDatabase } from "../../evidence/kept/decision-database.ts";
import { StoreFault } from "../../store/store-fault.ts";
import { type PlacedDraft, placeDrafts, policyCounts } from "./draft-policies.ts";
import { planOf, SEED } from "./plan-of-window.ts";
import { readWindow } from "./read-window.ts";
import { BacktestError, type Backtesting, type RecordedWindow } from "./recorded-window.ts";
import type { FromReplay, ReplayStart } from "./replay-thread.ts";

export interface BacktestOptions {
  /** The file of kept decisions. */
  readonly path: string;
  /** Unix ms. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly drafts: readonly PolicyConfig[];
  readonly replaces: string | null;
  /** Whose requests are judged; null: all. */
  readonly account: string | null;
  /** A window with more records is refused. Default: none is. */
  readonly recordsMax?: number;
}

/** Told now and then: 0 to 1 over all phases. */
export type OnProgress = (phase: BacktestJobJson["phase"], progress: number) => void;

/** Policies whose figures are told each. */
const POLICIES_TOLD = 8;
/** Shares of the curves of a plot. */
const SHARES = [...Array.from({ length: 49 }, (_, index) => (index + 1) / 50), 0.99, 0.995, 0.999];
/** Shares of progress at which phases end. */
const READ_SHARE = 0.2;
const FIT_SHARE = 0.3;
const REPLAY_SHARE = 0.95;
/** What a replay may hold, MB: its requests stand in shared memory. */
const HEAP = { maxOldGenerationSizeMb: 2_048 };

/**
 * Runs a back-test.
 *
 * @throws BacktestError for what can't be replayed.
 */
export async function runBacktest(options: BacktestOptions, onProgress: OnProgress): Promise<BacktestReportJson> {
  const startMs = performance.now();
  const sim = await import("@zml/simulator/backtest");
  onProgress("reading", 0);
  const window = await withDatabase(options.path, (database) =>
    readWindow(database, sim, options, (share) => onProgress("reading", share * READ_SHARE)),
  );
  const drafts = placeDrafts(window, options.drafts, options.replaces);
  onProgress("fitting", READ_SHARE);
  const { plan, rowOf } = planOf(sim, window);
  const happened = window.happened;
  for (let index = 0; index < happened.count; index++) {
    const identity = happened.node[index] as number;
    happened.node[index] = identity < 0 ? -1 : (rowOf.get(identity) ?? -1);
  }
  const draftPlan = { ...plan, policies: withDrafts(plan.policies, drafts) };
  onProgress("replaying", FIT_SHARE);
  const shares = [0, 0];
  const note = (run: number) => (share: number) => {
    shares[run] = share;
    const mean = ((shares[0] as number) + (shares[1] as number)) / 2;
    onProgress("replaying", FIT_SHARE + mean * (REPLAY_SHARE - FIT_SHARE));
  };
  const [current, draft] = await Promise.all([
    replayed(sim, plan, window, note(0)),
    replayed(sim, draftPlan, window, note(1)),
  ]);
  onProgress("summing up", REPLAY_SHARE);
  for (const results of [current, draft]) copyCancelled(sim, results, happened);
  const report = reportOf(sim, { options, window, plan, drafts, happened, current, draft });
  return { ...report, took_ms: Math.round(performance.now() - startMs) };
}

async function withDatabase<T>(path: string, work: (database: DecisionDatabase) => Promise<T>): Promise<T> {
  if (!existsSync(path)) {
    throw new BacktestError("store", `no decisions are kept at ${path}: set evidence.keep, or name the store's folder`);
  }
  let database: DecisionDatabase | null = null;
  try {
    database = new DecisionDatabase(path);
    return await work(database);
  } catch (error) {
    if (error instanceof StoreFault) throw new BacktestError("store", error.message);
    throw error;
  } finally {
    database?.close();
  }
}

function withDrafts(policies: readonly PolicyData[], drafts: readonly PlacedDraft[]): PolicyData[] {
  const changed = [...policies];
  for (const { index, data } of drafts) changed[index] = { ...data, index };
  return changed;
}

/** Runs a plan on a thread of its own. */
async function replayed(
  sim: Backtesting,
  plan: ReplayPlan,
  { traffic }: RecordedWindow,
  onProgress: (share: number) => void,
): Promise<Results> {
  const results = sim.resultsOf(traffic.count);
  const start: ReplayStart = { plan, count: traffic.count, traffic: traffic.buffer, results: results.buffer };
  const worker = new Worker(new URL("./replay-thread.ts", import.meta.url), {
    workerData: start,
    resourceLimits: HEAP,
    name: "zml-replay",
  });
  await new Promise<void>((resolve, reject) => {
    worker.on("message", (message: FromReplay) => {
      if (message.kind === "progress") onProgress(message.share);
      else resolve();
    });
    worker.on("error", reject);
    worker.on("exit", (code) => {
      if (code !== 0) reject(new Error(`a replay ended with ${code}`));
    });
  });
  await worker.terminate();
  return results;
}

/** A caller who left has no response time; what the node did for it has a price. */
function copyCancelled(sim: Backtesting, results: Results, happened: Results): void {
  for (let index = 0; index < results.count; index++) {
    const { END } = sim;
    if (happened.end[index] === END.cancelled && results.end[index] === END.served) results.end[index] = END.cancelled;
  }
}

interface Told {
  readonly options: BacktestOptions;
  readonly window: RecordedWindow;
  readonly plan: ReplayPlan;
  readonly drafts: readonly PlacedDraft[];
  readonly happened: Results;
  readonly current: Results;
  readonly draft: Results;
}

function reportOf(sim: Backtesting, told: Told): Omit<BacktestReportJson, "took_ms"> {
  const { options, window, plan, drafts, happened, current, draft } = told;
  const { traffic } = window;
  const counts = policyCounts(window);
  const mine = [...counts.keys()].filter(
    (index) => options.account === null || plan.policies[index]?.account === options.account,
  );
  const only = options.account === null ? null : new Set(mine);
  const newTargets = withDrafts(plan.policies, drafts);
  const summary = (results: Results, targets: readonly PolicyData[] = plan.policies) =>
    new sim.Summary(plan, targets, traffic, results, only);
  const [real, now, then] = [summary(happened), summary(current), summary(draft)];
  const runs = <T>(of: (results: typeof real) => T) => ({ happened: of(real), current: of(now), draft: of(then) });
  const figures = runs((run) => run.figures());
  const byDraft = (results: Results) => summary(results, newTargets).figures().attainment;
  const told8 = [
    ...new Set([
      ...drafts.map(({ index }) => index),
      ...mine.sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0)),
    ]),
  ];
  const ofPolicy = (index: number) => (results: Results) =>
    new sim.Summary(plan, plan.policies, traffic, results, new Set([index]), 1).figures();
  const iso = (ms: number) => new Date(ms).toISOString();
  const series = runs((run) => run.series());
  const lengthMs = (traffic.atMs[traffic.count - 1] ?? 0) - (traffic.atMs[0] ?? 0);
  const { lost, records } = window;
  const lostShare = lost / Math.max(1, lost + records);
  return {
    window: {
      from: iso(window.fromMs),
      to: iso(window.toMs),
      // how much others ask is theirs
      records: only === null ? records : figures.happened.requests,
      requests: figures.happened.requests,
      skipped: only === null ? { ...window.skipped } : NONE_SKIPPED,
      lost: only === null ? lost : 0,
      lost_share: lostShare,
      under_other_settings: only === null ? window.underOtherSettings : 0,
      is_from_start: window.isFromStart,
    },
    drafts: drafts.map(({ index, requests }, at) => ({
      account: plan.policies[index]?.account ?? "",
      policy: options.drafts[at]?.name ?? "",
      replaces: plan.policies[index]?.name ?? "",
      requests,
    })),
    warnings: warningsOf(told, lostShare),
    verdict: sim.verdictOf(figures.happened, figures.current),
    figures: figures,
    comparison: sim.compare(now, then, SEED),
    attainment_of_draft_targets: { happened: byDraft(happened), current: byDraft(current), draft: byDraft(draft) },
    policies: told8.slice(0, POLICIES_TOLD).map((index) => {
      const of = ofPolicy(index);
      return {
        account: plan.policies[index]?.account ?? "",
        policy: plan.policies[index]?.name ?? "",
        is_draft: drafts.some((one) => one.index === index),
        figures: { happened: of(happened), current: of(current), draft: of(draft) },
      };
    }),
    timings: plan.timings
      .filter(({ model }) => options.account === null || plan.models[model]?.account === options.account)
      .map(({ model, family, constants, overheadMs, samples, tokenError, responseError }) => ({
        account: plan.models[model]?.account ?? "",
        model: plan.models[model]?.name ?? "",
        family: plan.families[family] ?? "",
        // how much others asked is theirs
        attempts: only === null ? samples : ownAttempts(told, model, family),
        step_ms: constants.baseMs,
        per_sequence_us: constants.usPerSequence,
        per_cached_token_ns: constants.nsPerCachedToken,
        per_prompt_token_us: constants.usPerPrefillToken,
        overhead_ms: overheadMs,
        token_error: Number.isNaN(tokenError) ? null : tokenError,
        response_error: Number.isNaN(responseError) ? null : responseError,
      })),
    curves: {
      shares: SHARES,
      ttft_ms: runs((run) => run.quantileCurve("ttft", SHARES)),
      response_ms: runs((run) => run.quantileCurve("response", SHARES)),
    },
    series: {
      every_ms: lengthMs / series.current.length,
      usd: {
        happened: series.happened.map(({ usd }) => usd),
        current: series.current.map(({ usd }) => usd),
        draft: series.draft.map(({ usd }) => usd),
      },
      response_p95_ms: {
        happened: series.happened.map((block) => block.response_p95_ms),
        current: series.current.map((block) => block.response_p95_ms),
        draft: series.draft.map((block) => block.response_p95_ms),
      },
    },
  };
}

function ownAttempts({ window: { attempts, fleet } }: Told, model: number, family: number): number {
  return Array.from(attempts.values()).reduce(
    (sum, one) => sum + (one.model === model && fleet.nodes[one.node]?.family === family ? one.attempts.length : 0),
    0,
  );
}

const NONE_SKIPPED = { caller_error: 0, unfinished: 0, unknown_names: 0, unserved_model: 0 };

function warningsOf({ window, plan, drafts, options }: Told, lostShare: number): string[] {
  const warnings: string[] = [];
  const { traffic, lost, records, isFromStart } = window;
  const isAll = options.account === null;
  const skipped = isAll ? window.skipped : NONE_SKIPPED;
  const underOtherSettings = isAll ? window.underOtherSettings : 0;
  if (lost > 0) {
    const which = isAll
      ? `${lost} of ${lost + records} records of the window (${percent(lostShare)})`
      : percent(lostShare);
    warnings.push(
      `${which} ${isAll ? "" : "of the window's records "}were dropped before they were kept: the load that is replayed is lower than it was`,
    );
  }
  const left = Object.values(skipped).reduce((sum: number, count: number) => sum + count, 0);
  if (left > 0) warnings.push(`${left} requests are not replayed: ${skippedWords(skipped)}`);
  if (underOtherSettings > 0) {
    warnings.push(
      `${underOtherSettings} of ${traffic.count} requests came when their policy was set otherwise than it is now: what happened is not what is in force`,
    );
  }
  if (isFromStart)
    warnings.push("the window begins with the start of a gateway: it had to learn first, and so has the replay");
  const guessed = plan.timings.filter(({ samples }) => samples === 0);
  const used = new Set(drafts.flatMap(({ data }) => data.chain.map(({ family }) => family)));
  for (const { model, family } of guessed) {
    const { name = "", account } = plan.models[model] ?? {};
    if (!used.has(family) || (!isAll && account !== options.account)) continue;
    warnings.push(
      `nothing was recorded of ${name} on ${plan.families[family]}: its timing is taken from the model's other families`,
    );
  }
  return [...new Set(warnings)].slice(0, WARNINGS_MAX);
}

const WARNINGS_MAX = 50;

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

function skippedWords(skipped: RecordedWindow["skipped"]): string {
  return (Object.entries(skipped) as [string, number][])
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name.replaceAll("_", " ")}`)
    .join(", ");
}
