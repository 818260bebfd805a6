/** The short form of `npm run soak`. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { soak } from "./soak.ts";

test("while nodes fail, threads die and the configuration changes, no request is lost and nothing is left behind", async () => {
  const report = await soak({ durationMs: 5_000, seed: 5, faultEveryMs: 150, callers: 20 });
  assert.deepEqual(report.troubles, []);
  assert.equal(report.ends.lost, 0);
  assert.equal(report.doubleBooked, 0);
  assert.equal(report.leakedBookings, 0);
  assert.equal(report.exitCode, 0, "it ends cleanly");
  assert.ok(report.ends.answered > 50, `${report.ends.answered} were answered`);
  assert.ok(report.liveEndMib > 20 && report.liveEndMib < report.rssEndMib, `${report.liveEndMib} MiB live`);
  for (const count of [report.faults, report.threadsKilled, report.reloads, report.listsChanged]) assert.ok(count > 0);
});
