/**
 * What a back-test makes of the demo's own traffic: its fleet of fake nodes, its policies and its trace through a gateway, and
 * the replay of what was in force against what happened. At half of the speed of real accelerators: a step takes 12 ms and more,
 * so that what a busy machine adds to it stays small.
 */

import assert from "node:assert/strict";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { BacktestReportJson } from "@zml/protocol/admin";
import { configText } from "../../simulator/src/demo/demo-config.ts";
import { startFakeDemoFleet } from "../../simulator/src/demo/demo-fleet.ts";
import { readTraceExcerpt } from "../../simulator/src/demo/trace.ts";
import { Traffic } from "../../simulator/src/demo/traffic.ts";
import { warmUp } from "../../simulator/src/demo/warm-up.ts";
import { planCalls } from "../../simulator/src/demo/workload.ts";
import { runBacktest } from "../src/commands/backtest/run-backtest.ts";
import type { Gateway } from "../src/control/gateway-interface.ts";
import { folder, startOn, until } from "./control-fixture.ts";

const SPEED_UP = 0.5;
/** Of the trace: the demo's two, at half of the speed. */
const RATE = 1;
const SEED = 1;
/** Of traffic before the first window: calls that fill the nodes. */
const LEAD_MS = 4_000;
/**
 * Windows one after the other, each back-tested by itself, from the state that the fleet was in as it began: when a fleet
 * leaves a state that holds itself is chance, which then costs one window and not all that comes after.
 */
const WINDOWS = 3;
const WINDOW_MS = 6_000;
/** Of traffic after the last window, for the company of those who came last in it. */
const TAIL_MS = 1_500;
/** The longest answers of the trace take 20 s: those few are broken off and not judged. */
const FINISH_MS = 3_000;
/** One of so many has to be replayed well: in one of ten the fleet leaves its state within a window, by chance. */
const RECORDINGS = 3;
/** So many of those that were off must be of a machine that kept time; else nothing is known. */
const KEPT_TIME_MIN = 2;
/**
 * One in twenty timers of this process may be this late, ms. Alone on two cores they are late by 1, beside a build by 5 to 13:
 * then the fake nodes and the gateway stand still now and then, which no model of nodes can tell.
 */
const LATE_MAX_MS = 3;
const TIMER_MS = 5;
const DEADLINE_MS = 170_000;

/** What is judged, all windows together; latencies in ms. */
interface Judged {
  readonly usd: number;
  readonly attainment: number;
  readonly tokenMs: number;
  readonly responseMs: number;
  readonly firstMs: number;
  readonly families: Readonly<Record<string, number>>;
}

async function started(t: TestContext) {
  const fleet = await startFakeDemoFleet({ speedUp: SPEED_UP, seed: SEED });
  t.after(() => fleet.stop());
  const { model, nodes, policies } = fleet;
  const text = configText({ model, nodes, policies, cooldownMs: 3_000 });
  const storeFolder = join(folder(t), "zml-data");
  const kept = text.replace('store: { path: ":memory:" }', "evidence: { keep: {} }");
  assert.notEqual(kept, text, "the demo's file keeps its store in memory");
  const { gateway } = await startOn(t, kept, { storeFolder });
  const ends = await warmUp({ fleet, dataUrl: gateway.dataUrl, signal: AbortSignal.timeout(60_000) });
  assert.deepEqual(
    ends.filter(({ isGood }) => !isGood).map(({ error }) => error),
    [],
  );
  return { fleet, gateway, path: join(storeFolder, "decisions.sqlite"), calls: ends.length };
}

type Started = Awaited<ReturnType<typeof started>>;

/** Traffic with windows in it, the first from `fromMs` on, Unix ms; `lateMs`: of one in twenty timers meanwhile, at least. */
async function record(up: Started, seed: number): Promise<{ fromMs: number; lateMs: number }> {
  const { fleet, gateway } = up;
  const errors: string[] = [];
  const shares = fleet.policies.map(({ name, share }) => ({ policy: name, share }));
  const traffic = new Traffic({
    ...{ calls: planCalls({ rows: readTraceExcerpt(), shares, rate: RATE, seed }), seed },
    ...{ model: fleet.model, dataUrl: gateway.dataUrl, onHead: () => {} },
    onSent: () => {
      up.calls += 1;
    },
    onEnd: (_, { error }) => {
      if (error !== "") errors.push(error);
    },
  });
  traffic.start();
  await delay(LEAD_MS);
  const fromMs = Date.now();
  const timers = monitorEventLoopDelay({ resolution: TIMER_MS });
  timers.enable();
  await delay(WINDOWS * WINDOW_MS + TAIL_MS);
  timers.disable();
  await traffic.finish(FINISH_MS);
  assert.deepEqual(errors, []);
  await until("all decisions are kept", async () => (await keptOf(gateway)) >= up.calls);
  return { fromMs, lateMs: timers.percentile(95) / 1e6 - TIMER_MS };
}

async function keptOf(gateway: Gateway): Promise<number> {
  const response = await fetch(`${gateway.adminUrl}/admin/v1/status`);
  const { decisions } = (await response.json()) as { readonly decisions?: { readonly kept: number } };
  return decisions?.kept ?? 0;
}

/** Reports of the windows, under any draft: what is judged is the replay of what is in force. */
function backtests(path: string, fromMs: number): Promise<BacktestReportJson[]> {
  const draft = { account: "default", name: "chat", acceleratorPreference: [], costPriority: "cost" };
  const windows = Array.from({ length: WINDOWS }, (_, window) => {
    const span = { fromMs: fromMs + window * WINDOW_MS, toMs: fromMs + (window + 1) * WINDOW_MS };
    return runBacktest({ path, ...span, drafts: [draft as never], replaces: null, account: null }, () => {});
  });
  return Promise.all(windows);
}

function judgedOf(reports: readonly BacktestReportJson[], run: "happened" | "current"): Judged {
  const requests = reports.reduce((sum, { figures }) => sum + figures[run].requests, 0);
  const mean = (of: (report: BacktestReportJson) => number | null) =>
    reports.reduce((sum, report) => sum + (of(report) ?? Number.NaN) * report.figures[run].requests, 0) / requests;
  const [{ figures }] = reports as [BacktestReportJson];
  return {
    usd: reports.reduce((sum, report) => sum + report.figures[run].usd, 0),
    attainment: mean((report) => report.figures[run].attainment),
    tokenMs: mean((report) => report.figures[run].token_ms.p50),
    responseMs: mean((report) => report.figures[run].response_ms.p50),
    firstMs: mean(({ curves }) => geometricMean(curves.ttft_ms[run])),
    families: Object.fromEntries(
      Object.keys(figures[run].families).map((name) => [
        name,
        mean((report) => report.figures[run].families[name] ?? 0),
      ]),
    ),
  };
}

/**
 * Of the quantiles of first tokens. Their median lies in a gap, between short prompts, which take a step or two, and long
 * ones: a few requests more on one side move it by a third.
 */
function geometricMean(quantiles: readonly (number | null)[]): number {
  const known = quantiles.filter((ms) => ms !== null).slice(1, -5);
  return Math.exp(known.reduce((sum, ms) => sum + Math.log(ms), 0) / known.length);
}

/** By figure: parts of what happened; of shares points. */
function deviations(happened: Judged, replayed: Judged): Record<string, number> {
  const off = (figure: "usd" | "tokenMs" | "responseMs" | "firstMs") => replayed[figure] / happened[figure] - 1;
  return {
    ...{ usd: off("usd"), token: off("tokenMs"), response: off("responseMs"), first: off("firstMs") },
    attainment: replayed.attainment - happened.attainment,
    ...Object.fromEntries(
      Object.entries(happened.families).map(([name, share]) => [name, (replayed.families[name] ?? 0) - share]),
    ),
  };
}

const BOUND = 0.1;

test("the replay of what is in force is within 10 % of what happened to the demo's own traffic", {
  timeout: DEADLINE_MS,
}, async (t) => {
  const up = await started(t);
  const missed: string[] = [];
  for (let recording = 0; recording < RECORDINGS; recording++) {
    const { fromMs, lateMs } = await record(up, SEED + recording);
    const reports = await backtests(up.path, fromMs);
    const requests = reports.reduce((sum, { window }) => sum + window.requests, 0);
    assert.ok(requests > 100, `${requests} requests were recorded`);
    assert.ok(reports.every(({ window }) => window.lost === 0 && !window.is_from_start));
    const off = deviations(judgedOf(reports, "happened"), judgedOf(reports, "current"));
    const figures = Object.entries(off).map(([figure, by]) => `${figure} ${(by * 100).toFixed(1)}`);
    const text = `${requests} requests, timers late by ${lateMs.toFixed(1)} ms; off by %: ${figures.join(", ")}`;
    t.diagnostic(text);
    if (Object.values(off).every((by) => Math.abs(by) <= BOUND)) return;
    if (lateMs <= LATE_MAX_MS) missed.push(text);
  }
  assert.ok(missed.length < KEPT_TIME_MIN, `off by more than ${BOUND * 100} %:\n${missed.join("\n")}`);
  t.skip("the machine was too busy to keep time: see the diagnostics");
});
