/**
 * Time of a back-test of a million recorded requests, from the file to the report: reading, fitting, both replays (beside
 * each other), intervals. The records are made first, which is not counted. `--requests N` takes another number.
 */

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runBacktest } from "../packages/gateway/src/commands/backtest/run-backtest.ts";
import { MADE_POLICY, makeRecords } from "./backtest/made-records.ts";
import { type Figure, isJsonAsked, report } from "./report.ts";

const DAY_MS = 86_400_000;
const NODES = 20;

const asked = process.argv.indexOf("--requests");
const requests = asked < 0 ? 1_000_000 : Number(process.argv[asked + 1]);
const folder = mkdtempSync(join(tmpdir(), "zml-bench-backtest-"));
try {
  const path = join(folder, "decisions.sqlite");
  const fromMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS;
  makeRecords(path, { records: requests, nodes: NODES, fromMs, lengthMs: DAY_MS });
  const figures: Figure[] = [
    { name: "backtest_stored_bytes_per_record", value: statSync(path).size / requests, unit: "bytes" },
  ];
  const startMs = performance.now();
  const startCpu = process.cpuUsage();
  let phase = "";
  let phaseAtMs = startMs;
  const note = (name: string) => {
    const nowMs = performance.now();
    if (phase !== "")
      figures.push({
        name: `backtest_phase_s{phase=${phase.replace(" ", "_")}}`,
        value: (nowMs - phaseAtMs) / 1000,
        unit: "s",
      });
    phase = name;
    phaseAtMs = nowMs;
  };
  const told = await runBacktest(
    {
      path,
      fromMs: fromMs - 1_000,
      toMs: fromMs + DAY_MS + 1_000,
      drafts: [{ ...DRAFT(), costPriority: "cost" }],
      replaces: null,
      account: null,
    },
    (name) => {
      if (name !== phase) note(name);
    },
  );
  note("");
  const cpu = process.cpuUsage(startCpu);
  figures.push(
    { name: `backtest_s{requests=${requests}}`, value: (performance.now() - startMs) / 1000, unit: "s" },
    { name: "backtest_cpu_s", value: (cpu.user + cpu.system) / 1e6, unit: "s" },
    { name: "backtest_rss_mb", value: process.memoryUsage().rss / 1e6, unit: "MB" },
    {
      name: "backtest_usd_off_percent",
      value: 100 * Math.abs(told.verdict.deviations[0]?.off ?? Number.NaN),
      unit: "%",
    },
  );
  report({ bench: "backtest", figures, json: isJsonAsked(process.argv) });
} finally {
  rmSync(folder, { recursive: true });
}

function DRAFT() {
  const { name, account, latencyTargetMs, queueOnSaturation, maxQueueMs, acceptableWaiting, estimator } = MADE_POLICY;
  return {
    ...{ name, account, latencyTargetMs, queueOnSaturation, maxQueueMs, acceptableWaiting, estimator },
    acceleratorPreference: [
      { family: "MI300X", priority: 1 },
      { family: "H100", priority: 2 },
    ],
    ttftTargetMs: null,
    tokenTargetMs: null,
  };
}
