/** Back-tests that the admin API starts: one at a time, on a thread of its own; the last ones are remembered. */

import { randomUUID } from "node:crypto";
import { Worker } from "node:worker_threads";
import type { BacktestJobJson } from "@zml/protocol/admin";
import type { BacktestAsk, BacktestSource } from "../admin/admin-sources.ts";
import type { FromJob } from "../commands/backtest/job-thread.ts";
import type { BacktestOptions } from "../commands/backtest/run-backtest.ts";
import type { KeptDecisions } from "../evidence/kept/kept-decisions.ts";

/** Jobs that can still be looked at. A report is some 50 kB. */
const REMEMBERED = 8;
/** A job that takes longer is ended, ms. */
const JOB_MAX_MS = 30 * 60_000;
/** Records of some ten million requests, MB. */
const HEAP = { maxOldGenerationSizeMb: 4_096 };

/** A job and whose it is. */
interface Job {
  readonly owner: string;
  json: BacktestJobJson;
}

export class BacktestJobs implements BacktestSource {
  readonly #kept: KeptDecisions;
  readonly #jobs: Job[] = [];
  #worker: Worker | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(kept: KeptDecisions) {
    this.#kept = kept;
  }

  /**
   * Starts one, unless another one runs.
   *
   * @param owner account that may look at it; "": operators only.
   * @throws StoreFault when the last decisions can't be written.
   */
  async start(owner: string, ask: BacktestAsk): Promise<BacktestJobJson | "not_kept" | "already_running"> {
    if (this.#worker !== null) return "already_running";
    const { path } = this.#kept;
    if (path === null) return "not_kept";
    await this.#kept.call("flush", null);
    // another one may have begun meanwhile
    if (this.#worker !== null) return "already_running";
    const job: Job = {
      owner,
      json: {
        id: randomUUID(),
        state: "running",
        phase: "reading",
        progress: 0,
        started_at: new Date().toISOString(),
        ended_at: null,
        problem: null,
        report: null,
      },
    };
    this.#jobs.unshift(job);
    this.#jobs.length = Math.min(this.#jobs.length, REMEMBERED);
    const options: BacktestOptions = { ...ask, path };
    const worker = new Worker(new URL("../commands/backtest/job-thread.ts", import.meta.url), {
      workerData: options,
      resourceLimits: HEAP,
      name: "zml-backtest",
    });
    worker.unref();
    this.#worker = worker;
    this.#timer = setTimeout(
      () => this.#fail(job, `it took longer than ${JOB_MAX_MS / 60_000} min`),
      JOB_MAX_MS,
    ).unref();
    worker.on("message", (message: FromJob) => this.#take(job, message));
    worker.on("error", (error) => this.#fail(job, error instanceof Error ? error.message : String(error)));
    worker.on("exit", () => this.#fail(job, "its thread ended"));
    return job.json;
  }

  /** Null: no such job, or not this account's. @param account null: an operator, who sees all. */
  find(id: string, account: string | null): BacktestJobJson | null {
    return this.#find(id, account)?.json ?? null;
  }

  /** Newest first. */
  list(account: string | null): BacktestJobJson[] {
    return this.#jobs.filter(({ owner }) => account === null || owner === account).map(({ json }) => json);
  }

  /** Ends a job that runs; of one that has ended nothing changes. Null: no such job. */
  cancel(id: string, account: string | null): BacktestJobJson | null {
    const job = this.#find(id, account);
    if (job?.json.state === "running") this.#end(job, { state: "cancelled" });
    return job?.json ?? null;
  }

  stop(): void {
    for (const job of this.#jobs) if (job.json.state === "running") this.#end(job, { state: "cancelled" });
  }

  #find(id: string, account: string | null): Job | undefined {
    return this.#jobs.find(({ json, owner }) => json.id === id && (account === null || owner === account));
  }

  #take(job: Job, message: FromJob): void {
    if (job.json.state !== "running") return;
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
    if (job.json.state === "running")
      this.#end(job, { state: "failed", problem: { code: "failed", detail, errors: [] } });
  }

  #end(job: Job, end: Partial<BacktestJobJson>): void {
    job.json = { ...job.json, ...end, ended_at: new Date().toISOString() };
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    void this.#worker?.terminate();
    this.#worker = null;
  }
}
