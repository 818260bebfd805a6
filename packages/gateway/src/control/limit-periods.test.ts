import assert from "node:assert/strict";
import { test } from "node:test";
import { chargeCost, createLimitsTable, isRefusedAllowance, type RowLimits, takeAllowance } from "@zml/engine";
import type { StoredSpend } from "../store/spend-operations.ts";
import type { StoreClient } from "../store/store.ts";
import { LimitPeriods } from "./limit-periods.ts";
import { type LimitOwner, LimitRows } from "./limit-rows.ts";

const NONE: RowLimits = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  concurrentRequests: null,
  budgetUsdPerDay: null,
  budgetUsdPerMonth: null,
};

/** A store that keeps spending, or fails. */
class FakeStore implements StoreClient {
  spends = new Map<string, StoredSpend>();
  isBroken = false;

  call: StoreClient["call"] = async (name, args) => {
    if (this.isBroken) throw new Error("the disk is full");
    if (name === "spend.save") {
      for (const spend of (args as unknown as { spends: StoredSpend[] }).spends) {
        this.spends.set(`${spend.period} ${spend.account}/${spend.key}`, spend);
      }
      return null as never;
    }
    const { periods } = args as unknown as { periods: string[] };
    return [...this.spends.values()].filter(({ period }) => periods.includes(period)) as never;
  };
}

interface Process {
  rows: LimitRows;
  periods: LimitPeriods;
  spend(owner: LimitOwner, usd: number): void;
  used(owner: LimitOwner): { day: number; month: number };
  refusal(owner: LimitOwner): string | null;
}

/** What one process does with a configuration of an account and a key. */
async function start(
  store: StoreClient | null,
  clock: { unixMs: number; nowMs: number },
  limits = NONE,
): Promise<Process> {
  const periods = new LimitPeriods({ store, unixMs: () => clock.unixMs, nowMs: () => clock.nowMs });
  await periods.load();
  const rows: LimitRows = new LimitRows(createLimitsTable({ rows: 4, workers: 2 }), (row, owner) =>
    periods.take(rows, row, owner),
  );
  assign(rows, limits);
  periods.start(rows);
  const { table } = rows;
  return {
    rows,
    periods,
    spend(owner, usd) {
      const taken = takeAllowance(table, 0, { key: rows.find(owner), account: -1 }, { tokens: 0, nowMs: clock.nowMs });
      assert.ok(!isRefusedAllowance(taken));
      chargeCost(table, 1, taken, usd);
    },
    used(owner) {
      const row = rows.find(owner);
      const spent = (table.ownSpentUsd[0]?.[row] ?? 0) + (table.ownSpentUsd[1]?.[row] ?? 0);
      return { day: spent - (table.dayBaseUsd[row] ?? 0), month: spent - (table.monthBaseUsd[row] ?? 0) };
    },
    refusal(owner) {
      const taken = takeAllowance(table, 0, { key: rows.find(owner), account: -1 }, { tokens: 0, nowMs: clock.nowMs });
      return isRefusedAllowance(taken) ? taken.kind : null;
    },
  };
}

function assign(rows: LimitRows, limits: RowLimits, key = "app"): string[] {
  const account = { name: "default", displayName: "default", defaultPolicy: null, limits: NONE };
  const keyConfig = {
    ...{ name: key, account: "default", valueEnv: "K", scopes: ["infer" as const] },
    ...{ models: null, policies: null, expiresAt: null, limits },
  };
  return rows.assign({ accounts: [account], keys: [keyConfig] });
}

const APP = { account: "default", key: "app" };

test("a restart keeps what was spent in the day and the month, and a new day begins at midnight UTC", async (t) => {
  const store = new FakeStore();
  const clock = { unixMs: Date.parse("2027-01-30T23:00:00Z"), nowMs: 0 };
  const limits = { ...NONE, budgetUsdPerDay: 5, budgetUsdPerMonth: 8 };
  const first = await start(store, clock, limits);
  t.after(() => first.periods.stop());
  first.spend(APP, 4);
  await first.periods.stop();
  const second = await start(store, clock, limits);
  t.after(() => second.periods.stop());
  assert.deepEqual(second.used(APP), { day: 4, month: 4 });
  second.spend(APP, 1);
  assert.equal(second.refusal(APP), "budget_day");
  clock.unixMs = Date.parse("2027-01-31T00:00:00Z");
  second.periods.look();
  assert.deepEqual(second.used(APP), { day: 0, month: 5 });
  assert.equal(second.refusal(APP), null);
  second.spend(APP, 3);
  assert.equal(second.refusal(APP), "budget_month");
  clock.unixMs = Date.parse("2027-02-01T00:00:00.001Z");
  second.periods.look();
  assert.equal(second.refusal(APP), null);
  await second.periods.stop();
  const kept = Object.fromEntries([...store.spends].flatMap(([key, { usd }]) => (usd === 0 ? [] : [[key, usd]])));
  assert.deepEqual(kept, {
    "2027-01-30 default/app": 5,
    "2027-01-31 default/app": 3,
    "2027-01 default/app": 8,
  });
});

test("spending with a budget is written within seconds, and what a store refused is written later", async (t) => {
  const store = new FakeStore();
  const clock = { unixMs: Date.parse("2027-01-30T12:00:00Z"), nowMs: 0 };
  const gateway = await start(store, clock, { ...NONE, budgetUsdPerDay: 5 });
  t.after(() => gateway.periods.stop());
  store.isBroken = true;
  gateway.spend(APP, 1);
  clock.nowMs = 11_000;
  gateway.periods.look();
  await gateway.periods.save();
  assert.equal(store.spends.size, 0);
  store.isBroken = false;
  clock.nowMs = 22_000;
  gateway.periods.look();
  await gateway.periods.save();
  assert.equal(store.spends.get("2027-01-30 default/app")?.usd, 1);
});

test("limits that change, and a key that goes and comes back, keep the counts; nobody's limits are lost in silence", async (t) => {
  const clock = { unixMs: 0, nowMs: 0 };
  const { rows, refusal, periods } = await start(null, clock, { ...NONE, requestsPerMinute: 2 });
  t.after(() => periods.stop());
  assert.deepEqual([refusal(APP), refusal(APP), refusal(APP)], [null, null, "requests"]);
  assign(rows, { ...NONE, requestsPerMinute: 3 });
  assert.deepEqual([refusal(APP), refusal(APP)], [null, "requests"]);
  assign(rows, NONE, "other");
  assign(rows, { ...NONE, requestsPerMinute: 3 });
  assert.equal(refusal(APP), "requests");
  // four rows: the account, app, other, and one more; requests of app and other still run
  assign(rows, { ...NONE, requestsPerMinute: 1 }, "third");
  refusal({ account: "default", key: "third" });
  refusal({ account: "default", key: "other" });
  assert.match(
    assign(rows, { ...NONE, requestsPerMinute: 1 }, "fifth").join(),
    /limits of the key fifth .* are not counted: all 4/,
  );
  assert.deepEqual(assign(rows, NONE, "fifth"), [], "what has no limits needs no row");
});
