/**
 * The product's worker, with a watch on how long its event loop stands still. A timer of one millisecond looks at the
 * wall clock and at the CPU time of this thread: what passed between two looks beyond the timer's own time was one or
 * more turns without a break. It counts with the lesser of both, since a thread that the machine has taken off its core
 * stands still through no fault of the product.
 */

import { BroadcastChannel } from "node:worker_threads";
import "../../packages/gateway/src/worker.ts";

const LOOK_MS = 1;

const pauses = { workMs: 0, wallMs: 0 };
let wallMs = performance.now();
let cpuUs = cpuNow();

setInterval(() => {
  const [nowMs, nowUs] = [performance.now(), cpuNow()];
  const tookMs = nowMs - wallMs - LOOK_MS;
  pauses.wallMs = Math.max(pauses.wallMs, tookMs);
  pauses.workMs = Math.max(pauses.workMs, Math.min(tookMs, (nowUs - cpuUs) / 1000));
  [wallMs, cpuUs] = [nowMs, nowUs];
}, LOOK_MS).unref();

const channel = new BroadcastChannel("zml-bench-pauses");
channel.onmessage = () => {
  channel.postMessage({ ...pauses });
  pauses.workMs = 0;
  pauses.wallMs = 0;
};
channel.unref();

function cpuNow(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}
