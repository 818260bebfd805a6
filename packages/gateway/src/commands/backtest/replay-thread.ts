/** One replay on a thread of its own: the policies in force and the draft run at one time. */

import { parentPort, workerData } from "node:worker_threads";
import { assert } from "@zml/engine";
import type { ReplayPlan } from "@zml/simulator/backtest";

/** `workerData` of a replay. */
export interface ReplayStart {
  readonly plan: ReplayPlan;
  readonly count: number;
  readonly traffic: SharedArrayBuffer;
  /** Filled. */
  readonly results: SharedArrayBuffer;
}

export type FromReplay = { readonly kind: "progress"; readonly share: number } | { readonly kind: "done" };

assert(parentPort !== null, "a replay is started by a back-test");
const port = parentPort;
const { plan, count, traffic, results } = workerData as ReplayStart;
const { replay, resultsOf, trafficOf } = await import("@zml/simulator/backtest");
const tell = (message: FromReplay) => port.postMessage(message);
replay(plan, trafficOf(count, traffic), resultsOf(count, results), (share) => tell({ kind: "progress", share }));
tell({ kind: "done" });
