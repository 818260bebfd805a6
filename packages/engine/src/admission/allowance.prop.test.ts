import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  createLimitsTable,
  type LimitsTable,
  pendingUsd,
  removeWorkerLimits,
  spentUsd,
  writeLimits,
} from "../limits-table.ts";
import {
  type Allowance,
  chargeCost,
  closeAllowance,
  holdCost,
  isRefusedAllowance,
  limitStanding,
  takeAllowance,
} from "./allowance.ts";
import { countInWindow, sweepWindows, windowTick } from "./sliding-window.ts";

const KEY = 0;
const ACCOUNT = 1;
const ROWS = { key: KEY, account: ACCOUNT };
const NONE = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  concurrentRequests: null,
  budgetUsdPerDay: null,
  budgetUsdPerMonth: null,
};

const limitsArbitrary = fc.record({
  requestsPerMinute: fc.option(fc.integer({ min: 1, max: 8 })),
  tokensPerMinute: fc.option(fc.integer({ min: 1, max: 200 })),
  concurrentRequests: fc.option(fc.integer({ min: 1, max: 4 })),
  budgetUsdPerDay: fc.option(fc.integer({ min: 0, max: 5 })),
  budgetUsdPerMonth: fc.option(fc.integer({ min: 0, max: 9 })),
});

const stepArbitrary = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("take" as const),
      tokens: fc.integer({ min: 0, max: 90 }),
      worker: fc.integer({ min: 0, max: 2 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("close" as const),
      pick: fc.nat(),
      used: fc.option(fc.integer({ min: 0, max: 150 })),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("spend" as const), pick: fc.nat(), usd: fc.integer({ min: 0, max: 3 }) }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 70_000 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("limits" as const),
      row: fc.integer({ min: 0, max: 1 }),
      limits: limitsArbitrary,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("death" as const), worker: fc.integer({ min: 0, max: 2 }) }) },
);

/** Everything that a row holds for requests that run, and in its windows. */
function held(table: LimitsTable, nowMs: number): number[] {
  return [KEY, ACCOUNT].flatMap((row) => [
    table.running[row] as number,
    pendingUsd(table, row),
    countInWindow(table.requests, row, windowTick(nowMs)),
    countInWindow(table.tokens, row, windowTick(nowMs)),
  ]);
}

test("no 60 s hold more than the limit, a refusal takes nothing, and whatever happens all is given back", () => {
  fc.assert(
    fc.property(
      limitsArbitrary,
      limitsArbitrary,
      fc.array(stepArbitrary, { maxLength: 120 }),
      (ofKey, ofAccount, steps) => {
        const table = createLimitsTable({ rows: 2, workers: 3 });
        const limits = [ofKey, ofAccount];
        writeLimits(table, KEY, ofKey);
        writeLimits(table, ACCOUNT, ofAccount);
        let nowMs = 1_000;
        const open: { worker: number; allowance: Allowance }[] = [];
        /** By row: when each was admitted while the row had a limit of requests. */
        const admitted: number[][] = [[], []];
        const spent = [0, 0];
        for (const step of steps) {
          switch (step.kind) {
            case "wait":
              nowMs += step.ms;
              break;
            case "limits":
              limits[step.row] = step.limits;
              writeLimits(table, step.row, step.limits);
              // what was not limited was not counted
              if (step.limits.requestsPerMinute === null) admitted[step.row] = [];
              break;
            case "take": {
              const before = held(table, nowMs);
              const taken = takeAllowance(table, step.worker, ROWS, { tokens: step.tokens, nowMs });
              if (isRefusedAllowance(taken)) {
                assert.deepEqual(held(table, nowMs), before, "a refusal takes nothing");
                const row = taken.owner === "key" ? KEY : ACCOUNT;
                if (taken.kind === "requests") {
                  const recent = (admitted[row] ?? []).filter((at) => at > nowMs - 60_500).length;
                  assert.ok(recent >= taken.limit, `refused with ${recent} of ${taken.limit} in the last 60.5 s`);
                  assert.ok(taken.retryAfterMs > 0 && taken.retryAfterMs <= 60_500);
                }
                if (taken.kind === "concurrent") assert.ok((table.running[row] as number) >= taken.limit);
                break;
              }
              open.push({ worker: step.worker, allowance: taken });
              for (const row of [KEY, ACCOUNT]) {
                const limit = limits[row]?.requestsPerMinute ?? null;
                if (limit === null) continue;
                const times = admitted[row] as number[];
                times.push(nowMs);
                const inWindow = times.filter((at) => at > nowMs - 60_000).length;
                assert.ok(inWindow <= limit, `${inWindow} of ${limit} in 60 s`);
              }
              break;
            }
            case "close": {
              const [ended] = open.splice(step.pick % Math.max(1, open.length), 1);
              if (ended === undefined) break;
              closeAllowance(table, ended.worker, ended.allowance, { usedTokens: step.used ?? Number.NaN, nowMs });
              break;
            }
            case "spend": {
              const one = open[step.pick % Math.max(1, open.length)];
              if (one === undefined) break;
              holdCost(table, one.worker, one.allowance, step.usd);
              chargeCost(table, one.worker, one.allowance, step.usd);
              for (const row of [KEY, ACCOUNT]) spent[row] = (spent[row] as number) + step.usd;
              break;
            }
            case "death":
              removeWorkerLimits(table, step.worker, 2);
              for (let index = open.length - 1; index >= 0; index--) {
                if (open[index]?.worker === step.worker) open.splice(index, 1);
              }
              break;
          }
          for (const row of [KEY, ACCOUNT]) {
            assert.equal(table.running[row], open.length);
            assert.equal(spentUsd(table, row), spent[row], "what was spent stays, also a dead worker's");
          }
        }
        for (const { worker, allowance } of open) closeAllowance(table, worker, allowance, { usedTokens: 0, nowMs });
        assert.deepEqual(held(table, nowMs + 60_500), [0, 0, 0, 0, 0, 0, 0, 0]);
      },
    ),
    { numRuns: 300 },
  );
});

function limited(limits: Partial<typeof NONE | Record<keyof typeof NONE, number>>): LimitsTable {
  const table = createLimitsTable({ rows: 2, workers: 1 });
  writeLimits(table, KEY, { ...NONE, ...limits });
  return table;
}

const take = (table: LimitsTable, nowMs: number, tokens = 1) =>
  takeAllowance(table, 0, { key: KEY, account: -1 }, { tokens, nowMs });

test("a burst just before a minute ends leaves nothing just after it, and all of it 60 s later", () => {
  const table = limited({ requestsPerMinute: 100 });
  for (let index = 0; index < 100; index++) assert.ok(!isRefusedAllowance(take(table, 59_990)));
  const refused = take(table, 60_010);
  assert.ok(isRefusedAllowance(refused));
  assert.deepEqual([refused.kind, refused.used, refused.retryAfterMs], ["requests", 100, 59_990]);
  assert.ok(isRefusedAllowance(take(table, 119_999)));
  for (let index = 0; index < 100; index++) assert.ok(!isRefusedAllowance(take(table, 120_000)));
});

test("who asks without end gets its limit to within 1 %", () => {
  for (const limit of [7, 60, 1000]) {
    const table = limited({ requestsPerMinute: limit });
    let admitted = 0;
    const minutes = 20;
    for (let nowMs = 0; nowMs < minutes * 60_000; nowMs += 20) {
      if (!isRefusedAllowance(take(table, nowMs))) admitted += 1;
    }
    const share = admitted / (limit * minutes);
    assert.ok(share <= 1 && share >= 0.99, `${limit} a minute: ${share}`);
  }
});

test("tokens are reserved at admission and corrected by what was used, in the minute that they belong to", () => {
  const table = limited({ tokensPerMinute: 1000 });
  const first = take(table, 1_000, 600);
  assert.ok(!isRefusedAllowance(first));
  const second = take(table, 2_000, 600);
  assert.ok(isRefusedAllowance(second));
  assert.deepEqual([second.kind, second.used, second.requested, second.retryAfterMs], ["tokens", 600, 600, 59_500]);
  closeAllowance(table, 0, first, { usedTokens: 100, nowMs: 3_000 });
  const third = take(table, 3_000, 800);
  assert.ok(!isRefusedAllowance(third));
  closeAllowance(table, 0, third, { usedTokens: 1_500, nowMs: 4_000 });
  assert.deepEqual(limitStanding(table, { key: KEY, account: -1 }, "tokens", 4_000), {
    limit: 1000,
    remaining: 0,
    resetMs: 60_500,
  });
  const never = take(table, 4_000, 1_001);
  assert.ok(isRefusedAllowance(never));
  assert.equal(never.retryAfterMs, Number.NaN, "it never fits");
});

test("a budget is used up by what was spent, and held by what runs", () => {
  const table = limited({ budgetUsdPerDay: 2 });
  const one = take(table, 0);
  assert.ok(!isRefusedAllowance(one));
  holdCost(table, 0, one, 2);
  const held = take(table, 0);
  assert.ok(isRefusedAllowance(held));
  assert.deepEqual([held.kind, held.isHeld, held.retryAfterMs], ["budget_day", true, 1_000]);
  chargeCost(table, 0, one, 1.5);
  closeAllowance(table, 0, one, { usedTokens: Number.NaN, nowMs: 0 });
  const two = take(table, 0);
  assert.ok(!isRefusedAllowance(two));
  chargeCost(table, 0, two, 0.5);
  closeAllowance(table, 0, two, { usedTokens: Number.NaN, nowMs: 0 });
  const broke = take(table, 0);
  assert.ok(isRefusedAllowance(broke));
  assert.deepEqual([broke.kind, broke.used, broke.isHeld], ["budget_day", 2, false]);
});

test("rows that nobody asks for are clean when the lap of their slots comes again", () => {
  const table = limited({ requestsPerMinute: 1 });
  assert.ok(!isRefusedAllowance(take(table, 1_000)));
  const lapMs = 32 * 128 * 500;
  sweepWindows(table, 1, 120_000);
  assert.ok(!isRefusedAllowance(take(table, 1_000 + lapMs)));
});

test("an allowance is closed once", () => {
  const table = limited({ concurrentRequests: 1 });
  const one = take(table, 0);
  assert.ok(!isRefusedAllowance(one));
  assert.ok(isRefusedAllowance(take(table, 0)));
  closeAllowance(table, 0, one, { usedTokens: Number.NaN, nowMs: 0 });
  assert.throws(() => closeAllowance(table, 0, one, { usedTokens: Number.NaN, nowMs: 0 }), /closed once/);
  assert.equal(table.running[KEY], 0);
});
