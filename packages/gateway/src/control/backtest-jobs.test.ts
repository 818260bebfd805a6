import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { BacktestJobJson, BacktestReportJson } from "@zml/protocol/admin";
import type { BacktestAsk } from "../admin/admin-sources.ts";
import type { FromJob } from "../commands/backtest/job-thread.ts";
import type { BacktestOptions } from "../commands/backtest/run-backtest.ts";
import { StoreFault } from "../store/store-fault.ts";
import { BacktestJobs } from "./backtest-jobs.ts";

const ASK: BacktestAsk = { fromMs: 0, toMs: 1, drafts: [], replaces: null, account: null };
const LIMITS = { minutes: 30, tenantMinutes: 10, tenantRecords: 5_000, tenantsAtOnce: 1, tenantsWaiting: 2 };
const REPORT = {} as BacktestReportJson;
const OPERATOR = "";

/** Jobs whose runs are done when the test says so. */
function setUp(limits: Partial<typeof LIMITS> = {}) {
  const runs: { options: BacktestOptions; tell: (message: FromJob) => void; isEnded: boolean }[] = [];
  const fault: { now: StoreFault | null } = { now: null };
  const jobs = new BacktestJobs({
    kept: {
      path: "decisions.sqlite",
      call: async () => {
        if (fault.now !== null) throw fault.now;
        return null as never;
      },
    },
    limits: () => ({ ...LIMITS, ...limits }),
    run: (options, tell) => {
      const run = { options, tell, isEnded: false };
      runs.push(run);
      return {
        end: async () => {
          run.isEnded = true;
        },
      };
    },
  });
  const started = async (owner: string): Promise<BacktestJobJson> => {
    const start = await jobs.start(owner, { ...ASK, account: owner === OPERATOR ? null : owner });
    assert.equal(start.kind, "started", `${owner}: ${JSON.stringify(start)}`);
    return (start as { job: BacktestJobJson }).job;
  };
  const stateOf = (id: string) => jobs.find(id, null)?.state;
  const done = async (at: number): Promise<void> => {
    runs[at]?.tell({ kind: "done", report: REPORT });
    await settled();
  };
  return { jobs, runs, fault, started, stateOf, done };
}

/** Whatever follows from what was done has happened. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("back-tests of many accounts", () => {
  it("an operator never waits behind a tenant, however many wait", async () => {
    const { runs, started } = setUp();
    for (const tenant of ["a", "b", "c"]) await started(tenant);
    assert.equal((await started(OPERATOR)).state, "running");
    assert.deepEqual(
      runs.map(({ options }) => [options.account, options.recordsMax]),
      [
        ["a", 5_000],
        [null, undefined],
      ],
    );
  });

  it("tenants come in the order in which they asked, and an operator's end lets none of them begin", async () => {
    const { jobs, runs, started, stateOf, done } = setUp();
    await started("a");
    const b = await started("b");
    const c = await started("c");
    assert.deepEqual([b.state, b.ahead, c.state, c.ahead], ["waiting", 1, "waiting", 2]);
    await started(OPERATOR);
    await done(1);
    assert.equal(runs.length, 2);
    await done(0);
    assert.deepEqual([stateOf(b.id), stateOf(c.id), jobs.find(c.id, "c")?.ahead], ["running", "waiting", 1]);
    await done(2);
    assert.deepEqual([stateOf(b.id), stateOf(c.id), runs.length], ["done", "running", 4]);
  });

  it("an account has one, running or waiting, and is told which", async () => {
    const { jobs, started } = setUp();
    for (const owner of [OPERATOR, "a", "b"]) {
      const { id } = await started(owner);
      assert.deepEqual(await jobs.start(owner, ASK), { kind: "already_running", id });
    }
  });

  it("beyond the bound of those that wait tenants are refused, and operators are not", async () => {
    const { jobs, started } = setUp({ tenantsWaiting: 1 });
    await started("a");
    const waits = await started("b");
    assert.deepEqual(await jobs.start("c", ASK), { kind: "too_many", waiting: 1 });
    assert.equal((await started(OPERATOR)).state, "running");
    jobs.cancel(waits.id, "b");
    await started("c");
  });

  it("as many tenants' run at once as may", async () => {
    const { started } = setUp({ tenantsAtOnce: 2 });
    const states = [];
    for (const tenant of ["a", "b", "c"]) states.push((await started(tenant)).state);
    assert.deepEqual(states, ["running", "running", "waiting"]);
  });

  it("nobody takes another account's report away by asking again and again", async () => {
    const { jobs, started, done } = setUp();
    const own = await started(OPERATOR);
    await done(0);
    for (let round = 0; round < 100; round++) {
      const { id } = await started(`tenant-${round % 40}`);
      jobs.cancel(id, null);
      await settled();
    }
    assert.equal(jobs.find(own.id, null)?.state, "done");
    assert.equal(jobs.list(null).length, 65);
    for (let round = 0; round < 20; round++) {
      jobs.cancel((await started("loud")).id, "loud");
      await settled();
    }
    assert.equal(jobs.list("loud").length, 8);
  });
});

describe("a back-test", () => {
  it("is cancelled by its account and by operators, and by nobody else", async () => {
    const { jobs, runs, started, stateOf } = setUp();
    const { id } = await started("a");
    assert.equal(jobs.cancel(id, "b"), null);
    assert.equal(jobs.find(id, "b"), null);
    assert.equal(stateOf(id), "running");
    assert.equal(jobs.cancel(id, "a")?.state, "cancelled");
    assert.equal(runs[0]?.isEnded, true);
    const operators = await started(OPERATOR);
    assert.equal(jobs.cancel(operators.id, "a"), null);
    assert.equal(jobs.cancel(operators.id, null)?.state, "cancelled");
  });

  it("that waits is cancelled without ever running", async () => {
    const { jobs, runs, started, done } = setUp();
    await started("a");
    const { id } = await started("b");
    assert.deepEqual([jobs.cancel(id, "b")?.state, jobs.find(id, "b")?.ahead], ["cancelled", null]);
    await done(0);
    assert.equal(runs.length, 1);
  });

  it("that takes too long is ended, a tenant's sooner, and the next one begins", async (t: TestContext) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const { jobs, runs, started, stateOf } = setUp();
    const operators = await started(OPERATOR);
    const a = await started("a");
    const b = await started("b");
    t.mock.timers.tick(10 * 60_000 - 1);
    assert.equal(stateOf(a.id), "running");
    t.mock.timers.tick(1);
    assert.match(
      jobs.find(a.id, "a")?.problem?.detail ?? "",
      /longer than 10 min \(evidence\.backtests\.tenant_minutes\)/,
    );
    await settled();
    assert.deepEqual([stateOf(a.id), stateOf(b.id), stateOf(operators.id)], ["failed", "running", "running"]);
    t.mock.timers.tick(20 * 60_000);
    assert.match(jobs.find(operators.id, null)?.problem?.detail ?? "", /30 min \(evidence\.backtests\.minutes\)/);
    assert.equal(
      runs.every(({ isEnded }) => isEnded),
      true,
    );
  });

  it("that can't begin is refused at once, one that had waited fails, and neither keeps its place", async () => {
    const { jobs, fault, started, stateOf, done } = setUp();
    fault.now = new StoreFault("disk_full", "the disk is full");
    await assert.rejects(jobs.start("a", ASK), /the disk is full/);
    assert.deepEqual(jobs.list(null), []);
    fault.now = null;
    await started("a");
    const b = await started("b");
    fault.now = new StoreFault("disk_full", "the disk is full");
    await done(0);
    assert.deepEqual([stateOf(b.id), jobs.find(b.id, "b")?.problem?.code], ["failed", "store"]);
    fault.now = null;
    assert.equal((await started("c")).state, "running");
  });

  it("that runs or waits when the gateway ends is cancelled, and none begins", async () => {
    const { jobs, runs, started } = setUp();
    for (const owner of [OPERATOR, "a", "b"]) await started(owner);
    jobs.stop();
    await settled();
    assert.deepEqual(
      jobs.list(null).map(({ state }) => state),
      ["cancelled", "cancelled", "cancelled"],
    );
    assert.equal(runs.length, 2);
  });
});
