/**
 * Back-tests that the admin API starts, each on a thread of its own; the last ones are remembered. An account has one at a
 * time. Operators have a place of their own, so that they wait behind nobody; all other accounts share theirs, first come
 * first served, with a bound on how many wait, how long one runs and how much it replays.
 */

import { randomUUID } from "node:crypto";
import { Worker } from "node:worker_threads";
import type { Config } from "@zml/protocol";
import type { BacktestJobJson } from "@zml/protocol/admin";
import type { BacktestAsk, BacktestSource, BacktestStart } from "../admin/admin-sources.ts";
import type { FromJob } from "../commands/backtest/job-thread.ts";
import type { BacktestOptions } from "../commands/backtest/run-backtest.ts";
import type { KeptDecisions } from "../evidence/kept/kept-decisions.ts";

/** Jobs of an account that can still be looked at. A report is some 50 kB. */
const REMEMBERED = 8;
/** Jobs of all accounts but the operators' that can. */
const REMEMBERED_OF_TENANTS = 64;
/** Records of some ten million requests, MB. */
const HEAP = { maxOldGenerationSizeMb: 4_096 };
/** Owner of what operators start. */
const OPERATORS = "";

/** A job that runs. */
interface Run {
  /** Ends it, done or not. */
  end(): Promise<unknown>;
}

/** Runs a back-test somewhere else. Its last message is `done` or `failed`. */
export type RunJob = (options: BacktestOptions, tell: (message: FromJob) => void) => Run;

export interface BacktestJobsOptions {
  readonly kept: Pick<KeptDecisions, "path" | "call">;
  readonly limits: () => Config["evidence"]["backtests"];
  /** Default: on a thread. */
  readonly run?: RunJob;
}

/** A job and whose it is. */
interface Job {
  readonly owner: string;
  readonly ask: BacktestAsk;
  json: BacktestJobJson;
  /** It holds a place: from its beginning until its thread has ended. */
  isPlaced: boolean;
  run: Run | null;
  timer: NodeJS.Timeout | null;
}

export class BacktestJobs implements BacktestSource {
  readonly #kept: BacktestJobsOptions["kept"];
  readonly #limits: BacktestJobsOptions["limits"];
  readonly #run: RunJob;
  /** Newest first. */
  readonly #jobs: Job[] = [];
  #isStopped = false;

  constructor({ kept, limits, run = runOnThread }: BacktestJobsOptions) {
    this.#kept = kept;
    this.#limits = limits;
    this.#run = run;
  }

  /**
   * Starts one, or lets it wait for its place.
   *
   * @param owner account that may look at it; "": operators only.
   * @throws StoreFault when the last decisions can't be written.
   */
  async start(owner: string, ask: BacktestAsk): Promise<BacktestStart> {
    if (this.#kept.path === null) return { kind: "not_kept" };
    const own = this.#jobs.find((job) => job.owner === owner && isOpen(job));
    if (own !== undefined) return { kind: "already_running", id: own.json.id };
    const hasPlace = this.#hasPlace(owner);
    if (!hasPlace && this.#waiting().length >= this.#limits().tenantsWaiting) {
      return { kind: "too_many", waiting: this.#waiting().length };
    }
    const job: Job = { owner, ask, json: newJob(), isPlaced: false, run: null, timer: null };
    this.#jobs.unshift(job);
    this.#forget(owner);
    if (hasPlace) {
      try {
        await this.#begin(job);
      } catch (error) {
        this.#jobs.splice(this.#jobs.indexOf(job), 1);
        this.#leave(job);
        throw error;
      }
    }
    return { kind: "started", job: this.#told(job) };
  }

  /** Null: no such job, or not this account's. @param account null: an operator, who sees all. */
  find(id: string, account: string | null): BacktestJobJson | null {
    const job = this.#find(id, account);
    return job === undefined ? null : this.#told(job);
  }

  /** Newest first. */
  list(account: string | null): BacktestJobJson[] {
    return this.#jobs.filter(({ owner }) => account === null || owner === account).map((job) => this.#told(job));
  }

  /** Ends a job that runs or waits; of one that has ended nothing changes. Null: no such job. */
  cancel(id: string, account: string | null): BacktestJobJson | null {
    const job = this.#find(id, account);
    if (job === undefined) return null;
    if (isOpen(job)) this.#end(job, { state: "cancelled" });
    return this.#told(job);
  }

  stop(): void {
    this.#isStopped = true;
    for (const job of this.#jobs) if (isOpen(job)) this.#end(job, { state: "cancelled" });
  }

  #find(id: string, account: string | null): Job | undefined {
    return this.#jobs.find(({ json, owner }) => json.id === id && (account === null || owner === account));
  }

  #hasPlace(owner: string): boolean {
    const isOperators = owner === OPERATORS;
    const taken = this.#jobs.filter((job) => job.isPlaced && (job.owner === OPERATORS) === isOperators).length;
    return taken < (isOperators ? 1 : this.#limits().tenantsAtOnce);
  }

  /** The next one first. */
  #waiting(): Job[] {
    return this.#jobs.filter(({ json }) => json.state === "waiting").reverse();
  }

  #told(job: Job): BacktestJobJson {
    if (job.json.state !== "waiting") return job.json;
    const running = this.#jobs.filter(({ isPlaced, owner }) => isPlaced && owner !== OPERATORS).length;
    return { ...job.json, ahead: running + this.#waiting().indexOf(job) };
  }

  /** @throws StoreFault when the last decisions can't be written. */
  async #begin(job: Job): Promise<void> {
    job.isPlaced = true;
    job.json = { ...job.json, state: "running", started_at: new Date().toISOString() };
    await this.#kept.call("flush", null);
    const { path } = this.#kept;
    if (job.json.state !== "running") return;
    if (path === null) return this.#fail(job, "decisions are not kept any more: set evidence.keep");
    const { minutes, tenantMinutes, tenantRecords } = this.#limits();
    const isOperators = job.owner === OPERATORS;
    const most = isOperators ? minutes : tenantMinutes;
    const setting = isOperators ? "minutes" : "tenant_minutes";
    const late = `it took longer than ${most} min (evidence.backtests.${setting}): choose a shorter window`;
    job.timer = setTimeout(() => this.#fail(job, late), most * 60_000).unref();
    const options = { ...job.ask, path, ...(isOperators ? {} : { recordsMax: tenantRecords }) };
    job.run = this.#run(options, (message) => this.#take(job, message));
  }

  #take(job: Job, message: FromJob): void {
    if (!isOpen(job)) return;
    switch (message.kind) {
      case "progress":
        job.json = { ...job.json, phase: message.phase, progress: message.progress };
        return;
      case "done":
        this.#end(job, { state: "done", progress: 1, report: message.report });
        return;
      case "failed":
        this.#end(job, { state: "failed", problem: message.problem });
    }
  }

  #fail(job: Job, detail: string): void {
    if (isOpen(job)) this.#end(job, { state: "failed", problem: { code: "failed", detail, errors: [] } });
  }

  #end(job: Job, end: Partial<BacktestJobJson>): void {
    job.json = { ...job.json, ...end, ended_at: new Date().toISOString() };
    if (job.timer !== null) clearTimeout(job.timer);
    // the next one needs the memory that this one holds
    if (job.run === null) this.#leave(job);
    else void job.run.end().finally(() => this.#leave(job));
  }

  /** Its place is free. */
  #leave(job: Job): void {
    job.isPlaced = false;
    job.run = null;
    if (this.#isStopped) return;
    for (const next of this.#waiting()) {
      if (!this.#hasPlace(next.owner)) return;
      this.#begin(next).catch((error) => {
        const detail = error instanceof Error ? error.message : String(error);
        if (isOpen(next)) this.#end(next, { state: "failed", problem: { code: "store", detail, errors: [] } });
      });
    }
  }

  /** Those that ended first, of this account and of all tenants: nobody takes an operator's report away. */
  #forget(owner: string): void {
    const drop = (jobs: Job[], most: number): void => {
      const ended = jobs.filter((job) => !isOpen(job) && !job.isPlaced).reverse();
      for (const job of ended.slice(0, Math.max(0, jobs.length - most))) this.#jobs.splice(this.#jobs.indexOf(job), 1);
    };
    drop(
      this.#jobs.filter((job) => job.owner === owner),
      REMEMBERED,
    );
    drop(
      this.#jobs.filter((job) => job.owner !== OPERATORS),
      REMEMBERED_OF_TENANTS,
    );
  }
}

function isOpen({ json: { state } }: Job): boolean {
  return state === "running" || state === "waiting";
}

function newJob(): BacktestJobJson {
  return {
    id: randomUUID(),
    state: "waiting",
    phase: "reading",
    progress: 0,
    ahead: null,
    started_at: new Date().toISOString(),
    ended_at: null,
    problem: null,
    report: null,
  };
}

function runOnThread(options: BacktestOptions, tell: (message: FromJob) => void): Run {
  const worker = new Worker(new URL("../commands/backtest/job-thread.ts", import.meta.url), {
    workerData: options,
    resourceLimits: HEAP,
    name: "zml-backtest",
  });
  worker.unref();
  const fail = (detail: string): void => tell({ kind: "failed", problem: { code: "failed", detail, errors: [] } });
  worker.on("message", tell);
  worker.on("error", (error) => fail(error instanceof Error ? error.message : String(error)));
  worker.on("exit", () => fail("its thread ended"));
  return { end: () => worker.terminate() };
}
