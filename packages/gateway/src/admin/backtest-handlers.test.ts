import assert from "node:assert/strict";
import { test } from "node:test";
import type { BacktestStart } from "./admin-sources.ts";
import { json, problemOf, startAdmin } from "./testing/admin-fixture.ts";

const DRAFT = { method: "POST", ...json({ policies: [{ name: "chat" }] }) };

test("a back-test that can't begin says why and what to do", async (t) => {
  const starts: BacktestStart[] = [];
  const backtests = {
    start: async () => starts.shift() as BacktestStart,
    find: () => null,
    list: () => [],
    cancel: () => null,
  };
  const { ask } = await startAdmin(t, { sources: { backtests } });
  starts.push({ kind: "too_many", waiting: 8 });
  const many = await ask("/admin/v1/backtest", { ...DRAFT, key: "tenant-reader-key" });
  assert.equal(many.headers.get("retry-after"), "60");
  const { code, status, detail } = await problemOf(many);
  assert.deepEqual([code, status], ["too_many_backtests", 429]);
  assert.equal(
    detail,
    "8 back-tests of other accounts wait already (evidence.backtests.tenants_waiting): try again in some minutes",
  );
  starts.push({ kind: "already_running", id: "one" });
  const own = await problemOf(await ask("/admin/v1/backtest", DRAFT));
  assert.deepEqual([own.code, own.status], ["already_running", 409]);
  assert.match(own.detail, /^the back-test one runs or waits already: .*DELETE \/admin\/v1\/backtest\/one\)$/);
  starts.push({ kind: "not_kept" });
  assert.equal((await problemOf(await ask("/admin/v1/backtest", DRAFT))).code, "not_kept");
});
