/** A back-test on a thread of the gateway, with the least claim to the processor: what serves goes first. */

import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { assert } from "@zml/engine";
import type { BacktestJobJson, BacktestReportJson } from "@zml/protocol/admin";
import { BacktestError } from "./recorded-window.ts";
import { type BacktestOptions, runBacktest } from "./run-backtest.ts";

export type FromJob =
  | { readonly kind: "progress"; readonly phase: BacktestJobJson["phase"]; readonly progress: number }
  | { readonly kind: "done"; readonly report: BacktestReportJson }
  | { readonly kind: "failed"; readonly problem: NonNullable<BacktestJobJson["problem"]> };

/** Niceness of the thread and of those that it starts, where the system has one for each. */
const NICE = 15;

assert(parentPort !== null, "a back-test is started by the gateway");
const port = parentPort;
const tell = (message: FromJob) => port.postMessage(message);
// 0 is the calling thread on Linux and the whole process elsewhere
if (process.platform === "linux") setPriority(0, NICE);
try {
  const report = await runBacktest(workerData as BacktestOptions, (phase, progress) =>
    tell({ kind: "progress", phase, progress }),
  );
  tell({ kind: "done", report });
} catch (error) {
  const detail = error instanceof Error ? error.message : String(error);
  if (error instanceof BacktestError) {
    tell({ kind: "failed", problem: { code: error.code, detail, errors: [...error.errors] } });
  } else tell({ kind: "failed", problem: { code: "failed", detail, errors: [] } });
}
